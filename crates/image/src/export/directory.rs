//! Writing a selection as files below a directory: modes, times, links, hard links; owners as root only.
//!
//! Nothing lands outside: every directory on a path is opened by name in the one before, never through a link, and
//! every file is made new. A directory that does not exist appears complete or not at all; one that exists is filled
//! in place.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_base::files::{Durability, Folder, WalkedPath};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::export::error::ExportError;
use crate::export::member::{ExportMember, MemberBody};
use crate::export::select::ExportSelection;
use crate::model::FileKind;
use crate::path::components;
use crate::write::WriteError;

/// Treatment of entries that the directory has already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// Refuse a directory that is not empty.
    Refuse,
    /// Replace files and links of the same names, keep the rest.
    Replace,
}

/// The result of an export to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extracted {
    /// Regular files, each once however many names it has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Directories, with those that lead to what was asked for.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Devices, which only root may make, and only of an image that it trusts.
    pub devices_left_out: u64,
    /// Extended attributes that the file system or the user's rights do not take.
    pub xattrs_left_out: u64,
    /// Files that lost a set-user-ID or set-group-ID bit.
    pub privileges_left_out: u64,
}

/// Writes everything below `target`. What belongs to the originals' owners is kept for root alone.
pub fn write(
    selection: &ExportSelection<'_>,
    target: &Path,
    existing: Existing,
    owners: Owners,
) -> Result<Extracted, ExportError> {
    let root = rustix::process::geteuid().is_root();
    let owners = if root { owners } else { Owners::Caller };
    let place = match std::fs::read_dir(target) {
        Ok(mut entries) => match existing == Existing::Replace || entries.next().is_none() {
            true => None,
            false => return Err(ExportError::Occupied { path: target.to_path_buf() }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(
            Folder::beside(target).map_err(|source| WriteError::of_output("create", target, 0, source))?,
        ),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(ExportError::Occupied { path: target.to_path_buf() });
        }
        Err(error) => return Err(WriteError::of_output("open", target, 0, error).into()),
    };
    let failed = |source| WriteError::of_output("name", target, 0, source);
    let root = match &place {
        Some(place) => place.as_fd().try_clone_to_owned().map_err(failed)?,
        None => open_existing(target)?,
    };
    let needed = selection.files().1;
    let written = Writer::new(root, target, needed, existing, owners).write(selection);
    match place {
        // Not over a directory that another process made meanwhile, unless it is empty: rename(2) sees to that.
        Some(place) if written.is_ok() => place.publish(Durability::Durable).map_err(failed)?,
        // The error on its way to the caller says more than one of this would.
        Some(place) => _ = place.discard(),
        None => {}
    }
    Ok(written?)
}

/// The choice whether owners, devices, set-user-ID bits and capabilities are those of the originals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owners {
    /// They are: of an image that root trusts.
    Originals,
    /// All is the caller's, and no file gives rights to who executes or opens it.
    Caller,
}

/// Opens a directory that is filled in place.
fn open_existing(target: &Path) -> Result<OwnedFd, WriteError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = || {
        let way = WalkedPath::walk(target)?;
        way.refuse_links_of_others()?;
        Ok(rustix::fs::openat(&way.directory, &way.name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    };
    open().map_err(|source| WriteError::of_output("open", target, 0, source))
}

struct Writer<'t> {
    root: OwnedFd,
    /// The directory as it was asked for, for messages.
    target: &'t Path,
    needed: u64,
    existing: Existing,
    owners: Owners,
    /// The directory that was used last.
    last: Option<(Vec<u8>, OwnedFd)>,
    extracted: Extracted,
}

/// Flags to open a directory of ours, never through a link.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Mode of a directory while it is filled.
const FILLING: Mode = Mode::RWXU;

/// Bytes of an original that are read at once.
const STRETCH: usize = 1 << 20;

impl<'t> Writer<'t> {
    fn new(root: OwnedFd, target: &'t Path, needed: u64, existing: Existing, owners: Owners) -> Self {
        Self { root, target, needed, existing, owners, last: None, extracted: Extracted::default() }
    }

    fn write(mut self, selection: &ExportSelection<'_>) -> Result<Extracted, WriteError> {
        let mut buffer = vec![0; STRETCH];
        for member in &selection.members {
            self.member(member, &mut buffer)?;
        }
        // From the bottom upwards: what is written into a directory moves its time, and may be barred by its mode.
        for member in selection.members.iter().rev().filter(|member| is_directory(member)) {
            let directory = self.open_directory(member.relative_path())?;
            self.finish(member, &directory)?;
        }
        Ok(self.extracted)
    }

    fn member(&mut self, member: &ExportMember<'_>, buffer: &mut [u8]) -> Result<(), WriteError> {
        let path = member.relative_path();
        let (parent, name) = split(path);
        let parent = self.parent(parent)?;
        let failed = |writer: &Self, errno| writer.failed("create", path, errno);
        if !is_directory(member) && self.existing == Existing::Replace {
            match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(self.failed("replace", path, errno)),
            }
        }
        match &member.body {
            MemberBody::Directory => {
                match rustix::fs::mkdirat(&parent, name, FILLING) {
                    Err(Errno::EXIST) if self.existing == Existing::Replace => {}
                    outcome => outcome.map_err(|errno| failed(self, errno))?,
                }
                self.extracted.directories += 1;
            }
            MemberBody::Symlink(target) => {
                rustix::fs::symlinkat(*target, &parent, name).map_err(|errno| failed(self, errno))?;
                self.finish_link(member, &parent, name)?;
                self.extracted.links += 1;
            }
            MemberBody::Link(first) => self.link(first, &parent, name, path)?,
            MemberBody::Special => self.special(member, &parent, name)?,
            MemberBody::Held(_) | MemberBody::Original(_) => self.file(member, &parent, name, buffer)?,
        }
        Ok(())
    }

    fn file(
        &mut self,
        member: &ExportMember<'_>,
        parent: &OwnedFd,
        name: &OsStr,
        buffer: &mut [u8],
    ) -> Result<(), WriteError> {
        let path = member.relative_path();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(file.map_err(|errno| self.failed("create", path, errno))?);
        let mut put =
            |bytes: &[u8]| file.write_all(bytes).map_err(|source| self.io_failed("write", path, source));
        member.copy(buffer, &mut put)?;
        self.finish(member, file.as_fd())?;
        self.extracted.files += 1;
        self.extracted.bytes += member.attributes.size;
        Ok(())
    }

    /// Gives what `first` became a further name. What was left out there is left out here.
    fn link(&mut self, first: &[u8], parent: &OwnedFd, name: &OsStr, path: &[u8]) -> Result<(), WriteError> {
        let (first_parent, first_name) = split(first.strip_prefix(b"/").unwrap_or(first));
        let first_parent = self.open_directory(first_parent)?;
        match rustix::fs::linkat(first_parent, first_name, parent, name, AtFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NOENT) if self.extracted.devices_left_out > 0 => Ok(()),
            Err(errno) => Err(self.failed("link", path, errno)),
        }
    }

    /// Makes a named pipe, or as root a device.
    fn special(
        &mut self,
        member: &ExportMember<'_>,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), WriteError> {
        let kind = match member.attributes.kind {
            FileKind::Fifo => rustix::fs::FileType::Fifo,
            FileKind::CharacterDevice => rustix::fs::FileType::CharacterDevice,
            _ => rustix::fs::FileType::BlockDevice,
        };
        if kind != rustix::fs::FileType::Fifo && self.owners == Owners::Caller {
            self.extracted.devices_left_out += 1;
            return Ok(());
        }
        let rdev = member.attributes.rdev;
        let device = rustix::fs::makedev(rdev.major, rdev.minor);
        let mode = self.mode(member);
        let path = member.relative_path();
        // Without write permission for others until the owner is right; umask only takes away.
        rustix::fs::mknodat(parent, name, kind, mode, device)
            .map_err(|errno| self.failed("create", path, errno))?;
        self.finish_link(member, parent, name)
    }

    /// Gives an open file or directory its owner, mode, attributes and times, in the order in which none undoes another.
    fn finish(&mut self, member: &ExportMember<'_>, file: impl AsFd) -> Result<(), WriteError> {
        let (path, attributes) = (member.relative_path(), &member.attributes);
        if self.owners == Owners::Originals {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            rustix::fs::fchown(&file, Some(uid), Some(gid))
                .map_err(|errno| self.failed("set the owner of", path, errno))?;
        }
        let privileged = !is_directory(member) && attributes.permissions & 0o6000 != 0;
        if privileged && self.owners == Owners::Caller {
            self.extracted.privileges_left_out += 1;
        }
        rustix::fs::fchmod(&file, self.mode(member))
            .map_err(|errno| self.failed("set the mode of", path, errno))?;
        for (name, value) in &member.xattrs {
            let foreign = self.owners == Owners::Caller && gives_rights(name);
            let refused =
                foreign || rustix::fs::fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()).is_err();
            self.extracted.xattrs_left_out += u64::from(refused);
        }
        rustix::fs::futimens(&file, &times(member))
            .map_err(|errno| self.failed("set the time of", path, errno))
    }

    /// The same for what cannot be opened: owner and time.
    fn finish_link(
        &self,
        member: &ExportMember<'_>,
        parent: &OwnedFd,
        name: &OsStr,
    ) -> Result<(), WriteError> {
        let (path, attributes) = (member.relative_path(), &member.attributes);
        if self.owners == Owners::Originals {
            let (uid, gid) = (Uid::from_raw(attributes.uid), Gid::from_raw(attributes.gid));
            rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(|errno| self.failed("set the owner of", path, errno))?;
        }
        rustix::fs::utimensat(parent, name, &times(member), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| self.failed("set the time of", path, errno))
    }

    /// The mode that a member gets: no program may run as another user than the original did.
    fn mode(&self, member: &ExportMember<'_>) -> Mode {
        let kept = if self.owners == Owners::Originals { 0o7777 } else { 0o1777 };
        Mode::from_raw_mode((member.attributes.permissions & kept).into())
    }

    /// The directory at `path` below the target, kept for the next member.
    fn parent(&mut self, path: &[u8]) -> Result<OwnedFd, WriteError> {
        let known = self.last.as_ref().is_some_and(|(last, _)| last == path);
        if !known {
            self.last = Some((path.to_vec(), self.open_directory(path)?));
        }
        let descriptor = self.last.as_ref().map_or(&self.root, |(_, descriptor)| descriptor);
        rustix::io::fcntl_dupfd_cloexec(descriptor, 0).map_err(|errno| self.failed("open", path, errno))
    }

    /// Opens a directory below the target, name by name.
    fn open_directory(&self, path: &[u8]) -> Result<OwnedFd, WriteError> {
        let failed = |errno| self.failed("open", path, errno);
        let mut here = rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(failed)?;
        for name in components(path).filter(|name| *name != b".") {
            if name == b".." {
                return Err(failed(Errno::LOOP));
            }
            here = rustix::fs::openat(&here, name, DIRECTORY, Mode::empty()).map_err(failed)?;
        }
        Ok(here)
    }

    fn failed(&self, action: &'static str, path: &[u8], errno: Errno) -> WriteError {
        self.io_failed(action, path, errno.into())
    }

    fn io_failed(&self, action: &'static str, path: &[u8], source: io::Error) -> WriteError {
        match WriteError::of_output(action, &self.target.join(OsStr::from_bytes(path)), self.needed, source) {
            // `needed` is the room for everything, not for this file.
            WriteError::NoSpace { needed, source, .. } => {
                WriteError::NoSpace { path: self.target.to_path_buf(), needed, source }
            }
            error => error,
        }
    }
}

/// Tells whether an extended attribute means something to the kernel, such as a file's capabilities.
fn gives_rights(name: &[u8]) -> bool {
    name.starts_with(b"security.") || name.starts_with(b"trusted.")
}

fn is_directory(member: &ExportMember<'_>) -> bool {
    member.body == MemberBody::Directory
}

/// The directory of a relative path, and the name in it.
fn split(path: &[u8]) -> (&[u8], &OsStr) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], OsStr::from_bytes(&path[slash + 1..])),
        None => (b"", OsStr::from_bytes(path)),
    }
}

/// The modification time; the access time stays that of now.
fn times(member: &ExportMember<'_>) -> Timestamps {
    let mtime = member.attributes.mtime;
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}
