//! Shared helpers of the recorder's tests: fixtures, fresh directories, recordings, and strace as the oracle.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests")]

#[path = "../../../../tests/place.rs"]
pub(crate) mod place;
pub(crate) mod strace;
pub(crate) mod tree;

use quell_trace::{Call, Outcome, Recording};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{LazyLock, Mutex};

/// A call as both recorders see it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seen {
    pub(crate) name: String,
    pub(crate) paths: Vec<Option<Vec<u8>>>,
    /// The errno's name, or `?` for a call that did not return.
    pub(crate) errno: Option<String>,
    /// The file behind the descriptor of a call that takes no path. `None` for pipes, sockets and files without a name.
    pub(crate) file: Option<Vec<u8>>,
}

/// The calls of each thread, in order.
pub(crate) type Threads = BTreeMap<i32, Vec<Seen>>;

/// The recorder: the crate's example, which `cargo test` builds beside the tests unless only some tests are selected.
pub(crate) fn recorder() -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let path = here.ancestors().nth(2).unwrap().join("examples/record");
    let built = std::fs::metadata(&path).and_then(|facts| facts.modified()).ok();
    let changed = newest(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(
        built >= Some(changed),
        "run `cargo build -p quell-record --example record`: `{}` is old",
        path.display()
    );
    path
}

/// The time of the latest change in a directory.
fn newest(folder: &Path) -> std::time::SystemTime {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let changes = entries.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => newest(&entry.path()),
        false => entry.metadata().unwrap().modified().unwrap(),
    });
    changes.max().unwrap()
}

/// Builds the fixture of this name and returns its program.
pub(crate) fn fixture(name: &str) -> PathBuf {
    static BUILT: LazyLock<Mutex<BTreeMap<String, PathBuf>>> = LazyLock::new(Mutex::default);
    let mut built = BUILT.lock().unwrap();
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("fixtures-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join(name);
    let mut command = if name == "go" {
        let mut go = Command::new("go");
        go.args(["build", "-o"]).arg(&program).arg(".").current_dir(sources.join("go"));
        go.env("CGO_ENABLED", "0").env("GOFLAGS", "-mod=mod").env("GOTOOLCHAIN", "local");
        go
    } else {
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg(sources.join(format!("{name}.c")));
        compiler.args(match name {
            "static" => &["-static"][..],
            "foreign" => &["-static", "-no-pie"],
            _ => &[],
        });
        compiler
    };
    assert!(command.status().expect("a compiler is installed").success(), "{name} compiles");
    program
}

/// A command in a directory of its own, which is in the same state at the start of each run.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
    command: Vec<String>,
    environment: Vec<(&'static str, String)>,
    prepare: Option<fn(&Path)>,
}

/// A recording and the command's output.
pub(crate) struct Run {
    pub(crate) output: Output,
    pub(crate) recording: Recording,
    _folder: tempfile::TempDir,
}

impl Stage {
    pub(crate) fn new<S: AsRef<str>>(command: &[S]) -> Self {
        let folder = place::directory("quell-record-");
        let command = command.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { folder, command, environment: Vec::new(), prepare: None }
    }

    pub(crate) fn fixture(name: &str) -> Self {
        Self::new(&[fixture(name).to_str().unwrap()])
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    /// Sets the function that fills the directory before each run.
    pub(crate) fn prepared(mut self, prepare: fn(&Path)) -> Self {
        self.prepare = Some(prepare);
        self
    }

    /// The working directory of the command.
    pub(crate) fn directory(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Runs `before`, then the command, in a fresh directory.
    pub(crate) fn run_under(&self, before: &[&str]) -> Output {
        let work = self.directory();
        if work.exists() {
            std::fs::remove_dir_all(&work).unwrap();
        }
        std::fs::create_dir(&work).unwrap();
        self.prepare.iter().for_each(|prepare| prepare(&work));
        let words: Vec<&str> =
            before.iter().copied().chain(self.command.iter().map(String::as_str)).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(&work).stdin(std::process::Stdio::null()).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.envs([("LC_ALL", "C"), ("HOME", "/proc/nonexistent"), ("PYTHONHASHSEED", "0")]);
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command.output().unwrap()
    }

    pub(crate) fn run_plain(&self) -> Output {
        self.run_under(&[])
    }

    pub(crate) fn record(&self) -> Run {
        self.record_by(&[])
    }

    /// Records by the engine that has no filter; the start is over after so many quiet seconds.
    pub(crate) fn record_start(&self, quiet: f64) -> Run {
        self.record_by(&[&format!("--start={quiet}")])
    }

    fn record_by(&self, options: &[&str]) -> Run {
        let folder = place::directory("quell-record-");
        let trace = folder.path().join("t.qtrace");
        let (recorder, trace_name) = (recorder(), trace.to_str().unwrap().to_owned());
        let words = [&[recorder.to_str().unwrap()], options, &[&*trace_name]].concat();
        let output = self.run_under(&words);
        let recording = Recording::open(&trace)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
        Run { output, recording, _folder: folder }
    }

    pub(crate) fn strace(&self) -> Threads {
        self.strace_log().threads
    }

    /// The parsed log of strace, including the creator of each thread.
    pub(crate) fn strace_log(&self) -> strace::Log {
        let log = self.folder.path().join("strace.log");
        let set = Call::ALL.iter().map(|call| format!("?{}", call.name())).collect::<Vec<_>>().join(",");
        let trace = format!("trace={set},{}", strace::MAKING);
        self.run_under(&[
            "strace",
            "-f",
            "-xx",
            "-y",
            "-s",
            &strace::LIMIT.to_string(),
            "-e",
            "signal=none",
            "-e",
            &trace,
            "-o",
            log.to_str().unwrap(),
        ]);
        strace::parse(&std::fs::read(&log).unwrap())
    }
}

impl Run {
    /// The calls of each thread.
    pub(crate) fn threads(&self) -> Threads {
        let mut threads = Threads::new();
        self.recording
            .for_each_event(|event| {
                let path =
                    |id: Option<quell_trace::PathId>| id.map(|id| self.recording.paths.bytes(id).to_vec());
                let paths = match strace::path_arguments(event.call.name()).len() {
                    0 => vec![],
                    1 => vec![path(event.path)],
                    _ => vec![path(event.path), path(event.path2)],
                };
                let errno = match event.outcome {
                    Outcome::Success(_) => None,
                    Outcome::Failure(errno) => Some(errno.name()),
                    Outcome::Unfinished => Some("?".to_owned()),
                };
                let file = path(event.target).filter(|_| paths.is_empty());
                let seen = Seen { name: event.call.name().to_owned(), paths, errno, file };
                threads.entry(event.thread.0 as i32).or_default().push(seen);
            })
            .unwrap();
        threads
    }

    /// The number of times that a call was made with this path.
    pub(crate) fn count(&self, call: Call, path: &str) -> usize {
        let mut count = 0;
        let wanted = self.recording.paths.find(path.as_bytes());
        self.recording
            .for_each_event(|event| count += usize::from(event.call == call && event.path == wanted))
            .unwrap();
        if wanted.is_some() { count } else { 0 }
    }
}

/// The sequences of all threads, without their owners. Shape: sorted.
pub(crate) fn sequences(threads: Threads) -> Vec<Vec<Seen>> {
    let mut sequences: Vec<_> = threads.into_values().filter(|calls| !calls.is_empty()).collect();
    sequences.sort();
    sequences
}

/// The number of calls and of failures, by call.
pub(crate) fn counts(threads: &Threads) -> BTreeMap<String, (usize, usize)> {
    let mut counts = BTreeMap::new();
    for seen in threads.values().flatten() {
        let count: &mut (usize, usize) = counts.entry(seen.name.clone()).or_default();
        count.0 += 1;
        count.1 += usize::from(seen.errno.as_deref().is_some_and(|errno| errno != "?"));
    }
    counts
}

/// Asserts equality of sequences, and shows only the first difference.
pub(crate) fn assert_same(what: &str, ours: Vec<Vec<Seen>>, theirs: Vec<Vec<Seen>>) {
    for (index, (ours, theirs)) in ours.iter().zip(&theirs).enumerate() {
        for (position, pair) in ours.iter().zip(theirs).enumerate() {
            assert_eq!(
                show(pair.0),
                show(pair.1),
                "{what}: thread {index}, call {position} (ours, strace's)"
            );
        }
        let rest = |calls: &[Seen], from: usize| calls.iter().skip(from).map(show).collect::<Vec<_>>();
        let shorter = ours.len().min(theirs.len());
        assert_eq!(rest(ours, shorter), rest(theirs, shorter), "{what}: thread {index}, the rest");
    }
    assert_eq!(ours.len(), theirs.len(), "{what}: threads");
}

pub(crate) fn show(seen: &Seen) -> String {
    let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    let paths = seen.paths.iter().map(|path| path.as_ref().map_or("NULL".to_owned(), text));
    let words: Vec<_> = paths.chain(seen.file.as_ref().map(|file| format!("<{}>", text(file)))).collect();
    format!("{}({}) {}", seen.name, words.join(", "), seen.errno.as_deref().unwrap_or(""))
}

/// Something when this machine lets the test trace; prints the reason otherwise.
pub(crate) fn may_trace() -> Option<()> {
    let allowed = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let is_allowed = allowed.is_ok_and(|status| status.success());
    if !is_allowed {
        println!("skipped, because strace cannot trace here");
    }
    is_allowed.then_some(())
}

/// A directory for traces, where the test may trace.
pub(crate) fn traced_directory() -> Option<tempfile::TempDir> {
    may_trace().map(|()| place::directory("quell-record-"))
}
