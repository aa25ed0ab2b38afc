//! Files that are there whole or as they were before, whatever the umask is and whoever reads meanwhile.

use crate::ModulesError;
use crate::lock::Lock;
use crate::tools::User;
use crate::{trust, walk};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What every user may read.
pub(crate) const OPEN: u32 = 0o644;

/// Removes what builders that were killed left in the directory: with the lock nobody needs it. As root the directory is root's.
pub(crate) fn clear(lock: &Lock, directory: &Path, is_left: impl Fn(&OsStr) -> bool) {
    let entries = lock.is_held().then(|| directory.read_dir().ok()).flatten();
    for entry in entries.into_iter().flatten().flatten().filter(|entry| is_left(&entry.file_name())) {
        // What cannot be removed stays, as it would have without us.
        _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}

/// Signs that make the name of a temporary file its own.
const RANDOM: usize = 6;

/// Whether a name is that of a file that is being written in the place of `name`.
fn is_temporary(found: &OsStr, name: &OsStr) -> bool {
    let middle = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_suffix(b"~"));
    middle.is_some_and(|middle| middle.len() == RANDOM && middle.iter().all(u8::is_ascii_alphanumeric))
}

/// Whether every user may read a file, as far as its mode says.
pub(crate) fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & OPEN == OPEN)
}

/// Writes a file beside its place, and renames it in. Until then its name ends in `~`, which neither tool looks at. What a
/// writer that was killed left there is removed.
///
/// The directory may be another user's: it is held by a descriptor, no link in it is followed, and what its owner puts in our
/// file's place is no more than that user could have put there without us.
///
/// **Errors**: [`ModulesError::Write`]; then the file is what it was.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<(), ModulesError> {
    let name = path.file_name().unwrap_or_default();
    let put = || -> io::Result<()> {
        let above = path.parent().unwrap_or(Path::new("."));
        let directory = walk::open_plain(above, OFlags::RDONLY | OFlags::DIRECTORY)?;
        clear_temporary(&directory, name)?;
        let (temporary, mut file) = temporary(&directory, name)?;
        let written = (|| {
            file.write_all(content)?;
            // Not at its making: the umask would take bits away.
            file.set_permissions(Permissions::from_mode(OPEN))?;
            file.sync_all()?;
            Ok(rustix::fs::renameat(&directory, &temporary, &directory, name)?)
        })();
        if written.is_err() {
            _ = rustix::fs::unlinkat(&directory, &temporary, AtFlags::empty());
        }
        written
    };
    put().map_err(ModulesError::write(path))
}

/// A new file that no other user can open yet, with its name. Its lock says that its writer lives.
fn temporary(directory: &OwnedFd, name: &OsStr) -> io::Result<(OsString, File)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let random = RandomState::new().build_hasher().finish();
        let mut own = name.to_owned();
        own.push(format!("{:06x}~", random & 0xff_ffff));
        match rustix::fs::openat(directory, &own, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => {
                // Without locks nothing is taken for left.
                _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
                return Ok((own, File::from(file)));
            }
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Removes what writers of ours left that are no more.
fn clear_temporary(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let ourselves = rustix::process::geteuid().as_raw();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !is_temporary(OsStr::from_bytes(entry.file_name().to_bytes()), name) {
            continue;
        }
        let Ok(file) = walk::open_in(directory, entry.file_name(), OFlags::RDONLY | OFlags::NONBLOCK) else {
            continue;
        };
        let is_ours = rustix::fs::fstat(&file).is_ok_and(|stat| trust::refuse_file(&stat, ourselves).is_ok());
        if is_ours && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            _ = rustix::fs::unlinkat(directory, entry.file_name(), AtFlags::empty());
        }
    }
    Ok(())
}

/// Makes a directory as [`make_open_directory`] does, and refuses one, as root, that another user can change or exchange.
///
/// **Errors**: [`ModulesError::Untrusted`], [`ModulesError::Write`].
pub(crate) fn make_trusted_directory(directory: &Path) -> Result<(), ModulesError> {
    let there = directory.ancestors().find(|path| path.symlink_metadata().is_ok());
    trust::refuse_place(there.unwrap_or(directory))?;
    make_open_directory(directory).map_err(ModulesError::write(directory))?;
    trust::refuse_place(directory)
}

/// Makes a directory that every user can enter, and those above it that are not there; one that is there stays as it is.
///
/// **Errors**: what the system says.
pub(crate) fn make_open_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.is_dir()).collect();
    for path in missing.into_iter().rev() {
        std::fs::create_dir(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The first `limit` bytes of a regular file. What is none is not opened for long: a pipe in a cache's place would hold us.
///
/// Behind another user's link root reads what that user may.
///
/// **Errors**: what the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let path = std::path::absolute(path)?;
    let (file, _) = walk::open(&path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    let file = File::from(file);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// The same, of what a user was to make.
///
/// **Errors**: [`io::ErrorKind::InvalidInput`] for what is not that user's file.
pub(crate) fn read_made(path: &Path, user: &User, limit: u64) -> io::Result<Vec<u8>> {
    let maker = user.number().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let file = walk::open_plain(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    trust::refuse_file(&rustix::fs::fstat(&file)?, maker)?;
    let mut content = Vec::new();
    File::from(file).take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// A path as it will be: without links as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match there {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}
