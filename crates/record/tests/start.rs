//! A recorded start: what is recorded of it equals strace's log, and the command runs on untraced, as if it had never been
//! recorded.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use quell_trace::{Completeness, Ended, Exit, Recording, Touched};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::{Seen, Stage, fixture, may_trace, recorder, sequences, show};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn python(script: &str) -> Stage {
    Stage::new(&["/usr/bin/python3", "-c", script])
}

/// Makes threads and processes of every kind all the time, also in the moment in which the recorder leaves, waits in calls
/// that a signal would end, and keeps a child stopped. Then says what the kernel says of all threads.
const BUSY: &str = r#"
import ctypes, os, select, signal, subprocess, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
over, errors, rounds = threading.Event(), [], [0]
def threads():
    while not over.is_set():
        thread = threading.Thread(target=os.stat, args=('/',)); thread.start(); thread.join()
def forks():
    while not over.is_set():
        child = os.fork()
        if child == 0: os._exit(3)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 3: errors.append('fork')
        rounds[0] += 1
def spawns():
    while not over.is_set():
        if subprocess.run(['/bin/sh', '-c', 'exit 4']).returncode != 4: errors.append('spawn')
def waits():
    # A traced thread is woken even by signals that it ignores.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    poll, event = libc.epoll_create1(0), ctypes.create_string_buffer(64)
    while not over.is_set():
        if libc.epoll_wait(poll, event, 1, 20) < 0: errors.append('epoll_wait: ' + os.strerror(ctypes.get_errno()))
stopped = subprocess.Popen(['sleep', '1000'])
os.kill(stopped.pid, signal.SIGSTOP)
if not os.WIFSTOPPED(os.waitpid(stopped.pid, os.WUNTRACED)[1]): errors.append('stop')
workers = [threading.Thread(target=work) for work in (threads, forks, spawns, waits)]
for worker in workers: worker.start()
def state(path, *fields):
    lines = open(path + '/status').read().splitlines()
    return [line for line in lines if line.split(':')[0] in fields]
FIELDS = 'TracerPid', 'Seccomp', 'NoNewPrivs'
began = time.monotonic()
while 'TracerPid:\t0' not in state('/proc/self', 'TracerPid'):
    if time.monotonic() - began > 100: sys.exit('the recorder did not leave')
    time.sleep(0.01)
before = rounds[0]
while rounds[0] < before + 20: time.sleep(0.01)
seen = set()
for _ in range(50):
    for pid in [str(os.getpid()), str(stopped.pid)]:
        for task in os.listdir(f'/proc/{pid}/task'):
            try: seen.update(state(f'/proc/{pid}/task/{task}', *FIELDS))
            except (FileNotFoundError, ProcessLookupError): pass
over.set()
for worker in workers: worker.join()
print(sorted(seen), state(f'/proc/{stopped.pid}', 'State'))
os.kill(stopped.pid, signal.SIGCONT)
if not os.WIFCONTINUED(os.waitpid(stopped.pid, os.WCONTINUED)[1]): errors.append('continue')
stopped.terminate()
print(stopped.wait(), errors)
sys.exit(7)
"#;

/// The program's own words when nothing traces it.
const UNTRACED: &str =
    "['NoNewPrivs:\\t0', 'Seccomp:\\t0', 'TracerPid:\\t0'] ['State:\\tT (stopped)']\n-15 []\n";

#[test]
fn privileged_every_thread_and_process_is_left_alone() {
    let Some(()) = may_trace() else { return };
    let stage = python(BUSY);
    let plain = stage.run_plain();
    assert_eq!(text(&plain.stdout), UNTRACED, "{plain:?}");
    for _ in 0..3 {
        let run = stage.record_start(1.0);
        assert_eq!(text(&run.output.stdout), UNTRACED, "{:?}", run.output);
        assert_eq!(run.output.status.code(), Some(7));
        let header = &run.recording.header;
        assert_eq!((header.completeness, header.ended), (Completeness::Complete, Some(Ended::Started)));
        assert_eq!((header.exit, header.recorder.lost), (None, 0));
        assert!(header.recorder.notes.iter().any(|note| note.contains("only the start")), "{header:?}");
    }
}

#[test]
fn privileged_a_command_that_ends_early_is_recorded_to_its_end() {
    let Some(()) = may_trace() else { return };
    for (script, exit) in [("exit 7", Exit::Status(7)), ("kill -TERM $$", Exit::Signal(15))] {
        let run = Stage::new(&["/bin/sh", "-c", script]).record_start(100.0);
        let header = &run.recording.header;
        assert_eq!((header.exit, header.ended), (Some(exit), Some(Ended::Exit)), "{script}");
        assert!(header.recorder.notes.is_empty(), "{header:?}");
    }
}

#[test]
fn privileged_the_recorded_prefix_is_strace_s() {
    let Some(()) = may_trace() else { return };
    let script = "for i in 1 2 3; do cat /etc/hostname; test -e /nothing/$i; done; ls / > list; \
                  test -e /marker; sleep 4; test -e /later; ls /usr; sh -c 'exit 3'";
    let stage = Stage::new(&["/bin/sh", "-c", script]);
    let (run, plain) = (stage.record_start(1.0), stage.run_plain());
    assert_eq!((&run.output.stdout, run.output.status), (&plain.stdout, plain.status));
    let without_files = |mut threads: support::Threads| {
        threads.values_mut().flatten().for_each(|seen| seen.file = None);
        sequences(threads)
    };
    let (ours, mut theirs) = (without_files(run.threads()), without_files(stage.strace()));
    let is_prefix = |ours: &[Seen], theirs: &[Seen]| theirs.starts_with(ours);
    for calls in &ours {
        let same = theirs.iter().position(|theirs| is_prefix(calls, theirs));
        let Some(same) = same else { panic!("{:?}", calls.iter().map(show).collect::<Vec<_>>()) };
        theirs.remove(same);
    }
    let has = |path: &str| ours.iter().flatten().any(|seen| seen.paths.contains(&Some(path.into())));
    assert!(has("/nothing/3") && has("/marker") && !has("/later"));
    assert!(theirs.len() == 2, "the processes of the tail alone are missing");
}

#[test]
fn privileged_the_touched_pages_are_those_of_the_start() {
    let Some(()) = may_trace() else { return };
    let run = python("import json, time; time.sleep(3)").record_start(1.0);
    assert_eq!(run.recording.header.ended, Some(Ended::Started));
    let touched = run.recording.touched().unwrap().expect("every process was looked at");
    let is_library = |row: &Touched| run.recording.paths.bytes(row.path).ends_with(b"/libc.so.6");
    assert!(touched.iter().any(|row| is_library(row) && row.size > 0));
}

/// Starts a recording of a shell script; returns when the script runs.
fn started(trace: &Path, quiet: &str, script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(recorder());
    command.arg(quiet).arg(trace).args(["/bin/sh", "-c", &format!("echo runs; {script}")]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "runs\n");
    (child, output)
}

/// Waits until the trace is complete.
fn complete(trace: &Path) -> Recording {
    let began = Instant::now();
    loop {
        match Recording::open(trace) {
            Ok(recording) if recording.header.completeness == Completeness::Complete => return recording,
            _ => assert!(began.elapsed() < Duration::from_secs(100), "the trace is never complete"),
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn kill(process: u32, signal: &str) {
    assert!(Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap().success());
}

#[test]
fn privileged_the_trace_is_complete_while_the_command_runs() {
    let Some(()) = may_trace() else { return };
    let folder = support::place::directory("quell-record-");
    let (trace, fifo) = (folder.path().join("t"), folder.path().join("fifo"));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // An open of the FIFO alone would wait, and a call on a name that waits is no quiet.
    let script = format!("exec 3<>{}; read line <&3; echo $line; exit 5", fifo.display());
    let (mut child, mut output) = started(&trace, "--start=1", &script);
    let recording = complete(&trace);
    assert_eq!((recording.header.ended, recording.header.exit), (Some(Ended::Started), None));
    assert!(child.try_wait().unwrap().is_none(), "the command runs");
    std::fs::write(&fifo, "on\n").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("on\n", Some(5)));
}

#[test]
fn privileged_signals_reach_a_command_that_was_left_alone() {
    let Some(()) = may_trace() else { return };
    let folder = support::place::directory("quell-record-");
    let trace = folder.path().join("t");
    let script = "trap 'echo term; exit 6' TERM; while :; do sleep 0.1; done";
    let (mut child, mut output) = started(&trace, "--start=1", script);
    complete(&trace);
    kill(child.id(), "TERM");
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.as_str(), child.wait().unwrap().code()), ("term\n", Some(6)));
}

/// Runs on for a while, with threads, forks and vforks, and says that it came to its end.
const STEADY: &str = r#"python3 -c "
import os, subprocess, threading, time
def work():
    for _ in range(40):
        os.stat('/'); subprocess.run(['true'], check=True)
        child = os.fork()
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
workers = [threading.Thread(target=work) for _ in range(3)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print('end', open('/proc/self/status').read().split('TracerPid:')[1].split()[0])
""#;

#[test]
fn privileged_a_killed_recorder_leaves_the_command_alone() {
    let Some(()) = may_trace() else { return };
    let folder = support::place::directory("quell-record-");
    for round in 0..20 {
        let trace = folder.path().join(round.to_string());
        // Half of the kills come around the moment in which the recorder leaves.
        let quiet = if round % 2 == 0 { "--start=100" } else { "--start=0.2" };
        let (mut child, mut output) = started(&trace, quiet, STEADY);
        std::thread::sleep(Duration::from_millis(round * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "end 0\n", "round {round}");
        if let Err(error) = Recording::open(&trace) {
            panic!("round {round}: {error}");
        }
    }
}

/// A shell with a terminal in which another shell runs below the recorder. Arguments: the command of the inner shell, the
/// number of seconds to wait before it suspends itself.
const TERMINAL: &str = r#"
import os, pty, select, sys, time
pid, terminal = pty.fork()
if pid == 0:
    os.environ['PS1'] = 'outer> '
    os.execvp('bash', ['bash', '--norc', '--noprofile', '-i'])
text = b''
def expect(wanted):
    global text
    end = time.monotonic() + 60
    while wanted not in text:
        if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]: sys.exit(f'no {wanted} in {text}')
        text += os.read(terminal, 4096)
    text = text.split(wanted, 1)[1]
expect(b'outer> ')
for line, wanted in [
    ('PS1=inn\\er:  ' + sys.argv[1] + ' bash --norc --noprofile -i', 'inner:'), ('sleep ' + sys.argv[2] + '; echo a$((1+1))b', 'a2b'),
    ('suspend -f', 'outer>'), ('jobs', 'Stopped'), ('fg', 'inner:'), ('echo c$((1+1))d', 'c2d'), ('exit 4', 'outer>'), ('echo e$?f', 'e4f')]:
    os.write(terminal, line.encode() + b'\n')
    expect(wanted.encode())
print('good')
"#;

#[test]
fn privileged_a_shell_that_suspends_itself_gives_the_terminal_back() {
    let Some(()) = may_trace() else { return };
    let folder = support::place::directory("quell-record-");
    for (index, (options, seconds)) in
        [("", "0"), ("--start=100", "0"), ("--start=1", "4")].iter().enumerate()
    {
        let trace = folder.path().join(index.to_string());
        let command = format!("{} {options} {}", recorder().display(), trace.display());
        let output = Command::new("python3").args(["-c", TERMINAL, &command, seconds]).output().unwrap();
        assert_eq!(text(&output.stdout), "good\n", "{options}: {output:?}");
    }
}

/// Sends signals to a counting program that was left alone, and returns what it counted.
fn counted(to_whom: impl Fn(u32) -> String) -> String {
    let folder = support::place::directory("quell-record-");
    let trace = folder.path().join("t");
    let mut command = Command::new(recorder());
    command.arg("--start=1").arg(&trace).arg(fixture("signals")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.process_group(0).spawn().unwrap();
    complete(&trace);
    for signal in ["TERM", "USR1", "INT"] {
        let words = ["-s", signal, "--", &to_whom(child.id())];
        assert!(Command::new("/bin/kill").args(words).status().unwrap().success());
    }
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert!(child.wait().unwrap().success());
    output
}

#[test]
fn privileged_a_signal_to_a_command_that_was_left_alone_arrives_once() {
    let Some(()) = may_trace() else { return };
    let once = "ready\nTERM 1 USR1 1 INT 1\n";
    assert_eq!(counted(|recorder| recorder.to_string()), once, "to the recorder");
    assert_eq!(counted(|recorder| format!("-{recorder}")), once, "to the group");
}
