//! Failures of building a tree.

use thiserror::Error;

use crate::model::{DeviceNumber, FileKind, Timestamp};
use crate::tree::node::TreeNodeId;

/// A node or name that a tree cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A name that no directory entry has: empty, longer than 255 bytes, `.`, `..`, with a slash or a zero byte.
    #[error("`{}` is no name of a directory entry", .name.escape_ascii())]
    Name {
        /// The name.
        name: Vec<u8>,
    },
    /// A name given twice, or both given and absent.
    #[error("`{}` is already known in its directory", .name.escape_ascii())]
    Known {
        /// The name.
        name: Vec<u8>,
    },
    /// A directory was needed.
    #[error("node {} is not a directory", .node.0)]
    NotDirectory {
        /// The node that is something else.
        node: TreeNodeId,
    },
    /// A kind of node that does not go with the call: content for what is not a regular file, a second name
    /// for a directory, a link without a target.
    #[error("node of kind {kind:?} does not fit here")]
    Kind {
        /// The kind that was given.
        kind: FileKind,
    },
    /// A link target of no or more than 4095 bytes, or with a zero byte.
    #[error("a link target of {len} bytes cannot be expressed")]
    Target {
        /// Its length.
        len: usize,
    },
    /// A device number beyond what Linux has.
    #[error("device {}:{} cannot be expressed", .device.major, .device.minor)]
    Device {
        /// The number.
        device: DeviceNumber,
    },
    /// Nanoseconds of a second or more.
    #[error("{} nanoseconds are no part of a second", .timestamp.nanoseconds)]
    Timestamp {
        /// The time.
        timestamp: Timestamp,
    },
    /// Extended attributes that EROFS has no room or no name space for; see
    /// [`is_expressible`](crate::is_expressible).
    #[error("extended attributes that EROFS cannot express")]
    Xattrs,
    /// Bytes of another length than the node's size.
    #[error("{found} bytes of content for a file of {expected} bytes")]
    Size {
        /// The node's size.
        expected: u64,
        /// Length of the bytes.
        found: u64,
    },
    /// A root or live directory that is not a directory of the tree, or lies in another of its sort.
    #[error("`{}` is no directory of the tree, or lies in or above another", .path.escape_ascii())]
    Place {
        /// The path.
        path: Vec<u8>,
    },
    /// More nodes than an image can number.
    #[error("more than 4294967294 nodes")]
    TooMany,
}
