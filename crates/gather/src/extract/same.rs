//! The comparison of what lies at a name with what a container has for it, so that a further extraction writes only the rest.
//!
//! Equal size and time do not prove equal content: a program can rewrite a file and set its time back, and an extended attribute changes
//! neither. A name counts as extracted if all that an extraction would give it is there, bytes and attributes included.

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

/// The attributes that an extraction gives a name, beside those of the entry.
pub(super) struct GivenAttributes {
    pub(super) mode: u32,
    /// User and group, where they are set.
    pub(super) owner: Option<(u32, u32)>,
}

/// A file that the user may not read, such as one of mode 000.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnreadableFile {
    /// It counts as the same if its attributes are.
    Same,
    Different,
}

/// True if a name has what an entry of a container has.
///
/// **Errors** Those of the container.
pub(super) fn is_same<S: Source + ?Sized>(
    (parent, name): (&OwnedFd, &[u8]),
    there: &Stat,
    (entry, given, unreadable): (&Entry, &GivenAttributes, UnreadableFile),
    source: &S,
) -> Result<bool, ContainerError> {
    if !is_alike(there, &entry.node, given) {
        return Ok(false);
    }
    match &entry.node.kind {
        NodeKind::Link { target } => {
            let found = rustix::fs::readlinkat(parent, os(name), Vec::new());
            Ok(found.is_ok_and(|found| found.to_bytes() == target))
        }
        NodeKind::File => {
            let flags =
                OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            match rustix::fs::openat(parent, os(name), flags, Mode::empty()).map(File::from) {
                Ok(file) => Ok(has_xattrs(&file, &entry.node) && has_content(&file, entry, source)?),
                Err(Errno::ACCESS) => Ok(unreadable == UnreadableFile::Same),
                Err(_) => Ok(false),
            }
        }
        NodeKind::Fifo | NodeKind::Directory { .. } => Ok(true),
    }
}

/// True if kind, size, mode, owner and time are the same: most files that differ need no further look.
fn is_alike(there: &Stat, node: &Node, given: &GivenAttributes) -> bool {
    let kind = match node.kind {
        NodeKind::File => FileType::RegularFile,
        NodeKind::Link { .. } => FileType::Symlink,
        NodeKind::Fifo => FileType::Fifo,
        NodeKind::Directory { .. } => FileType::Directory,
    };
    let nanoseconds = u32::try_from(there.st_mtime_nsec).unwrap_or_default();
    FileType::from_raw_mode(there.st_mode) == kind
        && (kind != FileType::RegularFile || u64::try_from(there.st_size) == Ok(node.size))
        && (there.st_mode & 0o7777 == given.mode || kind == FileType::Symlink)
        && given.owner.is_none_or(|owner| owner == (there.st_uid, there.st_gid))
        && (there.st_mtime, nanoseconds) == (node.mtime.seconds, node.mtime.nanoseconds)
}

/// True if a file has the extended attributes of programs that a node has, and no others. One that the file system cannot keep is not
/// missed: an extraction leaves it out there.
fn has_xattrs(file: &File, node: &Node) -> bool {
    let wanted: Vec<_> = node.xattrs.iter().filter(|(name, _)| is_xattr(name)).collect();
    let (mut names, mut value) = (vec![0; XATTRS_MAX], vec![0; XATTRS_MAX]);
    let names = match rustix::fs::flistxattr(file, &mut names) {
        Ok(length) => &names[..length],
        Err(Errno::OPNOTSUPP) => &[],
        Err(_) => return false,
    };
    let mut has =
        |(name, wanted): &(Vec<u8>, Vec<u8>)| match rustix::fs::fgetxattr(file, os(name), &mut value) {
            Ok(length) => value[..length] == wanted[..],
            Err(errno) => errno == Errno::OPNOTSUPP,
        };
    let is_wanted = |name: &[u8]| wanted.iter().any(|(known, _)| known == name);
    names.split(|byte| *byte == 0).filter(|name| is_xattr(name)).all(is_wanted)
        && wanted.iter().all(|pair| has(pair))
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
        // An error ends the reading early. `differs` tells it from one of the container.
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
    if at >= end {
        return true;
    }
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
