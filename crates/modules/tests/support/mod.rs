//! The versions of Environment Modules and Lmod that `tests/modules/install` unpacks, and trees to ask them about.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "each test uses a part; skips are told"
)]

use quell_modules::tools::{self, Environment, Tool, ToolKind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

#[path = "../../../../tests/place.rs"]
mod place;

/// The ordinary user of the tests: `nobody`.
pub(crate) const NOBODY: u32 = 65534;

static TOOLS: LazyLock<Result<Vec<Tool>, String>> = LazyLock::new(install);

fn install() -> Result<Vec<Tool>, String> {
    let directory = match std::env::var_os("QUELL_TEST_MODULE_TOOLS") {
        Some(directory) => PathBuf::from(directory),
        None => place::kept(Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap(), "module-tools"),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/install");
    let output = Command::new(script).arg(&directory).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("module tools cannot be installed: {}", said.trim().replace('\n', "; ")));
    }
    let mut prefixes: Vec<PathBuf> =
        directory.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    prefixes.retain(|path| path.is_dir());
    tools::find(&prefixes).map_err(|error| error.to_string())
}

/// Tells whether the versions between the oldest and the newest of a tool are tested too, as in `make soak`.
pub(crate) fn is_thorough() -> bool {
    std::env::var_os("QUELL_ALL_MODULE_TOOLS").is_some_and(|value| value == "1")
}

fn all() -> Option<Vec<Tool>> {
    match &*TOOLS {
        Ok(tools) => Some(tools.clone()),
        Err(why) => skip(why),
    }
}

/// The oldest and the newest version of each tool that can be installed here, in `make soak` all; `None`, and a line with
/// the reason, if there is none.
pub(crate) fn installed() -> Option<Vec<Tool>> {
    let all = all()?;
    let is_between = |tool: &Tool| {
        let mut versions = all.iter().filter(|other| other.kind == tool.kind).map(|other| &other.version);
        versions.clone().any(|version| *version < tool.version)
            && versions.any(|version| *version > tool.version)
    };
    Some(all.iter().filter(|tool| is_thorough() || !is_between(tool)).cloned().collect())
}

/// One tool; `None`, and a line with the reason, if it cannot be installed.
pub(crate) fn tool(kind: ToolKind, version: &str) -> Option<Tool> {
    let version = tools::ToolVersion::parse(version).unwrap();
    let found = all()?.into_iter().find(|tool| tool.kind == kind && tool.version == version);
    found.or_else(|| skip(&format!("{kind} {version} cannot be had here")))
}

/// Prints that a test cannot run.
pub(crate) fn skip<T>(why: &str) -> Option<T> {
    println!("skipped, because {why}");
    None
}

/// Tells whether this user is root; else prints a line.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root() || skip("this user is not root").unwrap_or(false)
}

/// A directory that every user can enter, unlike that of [`tempfile::tempdir`].
pub(crate) fn open_directory() -> tempfile::TempDir {
    place::directory("quell-modules-")
}

/// An environment with these modulepaths and nothing else.
pub(crate) fn environment(modulepaths: &[PathBuf]) -> Environment {
    Environment { modulepaths: modulepaths.to_vec(), ..Environment::default() }
}

/// The number of times that any process opens each file in these directories while `work` runs.
pub(crate) fn opens(directories: &[PathBuf], work: impl FnOnce()) -> BTreeMap<PathBuf, usize> {
    let watcher = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let watch = |path: &PathBuf| {
        (inotify::add_watch(&watcher, path.as_path(), WatchFlags::OPEN).unwrap(), path.clone())
    };
    let names: BTreeMap<i32, PathBuf> = directories.iter().map(watch).collect();
    let is_done = AtomicBool::new(false);
    let listen = || {
        let mut opens = BTreeMap::new();
        let mut buffer = vec![MaybeUninit::uninit(); 1 << 16];
        let mut reader = inotify::Reader::new(&watcher, &mut buffer);
        loop {
            let was_done = is_done.load(Ordering::Acquire);
            match reader.next() {
                Ok(event) => {
                    assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "too many at once");
                    let is_file = !event.events().contains(ReadFlags::ISDIR);
                    if let (true, Some(name)) = (is_file, event.file_name()) {
                        let name = std::ffi::OsStr::from_bytes(name.to_bytes());
                        *opens.entry(names[&event.wd()].join(name)).or_default() += 1;
                    }
                }
                Err(Errno::AGAIN) if was_done => return opens,
                Err(Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => panic!("{errno}"),
            }
        }
    };
    std::thread::scope(|scope| {
        let listener = scope.spawn(listen);
        work();
        is_done.store(true, Ordering::Release);
        listener.join().unwrap()
    })
}
