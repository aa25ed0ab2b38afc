//! Names and attributes of originals, as programs make them. The calling thread has a umask of its own.

use std::os::fd::OwnedFd;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::abi::{SetAttributes, device_of};
use crate::open_flags::{CREATING, SAFELY};
use crate::original::{self, os, place_of, reopen};
use crate::request::{Create, SetAttr};

/// `__FMODE_EXEC`: the kernel opens a file to execute it. Source: `include/linux/fs.h` of the kernel.
pub const FOR_EXECUTION: u32 = 0x20;

/// Opens a file to execute it. One that may be executed and not read cannot be served.
pub fn open_program(original: &OwnedFd) -> Result<OwnedFd, Errno> {
    access(original, Access::EXEC_OK)?;
    reopen(original, OFlags::RDONLY)
}

/// A check of permissions with the effective ids, as access(2) and chdir(2) make it.
pub fn access(original: &OwnedFd, wanted: Access) -> Result<(), Errno> {
    rustix::fs::accessat(CWD, place_of(original), wanted, AtFlags::EACCESS)
}

/// Makes and opens a file.
pub fn create(directory: &OwnedFd, create: &Create<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::from_bits_retain(create.flags) & CREATING | OFlags::CREATE | SAFELY;
    masked(create.umask, || rustix::fs::openat(directory, os(create.name), flags, permissions(create.mode)))
}

/// Makes and opens a file without a name.
pub fn make_unnamed(directory: &OwnedFd, create: &Create<'_>) -> Result<OwnedFd, Errno> {
    let asked = OFlags::from_bits_retain(create.flags);
    let flags = asked & (CREATING - OFlags::TRUNC) | OFlags::TMPFILE | OFlags::CLOEXEC;
    masked(create.umask, || rustix::fs::openat(CWD, place_of(directory), flags, permissions(create.mode)))
}

/// Makes a file of any type, as mknod(2) does.
pub fn make_node(directory: &OwnedFd, name: &[u8], mode: u32, umask: u32, device: u32) -> Result<(), Errno> {
    let (kind, device) = (FileType::from_raw_mode(mode), device_of(device));
    masked(umask, || rustix::fs::mknodat(directory, os(name), kind, permissions(mode), device))
}

/// Makes a directory.
pub fn make_directory(directory: &OwnedFd, name: &[u8], mode: u32, umask: u32) -> Result<(), Errno> {
    masked(umask, || rustix::fs::mkdirat(directory, os(name), permissions(mode)))
}

/// Sets attributes. `open` is the program's open file, if it named one: that may be allowed more than the mode says now.
pub fn set_attributes(original: &OwnedFd, change: &SetAttr, open: Option<&OwnedFd>) -> Result<(), Errno> {
    if change.valid.contains(SetAttributes::SIZE) {
        match open {
            Some(file) => rustix::fs::ftruncate(file, change.size)?,
            None => original::set_size(original, change.size)?,
        }
    }
    if original::changes_owner(change) {
        original::set_owner(original, change)?;
    }
    if change.valid.contains(SetAttributes::MODE) {
        original::set_mode(original, change.mode)?;
    }
    if original::changes_times(change) {
        original::set_times(original, change)?;
    }
    Ok(())
}

/// Makes something with the mask of the process that asked, in this thread alone. A directory's default access control
/// list takes the mask's place, which the original's file system knows.
fn masked<T>(umask: u32, make: impl FnOnce() -> T) -> T {
    rustix::process::umask(Mode::from_raw_mode(umask & 0o777));
    make()
}

fn permissions(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & 0o7777)
}
