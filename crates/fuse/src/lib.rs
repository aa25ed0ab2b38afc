//! FUSE in a namespace of one's own, as far as quell needs it: bytes from and to `/dev/fuse`, no policy.
//!
//! A layer of our own instead of a crate, because a new server must be able to take over a connection that another
//! one negotiated, and because the frozen tier of an image answers straight from a memory map.
//!
//! [`abi`] has the numbers and layouts, [`listing`] lays out directories. [`request`] has the requests of the kernel, `parse`
//! parses them, [`reply`] sends each answer exactly once, [`init`] the first. [`device`] is the open `/dev/fuse`. [`namespace`] makes the
//! namespaces in which a user may mount, [`credentials`] has the identity by which a server asks for others.
//!
//! [`serving`] is the loop of a server. A server that passes requests on uses [`passage`], [`original`] and [`open_flags`]; [`locks`] and
//! [`descriptors`] have the calls on files that rustix does not have.
#![allow(missing_docs, reason = "fields and constants carry the names of linux/fuse.h")]

pub mod abi;
pub mod device;
pub mod init;
pub mod listing;
pub mod namespace;
pub mod open_flags;
pub mod original;
mod parse;
pub mod passage;
pub mod reply;
pub mod request;
pub mod serving;
mod sys;

pub use sys::unshare::{unshare_namespaces, unshare_umask};
pub use sys::{credentials, descriptors, locks};
