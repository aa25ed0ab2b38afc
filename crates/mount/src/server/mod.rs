//! The server: answers the kernel's requests, from the image where it can, from the original where it must.
//!
//! ```text
//! kernel --> serving --> routing --> frozen tier (image)
//!                           \-----> live tier (originals) --> bindings (nodes, handles, originals)
//! ```
//!
//! One [`serving::Server`] is shared by a few threads that all read the same device. [`routing`] chooses the tier that
//! answers: [`frozen`] answers from the image, [`live`] from the originals. Both use [`bindings`], which keeps nodes, open
//! files and the originals that they are bound to, and [`packed`], the image as the user may see it. [`takeover`] judges
//! what a dead server had done.
//!
//! [`start`] starts the processes, [`holder`] watches over servers, [`answering`] is the life of one. The memory that one
//! server hands over to the next is in [`handover`].

pub(crate) mod acl;
mod answering;
mod bindings;
mod builder;
mod door;
mod frozen;
mod handles;
mod handover;
mod holder;
mod holding;
mod inodes;
mod lessons;
mod lifeline;
mod live;
mod lock_files;
mod lock_table;
pub(crate) mod log;
mod made_files;
mod node;
mod node_table;
pub(crate) mod nodes;
mod notifier;
mod notifying;
mod originals;
mod packed;
mod patience;
pub(crate) mod permissions;
pub(crate) mod ranks;
mod references;
mod replies;
pub(crate) mod roll;
mod routing;
mod serving;
mod slots;
pub(crate) mod start;
mod takeover;
mod umasks;

use quell_fuse::open_flags;
