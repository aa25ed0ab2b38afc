//! Real logs of strace, written with all supported options, become the same trace.
//!
//! The logs are of one program, `fixtures/strace/steps.c`, made by `fixtures/strace/make`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

use quell_import::{ImportError, ImportRequest, Imported};
use quell_trace::resolve::NoFileSystem;
use quell_trace::{Exit, Outcome, PathId, Recording, TraceError};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/strace").join(name)
}

/// The files of `strace -ff -o NAME`.
fn separate(name: &str) -> Vec<PathBuf> {
    let stem = format!("{name}.");
    let entries = std::fs::read_dir(fixture("")).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(&stem);
    let mut logs: Vec<_> = entries.filter(is_one).collect();
    logs.sort();
    logs
}

struct Import {
    folder: tempfile::TempDir,
    outcome: Result<Imported, ImportError>,
}

/// Imports logs of a command that was started in `/srv/app`, if that is known.
fn import_from(logs: Vec<PathBuf>, directory: Option<&str>) -> Import {
    let folder = tempfile::tempdir().unwrap();
    let request = ImportRequest {
        logs,
        temporary: folder.path().to_owned(),
        directory: folder.path().join("t.qtrace"),
        working_directory: directory.map(|directory| directory.as_bytes().to_vec()),
        mounts: Vec::new(),
        version: "0".into(),
    };
    let outcome = quell_import::strace(&request, &mut NoFileSystem);
    Import { folder, outcome }
}

fn import(logs: Vec<PathBuf>) -> Import {
    import_from(logs, Some("/srv/app"))
}

impl Import {
    fn recording(&self) -> Recording {
        self.outcome.as_ref().expect("an import that succeeds");
        Recording::open(&self.folder.path().join("t.qtrace")).unwrap()
    }

    fn notes(&self) -> String {
        self.outcome.as_ref().unwrap().header.recorder.notes.join("\n")
    }

    /// The error message. A failed import must leave nothing behind.
    fn failure(self) -> String {
        assert_eq!(std::fs::read_dir(self.folder.path()).unwrap().count(), 0, "something is left");
        self.outcome.expect_err("an import that fails").to_string()
    }
}

/// Times of strace are rounded down to microseconds, so that an open may seem to end before a close of its number began.
#[test]
fn the_order_of_lines_tells_which_file_a_close_ends() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("app.log");
    let overtaken = "1 10.000001 clone(child_stack=0x1, flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD) = 2 <0.000001>\n\
        1 10.000010 openat(AT_FDCWD, \"a\", O_RDONLY) = 5 <0.000001>\n\
        2 10.000011 openat(AT_FDCWD, \"b\", O_RDONLY <unfinished ...>\n\
        1 10.000015 close(5 <unfinished ...>\n\
        2 10.000016 <... openat resumed>) = 5 <0.000004>\n\
        1 10.000017 <... close resumed>) = 0 <0.000001>\n";
    let handed_over = "2 10.000018 openat(AT_FDCWD, \"c\", O_RDONLY) = 6 <0.000009>\n\
        1 10.000019 close(6) = 0 <0.000005>\n";
    std::fs::write(&log, [overtaken, handed_over].concat()).unwrap();
    let import = import(vec![log]);
    let recording = import.recording();
    let mut closed = Vec::new();
    recording
        .for_each_event(|event| {
            if event.call.name() == "close" {
                closed.push(recording.paths.display(event.target.unwrap()).to_string());
            }
        })
        .unwrap();
    assert_eq!(closed, ["/srv/app/a", "/srv/app/c"]);
}

/// The events of a trace as text: each process with its end, and its calls, by thread.
fn story(recording: &Recording) -> String {
    let mut threads: Vec<Vec<String>> = vec![Vec::new(); recording.context.threads.len()];
    let display = |id: Option<PathId>| id.map(|id| recording.paths.display(id));
    recording
        .for_each_event(|event| {
            let mut line = event.call.name().to_owned();
            for path in [event.path, event.path2] {
                line += &display(path).map_or(String::new(), |path| format!(" '{path}'"));
            }
            match event.outcome {
                Outcome::Success(_) => {}
                Outcome::Failure(errno) => line += &format!(" {}", errno.name()),
                Outcome::Unfinished => line += " unfinished",
            }
            line += &display(event.target).map_or(String::new(), |target| format!(" -> {target}"));
            threads[event.thread.0 as usize].push(line);
        })
        .unwrap();
    let mut text = String::new();
    for (thread, calls) in recording.context.threads.iter().zip(threads) {
        let process = &recording.context.processes[thread.process.0 as usize];
        let end = match process.exit {
            Some(Exit::Status(status)) => format!("status {status}"),
            Some(Exit::Signal(signal)) => format!("signal {signal}"),
            None => "no end".to_owned(),
        };
        let parent = process.parent.map_or(String::new(), |parent| format!(" of {parent}"));
        writeln!(text, "process {}{parent}, {end}", thread.process).unwrap();
        calls.iter().for_each(|call| writeln!(text, "  {call}").unwrap());
    }
    text
}

/// The behaviour of `steps.c`, as every complete log shows it.
const STORY: &str = r#"process 0, status 0
  execve './steps' -> /srv/app/steps
  readlink '/proc/self/exe' -> /proc/self/exe
  openat 'work/none' ENOENT -> /srv/app/work/none
  openat 'work' -> /srv/app/work
  openat 'data' -> /srv/app/work/data
  read -> /srv/app/work/data
  fcntl -> /srv/app/work/data
  mkdirat 'made' -> /srv/app/work/made
  rename 'work/made' 'work/é "\x0a' -> /srv/app/work/made
  rmdir 'work/é "\x0a' -> /srv/app/work/é "\x0a
  newfstatat '' -> /srv/app/work/data
  write
process 1 of 0, status 3
  chdir 'work' -> /srv/app/work
  newfstatat 'data' -> /srv/app/work/data
  execve '../steps' -> /srv/app/steps
  readlink '/proc/self/exe' -> /proc/self/exe
  access 'leaf-none' ENOENT -> /srv/app/work/leaf-none
  openat 'data' -> /srv/app/work/data
  read -> /srv/app/work/data
process 0, status 0
  openat 'work/data' -> /srv/app/work/data
  close -> /srv/app/work/data
  newfstatat 'work/thread-none' ENOENT -> /srv/app/work/thread-none
"#;

const CUT: &str = "strace printed only the beginning of 1 argument or variable of a command: `strace -s 4096` prints them whole\n";
const NO_TIMES: &str = "the log has no times: rates and durations are unknown\n";
const NO_DURATIONS: &str = "the log has no durations of calls (`strace -T`)\n";
const LEFT_OUT: &str =
    "strace was told to omit calls (`-e trace=`, `-z` and the like): omitted calls are not counted\n";
const NO_MOUNTS: &str = "a log contains no mounts: the file system of each call is unknown";

#[test]
fn every_way_of_logging_tells_the_same() {
    let whole_seconds = "the log has times in whole seconds: rates over shorter times are unknown\n";
    let cut_more = CUT.replace("1 argument or variable of a command", "4 arguments or variables of commands");
    for (name, notes) in [
        ("plain", [CUT, NO_TIMES].concat()),
        ("t", [CUT, whole_seconds, NO_DURATIONS].concat()),
        ("tt", [CUT, NO_DURATIONS].concat()),
        ("ttt", [CUT, NO_DURATIONS].concat()),
        ("r", [CUT, NO_DURATIONS].concat()),
        ("T", [CUT, NO_TIMES].concat()),
        ("comm", [CUT, NO_TIMES].concat()),
        ("hex", [CUT, NO_TIMES].concat()),
        ("octal", [CUT, NO_TIMES].concat()),
        ("verbose", NO_TIMES.to_owned()),
        ("short", [&cut_more, NO_TIMES].concat()),
        ("seccomp", [CUT, NO_TIMES].concat()),
        ("numbers", [CUT, NO_TIMES].concat()),
        ("both", [CUT, NO_TIMES].concat()),
        ("quiet", [CUT, NO_TIMES].concat()),
        ("stacks", [CUT, NO_TIMES].concat()),
        ("nanoseconds", CUT.to_owned()),
        ("counted", [CUT, NO_TIMES].concat()),
        ("stderr", [CUT, NO_TIMES].concat()),
    ] {
        let imported = import(vec![fixture(&format!("{name}.log"))]);
        assert_eq!(story(&imported.recording()), STORY, "{name}");
        assert_eq!(imported.notes(), notes + NO_MOUNTS, "{name}");
        let header = imported.recording().header;
        assert_eq!((header.exit, header.recorder.lost), (Some(Exit::Status(0)), 0), "{name}");
        let command = if name == "short" { "./s..." } else { "./steps" };
        assert_eq!((header.recorder.engine.as_str(), header.command), ("strace", vec![command.to_owned()]));
    }
}

#[test]
fn what_the_log_shows_behind_descriptors_is_believed() {
    for (name, output) in [
        ("y", "/dev/null"),
        ("yy", "/dev/null"),
        ("everything", "/dev/null"),
        ("mixed", "/srv/app/mixed.log"),
    ] {
        // The log itself tells the directory; the caller does not pass one.
        let imported = import_from(vec![fixture(&format!("{name}.log"))], None);
        let expected = STORY.replace("  write\n", &format!("  write -> {output}\n"));
        assert_eq!(story(&imported.recording()), expected, "{name}");
        assert_eq!(imported.recording().header.working_directory, "/srv/app", "{name}");
    }
}

#[test]
fn the_files_of_each_thread_are_put_together() {
    let order = "without times the order between the logs is unknown: changes to shared descriptors may be out of order\n";
    for (name, notes) in
        [("separate.log", [CUT, NO_TIMES, order].concat()), ("separate-tt.log", CUT.to_owned())]
    {
        let mut logs = separate(name);
        assert_eq!(logs.len(), 3);
        for _ in 0..2 {
            let imported = import(logs.clone());
            assert_eq!(story(&imported.recording()), STORY, "{name}");
            assert_eq!(imported.notes(), notes.clone() + NO_MOUNTS, "{name}");
            logs.reverse();
        }
    }
}

#[test]
fn what_a_log_leaves_out_is_said_and_not_guessed() {
    let succeeded = import(vec![fixture("succeeded.log")]);
    let expected: String =
        STORY.lines().filter(|line| !line.contains("ENOENT")).map(|line| format!("{line}\n")).collect();
    assert_eq!(story(&succeeded.recording()), expected);
    assert_eq!(succeeded.notes(), [CUT, NO_TIMES, LEFT_OUT, NO_MOUNTS].concat());

    let failed = import(vec![fixture("failed.log")]);
    let unknown = "2 calls with a relative path that cannot be resolved, because the log does not contain the working directory, the first in line 2\n\
                   2 processes of unknown origin, the first in line 2: its inherited descriptors and directory are unknown\n";
    assert_eq!(failed.notes(), [unknown, NO_TIMES, LEFT_OUT, NO_MOUNTS].concat());
    assert_eq!(
        story(&failed.recording()),
        "process 0, status 0\n  openat 'work/none' ENOENT -> /srv/app/work/none\n\
         process 1 of 0, status 3\n  access 'leaf-none' ENOENT\n\
         process 2 of 0, status 0\n  newfstatat 'work/thread-none' ENOENT\n"
    );

    let files = import(vec![fixture("files.log")]);
    assert!(files.notes().contains(LEFT_OUT), "{}", files.notes());

    let raw = import(vec![fixture("raw.log")]);
    assert!(raw.notes().starts_with(
        "18 calls without a path, because strace printed only its address, the first in line 1\n"
    ));
    assert_eq!(raw.recording().header.recorder.events, STORY.matches("\n  ").count() as u64);

    let homeless = import_from(vec![fixture("plain.log")], None);
    assert!(homeless.notes().contains(
        "cannot be resolved, because the log does not contain the working directory, the first in line 1"
    ));
    assert!(!story(&homeless.recording()).contains("-> /srv"));
}

#[test]
fn times_are_those_of_the_log() {
    let imported = import(vec![fixture("nanoseconds.log")]);
    let recording = imported.recording();
    assert!(recording.header.began > 1.7e9 && recording.header.seconds.unwrap() > 0.0);
    let (mut last, mut durations) = (0, 0);
    recording
        .for_each_event(|event| {
            assert!(event.end().0 > last, "events are in the order in which they ended");
            last = event.end().0;
            durations += u64::from(event.duration.0 > 0);
        })
        .unwrap();
    assert_eq!(durations, recording.header.recorder.events);
    assert_eq!(import(vec![fixture("plain.log")]).recording().header.seconds, None);
}

#[test]
fn programs_come_with_their_search_variables_alone() {
    let recording = import(vec![fixture("verbose.log")]).recording();
    let executions = &recording.context.executions;
    assert_eq!(
        executions[1].arguments,
        ["../steps", "leaf", "an argument that is longer than strace prints of it"]
    );
    let variables: Vec<_> = recording
        .context
        .variables
        .iter()
        .map(|v| (v.execution, v.name.as_str(), v.value.as_str()))
        .collect();
    let each = |execution| {
        [
            (execution, "HOME", "/home/u"),
            (execution, "LD_LIBRARY_PATH", "/srv/lib"),
            (execution, "PATH", "/usr/bin:/bin"),
        ]
    };
    assert_eq!(variables, [each(0), each(1)].concat());
}

/// A log with this text.
fn written(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    std::fs::write(&log, text).unwrap();
    (folder, log)
}

fn import_text(text: &str) -> Import {
    let (_folder, log) = written(text.as_bytes());
    import(vec![log])
}

#[test]
fn what_cannot_be_understood_is_lost_and_counted() {
    let imported = import_text(
        "7 execve(\"/bin/a\", [\"a\"], 0x7ff /* 1 var */) = 0\n\
         7 <... read resumed>\"\", 3) = 0\n\
         7 close(x) = 0\n\
         7 openat(AT_FDCWD, \"/a\"..., O_RDONLY) = 3\n\
         7 what is this\n\
         7 stat(\"/b\", 0x7ffe) = -1 EFAULT (Bad address)\n\
         7 read(3,  <unfinished ...>\n\
         7 +++ killed by SIGKILL +++\n\
         9 close(3) = 0\n\
         9 openat(AT_FDCWD, \"/cu",
    );
    let expected = "process 0, signal 9\n  execve '/bin/a' -> /bin/a\n  openat\n  stat '/b' EFAULT -> /b\n  read unfinished\n\
                    process 1 of 0, no end\n  close\n";
    assert_eq!(story(&imported.recording()), expected);
    let recorder = imported.recording().header.recorder;
    assert_eq!((recorder.lost, recorder.events), (2, 5));
    assert_eq!(
        recorder.notes.join("\n"),
        "1 call could not be understood, the first in line 3\n\
         1 call ended without having begun in the log, the first in line 2\n\
         1 call without a path, because strace printed only its beginning, the first in line 4: `strace -s 4096` prints it whole\n\
         1 process of unknown origin, the first in line 9: its inherited descriptors and directory are unknown\n\
         1 process had not ended at the end of the log\n\
         1 line not from strace, the first is line 5\n\
         the log is cut in the middle of line 10\n"
            .to_owned()
            + NO_TIMES
            + LEFT_OUT
            + NO_MOUNTS
    );
}

#[test]
fn a_thread_that_executes_goes_on_as_the_first() {
    let imported = import_text(
        "7 execve(\"/bin/a\", [\"a\"], 0x7ff /* 1 var */) = 0\n\
         7 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0} => {parent_tid=[8]}, 88) = 8\n\
         7 pause( <unfinished ...>\n\
         8 execve(\"/bin/b\", [\"b\"], 0x7ff /* 1 var */ <unfinished ...>\n\
         7 <... pause resumed> <unfinished ...>) = ?\n\
         7 +++ superseded by execve in pid 8 +++\n\
         7 <... execve resumed>)             = 0\n\
         7 access(\"/c\", R_OK) = 0\n\
         7 exit_group(5) = ?\n\
         7 +++ exited with 5 +++\n",
    );
    let expected = "process 0, status 5\n  execve '/bin/a' -> /bin/a\nprocess 0, status 5\n  execve '/bin/b' -> /bin/b\n  access '/c' -> /c\n";
    assert_eq!(story(&imported.recording()), expected);
    assert_eq!(imported.recording().header.recorder.lost, 0);
}

#[test]
fn a_thread_that_executes_is_followed_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = |thread: i32, text: &str| {
        let path = folder.path().join(format!("log.{thread}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let first = log(
        7,
        "execve(\"/bin/a\", [\"a\"], 0x7ff /* 1 var */) = 0\n\
         clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, exit_signal=0} => {parent_tid=[8]}, 88) = 8\n\
         pause( <unfinished ...>) = ?\n\
         +++ superseded by execve in pid 8 +++\n\
         <... execve resumed>)             = 0\n\
         access(\"/c\", R_OK) = 0\n\
         +++ exited with 0 +++\n",
    );
    let other = log(8, "execve(\"/bin/b\", [\"b\"], 0x7ff /* 1 var */ <pid changed to 7 ...>\n");
    let imported = import(vec![other, first]);
    let expected = "process 0, status 0\n  execve '/bin/a' -> /bin/a\nprocess 0, status 0\n  execve '/bin/b' -> /bin/b\n  access '/c' -> /c\n";
    assert_eq!(story(&imported.recording()), expected);
    assert_eq!(imported.recording().header.recorder.lost, 0);
}

#[test]
fn what_is_no_log_is_refused_and_leaves_nothing() {
    for (text, expected) in [
        (&b""[..], "`LOG` is empty"),
        (b"\n\n  \n", "`LOG` is empty"),
        (b"hello\nworld\n", "`LOG` is not a log of strace: line 1 is `hello`"),
        (b"int main() {\n  puts(\"x\");\n}\n", "`LOG` is not a log of strace: line 1 is `int main() {`"),
        (
            b"\x7fELF\x02\x01\x01\0\0\0\xff\xfe\n\0\0",
            "`LOG` is not a log of strace: line 1 is `\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\xff\\xfe`",
        ),
    ] {
        let (_folder, log) = written(text);
        let failure = import(vec![log.clone()]).failure();
        assert_eq!(failure.replace(log.to_str().unwrap(), "LOG"), expected);
    }
    let summary = import(vec![fixture("summary.log")]).failure();
    assert!(
        summary.ends_with("is a table of `strace -c`, which counts calls but does not log them"),
        "{summary}"
    );
    assert!(import(vec![fixture("")]).failure().ends_with("is a directory, not a file"));
    assert!(import(vec!["/dev/null".into()]).failure().ends_with("is a device or a socket, not a file"));
    assert!(import(vec![fixture("none.log")]).failure().starts_with("cannot read `"));
}

#[test]
fn logs_of_two_runs_are_not_mixed() {
    let (one, other) = (separate("separate.log"), separate("separate-tt.log"));
    assert!(import(vec![one[0].clone(), other[0].clone()]).failure().ends_with("begin two runs"));
    let folder = tempfile::tempdir().unwrap();
    let copy = |logs: &[PathBuf]| -> Vec<PathBuf> {
        let name =
            |log: &Path| folder.path().join(format!("log.{}", log.extension().unwrap().to_str().unwrap()));
        logs.iter().map(|log| std::fs::copy(log, name(log)).map(|_| name(log)).unwrap()).collect()
    };
    let both = [copy(&one), copy(&other)].concat();
    assert!(import(both).failure().ends_with("begin two runs"));
    assert!(import(vec![fixture("plain.log"), fixture("t.log")]).failure().contains("is a log of its own"));
    let twice =
        [std::fs::read(fixture("plain.log")).unwrap(), std::fs::read(fixture("ttt.log")).unwrap()].concat();
    let (_folder, log) = written(&twice);
    let failure = import(vec![log]).failure();
    assert!(failure.contains("holds two runs: another one begins in line"), "{failure}");
}

#[test]
fn a_cut_log_is_read_up_to_the_cut() {
    let whole = std::fs::read(fixture("everything.log")).unwrap();
    let mut last = 0;
    for length in (200..whole.len()).step_by(97) {
        let (_folder, log) = written(&whole[..length]);
        let recording = import(vec![log]).recording();
        let recorder = recording.header.recorder;
        assert!(recorder.events + 1 >= last && recorder.lost == 0, "cut at {length}: {recorder:?}");
        last = recorder.events;
    }
    assert!(last > 15);
}

#[test]
fn an_earlier_trace_stays() {
    let folder = tempfile::tempdir().unwrap();
    let request = ImportRequest {
        logs: vec![fixture("plain.log")],
        temporary: folder.path().to_owned(),
        directory: folder.path().to_owned(),
        working_directory: None,
        mounts: Vec::new(),
        version: "0".into(),
    };
    let failure = quell_import::strace(&request, &mut NoFileSystem).unwrap_err();
    assert!(matches!(failure, ImportError::Trace(TraceError::Exists { .. })));
}
