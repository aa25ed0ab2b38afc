//! Finds the program that a command names, as `execvp(3)` does.

use crate::RecordError;
use rustix::fs::{Access, FileType};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The search path without `PATH`. Source: `_CS_PATH` of `confstr(3)`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The file that `command` names, searched along `search_path` when it holds no slash.
///
/// # Errors
/// [`RecordError::NotFound`]; [`RecordError::NotExecutable`] when only directories or files without execute permission
/// were found.
pub fn find(command: &OsStr, search_path: Option<&OsStr>) -> Result<PathBuf, RecordError> {
    let not_found = || RecordError::NotFound { command: command.to_owned() };
    if command.as_bytes().contains(&b'/') {
        let program = PathBuf::from(command);
        return match check(&program) {
            Ok(()) => Ok(program),
            Err(source) if is_absence(&source) => Err(not_found()),
            Err(source) => Err(RecordError::NotExecutable { program, source }),
        };
    }
    if command.is_empty() {
        return Err(not_found());
    }
    let mut refused = None;
    for directory in search_path.unwrap_or(OsStr::new(DEFAULT_PATH)).as_bytes().split(|&byte| byte == b':') {
        let program = joined(OsStr::from_bytes(directory), command);
        match check(&program) {
            Ok(()) => return Ok(program),
            // Like a shell, skip a directory of that name, and remember a file without permission.
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                refused.get_or_insert(RecordError::NotExecutable { program, source });
            }
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(not_found))
}

/// Joins a search entry and a name; an empty entry stands for the working directory.
fn joined(directory: &OsStr, command: &OsStr) -> PathBuf {
    if directory.is_empty() {
        return Path::new(".").join(command);
    }
    let mut text = OsString::from(directory);
    text.push("/");
    text.push(command);
    text.into()
}

fn check(program: &Path) -> io::Result<()> {
    let facts = rustix::fs::stat(program)?;
    match FileType::from_raw_mode(facts.st_mode) {
        FileType::Directory => Err(io::Error::from_raw_os_error(libc::EISDIR)),
        FileType::RegularFile => Ok(rustix::fs::access(program, Access::EXEC_OK)?),
        _ => Err(io::Error::from_raw_os_error(libc::EACCES)),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(path: &Path, mode: u32) {
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_command_is_looked_for_along_the_path() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("a"), folder.path().join("b"));
        std::fs::create_dir_all(first.join("tool")).unwrap();
        std::fs::create_dir(&second).unwrap();
        file(&second.join("tool"), 0o755);
        file(&second.join("data"), 0o644);
        let path = std::env::join_paths([&first, &second]).unwrap();
        let find = |command: &str| find(OsStr::new(command), Some(&path));
        assert_eq!(find("tool").unwrap(), second.join("tool"));
        assert!(matches!(find("data"), Err(RecordError::NotExecutable { .. })));
        assert!(matches!(find("none"), Err(RecordError::NotFound { .. })));
        assert!(matches!(find(""), Err(RecordError::NotFound { .. })));
    }

    #[test]
    fn a_command_with_a_slash_is_a_file() {
        let find = |command: &str| find(OsStr::new(command), None);
        assert_eq!(find("/bin/sh").unwrap(), Path::new("/bin/sh"));
        assert!(matches!(find("/proc/nowhere/sh"), Err(RecordError::NotFound { .. })));
        assert!(matches!(find("/usr"), Err(RecordError::NotExecutable { .. })));
        assert!(matches!(find("/etc/passwd"), Err(RecordError::NotExecutable { .. })));
        assert!(find("sh").is_ok(), "without PATH the system's directories are searched");
    }
}
