//! Extended attributes: from the image as long as the file is as it was packed and the image has them, else the
//! original's. [`super::attributes`] sets them.
//!
//! What is asked most, and by the kernel itself before each write, is `security.capability`; almost nothing has one.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use quell_image::{Beyond, Nid, NodeUse as Use};
use rustix::io::Errno;

use super::Server;
use super::frozen::damaged;
use super::nodes::Node;
use crate::fuse::reply::Reply;

impl Server {
    /// GETXATTR of a node that is as the image says.
    pub(crate) fn frozen_xattr(&self, nid: Nid, name: &[u8]) -> Result<Option<&[u8]>, Errno> {
        let mut all = self.image.xattrs(nid).map_err(damaged)?;
        Ok(all.find(|xattr| xattr.is_named(name)).map(|xattr| xattr.value))
    }

    /// Whether the image has the extended attributes of `nid`: those of files that the recording asked for, or of all
    /// where there are no originals.
    pub(crate) fn has_frozen_xattrs(&self, nid: Nid) -> bool {
        self.is_frozen(nid) && self.has_xattrs(nid)
    }

    /// The same as it was packed.
    pub(crate) fn has_xattrs(&self, nid: Nid) -> bool {
        self.beyond == Beyond::Nothing || self.image.usage(nid) == Ok(Use::Touched)
    }

    /// GETXATTR of anything else.
    pub(crate) fn get_xattr(&self, node: Node, name: &[u8], size: u32, reply: Reply<'_>) {
        reply_xattr(self.original_xattr(node, name), size, reply);
    }

    fn original_xattr(&self, node: Node, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let original = self.original(node)?;
        self.originals.xattr(&original, OsStr::from_bytes(name))
    }

    /// LISTXATTR.
    pub(crate) fn list_xattr(&self, node: Node, size: u32, reply: Reply<'_>) {
        let names = match node {
            Node::Frozen(nid) if self.has_frozen_xattrs(nid) => self.frozen_xattr_names(nid),
            _ => self.original(node).and_then(|original| self.originals.xattr_names(&original)),
        };
        reply_xattr(names, size, reply);
    }

    fn frozen_xattr_names(&self, nid: Nid) -> Result<Vec<u8>, Errno> {
        let mut names = Vec::new();
        for xattr in self.image.xattrs(nid).map_err(damaged)? {
            names.extend_from_slice(&xattr.name());
            names.push(0);
        }
        Ok(names)
    }
}

/// Answers with the value, or with its length if that is all that was asked for. Source: getxattr(2).
pub(crate) fn reply_xattr(value: Result<impl AsRef<[u8]>, Errno>, size: u32, reply: Reply<'_>) {
    let value = match &value {
        Ok(value) => value.as_ref(),
        Err(errno) => return reply.error(*errno),
    };
    let length = u32::try_from(value.len()).unwrap_or(u32::MAX);
    if size == 0 {
        let mut answer = [0; 8];
        answer[..4].copy_from_slice(&length.to_ne_bytes());
        reply.bytes(&answer);
    } else if length > size {
        reply.error(Errno::RANGE);
    } else {
        reply.bytes(value);
    }
}
