//! Files that are there whole or as they were before, whatever the umask is and whoever reads meanwhile.

use crate::ModulesError;
use crate::lock::Lock;
use rustix::fs::{Mode, OFlags};
use std::ffi::OsStr;
use std::fs::{File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// What every user may read.
pub(super) const OPEN: u32 = 0o644;

/// Removes what builders that were killed left in the directory: with the lock nobody needs it.
pub(super) fn clear(lock: &Lock, directory: &Path, is_left: impl Fn(&OsStr) -> bool) {
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
pub(super) fn is_open(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.permissions().mode() & OPEN == OPEN)
}

/// Writes a file beside its place, and renames it in. Until then its name ends in `~`, which neither tool looks at. What a
/// writer that was killed left there is removed; `lock` is that of the file's directory.
///
/// **Errors**: [`ModulesError::Write`]; then the file is what it was.
pub(super) fn write(path: &Path, content: &[u8], lock: &Lock) -> Result<(), ModulesError> {
    let directory = path.parent().unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default();
    let failed = ModulesError::write(path);
    clear(lock, directory, |found| is_temporary(found, name));
    let put = || -> std::io::Result<()> {
        let mut file =
            tempfile::Builder::new().prefix(name).suffix("~").rand_bytes(RANDOM).tempfile_in(directory)?;
        file.write_all(content)?;
        // Not at its making: the umask would take bits away.
        file.as_file().set_permissions(Permissions::from_mode(OPEN))?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    put().map_err(failed)
}

/// Makes a directory that every user can enter, and those above it that are not there; one that is there stays as it is.
///
/// **Errors**: what the system says.
pub(crate) fn open_directory(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|path| !path.is_dir()).collect();
    for path in missing.into_iter().rev() {
        std::fs::create_dir(path)?;
        std::fs::set_permissions(path, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

/// The first `limit` bytes of a regular file. What is none is not opened for long: a pipe in a cache's place would hold us.
///
/// **Errors**: what the system says; [`io::ErrorKind::InvalidInput`] for what is no regular file.
pub(super) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file"));
    }
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content)?;
    Ok(content)
}
