//! A fresh directory for each test, the real binary in it, and a text of what happened that can be compared.
//!
//! Every command of a test carries the test's directory in its environment, and so does all that it starts: by that
//! the processes of a test are found, and no others. A test must leave no process and no mount.

use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{LazyLock, mpsc};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes::{self, PATIENCE, SEARCH};
pub(crate) use crate::processes::{NOBODY, kill, next_line, send, wait_until};

/// The binary that is tested, as a path: `*QUELL`, and in formats `{QUELL}`. The environment's `QUELL` names another one than
/// cargo built: `make privileged` tests the release.
pub(crate) static QUELL: Quell = Quell(LazyLock::new(|| {
    let built = env!("CARGO_BIN_EXE_quell");
    let copy = crate::place::copy_of(Path::new(&std::env::var_os("QUELL").unwrap_or(built.into())));
    copy.to_str().unwrap().to_owned().leak()
}));

/// The variable by which the processes of a test are found.
const MARK: &str = "DIRECTORY_OF_THE_TEST";

/// See [`QUELL`].
pub(crate) struct Quell(LazyLock<&'static str>);

impl std::ops::Deref for Quell {
    type Target = &'static str;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl std::fmt::Display for Quell {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self)
    }
}

/// Needs of a test from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// To be root: to act as another user, to mount.
    Root,
    /// A namespace and `/dev/fuse`.
    Fuse,
    /// To trace a child.
    Ptrace,
    /// A program in PATH.
    Program(&'static str),
}

/// The user that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// The user that runs the tests.
    Ourselves,
    /// [`NOBODY`].
    Ordinary,
}

/// A fresh directory in which commands run.
#[derive(Debug)]
pub(crate) struct Test {
    directory: TempDir,
    user: User,
}

impl Test {
    /// For a test that needs nothing special.
    pub(crate) fn new() -> Self {
        Self::of(User::Ourselves)
    }

    /// For a test with needs; `None`, and a line that says why, where one is not met.
    pub(crate) fn privileged(needs: &[Need]) -> Option<Self> {
        let unmet = needs.iter().find_map(|need| need.unmet());
        match unmet {
            None => Some(Self::new()),
            Some(why) => skip(&why),
        }
    }

    /// The same, with commands that an ordinary user runs.
    pub(crate) fn of_ordinary_user(needs: &[Need]) -> Option<Self> {
        let unmet =
            [Need::Root].iter().chain(needs).find_map(|need| need.unmet()).or_else(quell_is_out_of_reach);
        match unmet {
            None => Some(Self::of(User::Ordinary)),
            Some(why) => skip(&why),
        }
    }

    /// Both kinds of users, root first, each with the usual tree and its image.
    pub(crate) fn packed(needs: &[Need]) -> Option<[Self; 2]> {
        let tests = [Self::privileged(needs)?, Self::of_ordinary_user(needs)?];
        tests.iter().for_each(Self::pack);
        Some(tests)
    }

    /// A test of which the needs are known to be met.
    pub(crate) fn of(user: User) -> Self {
        let test = Self { directory: crate::place::directory("quell-cli-"), user };
        test.give("");
        test
    }

    /// Gives `name` and its parents to the test's user, unless that user owns them already.
    pub(crate) fn give(&self, name: &str) {
        if self.user == User::Ourselves {
            return;
        }
        let path = self.path(name);
        for path in path.ancestors().take_while(|path| path.starts_with(self.directory.path())) {
            if std::fs::symlink_metadata(path).unwrap().uid() != NOBODY {
                lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
        }
    }

    /// The absolute path of `name`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The same as text.
    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file of the test's user.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        self.write_mode(name, content, 0o644);
    }

    pub(crate) fn write_mode(&self, name: &str, content: impl AsRef<[u8]>, mode: u32) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        if mode & 0o111 == 0 {
            std::fs::write(&path, content).unwrap();
            self.mode(name, mode);
        } else {
            crate::place::write_executable(&path, content.as_ref(), mode);
        }
        self.give(name);
    }

    pub(crate) fn mode(&self, name: &str, mode: u32) {
        std::fs::set_permissions(self.path(name), PermissionsExt::from_mode(mode)).unwrap();
    }

    /// A file's bytes.
    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// A file's text.
    pub(crate) fn read_text(&self, name: &str) -> String {
        String::from_utf8(self.read(name)).unwrap()
    }

    /// A file's JSON.
    pub(crate) fn read_json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.read(name)).unwrap()
    }

    /// `env`: a small tree with a program, data, links and a directory of which nothing is read.
    pub(crate) fn plant(&self) {
        let app = "#!/bin/sh\ncd \"${0%/*}/..\"\ncat lib/a.txt lib/b.txt link\nls lib\n\
                   test -e lib/absent || echo absent\n";
        self.write_mode("env/bin/app", app, 0o755);
        for (name, content) in [("a.txt", "alpha\n"), ("b.txt", "beta\n"), ("unread.txt", "unread\n")] {
            self.write(&format!("env/lib/{name}"), content);
        }
        self.write("env/aside/deep/data", "data\n");
        symlink("lib/a.txt", self.path("env/link")).unwrap();
        self.give("env/link");
    }

    /// [`Self::plant`], a recording of its program `app.qtrace` and the image of that, `app.qimg`.
    pub(crate) fn pack(&self) {
        self.plant();
        self.pack_as_it_is();
    }

    /// The same of the tree that is there.
    pub(crate) fn pack_as_it_is(&self) {
        self.quell(&["-q", "record", "-o", "app.qtrace", "--", "env/bin/app"]).succeeds();
        self.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
    }

    /// Runs quell.
    pub(crate) fn quell(&self, arguments: &[&str]) -> Outcome {
        self.finish(self.command(&with_quell(arguments)))
    }

    /// The JSON that quell prints, which must succeed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.quell(arguments).succeeds()).unwrap()
    }

    /// Runs a command.
    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        self.finish(self.command(words))
    }

    /// Runs a shell script with `$quell`.
    pub(crate) fn script(&self, script: &str) -> Outcome {
        self.finish(self.shell(script))
    }

    /// A shell script with `$quell`, not started.
    pub(crate) fn shell(&self, script: &str) -> Command {
        let mut command = self.command(&["sh", "-c", script]);
        command.env("quell", *QUELL);
        command
    }

    /// Starts quell; its streams are pipes.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&with_quell(arguments));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// A command of the test's user in its directory, with a small environment of its own.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        let mut command = match self.user {
            User::Ourselves => Command::new(&words[0]),
            User::Ordinary => {
                let mut command = Command::new("setpriv");
                let id = NOBODY.to_string();
                command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--"]).arg(&words[0]);
                command
            }
        };
        command.args(&words[1..]).current_dir(self.directory.path()).stdin(Stdio::null()).env_clear();
        for (name, value) in [("PATH", SEARCH), ("LC_ALL", "C"), ("HOME", "/proc/nonexistent")] {
            command.env(name, value);
        }
        command.env(MARK, self.directory.path());
        command
    }

    /// Waits for a command that is not started yet.
    pub(crate) fn finish(&self, mut command: Command) -> Outcome {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        self.wait(command.spawn().unwrap())
    }

    /// Waits for a command and all that holds its streams; ends everything of the test if that takes too long.
    pub(crate) fn wait(&self, child: Child) -> Outcome {
        let (finished, watched) = mpsc::channel::<()>();
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                if watched.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout) {
                    self.processes().into_iter().for_each(kill);
                }
            });
            let output = child.wait_with_output().unwrap();
            drop(finished);
            output
        });
        Outcome::new(self, output)
    }

    /// Numbers of all processes of this test, without zombies. Shape: sorted.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let mark = format!("{MARK}={}", self.directory.path().display());
        processes::all(|number| {
            let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        })
    }

    /// Those processes of this test that answer.
    pub(crate) fn servers(&self) -> Vec<i32> {
        processes::named(self.processes(), "quell-server")
    }

    /// Those that replace a server when it dies.
    pub(crate) fn holders(&self) -> Vec<i32> {
        processes::named(self.processes(), "quell-holder")
    }

    /// Kills both, all of them at once, so that none replaces another.
    pub(crate) fn kill_all_servers(&self) {
        processes::kill_all_servers(|| self.processes());
    }

    /// Waits until every process of this test has ended.
    pub(crate) fn silence(&self) {
        processes::silence(|| self.processes());
    }

    /// Names of all files of the test, hidden ones too. Shape: sorted, relative.
    pub(crate) fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        list(self.directory.path(), self.directory.path(), &mut found);
        found.sort();
        found
    }
}

impl Drop for Test {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.processes().into_iter().for_each(kill);
            return;
        }
        self.silence();
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(self.directory.path().to_str().unwrap()), "{mounts}");
    }
}

/// The exit status and output of a command, with the test's directory as `[DIR]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    fn new(test: &Test, output: Output) -> Self {
        let directory = test.text("");
        let directory = directory.trim_end_matches('/');
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace(directory, "[DIR]");
        Self { status: output.status, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// The exit status as a shell gives it.
    pub(crate) fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap())
    }

    /// Standard output as JSON, whatever the status.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Standard output of a command that must succeed.
    #[track_caller]
    pub(crate) fn succeeds(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }
}

/// Status and streams, each only where there is something to say.
impl std::fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.status.code(), self.status.signal()) {
            (Some(code), _) => writeln!(formatter, "status {code}")?,
            (None, signal) => writeln!(formatter, "signal {}", signal.unwrap_or_default())?,
        }
        for (name, text) in [("stdout", &self.stdout), ("stderr", &self.stderr)] {
            if !text.is_empty() {
                writeln!(formatter, "--- {name}\n{}", text.trim_end_matches('\n'))?;
            }
        }
        Ok(())
    }
}

/// Compares an outcome with an inline snapshot; counts, sizes and times are filtered.
macro_rules! snapshot {
    ($outcome:expr, @$expected:literal) => {
        insta::with_settings!({ filters => $crate::harness::FILTERS.to_vec() }, {
            insta::assert_snapshot!($outcome.to_string(), @$expected)
        })
    };
}
pub(crate) use snapshot;

/// Compares commands and what they say with an inline snapshot that holds both: each line after `$ ` is run.
macro_rules! session {
    ($run:expr, @$expected:literal) => {
        $crate::harness::session!($run, $crate::harness::FILTERS.to_vec(), @$expected)
    };
    ($run:expr, $filters:expr, @$expected:literal) => {
        insta::with_settings!({ filters => $filters }, {
            insta::assert_snapshot!($crate::harness::transcript($run, $expected), @$expected)
        })
    };
}
pub(crate) use session;

/// The commands of a session, each with its status unless that is 0, and what it said. Only an error stands alone; standard
/// output has its name above it.
pub(crate) fn transcript(run: impl Fn(&str) -> Outcome, session: &str) -> String {
    let commands = session.lines().filter_map(|line| line.trim_start().strip_prefix("$ "));
    let answer = |command: &str| {
        let line = command.rsplit_once(" => ").map_or(command, |(line, _)| line);
        let said = run(&line.replacen("quell ", "$quell ", 1)).to_string();
        let (status, said) = said.split_once('\n').unwrap();
        let status = match status {
            "status 0" => String::new(),
            failed => failed.replace("status", " =>"),
        };
        format!("$ {line}{status}\n{}", said.strip_prefix("--- stderr\n").unwrap_or(said))
    };
    commands.map(answer).collect()
}

/// Replaces text that differs between runs or machines.
pub(crate) const FILTERS: &[(&str, &str)] = &[
    (r"\b\d+(\.\d+)? (B|KiB|MiB|GiB)\b", "[SIZE]"),
    (r"recorded \d+ calls", "recorded [N] calls"),
    (r"\b\d+ calls were", "[N] calls were"),
    (r"0x[0-9a-f]{8}", "[HEX]"),
    (r"\.quell-(kept|scratch)-[0-9a-f]{16}", ".quell-$1-[RANDOM]"),
    // The program of [`Test::plant`], whole.
    (r"(?m)^alpha\nbeta\nalpha\na\.txt\nb\.txt\nunread\.txt\nabsent$", "[OUTPUT OF APP]"),
];

/// Says why a test cannot run here; fails where it must.
pub(crate) fn skip<T>(why: &str) -> Option<T> {
    assert!(
        std::env::var_os("QUELL_TESTS_MUST_RUN").is_none_or(|value| value != "1"),
        "cannot run, because {why}"
    );
    // Past the capture of the test runner: a test that did not run must be seen.
    let _unheard = std::io::stderr().write_all(format!("skipped, because {why}\n").as_bytes());
    None
}

impl Need {
    fn unmet(&self) -> Option<String> {
        match self {
            Self::Root => (!rustix::process::geteuid().is_root()).then(|| "it needs root".to_owned()),
            Self::Fuse => unusable_fuse(),
            Self::Ptrace => {
                static WORKS: LazyLock<bool> = LazyLock::new(|| {
                    let words = ["-q", "record", "--engine", "ptrace", "-o", "t", "--", "true"];
                    Test::new().quell(&words).status.success()
                });
                (!*WORKS).then(|| "this machine lets no process trace a child".to_owned())
            }
            Self::Program(name) => {
                let found = std::env::split_paths(SEARCH).any(|directory| directory.join(name).is_file());
                (!found).then(|| format!("`{name}` is not installed"))
            }
        }
    }
}

fn unusable_fuse() -> Option<String> {
    let mode = match std::fs::metadata("/dev/fuse") {
        Ok(metadata) => metadata.permissions().mode(),
        Err(error) => return Some(format!("there is no /dev/fuse: {error}")),
    };
    let opened = mode & 0o666 == 0o666
        || std::fs::set_permissions("/dev/fuse", PermissionsExt::from_mode(0o666)).is_ok();
    (!opened).then(|| "/dev/fuse is not open to every user".to_owned())
}

fn quell_is_out_of_reach() -> Option<String> {
    static REACHED: LazyLock<bool> =
        LazyLock::new(|| Test::of(User::Ordinary).quell(&["--version"]).status.success());
    (!*REACHED).then(|| format!("user {NOBODY} cannot execute `{QUELL}`"))
}

/// The program of this name in `tests/programs`, built with these further options of the compiler.
pub(crate) fn program(test: &Test, name: &str, options: &[&str]) {
    compiled(test, name, if name == "exchange" { "mpicc" } else { "cc" }, options);
}

/// The same by another compiler.
pub(crate) fn compiled(test: &Test, name: &str, compiler: &str, options: &[&str]) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let mut build = Command::new(compiler);
    build.args(["-O1", "-Wall", "-Werror", "-o"]).arg(test.path(name)).arg(source).args(options);
    assert!(build.status().unwrap().success(), "{name} compiles");
    test.give(name);
}

/// The words of a quell command.
pub(crate) fn with_quell<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [*QUELL].into_iter().chain(arguments.iter().copied()).collect()
}

fn list(directory: &Path, base: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        found.push(path.strip_prefix(base).unwrap().to_str().unwrap().to_owned());
        if path.is_dir() && !path.is_symlink() {
            list(&path, base, found);
        }
    }
}
