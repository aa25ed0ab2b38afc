//! The users that root would trust by using a path or a module tree: every other user that can change it, or the way to it.
//! This module decides as which user a tool probes and builds. From what it finds, `verify/users.rs` decides which users ask, and
//! `walk.rs` as which user root follows a link.
//!
//! ```text
//! path    each directory on the way, behind each link: its owner, and the users that may write in it
//! tree    the way to it, every entry, the way behind every link in it
//! start   that of the trees, of the tool and of the files that the environment names -> root, an ordinary user, or a refusal
//! ```
//!
//! An ordinary user invents the modes and lists that its FUSE server shows. Such a mount therefore counts as that user's.

mod changers;
mod evaluation;
mod inquiry;
mod place;

pub use changers::NOBODY;
pub(crate) use changers::{ChangedBy, Changers, is_root, is_roots};
pub(crate) use evaluation::{builder, ordinary, prober};
pub(crate) use inquiry::TrustInquiry;
pub use place::{let_pass, refuse_place};
pub(crate) use place::{refuse_file, refuse_foreign};
