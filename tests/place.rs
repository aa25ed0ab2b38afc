//! The place where tests work, by the crates that need one: every user may enter it, and every mount namespace of the tests shows
//! it.
//!
//! Nodes and stages of the tests have a /tmp and a /dev/shm of their own, as real nodes have. A checkout may lie there, or below a home
//! directory that is closed to other users, and so may TMPDIR. So no test works there, and a program that another user or
//! another namespace executes is executed from a copy here.
#![allow(dead_code, clippy::unwrap_used, reason = "helpers of tests, of which each crate uses a part")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, Once};

use rustix::fs::Mode;
use tempfile::TempDir;

/// Source: hier(7). No test mounts anything over it.
const PLACE: &str = "/var/tmp";

/// A fresh directory that every user may enter.
pub(crate) fn directory(prefix: &str) -> TempDir {
    usual_umask();
    let everyone = PermissionsExt::from_mode(0o755);
    tempfile::Builder::new().prefix(prefix).permissions(everyone).tempdir_in(PLACE).unwrap()
}

/// Gives this process and all that it starts the umask that tests count on.
fn usual_umask() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| _ = rustix::process::umask(Mode::WGRP | Mode::WOTH));
}

/// Copies a program, prints where it is, and removes it when its input ends: with the process that asked for it, however that
/// ends. A copy by the asking process itself would be `ETXTBSY` while a child of another thread has not executed yet.
const KEEP: &str = "trap '' HUP INT TERM\n\
    directory=$(mktemp -d \"$2/quell-program-XXXXXX\") && chmod 755 \"$directory\" &&\n\
    install -m 755 \"$1\" \"$directory\" && echo \"$directory\"\n\
    read -r line; rm -rf \"$directory\"";

/// A copy of `program` that every user may execute, as long as this process lives.
pub(crate) fn copy_of(program: &Path) -> PathBuf {
    // Dropping a keeper would remove its copy.
    static KEEPERS: Mutex<Vec<Child>> = Mutex::new(Vec::new());
    let mut keeper = Command::new("sh");
    keeper.args(["-c", KEEP, "sh"]).args([program, Path::new(PLACE)]).stdin(Stdio::piped());
    let mut keeper = keeper.stdout(Stdio::piped()).spawn().unwrap();
    let mut directory = String::new();
    BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut directory).unwrap();
    assert!(directory.ends_with('\n'), "`{}` cannot be copied to {PLACE}", program.display());
    KEEPERS.lock().unwrap().push(keeper);
    Path::new(directory.trim_end()).join(program.file_name().unwrap())
}

/// Runs a copy of this process's program with the same arguments. `None` in that copy.
pub(crate) fn run_copied() -> Option<ExitCode> {
    let program = std::env::current_exe().unwrap();
    if program.starts_with(PLACE) && program.to_string_lossy().contains("/quell-program-") {
        usual_umask();
        return None;
    }
    let status = Command::new(copy_of(&program)).args(std::env::args_os().skip(1)).status().unwrap();
    Some(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}
