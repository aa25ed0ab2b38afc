//! The comparison of what lies at a name with what a container has for it, so that a further extraction writes only the rest.
//!
//! Times and sizes do not tell: programs set the one and keep the other, and an extended attribute changes neither. A name counts as
//! extracted if all that an extraction would give it is there, bytes and attributes included.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use crate::container::{ContainerError, Source};
use crate::contents::{Entry, is_xattr};
use crate::ops::{Node, NodeKind};

use super::names::os;

/// True if a name has what an entry of a container has. What cannot be read counts as other than that.
///
/// **Errors** Those of the container.
pub(super) fn is_same<S: Source + ?Sized>(
    (parent, name): (&OwnedFd, &[u8]),
    there: &Stat,
    entry: &Entry,
    source: &S,
) -> Result<bool, ContainerError> {
    if !is_alike(there, &entry.node) {
        return Ok(false);
    }
    match &entry.node.kind {
        NodeKind::Link { target } => Ok(rustix::fs::readlinkat(parent, os(name), Vec::new())
            .is_ok_and(|found| found.to_bytes() == target)),
        NodeKind::File => {
            let flags =
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match rustix::fs::openat(parent, os(name), flags, Mode::empty()).map(File::from) {
                Ok(file) => Ok(has_xattrs(&file, &entry.node) && has_content(&file, entry, source)?),
                Err(_) => Ok(false),
            }
        }
        NodeKind::Fifo | NodeKind::Directory { .. } => Ok(true),
    }
}

/// True if kind, size, mode and time are the same: most files that differ need no further look.
fn is_alike(there: &Stat, node: &Node) -> bool {
    let kind = match node.kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Link { .. } => FileType::Symlink,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Directory { .. } => FileType::Directory,
    };
    let nanoseconds = u32::try_from(there.st_mtime_nsec).unwrap_or_default();
    FileType::from_raw_mode(there.st_mode) == kind
        && (kind != FileType::RegularFile || u64::try_from(there.st_size) == Ok(node.size))
        && (there.st_mode & 0o7777 == node.mode & 0o7777 || kind == FileType::Symlink)
        && (there.st_mtime, nanoseconds) == (node.mtime.seconds, node.mtime.nanoseconds)
}

/// True if a file has the extended attributes of programs that a node has, and no others.
fn has_xattrs(file: &File, node: &Node) -> bool {
    let wanted: Vec<_> = node.xattrs.iter().filter(|(name, _)| is_xattr(name)).collect();
    let (mut names, mut value) = (vec![0; XATTRS_MAX], vec![0; XATTRS_MAX]);
    let names = match rustix::fs::flistxattr(file, &mut names) {
        Ok(length) => &names[..length],
        // An extraction leaves them out there.
        Err(Errno::OPNOTSUPP) => return true,
        Err(_) => return false,
    };
    let has = |(name, wanted): &(Vec<u8>, Vec<u8>)| {
        rustix::fs::fgetxattr(file, os(name), &mut value).is_ok_and(|length| value[..length] == wanted[..])
    };
    names.split(|byte| *byte == 0).filter(|name| is_xattr(name)).count() == wanted.len()
        && wanted.into_iter().all(has)
}

/// The longest list of names, and the longest value, that the kernel hands out. Unit: bytes.
const XATTRS_MAX: usize = 65_536;

/// True if a file of an entry's size has its content.
fn has_content<S: Source + ?Sized>(file: &File, entry: &Entry, source: &S) -> Result<bool, ContainerError> {
    let (mut end, mut differs) = (0, false);
    let mut found = Vec::new();
    let read = entry.each_part(source, |at, bytes| {
        found.resize(bytes.len(), 0);
        differs = !is_zero(file, end, at) || file.read_exact_at(&mut found, at).is_err() || found != bytes;
        end = at + bytes.len() as u64;
        if differs { Err(io::ErrorKind::Interrupted.into()) } else { Ok(()) }
    });
    if differs {
        return Ok(false);
    }
    read?;
    Ok(is_zero(file, end, entry.node.size))
}

/// True if a stretch of a file has nothing but zeros. Holes are not read.
fn is_zero(file: &File, mut at: u64, end: u64) -> bool {
    let mut bytes = vec![0; 65_536];
    while at < end {
        at = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data,
            // No data is behind that place.
            Err(Errno::NXIO) => return true,
            Err(_) => at,
        };
        let length = bytes.len().min(usize::try_from(end.saturating_sub(at)).unwrap_or(usize::MAX));
        if file.read_exact_at(&mut bytes[..length], at).is_err()
            || bytes[..length].iter().any(|byte| *byte != 0)
        {
            return false;
        }
        at += length as u64;
    }
    true
}
