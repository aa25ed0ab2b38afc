//! Renames. A file that is renamed from one place of a directory to the other is copied, and replaces what has its new name at once.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::Service;
use crate::fuse::abi::NodeId;
use crate::fuse::original::{os, reach, reopen, xattr, xattr_names};
use crate::fuse::request::Caller;

impl Service {
    pub(super) fn rename(
        &self,
        (from, name): (NodeId, &[u8]),
        (to, new_name): (NodeId, &[u8]),
        flags: RenameFlags,
        caller: Caller,
    ) -> Result<(), Errno> {
        let to = self.nodes.get(to)?;
        self.act(from, caller, |from| {
            let (from, to) = (self.place(from, name), self.place(&to, new_name));
            let renamed = rustix::fs::renameat_with(from, os(name), to, os(new_name), flags);
            match renamed {
                Err(Errno::XDEV) if self.picked.is_some() => {
                    self.move_across((from, name), (to, new_name), flags)
                }
                renamed => renamed,
            }
        })
    }

    /// Moves a file. Its bytes are on stable storage as they were before, if a program had synchronised them.
    ///
    /// **Errors** `EXDEV` for what cannot be copied without a difference: anything but a file, one that is open, or has several names.
    fn move_across(
        &self,
        (from, name): (&OwnedFd, &[u8]),
        (to, new_name): (&OwnedFd, &[u8]),
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (found, stat) = reach(from, name)?;
        let is_file = FileType::from_raw_mode(stat.st_mode).is_file();
        let is_simple = flags.is_empty() || flags == RenameFlags::NOREPLACE;
        if !is_file || !is_simple || stat.st_nlink > 1 || !self.is_closed(&stat) {
            return Err(Errno::XDEV);
        }
        let source = reopen(&found, OFlags::RDONLY)?;
        let hidden = format!(".quell-moved-{}-{}", std::process::id(), stat.st_ino);
        let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = rustix::fs::openat(to, &*hidden, create, Mode::RUSR | Mode::WUSR)?;
        let moved = copy(source, made, &stat)
            .and_then(|()| rustix::fs::renameat_with(to, &*hidden, to, os(new_name), flags));
        if moved.is_err() {
            _ = rustix::fs::unlinkat(to, &*hidden, AtFlags::empty());
        }
        moved?;
        rustix::fs::unlinkat(from, os(name), AtFlags::empty())
    }

    /// False for a file that stays open. The kernel tells of the last close soon after the program has returned from it.
    fn is_closed(&self, stat: &Stat) -> bool {
        let until = Instant::now() + CLOSING;
        while self.nodes.is_open_file(stat) {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

/// The time for which a file may be open after its last close(2).
const CLOSING: Duration = Duration::from_millis(200);

/// Gives a new file the content and the attributes of another one.
fn copy(source: OwnedFd, made: OwnedFd, stat: &Stat) -> Result<(), Errno> {
    let (mut source, mut made) = (File::from(source), File::from(made));
    std::io::copy(&mut source, &mut made)
        .map_err(|error| error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))?;
    for name in xattr_names(&source)?.split(|byte| *byte == 0).filter(|name| name.starts_with(b"user.")) {
        rustix::fs::fsetxattr(&made, os(name), &xattr(&source, name)?, XattrFlags::empty())?;
    }
    give_owner(&made, stat)?;
    rustix::fs::fchmod(&made, Mode::from_raw_mode(stat.st_mode))?;
    let time = |tv_sec, tv_nsec: u64| Timespec { tv_sec, tv_nsec: tv_nsec as i64 };
    let last_access = time(stat.st_atime, stat.st_atime_nsec);
    let last_modification = time(stat.st_mtime, stat.st_mtime_nsec);
    rustix::fs::futimens(&made, &Timestamps { last_access, last_modification })?;
    rustix::fs::fsync(&made)
}

fn give_owner(made: impl AsFd, stat: &Stat) -> Result<(), Errno> {
    let now = rustix::fs::fstat(&made)?;
    if (now.st_uid, now.st_gid) == (stat.st_uid, stat.st_gid) {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(stat.st_uid), rustix::fs::Gid::from_raw(stat.st_gid));
    // A file that cannot be given to its owner is copied by the program, which learns of that.
    rustix::fs::fchown(made, Some(uid), Some(gid)).map_err(|_| Errno::XDEV)
}
