//! The cache of `quell run --auto`: one entry for each program, on a file system that all nodes share.
//!
//! ```text
//! CACHE/            the user's, closed to others
//!   KEY/            a program: 32 hexadecimal digits
//!     current       a link: to an image, or to the reason that there is none. One readlink is the whole lookup
//!     previous      the link that `current` was before
//!     image-7.qimg  a version; its name is never used again
//!     image-0.qimg  an image that holds nothing, from which runs learn where nothing can be recorded
//!     trace-*       a recording that no image was made of yet
//!     learned       the questions of the last run that reached the originals
//!     lessons-*     the same, taken for the next version
//!     lock          the process that makes something of the entry
//!     about.json    the program, for people
//!     log           images that were made, and failures
//!     used          its time is that of the last use
//!   gone-*          an entry that is being removed
//! ```
//!
//! Everything appears by rename or link, so that a killed process leaves nothing half made under a name that counts. Any
//! number of processes may do the same thing at once; the lock saves work and protects nothing.
//!
//! This crate makes no image and starts no program. It reads no variable.
#![forbid(unsafe_code)]

mod entry;
mod error;
mod identity;
mod key;
mod lock;
mod place;
mod prune;

pub use entry::{About, CacheEntry, EntryState, SettledReason};
pub use error::CacheError;
pub use identity::{ProcessIdentity, ProcessLife};
pub use key::{CacheKey, KeyParts, Subject};
pub use lock::EntryLock;
pub use place::{CacheDirectory, CacheOwner};
pub use prune::{EntrySummary, PruneLimit, Pruned};
