//! The image: a standard EROFS file system with quell's own index in it, written, read and checked here.
//!
//! An image holds what a program looks at when it starts: names, attributes, content, and what is not there.
//! Each root lies at its original absolute path (`/lustre/sw/env` is `/lustre/sw/env` in the image), its
//! ancestors are directories with the original's attributes, and `/.quell/index` lies beside them. So the
//! kernel, `erofsfuse` and containers can mount it when quell is not there, and `fsck.erofs` checks it.
//!
//! - [`ImageTree`] is what is to become an image; [`write`](write::write) makes it one, the same bytes each time.
//! - [`check`](check::check) looks at every byte of an image.
//! - [`export`] takes out what an image holds: as a directory, tar, squashfs or a fuller EROFS.
//! - [`frames`] compresses an image for transport, in pieces that are found and decompressed alone.
//! - [`Image`] reads any bytes in place, usually a memory map: no parsing ahead, no allocation, no trust.
//!
//! This crate maps nothing, mounts nothing, and prints nothing. The format: [`erofs`], [`index`].

mod blocks;
mod bytes;
pub mod check;
pub mod erofs;
mod error;
pub mod export;
pub mod frames;
mod image;
pub mod index;
pub mod learned;
mod model;
pub mod original;
mod part;
pub mod path;
mod tree;
pub mod write;

pub use blocks::BlockSet;
pub use erofs::xattr::{Xattr, Xattrs, is_expressible};
pub use error::{Corrupt, Fault, OpenError};
pub use image::directory::{DirectoryEntries, DirectoryEntry};
pub use image::{FileContent, Image, Lookup};
pub use index::read::{Absences, ImageIndex, ImageTotals, IndexedDirectory};
pub use index::{ImageIdentity, REQUESTS_PATH};
pub use model::{Attributes, Beyond, Coverage, DeviceNumber, FileKind, NamedValues, Nid, NodeUse, Timestamp};
pub use part::{FilePart, PartRun, PartRuns};
pub use tree::{ContentSource, ImageTree, TreeError, TreeNodeId};
