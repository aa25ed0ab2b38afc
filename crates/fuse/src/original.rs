//! Calls on the original that a file of a mount stands for, by its descriptor or by its name in the descriptor of its directory.
//!
//! No symbolic link is followed. A call does what the program asked for, as far as the original lets it.

use std::ffi::{CString, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, RawDir, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
};
use rustix::io::Errno;

use crate::abi::{SetAttributes, Time};
use crate::listing::{ListedName, Pushed};
use crate::request::SetAttr;

/// A name as the calls of rustix take it.
pub fn os(name: &[u8]) -> &OsStr {
    OsStr::from_bytes(name)
}

/// A path to the inode of an `O_PATH` descriptor, for calls that need a path. It leads to that inode and nowhere else,
/// also where it is a symbolic link. Source: proc_pid_fd(5).
pub fn place_of(original: impl AsFd) -> String {
    format!("/proc/thread-self/fd/{}", original.as_fd().as_raw_fd())
}

/// The file that `name` in `directory` leads to, opened with `O_PATH`; a symbolic link is opened itself.
pub fn reach(directory: &OwnedFd, name: &[u8]) -> Result<(OwnedFd, Stat), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let found = rustix::fs::openat(directory, os(name), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&found)?;
    Ok((found, stat))
}

/// Opens an original, or one that was opened for another use, anew.
pub fn reopen(original: impl AsFd, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(CWD, place_of(original), flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// A new name for what an `O_PATH` descriptor leads to.
pub fn link(original: impl AsFd, directory: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    rustix::fs::linkat(CWD, place_of(original), directory, os(name), AtFlags::SYMLINK_FOLLOW)
}

/// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
pub fn read_at(file: &OwnedFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    // The program gets the bytes before an error, as from the file itself; its next read gets the error.
    transfer(buffer.len(), |done| rustix::io::pread(file, &mut buffer[done..], offset + done as u64))
}

/// Writes `data`; returns how much of it was written, which is less than all only where the original wrote less.
pub fn write_at(file: &OwnedFd, data: &[u8], offset: u64) -> Result<usize, Errno> {
    transfer(data.len(), |done| rustix::io::pwrite(file, &data[done..], offset + done as u64))
}

/// Goes on until `length` bytes are done or a step does none. An error after the first byte is left to the next request.
fn transfer(length: usize, mut step: impl FnMut(usize) -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut done = 0;
    while done < length {
        match step(done) {
            Ok(0) => break,
            Ok(bytes) => done += bytes,
            Err(Errno::INTR) => {}
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Hands the names of an open directory from `offset` on to `push`, until it has no room.
pub fn list(
    directory: &OwnedFd,
    offset: u64,
    push: &mut dyn FnMut(&ListedName<'_>) -> Pushed,
) -> Result<(), Errno> {
    // Names that did not fit into the last answer were read ahead.
    rustix::fs::seek(directory, SeekFrom::Start(offset))?;
    let mut space = vec![MaybeUninit::uninit(); LISTING_BUFFER];
    let mut names = RawDir::new(directory, &mut space);
    while let Some(name) = names.next() {
        let name = name?;
        let listed = ListedName {
            inode: name.ino(),
            next: name.next_entry_cookie(),
            kind: name.file_type().as_raw_mode() >> 12,
            name: name.file_name().to_bytes(),
        };
        if push(&listed) == Pushed::Full {
            break;
        }
    }
    Ok(())
}

/// Bytes of names asked for at once. Network file systems answer in units of a few tens of KiB.
const LISTING_BUFFER: usize = 32 << 10;

/// The value of an extended attribute.
pub fn xattr(original: impl AsFd, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let place = place_of(original);
    whole(|buffer| rustix::fs::getxattr(&place, os(name), buffer))
}

/// The names of all extended attributes, each with a zero byte behind it.
pub fn xattr_names(original: impl AsFd) -> Result<Vec<u8>, Errno> {
    let place = place_of(original);
    whole(|buffer| rustix::fs::listxattr(&place, buffer))
}

/// Asks for something of unknown length with the room that the kernel allows it at most.
fn whole(ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; XATTR_MAX];
    let length = ask(&mut value)?;
    value.truncate(length);
    Ok(value)
}

/// Longest value, and longest list of names, of extended attributes. Source: xattr(7).
const XATTR_MAX: usize = 64 << 10;

/// Cuts or extends a file.
pub fn set_size(original: &OwnedFd, size: u64) -> Result<(), Errno> {
    let place = CString::new(place_of(original)).map_err(|_| Errno::INVAL)?;
    crate::descriptors::truncate(&place, size)
}

/// Sets permissions, set-user-ID and the like.
pub fn set_mode(original: &OwnedFd, mode: u32) -> Result<(), Errno> {
    rustix::fs::chmod(place_of(original), Mode::from_raw_mode(mode & 0o7777))
}

/// Tells whether a SETATTR changes the owner. A change of neither owner nor group is one, too: it takes set-user-ID away and sets
/// the time of change.
pub fn changes_owner(change: &SetAttr) -> bool {
    let owner = SetAttributes::UID | SetAttributes::GID;
    change.valid.intersects(owner) || !change.valid.intersects(ANYTHING_ELSE)
}

/// Sets owner and group, as far as the change names them.
pub fn set_owner(original: &OwnedFd, change: &SetAttr) -> Result<(), Errno> {
    let uid = change.valid.contains(SetAttributes::UID).then(|| Uid::from_raw(change.uid));
    let gid = change.valid.contains(SetAttributes::GID).then(|| Gid::from_raw(change.gid));
    rustix::fs::chownat(original, "", uid, gid, AtFlags::EMPTY_PATH)
}

/// Everything that SETATTR can set beside owner and group.
const ANYTHING_ELSE: SetAttributes =
    SetAttributes::MODE.union(SetAttributes::SIZE).union(SetAttributes::ATIME).union(SetAttributes::MTIME);

/// Tells whether a SETATTR changes times.
pub fn changes_times(change: &SetAttr) -> bool {
    change.valid.intersects(SetAttributes::ATIME | SetAttributes::MTIME)
}

/// Sets the times that the change names.
pub fn set_times(original: &OwnedFd, change: &SetAttr) -> Result<(), Errno> {
    let time = |set, now, time: Time| match change.valid {
        valid if valid.contains(now) => Timespec { tv_sec: 0, tv_nsec: UTIME_NOW },
        valid if valid.contains(set) => Timespec { tv_sec: time.seconds, tv_nsec: time.nanoseconds.into() },
        _ => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
    };
    let times = Timestamps {
        last_access: time(SetAttributes::ATIME, SetAttributes::ATIME_NOW, change.atime),
        last_modification: time(SetAttributes::MTIME, SetAttributes::MTIME_NOW, change.mtime),
    };
    rustix::fs::utimensat(CWD, place_of(original), &times, AtFlags::empty())
}
