//! The FUSE protocol as far as quell needs it: bytes from and to `/dev/fuse`, no policy.
//!
//! A layer of our own instead of a crate, because a new server must be able to take over a connection that another
//! one negotiated, and because the frozen tier answers straight from a memory map.
//!
//! [`abi`] has the numbers and layouts, [`listing`] lays out directories. [`request`] has the requests of the kernel, [`parse`]
//! parses them, [`reply`] sends each answer exactly once. [`device`] is the open `/dev/fuse`.

pub(crate) mod abi;
pub(crate) mod device;
pub(crate) mod listing;
mod parse;
pub(crate) mod reply;
pub(crate) mod request;
