//! The rights by which requests are carried out on originals, and owners as the kernel must see them.

use std::os::fd::OwnedFd;

use rustix::fs::{Access, Stat};
use rustix::io::Errno;

use crate::abi::{self, Attr};
use crate::credentials::Identity;
use crate::namespace::Privilege;
use crate::original::place_of;
use crate::request::Caller;

/// The rights of a server.
#[derive(Debug, Clone, Copy)]
pub struct Rights(Privilege);

impl Rights {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        Self(Privilege::of_this_process())
    }

    /// Carries out an action with the rights of the process that asked. For a user, the server has the same.
    ///
    /// **Errors** the action's; `EPERM` where the kernel does not allow the change of identity.
    pub fn act_as<T>(self, caller: Caller, action: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        if self.0 == Privilege::User || (caller.uid, caller.gid) == (0, 0) {
            return action();
        }
        Identity::of_caller(caller.uid, caller.gid, caller.pid).assume(action)?
    }

    /// Attributes for the kernel. In a user's namespace it refuses every write to an inode of unmapped owners, so such
    /// an inode is shown as the user's own where the user may write to it or remove it.
    pub fn attributes(self, original: &OwnedFd, stat: &Stat, is_removable: bool) -> Attr {
        let mut attr = abi::attr_of(stat);
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if self.0 == Privilege::Administrator || (attr.uid, attr.gid) == (uid, gid) {
            return attr;
        }
        if attr.uid == uid || is_removable || may_write(original, attr.mode) {
            (attr.uid, attr.gid) = (uid, gid);
        }
        attr
    }

    /// True where the user may write to another user's directory.
    pub fn may_remove_from(self, directory: &OwnedFd) -> bool {
        self.0 == Privilege::User
            && rustix::fs::fstat(directory).is_ok_and(|stat| {
                stat.st_uid == rustix::process::geteuid().as_raw() || may_write(directory, stat.st_mode)
            })
    }
}

/// True where the user may write to another user's file. The bits of a group bound an access control list, too.
fn may_write(original: &OwnedFd, mode: u32) -> bool {
    mode & 0o022 != 0 && rustix::fs::access(place_of(original), Access::WRITE_OK).is_ok()
}
