//! Extended attributes: from the image as long as the file is as it was packed and the image has them, else the
//! original's; set on the original.
//!
//! What is asked most, and by the kernel itself before each write, is `security.capability`; almost nothing has one.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_image::{Beyond, Nid, Use};
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::Server;
use super::frozen::damaged;
use super::nodes::{Held, Node};
use super::slots::Attempt;
use crate::fuse::reply::Reply;
use crate::fuse::request::SetXattr;

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
        let path = self.path(node)?;
        self.originals.xattr(&path, self.opened(node).as_deref(), OsStr::from_bytes(name))
    }

    /// LISTXATTR.
    pub(crate) fn list_xattr(&self, node: Node, size: u32, reply: Reply<'_>) {
        let names = match node {
            Node::Frozen(nid) if self.has_frozen_xattrs(nid) => self.frozen_xattr_names(nid),
            _ => self
                .path(node)
                .and_then(|path| self.originals.xattr_names(&path, self.opened(node).as_deref())),
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

    /// SETXATTR.
    pub(crate) fn set_xattr(
        &self,
        node: Node,
        change: &SetXattr<'_>,
        attempt: Attempt<'_>,
    ) -> Result<(), Errno> {
        let name = CString::new(change.name).map_err(|_| Errno::INVAL)?;
        let flags = XattrFlags::from_bits_retain(change.flags);
        let repeated = flags.contains(XattrFlags::CREATE).then_some(Errno::EXIST);
        self.change_xattr(
            (node, attempt),
            repeated,
            |path| rustix::fs::lsetxattr(path, &name, change.value, flags),
            |held| rustix::fs::fsetxattr(&held.descriptor, &name, change.value, flags),
        )
    }

    /// REMOVEXATTR.
    pub(crate) fn remove_xattr(&self, node: Node, name: &[u8], attempt: Attempt<'_>) -> Result<(), Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        self.change_xattr(
            (node, attempt),
            Some(Errno::NODATA),
            |path| rustix::fs::lremovexattr(path, &name),
            |held| rustix::fs::fremovexattr(&held.descriptor, &name),
        )
    }

    /// Changes the original, by its descriptor if one is held. An access control list changes the mode too, so all
    /// attributes are the original's from then on. `repeated` is the error of a change that was made before.
    fn change_xattr(
        &self,
        (node, attempt): (Node, Attempt<'_>),
        repeated: Option<Errno>,
        by_path: impl FnOnce(&Path) -> Result<(), Errno>,
        by_descriptor: impl FnOnce(&Held) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let path = self.path(node)?;
        let held = self.opened(node);
        self.originals.change_once(
            &path,
            attempt,
            || match held.as_deref() {
                Some(held) => by_descriptor(held),
                None => by_path(&path),
            },
            |failed| failed.filter(|errno| Some(*errno) != repeated).map_or(Ok(()), Err),
        )?;
        self.note_changed(node)
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
