//! Files that readers see complete, old or new, whatever the umask is; and directories for all users.

use crate::ModulesError;
use crate::lock::DirectoryLock;
use crate::tools::User;
use crate::{trust, walk};
use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Permissions};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The mode of a file that every user may read.
pub(crate) const OPEN: u32 = 0o644;

/// Removes what interrupted builders left in a directory. The lock is held, so it is not in use. As root the directory is
/// root's.
pub(crate) fn clear(lock: &DirectoryLock, directory: &Path, is_left: impl Fn(&OsStr) -> bool) {
    let entries = lock.is_held().then(|| directory.read_dir().ok()).flatten();
    for entry in entries.into_iter().flatten().flatten().filter(|entry| is_left(&entry.file_name())) {
        // A file that cannot be removed stays.
        _ = match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => std::fs::remove_dir_all(entry.path()),
            false => std::fs::remove_file(entry.path()),
        };
    }
}

/// A temporary directory. Those that killed processes left are removed by the next one with its prefix.
#[derive(Debug)]
pub struct Aside {
    directory: tempfile::TempDir,
    /// Held while this process lives.
    _lock: OwnedFd,
}

impl Aside {
    /// Makes a directory for the names below `above` that begin with `prefix`.
    ///
    /// **Errors**: what the system says.
    pub fn new(prefix: &str, above: &Path) -> io::Result<Self> {
        sweep(prefix, above);
        loop {
            let directory = tempfile::Builder::new().prefix(prefix).tempdir_in(above)?;
            match walk::open_plain(directory.path(), OFlags::RDONLY | OFlags::DIRECTORY) {
                Ok(lock) if is_ours_now(&lock) && directory.path().is_dir() => {
                    return Ok(Self { directory, _lock: lock });
                }
                Ok(_) => {}
                // Swept already.
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// Locks what this process has just made; `false` if another process takes it for left over and is about to remove it. On a file
/// system without locks nothing is taken for left over.
fn is_ours_now(made: impl AsFd) -> bool {
    rustix::fs::flock(made, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

/// Removes temporary directories of this user whose processes have ended.
fn sweep(prefix: &str, above: &Path) {
    let ourselves = rustix::process::geteuid().as_raw();
    for entry in above.read_dir().into_iter().flatten().flatten() {
        let is_one = entry.file_name().as_bytes().starts_with(prefix.as_bytes());
        let path = entry.path();
        let Some(opened) =
            is_one.then(|| walk::open_plain(&path, OFlags::RDONLY | OFlags::DIRECTORY).ok()).flatten()
        else {
            continue;
        };
        let is_ours = rustix::fs::fstat(&opened).is_ok_and(|stat| stat.st_uid == ourselves);
        if is_ours && rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive).is_ok() {
            _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The number of characters that make the name of a temporary file unique.
const RANDOM: usize = 6;

/// Tells whether a name is that of a temporary file that will replace `name`.
fn is_temporary(found: &OsStr, name: &OsStr) -> bool {
    let middle = found.as_bytes().strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_suffix(b"~"));
    middle.is_some_and(|middle| middle.len() == RANDOM && middle.iter().all(u8::is_ascii_alphanumeric))
}

/// Tells whether every user may read a file, according to its mode.
pub(crate) fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & OPEN == OPEN)
}

/// Writes a temporary file beside `path` and renames it into place. The temporary name ends in `~`, which both tools ignore.
/// Leftovers of interrupted writers are removed.
///
/// The directory may belong to another user. It is held by a descriptor, and no link in it is followed. Its owner can put
/// something in the file's place, as that user could without us.
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
            // Set explicitly, because the umask would remove bits from a mode that is given on creation.
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

/// A new file that no other user can open yet, with its name. Its lock shows that its writer is alive.
fn temporary(directory: &OwnedFd, name: &OsStr) -> io::Result<(OsString, File)> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    loop {
        let random = RandomState::new().build_hasher().finish();
        let mut own = name.to_owned();
        own.push(format!("{:06x}~", random & 0xff_ffff));
        match rustix::fs::openat(directory, &own, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) if is_ours_now(&file) && rustix::fs::fstat(&file)?.st_nlink > 0 => {
                return Ok((own, File::from(file)));
            }
            Ok(_) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Removes the temporary files of writers of this user that have ended.
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

/// Makes a directory as [`make_open_directory`] does. As root it refuses a directory that another user can change or
/// exchange.
///
/// **Errors**: [`ModulesError::Untrusted`], [`ModulesError::Write`].
pub(crate) fn make_trusted_directory(directory: &Path) -> Result<(), ModulesError> {
    let there = directory.ancestors().find(|path| path.symlink_metadata().is_ok());
    trust::refuse_place(there.unwrap_or(directory))?;
    make_open_directory(directory).map_err(ModulesError::write(directory))?;
    trust::refuse_place(directory)
}

/// Waits until everything below a directory is on disk: after a crash, a name must not lead to empty files.
///
/// **Errors**: [`ModulesError::Write`].
pub(crate) fn on_disk(directory: &Path) -> Result<(), ModulesError> {
    let opened = walk::open_plain(directory, OFlags::RDONLY | OFlags::DIRECTORY);
    opened.and_then(rustix::fs::syncfs).map_err(ModulesError::write(directory))
}

/// Makes a directory that every user can enter, and the missing ones above it. A directory that exists stays as it is.
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

/// Reads the first `limit` bytes of a regular file. Opening does not block, even if a pipe has taken the file's place.
///
/// Behind another user's link root reads with that user's rights.
///
/// **Errors**: what the system says; [`io::ErrorKind::InvalidInput`] for anything but a regular file.
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

/// Reads a file as [`read`] does, and refuses it if `user` did not make it.
///
/// **Errors**: [`io::ErrorKind::InvalidInput`] for a file of another user.
pub(crate) fn read_made(path: &Path, user: &User, limit: u64) -> io::Result<Vec<u8>> {
    let maker = user.number().unwrap_or_else(|| rustix::process::geteuid().as_raw());
    let file = walk::open_plain(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
    trust::refuse_file(&rustix::fs::fstat(&file)?, maker)?;
    let mut content = Vec::new();
    File::from(file).take(limit).read_to_end(&mut content)?;
    Ok(content)
}

/// A longer record is refused.
const LONGEST_RECORD: u64 = 1 << 28;

/// The text of a record that this user or root wrote, in a place where no other user can have exchanged it.
///
/// **Errors**: [`ModulesError::Record`], [`ModulesError::Untrusted`], [`ModulesError::Read`].
pub(crate) fn read_record(path: &Path) -> Result<Vec<u8>, ModulesError> {
    let refused = |why: &str| ModulesError::Record { path: path.to_owned(), why: why.to_owned() };
    let real = path.parent().and_then(|directory| directory.canonicalize().ok());
    let real = real.ok_or_else(|| ModulesError::read(path)(io::ErrorKind::NotFound))?;
    trust::refuse_place(&real)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let place = real.join(path.file_name().unwrap_or_default());
    let opened = rustix::fs::open(&place, flags, Mode::empty());
    let opened = opened.map_err(ModulesError::read(path))?;
    let stat = rustix::fs::fstat(&opened).map_err(ModulesError::read(path))?;
    if trust::refuse_file(&stat, rustix::process::geteuid().as_raw()).is_err() {
        return Err(refused("another user made it, and only that user can undo the conversion"));
    }
    if stat.st_mode & 0o022 != 0 {
        return Err(refused("other users may write in it"));
    }
    let mut text = Vec::new();
    File::from(opened).take(LONGEST_RECORD).read_to_end(&mut text).map_err(ModulesError::read(path))?;
    Ok(text)
}

/// A path without links, as far as it exists.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match there {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_is_in_use_stays() {
        let above = tempfile::tempdir().unwrap();
        let left = above.path().join("quell-x-left");
        std::fs::create_dir_all(left.join("deep")).unwrap();
        std::fs::create_dir(above.path().join("other")).unwrap();
        let first = Aside::new("quell-x-", above.path()).unwrap();
        let second = Aside::new("quell-x-", above.path()).unwrap();
        assert!(!left.exists() && first.path().is_dir() && second.path().is_dir());
        assert!(above.path().join("other").is_dir());
    }

    /// Builders that begin at the same time sweep beside each other.
    #[test]
    fn a_directory_or_file_that_is_being_made_is_not_taken_for_left_over() {
        let above = tempfile::tempdir().unwrap();
        let builder = || {
            for _ in 0..300 {
                let aside = Aside::new("quell-x-", above.path()).unwrap();
                std::fs::write(aside.path().join("in use"), "").unwrap();
                write(&above.path().join("shared"), b"whole").unwrap();
            }
        };
        std::thread::scope(|scope| (0..4).for_each(|_| _ = scope.spawn(builder)));
        assert_eq!(std::fs::read_dir(above.path()).unwrap().count(), 1);
    }
}
