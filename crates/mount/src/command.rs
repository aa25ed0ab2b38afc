//! Finding and executing the command, as a shell would: by PATH, with the shell for scripts that name none.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FileType};
use rustix::io::Errno;

use crate::error::{OsError, RunError};
use crate::sys::process::exec;

/// Turns this process into `command`, which has at least the program's name. Returns only with an error.
///
/// **Errors** [`RunError::CommandNotFound`] and [`RunError::NotExecutable`].
pub(crate) fn execute(command: &[OsString]) -> RunError {
    let Some(program) = command.first() else {
        return RunError::CommandNotFound { command: PathBuf::new() };
    };
    let named = PathBuf::from(program);
    match find(program, std::env::var_os("PATH").as_deref()) {
        // ENOENT is then about the interpreter that a script names.
        Ok(path) => RunError::NotExecutable { command: named, source: OsError(execute_file(&path, command)) },
        Err(Errno::NOENT | Errno::NOTDIR) => RunError::CommandNotFound { command: named },
        Err(errno) => RunError::NotExecutable { command: named, source: OsError(errno) },
    }
}

fn execute_file(path: &Path, command: &[OsString]) -> Errno {
    let Some(program) = terminated(path.as_os_str()) else {
        return Errno::INVAL;
    };
    let arguments: Option<Vec<CString>> = command.iter().map(|argument| terminated(argument)).collect();
    let Some(mut arguments) = arguments else {
        return Errno::INVAL;
    };
    let errno = exec(&program, &arguments);
    if errno != Errno::NOEXEC {
        return errno;
    }
    // A script without `#!`: execvp(3) and every shell run it by the shell.
    arguments[0] = program;
    arguments.insert(0, c"sh".to_owned());
    exec(c"/bin/sh", &arguments)
}

fn terminated(text: &OsStr) -> Option<CString> {
    CString::new(text.as_bytes()).ok()
}

/// The file that `program` means. A name with a slash is a path; others are searched for in the directories of
/// `search`.
///
/// **Errors** `ENOENT` if there is none, else why the best candidate cannot be executed.
fn find(program: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, Errno> {
    if program.is_empty() {
        return Err(Errno::NOENT);
    }
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        return verify_executable(&path).map(|()| path);
    }
    let search = search.map_or(DEFAULT_SEARCH, OsStrExt::as_bytes);
    let mut best = Errno::NOENT;
    for directory in search.split(|byte| *byte == b':') {
        let directory = if directory.is_empty() { b"." } else { directory };
        let path = PathBuf::from(OsString::from_vec(directory.to_vec())).join(program);
        match verify_executable(&path) {
            Ok(()) => return Ok(path),
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(errno) => best = errno,
        }
    }
    Err(best)
}

/// The search path without `PATH`, as in execvp(3).
const DEFAULT_SEARCH: &[u8] = b"/bin:/usr/bin";

/// Checks that execve(2) would take the file: a regular one that may be executed.
fn verify_executable(path: &Path) -> Result<(), Errno> {
    let stat = rustix::fs::stat(path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => rustix::fs::access(path, Access::EXEC_OK),
        FileType::Directory => Err(Errno::ISDIR),
        _ => Err(Errno::ACCESS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_path_is_followed_as_by_a_shell() {
        let directory = tempfile::tempdir().unwrap();
        let plain = directory.path().join("plain");
        std::fs::write(&plain, "").unwrap();
        std::fs::create_dir(directory.path().join("folder")).unwrap();
        let search = OsString::from(format!("/nonexistent:{}:/bin", directory.path().display()));
        let cases = [
            ("sh", Ok(PathBuf::from("/bin/sh"))),
            ("no-such-command", Err(Errno::NOENT)),
            ("plain", Err(Errno::ACCESS)),
            ("folder", Err(Errno::ISDIR)),
            ("/", Err(Errno::ISDIR)),
            ("", Err(Errno::NOENT)),
        ];
        for (program, expected) in cases {
            assert_eq!(find(OsStr::new(program), Some(&search)), expected, "{program}");
        }
    }
}
