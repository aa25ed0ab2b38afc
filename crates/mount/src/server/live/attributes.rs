//! Attributes and extended attributes that a program sets: on the original, by its descriptor.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use quell_fuse::original;
use rustix::fs::XattrFlags;
use rustix::io::Errno;

use super::LiveTier;
use crate::fuse::abi::{Attr, SetAttributes};
use crate::fuse::request::{Caller, SetAttr, SetXattr};
use crate::server::node::Node;
use crate::server::originals::{path_of, place_of};
use crate::server::slots::Attempt;

impl LiveTier {
    /// SETATTR.
    pub(crate) fn set_attributes(&self, node: Node, change: &SetAttr, caller: Caller) -> Result<Attr, Errno> {
        let original = self.bindings.pin(node)?;
        self.bindings.note_changed(node)?;
        if change.valid.contains(SetAttributes::SIZE) {
            self.set_size(&original, change, caller)?;
        }
        self.packed.viewer.act_as(caller, || {
            if original::changes_owner(change) {
                self.bindings.originals.change(&original, || original::set_owner(&original, change))?;
            }
            if change.valid.contains(SetAttributes::MODE) {
                self.bindings.originals.change(&original, || original::set_mode(&original, change.mode))?;
            }
            match original::changes_times(change) {
                true => self.bindings.originals.change(&original, || original::set_times(&original, change)),
                false => Ok(()),
            }
        })??;
        let stat = self.bindings.originals.stat(&original)?;
        Ok(self.original_attr(&original, &stat, self.may_write_beside(node)))
    }

    /// Cuts or extends a file: by the program's open file if it has one, which may be allowed more than its mode says now.
    fn set_size(&self, original: &OwnedFd, change: &SetAttr, caller: Caller) -> Result<(), Errno> {
        let open = change
            .valid
            .contains(SetAttributes::HANDLE)
            .then(|| self.bindings.handles.get(change.handle).ok());
        if let Some(file) = open.flatten().filter(|handle| handle.writes()).and_then(|handle| handle.file()) {
            return self.packed.viewer.act_as(caller, || {
                self.bindings.originals.change(&file, || rustix::fs::ftruncate(&*file, change.size))
            })?;
        }
        self.packed.viewer.act_as(caller, || {
            self.bindings.originals.change(original, || original::set_size(original, change.size))
        })?
    }

    /// SETXATTR.
    pub(crate) fn set_xattr(
        &self,
        node: Node,
        change: &SetXattr<'_>,
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> Result<(), Errno> {
        let name = CString::new(change.name).map_err(|_| Errno::INVAL)?;
        let flags = XattrFlags::from_bits_retain(change.flags);
        let repeated = flags.contains(XattrFlags::CREATE).then_some(Errno::EXIST);
        self.change_xattr(node, caller, attempt, repeated, |place| {
            rustix::fs::setxattr(place, &name, change.value, flags)
        })
    }

    /// REMOVEXATTR.
    pub(crate) fn remove_xattr(
        &self,
        node: Node,
        name: &[u8],
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> Result<(), Errno> {
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        self.change_xattr(node, caller, attempt, Some(Errno::NODATA), |place| {
            rustix::fs::removexattr(place, &name)
        })
    }

    /// Changes an extended attribute. An access control list changes the mode too, so all attributes are the original's
    /// from then on. `repeated` is the error of a change that was made before.
    fn change_xattr(
        &self,
        node: Node,
        caller: Caller,
        attempt: Attempt<'_>,
        repeated: Option<Errno>,
        change: impl FnOnce(&str) -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        let original = self.bindings.pin(node)?;
        self.bindings.note_changed(node)?;
        self.bindings.originals.change_once(
            &path_of(&*original),
            attempt,
            || self.packed.viewer.act_as(caller, || change(&place_of(&*original)))?,
            |failed| failed.filter(|errno| Some(*errno) != repeated).map_or(Ok(()), Err),
        )
    }
}
