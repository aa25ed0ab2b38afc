//! The command behaves as without quell: status, output, signals, descriptors, terminal. A command that cannot be
//! started is reported.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use quell_trace::{Call, Completeness, Exit, Recording};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use support::place::{copy_of, write_executable};
use support::{Stage, fixture, may_trace, recorder};

fn record(trace: &Path, command: &[&str]) -> Command {
    let mut recorder = Command::new(recorder());
    recorder.arg(trace).args(command).stdin(Stdio::null());
    recorder
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn send(child: &Child, signal: &str) {
    send_to(child.id().to_string(), signal);
}

fn send_to(target: String, signal: &str) {
    assert!(Command::new("/bin/kill").args(["-s", signal, "--", &target]).status().unwrap().success());
}

#[test]
fn privileged_status_and_output_are_the_command_s() {
    let Some(()) = may_trace() else { return };
    for (script, status) in [("exit 0", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        let run = Stage::new(&["/bin/sh", "-c", &format!("echo out; echo err >&2; {script}")]).record();
        assert_eq!(run.output.status.code(), Some(status), "{script}");
        assert_eq!((text(&run.output).as_str(), error(&run.output).as_str()), ("out\n", "err\n"));
        let expected = if status > 128 { Exit::Signal(status - 128) } else { Exit::Status(status) };
        assert_eq!(run.recording.header.exit, Some(expected));
        assert_eq!(run.recording.header.completeness, Completeness::Complete);
    }
}

/// The inherited state of a process as the kernel shows it: signals, descriptors, limits, session.
const GIVEN: &str = "grep -E '^(SigBlk|SigIgn|SigCgt|Groups|Umask)' /proc/self/status; \
                     ls /proc/self/fd; ulimit -a; nice; cut -d' ' -f5-8 /proc/$$/stat; pwd";

#[test]
fn privileged_signals_and_descriptors_are_inherited_unchanged() {
    let Some(folder) = support::traced_directory() else { return };
    // The test program itself ignores SIGPIPE; `env` gives the command the default, then the ignored signal again.
    for before in [&["env", "--default-signal=PIPE"][..], &["env", "--ignore-signal=PIPE,HUP,USR1"]] {
        for (index, redirection) in ["", "<&-", ">/dev/null 3<&0 7</etc/hostname", "2>&-"].iter().enumerate()
        {
            let trace = folder.path().join(format!("{}-{index}", before[1].len()));
            let inner = format!("exec sh -c \"$GIVEN\" {redirection}");
            let outer = format!("exec \"$@\" {redirection}");
            let run = |words: &[&str], script: &str| {
                let mut command = Command::new(before[0]);
                command.args(&before[1..]).args(["sh", "-c", script, "sh"]).args(words).env("GIVEN", GIVEN);
                text(&command.process_group(0).output().unwrap())
            };
            let plain = run(&[], &inner);
            let recorder = recorder();
            let words = [recorder.to_str().unwrap(), trace.to_str().unwrap(), "sh", "-c", GIVEN];
            let recorded = run(&words, &outer);
            // Process group and session differ from run to run; the presence of a terminal does not.
            let comparable = |text: &str| {
                text.lines()
                    .filter(|line| line.split(' ').count() != 4)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            assert_eq!(comparable(&recorded), comparable(&plain), "{before:?} {redirection}");
        }
    }
}

#[test]
fn privileged_data_flows_through_pipes() {
    let Some(folder) = support::traced_directory() else { return };
    let script = format!(
        "seq 100000 | {} {} cat | tail -n 1; {} {} yes | head -n 1",
        recorder().display(),
        folder.path().join("a").display(),
        recorder().display(),
        folder.path().join("b").display()
    );
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(text(&output), "100000\ny\n");
    let broken = Recording::open(&folder.path().join("b")).unwrap();
    assert_eq!(broken.header.exit, Some(Exit::Signal(13)), "`yes` is ended by SIGPIPE");
}

#[test]
fn privileged_a_terminal_stays_a_terminal() {
    let Some(folder) = support::traced_directory() else { return };
    let inner = "test -t 0 && test -t 1 && ps -o stat= -p $$ | grep -q + && echo foreground";
    let recorded = format!("{} {} sh -c '{inner}'", recorder().display(), folder.path().join("t").display());
    let output =
        Command::new("script").args(["-qec", &recorded, "/dev/null"]).stdin(Stdio::null()).output().unwrap();
    assert!(text(&output).contains("foreground"), "{output:?}");
}

#[test]
fn privileged_the_terminal_s_keys_reach_the_command() {
    let Some(folder) = support::traced_directory() else { return };
    let trace = folder.path().join("t");
    let program = fixture("signals");
    let recorded = format!("{} {} {}", recorder().display(), trace.display(), program.display());
    let mut terminal = Command::new("script")
        .args(["-qec", &recorded, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(terminal.stdout.take().unwrap());
    wait_until_ready(&mut output);
    // Control-C goes to the whole foreground group: the command gets it once, and the recorder lives on.
    std::io::Write::write_all(terminal.stdin.as_mut().unwrap(), b"\x03").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("TERM 0 USR1 0 INT 1"), "{rest}");
    terminal.wait().unwrap();
    assert_eq!(Recording::open(&trace).unwrap().header.exit, Some(Exit::Status(0)));
}

fn wait_until_ready(output: &mut impl BufRead) {
    let mut line = String::new();
    while !line.contains("ready") {
        line.clear();
        assert!(output.read_line(&mut line).unwrap() > 0, "the command began");
    }
}

/// Starts the fixture that counts signals, runs `to_whom` on it, and returns the counts.
fn counted(to_whom: impl Fn(&Child)) -> String {
    let folder = support::place::directory("quell-record-");
    let program = fixture("signals");
    let mut command = record(&folder.path().join("t"), &[program.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).process_group(0).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    wait_until_ready(&mut output);
    to_whom(&child);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success());
    rest
}

#[test]
fn privileged_signals_to_the_recorder_are_sent_on() {
    let Some(()) = may_trace() else { return };
    let sent = counted(|child| ["TERM", "USR1", "INT"].iter().for_each(|signal| send(child, signal)));
    assert_eq!(sent, "TERM 1 USR1 1 INT 1\n");
}

#[test]
fn privileged_signals_to_the_group_arrive_once() {
    let Some(()) = may_trace() else { return };
    let sent =
        counted(|child| ["TERM", "USR1", "INT"].iter().for_each(|s| send_to(format!("-{}", child.id()), s)));
    assert_eq!(sent, "TERM 1 USR1 1 INT 1\n");
}

#[test]
fn privileged_signals_to_each_process_in_turn_arrive_once() {
    let Some(()) = may_trace() else { return };
    // Slurm signals the processes of a step one after another. The recorder may come long before the command.
    let sent = counted(|child| {
        let recorder = child.id();
        let script = format!(
            "read command rest < /proc/{recorder}/task/{recorder}/children; for signal in TERM USR1 INT; do \
             kill -s $signal {recorder}; sleep 0.1; kill -s $signal $command; done"
        );
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    });
    assert_eq!(sent, "TERM 1 USR1 1 INT 1\n");
}

#[test]
fn privileged_a_killed_recorder_takes_the_command_along_and_leaves_a_partial_trace() {
    let Some(folder) = support::traced_directory() else { return };
    let trace = folder.path().join("t");
    let script = "cat /etc/hostname; echo $$; while true; do test -e /proc/nowhere; sleep 0.05; done";
    let mut child = record(&trace, &["sh", "-c", script]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let command = lines.nth(1).unwrap().unwrap();
    let opens = || {
        let mut opens = 0;
        let count = |event: &quell_trace::Event| opens += usize::from(event.call == Call::Openat);
        Recording::open(&trace).ok()?.for_each_event(count).ok()?;
        Some(opens)
    };
    // The spool goes to the kernel every 200 ms.
    while opens().is_none_or(|opens| opens == 0) {
        assert_eq!(child.try_wait().unwrap(), None);
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lines.next().is_none(), "no process holds the pipe any more");
    assert!(!Path::new(&format!("/proc/{command}/root")).exists(), "the command has ended");
    let recording = Recording::open(&trace).unwrap();
    assert_eq!(recording.header.completeness, Completeness::Partial);
    assert!(opens().is_some_and(|opens| opens > 0));
}

#[test]
fn privileged_a_command_that_cannot_start_leaves_nothing() {
    let Some(folder) = support::traced_directory() else { return };
    let trace = folder.path().join("t");
    let bad_interpreter = folder.path().join("bad");
    write_executable(&bad_interpreter, b"#!/proc/nowhere/interpreter\n", 0o755);
    for (command, status, message) in [
        ("no-such-command", 127, "cannot find the command `no-such-command`"),
        ("/proc/nowhere/command", 127, "cannot find the command `/proc/nowhere/command`"),
        ("/etc", 126, "cannot execute `/etc`"),
        ("/etc/passwd", 126, "cannot execute `/etc/passwd`"),
        (bad_interpreter.to_str().unwrap(), 126, "No such file"),
    ] {
        let output = record(&trace, &[command]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{command}: {output:?}");
        assert!(error(&output).contains(message), "{command}: {output:?}");
        assert!(!trace.exists(), "{command} leaves no trace");
    }
}

#[test]
fn privileged_an_unwritable_output_is_said_before_the_command_runs() {
    let Some(folder) = support::traced_directory() else { return };
    let witness = folder.path().join("witness");
    let existing = folder.path().join("existing");
    std::fs::create_dir(&existing).unwrap();
    for trace in [Path::new("/proc/trace"), Path::new("/proc/nowhere/trace"), existing.as_path()] {
        let output = record(trace, &["touch", witness.to_str().unwrap()]).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{output:?}");
        assert!(error(&output).contains(trace.to_str().unwrap()), "{output:?}");
        assert!(!witness.exists());
    }
    assert!(std::fs::read_dir(&existing).unwrap().next().is_none(), "what is there is left alone");
}

#[test]
fn privileged_a_script_without_interpreter_is_run_by_the_shell() {
    let Some(folder) = support::traced_directory() else { return };
    let script = folder.path().join("script");
    write_executable(&script, b"echo script $1\nexit 4\n", 0o755);
    let run = Stage::new(&[script.to_str().unwrap(), "one"]).record();
    assert_eq!((text(&run.output).as_str(), run.output.status.code()), ("script one\n", Some(4)));
    assert_eq!(run.count(Call::Execve, "/bin/sh"), 1);
}

#[test]
fn privileged_a_full_disk_does_not_stop_the_command() {
    let Some(folder) = support::traced_directory() else { return };
    let mount = ["-t", "tmpfs", "-o", "size=256k", "none", folder.path().to_str().unwrap()];
    let mounted = Command::new("mount").args(mount).status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped, because this test may not mount");
        return;
    }
    let script =
        "i=0; while [ $i -lt 20000 ]; do test -e /proc/nowhere/$i; i=$((i+1)); done; echo done; exit 6";
    let output = record(&folder.path().join("t"), &["sh", "-c", script]).output().unwrap();
    let recording = Recording::open(&folder.path().join("t"));
    assert!(Command::new("umount").arg(folder.path()).status().unwrap().success());
    assert_eq!((text(&output).as_str(), output.status.code()), ("done\n", Some(6)), "{output:?}");
    assert!(error(&output).contains("No space left"), "{output:?}");
    let recording = recording.unwrap();
    assert_eq!(recording.header.completeness, Completeness::Partial);
    let mut events = 0;
    recording.for_each_event(|_| events += 1).unwrap();
    assert!(events > 100, "{events}");
}

#[test]
fn privileged_an_ordinary_user_may_record() {
    let Some(folder) = support::traced_directory() else { return };
    let output = Command::new("chmod").args(["1777", folder.path().to_str().unwrap()]).status();
    assert!(output.unwrap().success());
    let trace = folder.path().join("t");
    let copy = copy_of(&recorder());
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args([copy.as_os_str(), trace.as_os_str()])
        .args(["sh", "-c", "cat /etc/hostname; su -c true 2>/dev/null; exit 3"])
        .stdin(Stdio::null())
        .output();
    let Ok(output) = output else {
        println!("skipped, because `setpriv` is not installed");
        return;
    };
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let recording = Recording::open(&trace).unwrap();
    assert_eq!(recording.header.completeness, Completeness::Complete);
    let notes = &recording.header.recorder.notes;
    assert!(notes.iter().any(|note| note.contains("/su` is set-user-ID")), "{notes:?}");
}

#[test]
fn privileged_a_command_inside_a_recording_cannot_be_recorded_again() {
    let Some(folder) = support::traced_directory() else { return };
    let inner = folder.path().join("inner");
    let recorder = recorder();
    let words = [recorder.to_str().unwrap(), inner.to_str().unwrap(), "true"];
    let output = record(&folder.path().join("outer"), &words).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(error(&output).contains("traces it already"), "{output:?}");
    assert!(!inner.exists());
}

/// Stops often enough to be kept on one processor, then reads its own affinity and those of a thread and a child.
const PROCESSORS: &str = "\
import os, subprocess, sys, threading, time
def storm():
    for _ in range(500): os.path.exists('/nothing-here')
storm(); print(sorted(os.sched_getaffinity(0)))
storm(); print(subprocess.run(['nproc'], capture_output=True, text=True).stdout)
storm(); thread = threading.Thread(target=lambda: print(sorted(os.sched_getaffinity(0)))); thread.start(); thread.join()
storm(); os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); storm(); print(sorted(os.sched_getaffinity(0)))
sys.stdout.flush(); child = os.fork()
storm(); time.sleep(0.1)
os.write(1, open('/proc/self/status').read().split('Cpus_allowed_list:')[1].split()[0].encode() + b'\\n')
if child: os.waitpid(child, 0)
";

#[test]
fn privileged_the_command_may_use_the_processors_that_it_was_given() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::new(&["/usr/bin/python3", "-c", PROCESSORS]);
    assert_eq!(text(&stage.record().output), text(&stage.run_plain()));
}
