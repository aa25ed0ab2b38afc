//! The place where tests work, by the crates that need one: every user may enter it, and every mount namespace of the tests shows
//! it.
//!
//! Nodes and stages of the tests have a /tmp and a /dev/shm of their own, as real nodes have. A checkout may lie there, or below a home
//! directory that is closed to other users, and so may TMPDIR. So no test works there, and a program that another user or
//! another namespace executes is executed from a copy here.
#![allow(
    dead_code,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "helpers of tests, of which each crate uses a part"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Mutex, Once};

use rustix::fs::Mode;
use rustix::process::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;

/// Source: hier(7). No test mounts anything over it.
const PLACE: &str = "/var/tmp";

/// A fresh directory that every user may enter.
pub(crate) fn directory(prefix: &str) -> TempDir {
    settle();
    let everyone = PermissionsExt::from_mode(0o755);
    tempfile::Builder::new().prefix(prefix).permissions(everyone).tempdir_in(PLACE).unwrap()
}

/// Gives this process, and all that it starts, what tests count on: the usual umask, the usual number of descriptors, and none of
/// them open that it was started with, but the streams.
pub(crate) fn settle() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS));
        setrlimit(Resource::Nofile, limit).unwrap();
        inherited().into_iter().for_each(|number| nix::unistd::close(number).unwrap());
    });
}

/// Linux's own soft limit. Source: linux/include/uapi/linux/fs.h, `INR_OPEN_CUR`.
const DESCRIPTORS: u64 = 1024;

/// Descriptors that `execve` leaves open. The standard library makes none such, so they are the parent's.
fn inherited() -> Vec<i32> {
    let all = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let stays = |number: &i32| {
        let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")).unwrap_or_default();
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok());
        *number > 2 && flags.is_some_and(|flags| flags & O_CLOEXEC == 0)
    };
    all.filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok()).filter(stays).collect()
}

/// Source: `open(2)`, as `/proc/PID/fdinfo` shows it on every architecture of ours.
const O_CLOEXEC: i32 = 0o2_000_000;

/// A directory of this name that outlives the tests: below `target`, cargo's, where every user may enter that; else here.
pub(crate) fn kept(target: &Path, name: &str) -> PathBuf {
    let open = |path: &Path| std::fs::metadata(path).is_ok_and(|found| found.mode() & 0o005 == 0o005);
    if target.ancestors().all(open) {
        return target.join(name);
    }
    let user = rustix::process::geteuid().as_raw();
    let kept = Path::new(PLACE).join(format!("quell-tests-{user}"));
    let _there_already = std::fs::DirBuilder::new().mode(0o755).create(&kept);
    let found = std::fs::symlink_metadata(&kept).unwrap();
    assert!(found.is_dir() && found.uid() == user, "`{}` is another user's", kept.display());
    kept.join(name)
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

/// Writes a file that can be executed at once, for the reason for which a program is not copied by this process.
pub(crate) fn write_executable(path: &Path, content: &[u8], mode: u32) {
    let mut install = Command::new("install");
    install.arg(format!("--mode={mode:o}")).arg("/dev/stdin").arg(path).stdin(Stdio::piped());
    let mut install = install.spawn().unwrap();
    install.stdin.take().unwrap().write_all(content).unwrap();
    assert!(install.wait().unwrap().success(), "{}", path.display());
}

/// Runs a copy of this process's program with the same arguments. `None` in that copy.
pub(crate) fn run_copied() -> Option<ExitCode> {
    let program = std::env::current_exe().unwrap();
    if program.starts_with(PLACE) && program.to_string_lossy().contains("/quell-program-") {
        settle();
        return None;
    }
    let status = Command::new(copy_of(&program)).args(std::env::args_os().skip(1)).status().unwrap();
    Some(status.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

/// A Python with numpy; one is made for all runs, below `target`, cargo's for the tests of a crate.
pub(crate) fn python_with_numpy(target: &str) -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/venv");
    let made = Command::new(script).arg(Path::new(target).join("venv-numpy")).arg("numpy").output().unwrap();
    if !made.status.success() {
        let reason = String::from_utf8_lossy(&made.stderr);
        let reason = reason.trim().lines().last().unwrap_or_default();
        println!("skipped, because numpy cannot be installed: {reason}");
        return None;
    }
    Some(String::from_utf8(made.stdout).unwrap().trim().to_owned())
}
