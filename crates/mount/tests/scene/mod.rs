//! A directory with a small tree and its image, and commands that run from it.

use std::ffi::OsStr;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, SEARCH};
pub(crate) use crate::processes::{NOBODY, PATIENCE, kill, next_line, send, wait_until};
use crate::support::Packing;

/// The user who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    Root,
    Ordinary,
}

/// Both kinds of users: with a mount namespace alone, and with a user namespace.
pub(crate) const USERS: [User; 2] = [User::Root, User::Ordinary];

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
        if self.user == User::Ordinary {
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

    /// The same, started; its input and output are pipes.
    pub(crate) fn start(&self, options: &[&str], command: &[&str]) -> Child {
        let mut command = self.run(options, command);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    /// A program of Python with the root as its argument, started in the same way.
    pub(crate) fn start_python(&self, program: &str) -> Child {
        self.start(&[], &["python3", "-c", program, &self.root_text()])
    }

    /// The output of `command`, run by the scene's user without quell; it must succeed.
    pub(crate) fn prints(&self, command: &[&str]) -> String {
        succeeded(&self.plain(command).output().unwrap())
    }

    /// The root as text.
    pub(crate) fn root_text(&self) -> String {
        self.root().into_os_string().into_string().unwrap()
    }

    /// A command as the scene's user, who is in `groups` too.
    pub(crate) fn as_user<'a>(&self, groups: &[&str], words: impl IntoIterator<Item = &'a OsStr>) -> Command {
        let mut words = words.into_iter();
        let mut command = match self.user {
            User::Root => Command::new(words.next().unwrap()),
            User::Ordinary => {
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

    /// The same in a namespace of its own, and the run's statistics. An earlier run's namespace would count on.
    pub(crate) fn script_with_stats(&self, script: &str) -> (String, Value) {
        self.wait_for_silence();
        self.with_stats(&[], &["sh", "-c", script])
    }

    /// Runs a command from the image with these options: what it printed, and the run's statistics.
    pub(crate) fn with_stats(&self, options: &[&str], command: &[&str]) -> (String, Value) {
        let file = self.path("stats.json");
        let options = [options, &["--stats", file.to_str().unwrap()]].concat();
        let printed = succeeded(&self.run(&options, command).output().unwrap());
        (printed, stats(&file))
    }

    /// Runs a shell script in the root without quell and, with these options, from the image: both must print the same. Returns
    /// the statistics.
    pub(crate) fn alike(&self, options: &[&str], script: &str) -> Value {
        let script = format!("cd {} && {script}", self.root_text());
        let plain = self.prints(&["sh", "-c", &script]);
        let (printed, stats) = self.with_stats(options, &["sh", "-c", &script]);
        assert_eq!(printed, plain);
        stats
    }

    /// An image of the directory `name`, which lies outside of the root and is given to the scene's user with it.
    pub(crate) fn pack_beside(&self, name: &str, image: &Path) {
        self.give(&self.path(name));
        Packing::of(&self.path(name)).write(image);
        self.give(image);
    }

    /// Numbers of all processes, but zombies, that have this scene's directory in their command line.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let needle = self.directory.path().as_os_str().as_encoded_bytes();
        processes::all(|number| {
            std::fs::read(format!("/proc/{number}/cmdline"))
                .is_ok_and(|line| line.windows(needle.len()).any(|window| window == needle))
        })
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
        processes::named(self.processes(), name)
    }

    /// Kills servers and holders, all of them at once, so that none replaces another.
    pub(crate) fn kill_all_servers(&self) {
        processes::kill_all_servers(|| self.processes());
    }

    /// Waits until no process of this scene is left.
    pub(crate) fn wait_for_silence(&self) {
        processes::silence(|| self.processes());
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
