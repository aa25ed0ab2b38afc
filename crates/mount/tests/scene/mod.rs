//! A directory with a small tree and its image, and commands that run from it.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::Packing;

/// The user who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Nobody,
}

/// Both kinds of users: with a mount namespace alone, and with a user namespace.
pub(crate) const USERS: [User; 2] = [User::Root, User::Nobody];

/// The search path of commands: directories that every user may search.
const SEARCH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Against hanging; nothing in the tests is expected to take nearly as long, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);

/// The ordinary user of the tests.
pub(crate) const NOBODY: u32 = 65534;

/// Checks that the tests can run here.
pub(crate) fn prerequisites() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("they need root, to act as two users".into());
    }
    let fuse = std::fs::metadata("/dev/fuse").map_err(|error| format!("/dev/fuse: {error}"))?;
    if fuse.mode() & 0o666 != 0o666 {
        std::fs::set_permissions("/dev/fuse", PermissionsExt::from_mode(0o666))
            .map_err(|error| format!("/dev/fuse cannot be opened to all: {error}"))?;
    }
    Ok(())
}

/// A directory of its own, with `env` to pack and `image` made of it. Ends what it started.
#[derive(Debug)]
pub(crate) struct Scene {
    directory: TempDir,
    pub(crate) user: User,
}

impl Scene {
    /// A scene with the usual tree, packed whole.
    pub(crate) fn new(user: User) -> Self {
        let scene = Self::unpacked(user);
        scene.pack(&Packing::of(&scene.root()));
        scene
    }

    /// A scene with the usual tree and no image yet.
    pub(crate) fn unpacked(user: User) -> Self {
        let scene = Self { directory: crate::place::directory("quell-mount-"), user };
        plant(&scene.root());
        scene.give(&scene.path(""));
        scene
    }

    /// Gives everything at and below `path` to the scene's user.
    pub(crate) fn give(&self, path: &Path) {
        if self.user == User::Nobody {
            let owner = format!("{NOBODY}:{NOBODY}");
            assert!(Command::new("chown").args(["-hR", &owner]).arg(path).status().unwrap().success());
        }
    }

    pub(crate) fn pack(&self, packing: &Packing) {
        packing.write(&self.image());
        self.give(&self.image());
    }

    /// The directory that the image covers.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("env")
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.path("image")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// `command`, run by the scene's user without quell.
    pub(crate) fn plain(&self, command: &[&str]) -> Command {
        self.as_user(&[], command.iter().map(OsStr::new))
    }

    /// The tool's `run` with `options`, then the image and `command`.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Command {
        self.run_image(&self.image(), options, command)
    }

    /// The same from another image.
    pub(crate) fn run_image(&self, image: &Path, options: &[&str], command: &[&str]) -> Command {
        let tool = std::env::current_exe().unwrap();
        let fixed = [tool.as_os_str(), OsStr::new("tool"), OsStr::new("run")];
        let options = options.iter().map(OsStr::new).chain([image.as_os_str()]);
        let command = command.iter().map(OsStr::new);
        self.as_user(&[], fixed.into_iter().chain(options).chain(command))
    }

    /// A command as the scene's user, who is in `groups` too.
    pub(crate) fn as_user<'a>(&self, groups: &[&str], words: impl IntoIterator<Item = &'a OsStr>) -> Command {
        let mut words = words.into_iter();
        let mut command = match self.user {
            User::Root => Command::new(words.next().unwrap()),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id]);
                match groups {
                    [] => command.arg("--clear-groups"),
                    groups => command.args(["--groups", &groups.join(",")]),
                };
                command
            }
        };
        command.args(words).current_dir(self.directory.path()).stdin(Stdio::null()).env_clear();
        command.envs([("PATH", SEARCH), ("LC_ALL", "C"), ("HOME", "/proc/nonexistent")]);
        command
    }

    /// Runs a shell script from the image and returns what it printed; it must succeed.
    pub(crate) fn script(&self, script: &str) -> String {
        succeeded(&self.run(&[], &["sh", "-c", script]).output().unwrap())
    }

    /// The same, and the run's statistics.
    pub(crate) fn script_with_stats(&self, script: &str) -> (String, Value) {
        let file = self.path("stats.json");
        let printed = succeeded(
            &self.run(&["--stats", file.to_str().unwrap()], &["sh", "-c", script]).output().unwrap(),
        );
        (printed, stats(&file))
    }

    /// Numbers of all processes, but zombies, that have this scene's directory in their command line.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let needle = self.directory.path().as_os_str().as_encoded_bytes();
        let numbers = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<i32>().ok());
        let concerned = |number: &i32| {
            std::fs::read(format!("/proc/{number}/cmdline"))
                .is_ok_and(|line| line.windows(needle.len()).any(|window| window == needle))
        };
        numbers.filter(concerned).collect()
    }

    /// The processes that answer.
    pub(crate) fn servers(&self) -> Vec<i32> {
        self.named("quell-server")
    }

    /// The processes that replace a server when it dies.
    pub(crate) fn holders(&self) -> Vec<i32> {
        self.named("quell-holder")
    }

    /// The processes that run a program of this name.
    pub(crate) fn named(&self, name: &str) -> Vec<i32> {
        let is_called = |number: &i32| {
            std::fs::read_to_string(format!("/proc/{number}/comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        self.processes().into_iter().filter(is_called).collect()
    }

    /// Kills servers and holders, all of them at once, so that none replaces another.
    pub(crate) fn kill_all_servers(&self) {
        let all = || self.servers().into_iter().chain(self.holders()).collect::<Vec<i32>>();
        all().into_iter().for_each(|number| signal(number, Signal::STOP));
        while !all().is_empty() {
            all().into_iter().for_each(kill);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits until no process of this scene is left.
    pub(crate) fn wait_for_silence(&self) {
        // A server that makes room for its holder's successor may be in a list that was made before it forked that.
        let none = || self.processes().is_empty();
        wait_until("all processes have ended", || none() && none());
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for process in self.processes() {
                kill(process);
            }
        }
        self.wait_for_silence();
    }
}

/// SIGKILL.
pub(crate) fn kill(process: i32) {
    signal(process, Signal::KILL);
}

/// Sends a signal to a process, if it is still there.
pub(crate) fn signal(process: i32, signal: Signal) {
    if let Some(pid) = rustix::process::Pid::from_raw(process) {
        let _over_already = rustix::process::kill_process(pid, signal);
    }
}

/// The standard output of a success.
pub(crate) fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{:?}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// The exit status and standard error of a failure.
pub(crate) fn failed(output: &Output) -> (i32, String) {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let status = output.status.code().unwrap_or_else(|| 128 + output.status.signal().unwrap());
    (status, String::from_utf8(output.stderr.clone()).unwrap())
}

/// Waits for the statistics of a run, which appear when its last process is gone.
pub(crate) fn stats(file: &Path) -> Value {
    wait_until("the statistics appear", || file.exists());
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

/// Waits for something that must come about.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A child that prints; the first line is waited for.
pub(crate) fn first_line(child: &mut Child) -> String {
    use std::io::Read;
    let mut line = Vec::new();
    let mut byte = [0];
    let stdout = child.stdout.as_mut().unwrap();
    while stdout.read(&mut byte).unwrap() == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

/// The tree of the tests: every kind of node, times with nanoseconds, links, names that need care.
fn plant(root: &Path) {
    for directory in ["bin", "lib/python/pkg/sub", "lib/many", "empty", "results", "uncovered/deep"] {
        std::fs::create_dir_all(root.join(directory)).unwrap();
    }
    let files: [(&str, &[u8], u32); 7] = [
        ("bin/hello", b"#!/bin/sh\necho hello \"$@\"\n", 0o755),
        ("bin/plain", b"no program\n", 0o644),
        ("lib/a.txt", b"alpha\n", 0o644),
        ("lib/with space\tand tab", b"odd\n", 0o600),
        ("lib/python/pkg/__init__.py", b"from . import sub\nvalue = 42\n", 0o644),
        ("lib/python/pkg/sub/__init__.py", b"", 0o644),
        ("uncovered/deep/data", b"data\n", 0o644),
    ];
    for (name, content, mode) in files {
        std::fs::write(root.join(name), content).unwrap();
        std::fs::set_permissions(root.join(name), PermissionsExt::from_mode(mode)).unwrap();
    }
    for number in 0..300 {
        std::fs::write(root.join(format!("lib/many/entry-{number}")), number.to_string()).unwrap();
    }
    let big: Vec<u8> = (0..3_000_017_u32).map(|byte| (byte / 7 % 251) as u8).collect();
    std::fs::write(root.join("lib/big.bin"), big).unwrap();
    symlink("../lib/a.txt", root.join("bin/link")).unwrap();
    symlink("/proc/nonexistent", root.join("bin/dangling")).unwrap();
    symlink("lib", root.join("lib64")).unwrap();
    std::fs::hard_link(root.join("lib/a.txt"), root.join("lib/a-again.txt")).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, root.join("lib/fifo"), fifo, 0o644.into(), 0).unwrap();
    std::fs::set_permissions(root.join("lib/python"), PermissionsExt::from_mode(0o2755)).unwrap();
}
