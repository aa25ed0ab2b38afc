//! `quell record -p`: the calls of a program that runs already, as `strace -p` sees them, and a program that notices nothing.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{NOBODY, Need, Test, kill, next_line, program, send, session, wait_until, with_quell};

/// A program with pipes, and its number, which it prints first.
pub(crate) fn running(test: &Test, words: &[&str]) -> (Child, i32) {
    let mut command = test.command(words);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let number = next_line(&mut child).parse().unwrap();
    (child, number)
}

pub(crate) fn step(child: &mut Child) {
    child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
}

pub(crate) fn field(process: &str, name: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
}

pub(crate) fn threads(process: i32) -> Vec<String> {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else { return Vec::new() };
    tasks.flatten().map(|task| task.file_name().into_string().unwrap()).collect()
}

/// Starts a tracer of a process, and waits until it traces all threads. A thread has a tracer as soon as that seizes it, and stops for
/// it a moment later, which counts as giving up the processor. What it called in between would be in no trace.
pub(crate) fn traced(test: &Test, process: i32, words: &[&str]) -> Child {
    let before = sleepers(process);
    let tracer = test.command(words).stderr(Stdio::piped()).spawn().unwrap();
    wait_until("every thread is traced", || {
        threads(process).iter().all(|thread| {
            let is_traced = !matches!(&*field(thread, "TracerPid:"), "0" | "");
            is_traced && before.get(thread).is_none_or(|before| waits(thread) != *before)
        })
    });
    tracer
}

/// The number of times that each sleeping thread gave up the processor.
fn sleepers(process: i32) -> BTreeMap<String, String> {
    let sample = || {
        std::thread::sleep(Duration::from_millis(20));
        threads(process)
            .into_iter()
            .map(|thread| (thread.clone(), waits(&thread)))
            .collect::<BTreeMap<_, _>>()
    };
    let (first, mut second) = (sample(), sample());
    second.retain(|thread, waits| first.get(thread) == Some(waits));
    second
}

fn waits(thread: &str) -> String {
    field(thread, "voluntary_ctxt_switches:")
}

fn recorder(test: &Test, process: i32, trace: &str, options: &[&str]) -> Child {
    let process_text = process.to_string();
    let words = [&["record", "-f", "-o", trace, "-p", &process_text], options].concat();
    traced(test, process, &with_quell(&words))
}

pub(crate) fn is_untraced(process: i32) -> bool {
    threads(process).iter().all(|thread| field(thread, "TracerPid:") == "0")
}

/// A call, its error and its file.
pub(crate) type Seen = (String, String, String);

const COMPARED: &str = "access,newfstatat,openat,pread64,close,readlinkat,execve";

/// The calls of each thread between the marks of the first; sorted.
fn between_marks(threads: BTreeMap<String, Vec<Seen>>) -> Vec<Vec<Seen>> {
    let mut all: Vec<Vec<Seen>> = Vec::new();
    for mut seen in threads.into_values() {
        if let Some(begin) = seen.iter().position(|(.., file)| file == "/mark-begin") {
            let end = seen.iter().position(|(.., file)| file == "/mark-end").unwrap();
            seen = seen[begin..=end].to_vec();
        }
        all.push(seen);
    }
    all.sort();
    all
}

fn joined(directory: &str, name: &str) -> String {
    if name.starts_with('/') { name.to_owned() } else { format!("{directory}/{name}") }
}

/// Reads `name(3</dir>, "path", ...) = -1 ENOENT (...)`.
pub(crate) fn of_strace_line(line: &str) -> Option<Seen> {
    let (name, rest) = line.split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    let error = result.strip_prefix("-1 ").and_then(|error| error.split(' ').next()).unwrap_or_default();
    let first = arguments.split(['>', ')']).next()?;
    let place = first.split_once('<').map_or("", |(_, place)| place);
    let path = arguments.split('"').nth(1).filter(|_| !matches!(name, "pread64" | "close"));
    let file = match path {
        Some("") | None => place.to_owned(),
        Some(path) => joined(place, path),
    };
    Some((name.to_owned(), error.to_owned(), file))
}

fn of_strace(test: &Test) -> Vec<Vec<Seen>> {
    let logs = test.files().into_iter().filter(|name| name.starts_with("log."));
    // A trace has names without symbolic links.
    let resolved = |(name, error, file): Seen| {
        let file = std::fs::canonicalize(&file).map_or(file, |file| file.to_str().unwrap().to_owned());
        (name, error, file.replace(test.text("").trim_end_matches('/'), "[DIR]"))
    };
    let seen =
        |name: &String| test.read_text(name).lines().filter_map(of_strace_line).map(resolved).collect();
    between_marks(logs.map(|name| (name.clone(), seen(&name))).collect())
}

fn of_trace(test: &Test, trace: &str) -> Vec<Vec<Seen>> {
    let table = test.quell(&["-q", "export", trace, "--format", "csv", "-o", "-"]).succeeds();
    let mut rows = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = rows.next().unwrap();
    let column = |name| header.iter().position(|other| *other == name).unwrap();
    let [tid, call, error, target] = ["tid", "call", "error", "target"].map(column);
    let mut threads: BTreeMap<String, Vec<Seen>> = BTreeMap::new();
    for row in rows.filter(|row| COMPARED.split(',').any(|name| name == row[call])) {
        let seen = (row[call].to_owned(), row[error].to_owned(), row[target].to_owned());
        threads.entry(row[tid].to_owned()).or_default().push(seen);
    }
    between_marks(threads)
}

/// Has the program work while a tracer traces it, and ends the tracer.
pub(crate) fn watch(test: &Test, trace: impl FnOnce(i32) -> Child) -> String {
    let directory = test.text("tree");
    let (mut child, process) = running(test, &["./rounds", &directory]);
    let tracer = trace(process);
    step(&mut child);
    assert_eq!(next_line(&mut child), "attached");
    step(&mut child);
    assert_eq!(next_line(&mut child), "done");
    send(tracer.id() as i32, Signal::INT);
    let outcome = test.wait(tracer);
    assert!(is_untraced(process), "{outcome}");
    step(&mut child);
    assert_eq!(test.wait(child).status.code(), Some(5));
    outcome.stderr
}

#[test]
fn privileged_a_running_program_is_recorded_as_strace_sees_it() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    test.write("tree/sub/file", "content");
    program(&test, "rounds", &["-pthread"]);
    let calls = format!("trace={COMPARED}");
    watch(&test, |process| {
        let process_text = process.to_string();
        let words = ["strace", "-ff", "-y", "-qq", "-e", &calls, "-o", "log", "-p", &process_text];
        traced(&test, process, &words)
    });
    let said = watch(&test, |process| recorder(&test, process, "app.qtrace", &[]));
    assert!(
        said.contains(" calls, the program runs on, in `app.qtrace`; next: quell report app.qtrace"),
        "{said}"
    );
    let (ours, theirs) = (of_trace(&test, "app.qtrace"), of_strace(&test));
    assert_eq!(theirs.len(), 4, "two threads of the program, a later one, a child");
    assert!(theirs.iter().all(|thread| !thread.is_empty()));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let differs = ours.iter().zip(theirs).find(|(ours, theirs)| ours != theirs);
        assert_eq!((ours.len(), differs), (theirs.len(), None));
    }
    assert_eq!(ours.len(), theirs.len());
    let report = test.quell(&["report", "app.qtrace"]).succeeds();
    assert!(report.contains(" from its middle"), "{report}");
    assert!(report.contains("the recording began in the middle of the run"), "{report}");
    let json = test.json(&["report", "--json", "app.qtrace"]);
    assert_eq!(
        (&json["recordings"][0]["attached"], &json["recordings"][0]["ended"]),
        (&true.into(), &"limit".into())
    );
}

/// Every way in which a recording ends leaves the program untraced, and cuts no wait short.
#[test]
fn privileged_no_wait_of_a_program_is_cut_short() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    for options in [&["-pthread"][..], &["-pthread", "-static"]] {
        program(&test, "waits", options);
        let (mut child, process) = running(&test, &["./waits"]);
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let tracer = recorder(&test, process, "w.qtrace", &[]);
            send(tracer.id() as i32, signal);
            test.wait(tracer).succeeds();
            assert!(is_untraced(process));
        }
        let tracer = recorder(&test, process, "w.qtrace", &["--seconds=1e19"]);
        send(tracer.id() as i32, Signal::INT);
        test.wait(tracer).succeeds();
        let tracer = recorder(&test, process, "w.qtrace", &["--seconds=0.5"]);
        let outcome = test.wait(tracer);
        assert!(outcome.stderr.contains("the program runs on"), "{outcome}");
        step(&mut child);
        let outcome = test.wait(child);
        assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(0), "0 failures\n"), "{outcome}");
    }
}

/// The same in an ordinary recording: ignored signals stop a traced program, and wake no other.
#[test]
fn privileged_an_ignored_signal_cuts_no_wait_of_a_recorded_command_short() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    program(&test, "waits", &["-pthread"]);
    for options in [&["--engine=ptrace"][..], &["--until-started=600"]] {
        let words =
            [&["-q", "record", "-f", "-o", "w.qtrace"], options, &["--", "./waits", "with signals"]].concat();
        let (mut child, _) = running(&test, &with_quell(&words));
        std::thread::sleep(std::time::Duration::from_millis(800));
        step(&mut child);
        let outcome = test.wait(child);
        assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(0), "0 failures\n"), "{outcome}");
    }
}

/// A wait ends by its time also while signals come that the program ignores.
#[test]
fn privileged_timed_waits_end_by_their_time_whatever_is_ignored_meanwhile() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    program(&test, "timed", &["-pthread", "-lrt"]);
    let waits = |words: &[&str]| {
        let (child, _) = running(&test, words);
        test.wait(child).stdout
    };
    let plain = waits(&["./timed"]);
    assert!(plain.contains("epoll_wait 0 \n") && !plain.contains("too early"), "{plain}");
    for options in [&["--engine=ptrace"][..], &["--until-started=600"]] {
        let words = [&["-q", "record", "-f", "-o", "w.qtrace"], options, &["--", "./timed"]].concat();
        assert_eq!(waits(&with_quell(&words)), plain, "{options:?}");
    }
    let (mut child, process) = running(&test, &["./timed", "for a line"]);
    let tracer = recorder(&test, process, "w.qtrace", &[]);
    step(&mut child);
    assert_eq!(test.wait(child).stdout, plain);
    test.wait(tracer).succeeds();
}

/// Threads that send each other signals all the time stop all the time under a recorder, which nevertheless comes and goes.
#[test]
fn privileged_a_flood_of_ignored_signals_does_not_hold_a_recorder() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    program(&test, "flood", &["-pthread"]);
    let (child, process) = running(&test, &["./flood"]);
    let tracer = recorder(&test, process, "f.qtrace", &[]);
    send(tracer.id() as i32, Signal::INT);
    test.wait(tracer).succeeds();
    assert!(is_untraced(process));
    send(process, Signal::TERM);
    test.wait(child);
}

#[test]
fn privileged_a_program_survives_recorders_that_are_killed() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let script = "echo $$; read line; i=0; sum=0; until [ -e enough ]; do i=$((i+1)); test -e /absent$i || sum=$((sum+i)); \
                  [ $((i % 10)) = 0 ] && sum=$((sum + $(echo 1) - 1)); done; [ $sum = $((i*(i+1)/2)) ] && echo right; exit 9";
    let (mut child, process) = running(&test, &["sh", "-c", script]);
    step(&mut child);
    for round in 0..20 {
        let tracer = recorder(&test, process, "k.qtrace", if round % 2 == 0 { &[] } else { &["--children"] });
        kill(tracer.id() as i32);
        test.wait(tracer);
        wait_until("the kernel has detached the program", || is_untraced(process));
    }
    test.write("enough", "");
    let outcome = test.wait(child);
    assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(9), "right\n"));
    test.quell(&["report", "k.qtrace"]);
}

/// Of a program that forks all the time, a recorder misses nothing from the moment at which it is there.
#[test]
fn privileged_a_storm_of_processes_is_recorded_whole() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let storm = "storm() { i=0; while [ $i -lt $1 ]; do i=$((i+1)); (cd /; (test -e /$2$i)) & \
                 [ $((i % 8)) = 0 ] && wait; done; wait; }; echo $$; storm 400 early; echo whole; storm 300 late; echo done; read line; exit 4";
    let (mut child, process) = running(&test, &["sh", "-c", storm]);
    let tracer = recorder(&test, process, "s.qtrace", &["--children"]);
    assert_eq!((next_line(&mut child), next_line(&mut child)), ("whole".to_owned(), "done".to_owned()));
    step(&mut child);
    assert_eq!(test.wait(child).status.code(), Some(4));
    let outcome = test.wait(tracer);
    assert!(outcome.stderr.contains(" calls in `s.qtrace`"), "{outcome}");
    let table = test.quell(&["-q", "export", "s.qtrace", "--format", "csv", "-o", "-"]).succeeds();
    for i in 1..=300 {
        assert!(table.contains(&format!(",ENOENT,/late{i},")), "/late{i}");
    }
    let json = test.json(&["report", "--json", "s.qtrace"]);
    assert_eq!((&json["exit_status"], &json["recorder"]["lost"]), (&4.into(), &0.into()));
}

#[test]
fn privileged_a_stopped_program_stays_stopped_until_it_is_continued() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let script = "echo $$; read a; test -e /first; echo first; read b; test -e /second; echo second; exit 6";
    let (mut child, process) = running(&test, &["sh", "-c", script]);
    let state = || field(&process.to_string(), "State:").chars().next();
    send(process, Signal::STOP);
    wait_until("it is stopped", || state() == Some('T'));
    let tracer = recorder(&test, process, "t.qtrace", &[]);
    step(&mut child);
    send(process, Signal::CONT);
    assert_eq!(next_line(&mut child), "first");
    send(process, Signal::STOP);
    wait_until("it is stopped again", || matches!(state(), Some('T' | 't')));
    send(tracer.id() as i32, Signal::INT);
    test.wait(tracer).succeeds();
    assert_eq!(state(), Some('T'), "it is stopped without a recorder");
    step(&mut child);
    send(process, Signal::CONT);
    assert_eq!(next_line(&mut child), "second");
    assert_eq!(test.wait(child).status.code(), Some(6));
    let table = test.quell(&["-q", "export", "t.qtrace", "--format", "csv", "-o", "-"]).succeeds();
    assert!(table.contains(",/first,") && !table.contains(",/second,"), "{table}");
}

#[test]
fn privileged_processes_from_before_are_recorded_when_asked_for() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let script = "mkdir -p below; (cd below; while read word; do test -e $word; echo $word; done) & echo $$; wait; exit 3";
    let script = format!("exec 3<&0; {}", script.replace("done)", "done <&3)"));
    for (trace, options, knows) in [("a.qtrace", &[][..], false), ("b.qtrace", &["--children"], true)] {
        let (mut child, process) = running(&test, &["sh", "-c", &script]);
        let tracer = recorder(&test, process, trace, options);
        if knows {
            let below =
                || std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
            wait_until("the child is traced", || field(below().trim(), "TracerPid:") != "0");
        }
        child.stdin.as_mut().unwrap().write_all(b"name\n").unwrap();
        assert_eq!(next_line(&mut child), "name");
        drop(child.stdin.take());
        assert_eq!(test.wait(child).status.code(), Some(3), "the status is that for its parent");
        test.wait(tracer).succeeds();
        let table = test.quell(&["-q", "export", trace, "--format", "csv", "-o", "-"]).succeeds();
        assert_eq!(table.contains(",[DIR]/below/name,"), knows, "{table}");
    }
}

/// A pipe that gets the number of a file that `execve` closed is not taken for that file.
#[test]
fn privileged_a_descriptor_from_before_is_closed_where_a_program_is_executed() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    test.write("data", "content");
    let after = "import os; pipes = [os.pipe() for _ in range(4)]; r, w = pipes[3]; assert r == 9; \
                 os.write(w, b'1'); os.read(r, 1234567)";
    let script = format!(
        "import os, sys; os.dup2(os.open('data', os.O_RDONLY), 9, False); print(os.getpid(), flush=True); \
         sys.stdin.readline(); os.read(9, 4); os.execlp('python3', 'python3', '-SEsc', \"{after}\")"
    );
    let (mut child, process) = running(&test, &["python3", "-SEsc", &script]);
    let tracer = recorder(&test, process, "e.qtrace", &[]);
    step(&mut child);
    assert_eq!(test.wait(child).status.code(), Some(0));
    test.wait(tracer).succeeds();
    let table = test.quell(&["-q", "export", "e.qtrace", "--format", "csv", "-o", "-"]).succeeds();
    let of = |size: &str| {
        table.lines().find(|line| line.contains(",read,") && line.contains(size)).unwrap().to_owned()
    };
    assert!(of(",0,4,").contains(",[DIR]/data,"), "{table}");
    assert!(!of(",0,1234567,").contains("[DIR]/data"), "{table}");
}

#[test]
fn privileged_what_cannot_be_recorded_is_named() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    session!(|line| test.script(line), @r#"
    $ quell record -p 999999999 -o x.qtrace => 125
    quell: error: there is no process 999999999
    hint: `pgrep -a NAME` lists processes with their numbers
    $ sh -c 'quell record -p $$ -o x.qtrace; exit $?' 2>&1 | sed 's/[0-9][0-9]*/N/'
    --- stdout
    quell: error: cannot record process N: this `quell` runs below it
    hint: name the process that asks for files
    $ quell record -p 0 -o x.qtrace => 125
    error: invalid value '0' for '--pid <PID>...': 0 is not in 1..=2147483647

    For more information, try '--help'.
    $ quell record -p "$(printf '999999998\n1')" -p '999999999 , 2' -o x.qtrace => 125
    quell: error: there is no process 999999998
    hint: `pgrep -a NAME` lists processes with their numbers
    $ QUELL_ENGINE=mount QUELL_RANKS=3 quell record -p 999999999 --seconds 1e19 => 125
    quell: error: there is no process 999999999
    hint: `pgrep -a NAME` lists processes with their numbers
    $ QUELL_ENGINE=mount quell record --engine ptrace -p 999999999 => 125
    error: the argument '--pid <PID>...' cannot be used with '--engine <ENGINE>'

    Usage: quell record [OPTIONS] -- CMD [ARG]...
           quell record [OPTIONS] -p PID...

    For more information, try '--help'.
    $ quell record --seconds 3 -- true => 125
    error: the argument '--seconds <N>' cannot be used with '[CMD]...'

    Usage: quell record [OPTIONS] -- CMD [ARG]...
           quell record [OPTIONS] -p PID...

    For more information, try '--help'.
    $ quell record --disable -p 999999999
    "#);
    let (mut child, process) = running(&test, &["sh", "-c", "echo $$; read line"]);
    let process_text = process.to_string();
    let tracer = traced(&test, process, &["strace", "-qq", "-o", "log", "-p", &process_text]);
    let outcome = test.quell(&["record", "-p", &process_text, "-o", "x.qtrace"]);
    let expected = format!(
        "quell: error: cannot record process {process}: process {} traces it already, and a process has one tracer at most\n\
         hint: end that one first\n",
        tracer.id()
    );
    assert_eq!((outcome.status.code(), &outcome.stderr), (Some(125), &expected), "{outcome}");
    kill(tracer.id() as i32);
    test.wait(tracer);
    step(&mut child);
    test.wait(child);
    assert!(!test.path("x.qtrace").exists());
}

/// A recorder that asks for a file of a server that it has stopped would wait for ever.
#[test]
fn privileged_a_server_of_a_fuse_file_system_is_not_stopped() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse]) else { return };
    let script = "sleep 1000 5<>/dev/fuse & echo $$; read line; kill $!; test -e /absent";
    let (mut child, process) = running(&test, &["sh", "-c", script]);
    let children = std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap();
    let server = children.trim();
    let serves =
        || std::fs::read_link(format!("/proc/{server}/fd/5")).is_ok_and(|to| to == Path::new("/dev/fuse"));
    wait_until("the server has its channel", serves);
    let outcome = test.quell(&["record", "-p", server, "-o", "x.qtrace"]);
    let expected = format!(
        "quell: error: cannot record process {server}: it serves a FUSE file system, which would not answer while it is stopped\n\
         hint: name the process that asks for files\n"
    );
    assert_eq!((outcome.status.code(), outcome.stderr), (Some(125), expected));
    let tracer = recorder(&test, process, "c.qtrace", &["--children", "--seconds=1"]);
    // The recorder looks for threads more than once.
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(is_untraced(server.parse().unwrap()), "the server is traced");
    test.wait(tracer).succeeds();
    step(&mut child);
    test.wait(child);
    let notes = test.read_text("c.qtrace/header.json");
    let note = format!("process {server} is not in the recording: it serves a FUSE file system");
    assert!(notes.contains(&note), "{notes}");
}

/// Where one process refuses, the others notice nothing, and an earlier trace stays.
#[test]
fn privileged_processes_are_recorded_all_or_none() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    program(&test, "waits", &["-pthread"]);
    let (mut child, process) = running(&test, &["./waits"]);
    let (mut other, refuses) = running(&test, &["sh", "-c", "echo $$; read line"]);
    let refuses_text = refuses.to_string();
    let tracer = traced(&test, refuses, &["strace", "-qq", "-o", "log", "-p", &refuses_text]);
    test.quell(&["-q", "record", "-o", "x.qtrace", "--", "true"]).succeeds();
    let before = test.files();
    for _ in 0..20 {
        let outcome =
            test.quell(&["record", "-f", "-o", "x.qtrace", "-p", &process.to_string(), "-p", &refuses_text]);
        assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    }
    assert_eq!(test.files(), before);
    step(&mut child);
    let outcome = test.wait(child);
    assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(0), "0 failures\n"), "{outcome}");
    kill(tracer.id() as i32);
    test.wait(tracer);
    step(&mut other);
    test.wait(other);
}

#[test]
fn privileged_an_earlier_trace_outlives_a_process_of_another_user() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace]) else { return };
    let mut theirs = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    test.quell(&["-q", "record", "-o", "x.qtrace", "--", "true"]).succeeds();
    let outcome = test.quell(&["record", "-f", "-p", &theirs.id().to_string(), "-o", "x.qtrace"]);
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    test.quell(&["report", "x.qtrace"]).succeeds();
}

/// The end before a call that a recorder hinders is said, and that call is made without one.
#[test]
fn privileged_a_program_that_gains_privileges_ends_the_recording_with_a_reason() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    std::fs::copy("/bin/sh", test.path("strong")).unwrap();
    test.mode("strong", 0o4755);
    rustix::fs::chown(test.path("strong"), Some(rustix::fs::Uid::from_raw(NOBODY)), None).unwrap();
    test.mode("strong", 0o4755);
    let script = "echo $$; read line; ./strong -p -c 'grep ^Uid: /proc/self/status'; exit 8";
    let (mut child, process) = running(&test, &["sh", "-c", script]);
    let tracer = recorder(&test, process, "p.qtrace", &[]);
    step(&mut child);
    let outcome = test.wait(child);
    assert_eq!(outcome.stdout, format!("Uid:\t0\t{NOBODY}\t{NOBODY}\t{NOBODY}\n"));
    let said = test.wait(tracer).stderr;
    let reason = "executed a set-user-ID or set-group-ID program, which has no privileges under a recorder";
    assert!(said.contains("warning: the recording ended before process") && said.contains(reason), "{said}");
    let notes = test.read_text("p.qtrace/header.json");
    assert!(notes.contains(reason), "{notes}");
}

/// The first thread of a process may end before the others.
#[test]
fn privileged_a_process_without_its_first_thread_is_recorded() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    program(&test, "headless", &["-pthread"]);
    test.write("name", "");
    let (mut child, process) = running(&test, &["./headless"]);
    wait_until("the first thread has ended", || field(&process.to_string(), "State:").starts_with('Z'));
    let words = with_quell(&["record", "-o", "h.qtrace", "-p"]);
    let process_text = process.to_string();
    let tracer =
        test.command(&[&words[..], &[&process_text]].concat()).stderr(Stdio::piped()).spawn().unwrap();
    let others = || threads(process).into_iter().filter(|thread| *thread != process_text).collect::<Vec<_>>();
    wait_until("the other thread is traced", || {
        others().iter().all(|thread| field(thread, "TracerPid:") != "0")
    });
    step(&mut child);
    assert_eq!(next_line(&mut child), "done");
    test.wait(child);
    test.wait(tracer).succeeds();
    let table = test.quell(&["-q", "export", "h.qtrace", "--format", "csv", "-o", "-"]).succeeds();
    assert!(table.contains(",[DIR]/name,"), "{table}");
    let json = test.json(&["report", "--json", "h.qtrace"]);
    assert_eq!(json["command"][0], "./headless");
}

#[test]
fn privileged_a_process_of_another_user_is_refused() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace]) else { return };
    let mut theirs = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    let process = theirs.id().to_string();
    let outcome = test.quell(&["record", "-p", &process, "-o", "x.qtrace"]);
    theirs.kill().unwrap();
    theirs.wait().unwrap();
    let expected = format!(
        "quell: error: cannot record process {process}: it belongs to user 0: EPERM (operation not permitted)\n\
         hint: root may record it\n"
    );
    assert_eq!((outcome.status.code(), outcome.stderr), (Some(125), expected));
    assert!(!test.path("x.qtrace").exists());
}
