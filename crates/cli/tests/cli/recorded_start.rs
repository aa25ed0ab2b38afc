//! `quell record --until-started`, and what a recording does when something is in its way.

use std::process::{Child, Stdio};

use crate::harness::{Need, Test, kill, next_line, send, wait_until, with_quell};

fn started(test: &Test, arguments: &[&str]) -> Child {
    let mut command = test.command(&with_quell(arguments));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn header(test: &Test, trace: &str) -> serde_json::Value {
    serde_json::from_slice(&test.read(&format!("{trace}/header.json"))).unwrap()
}

#[test]
fn privileged_a_start_is_packed_while_its_command_runs() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Fuse, Need::Ptrace]) else { return };
    test.plant();
    let script = "env/bin/app > /dev/null; echo started; read line; env/bin/app; echo $line; exit 3";
    let recording = ["record", "--until-started=1", "-o", "app.qtrace", "--", "sh", "-c", script];
    let mut child = started(&test, &recording);
    assert_eq!(next_line(&mut child), "started");
    wait_until("the trace is complete", || {
        test.path("app.qtrace/header.json").exists()
            && header(&test, "app.qtrace")["completeness"] == "complete"
    });
    assert_eq!(header(&test, "app.qtrace")["ended"], "started");
    test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
    assert!(child.try_wait().unwrap().is_none(), "the command runs");
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"later\n").unwrap();
    let outcome = test.wait(child);
    let app = test.run(&["env/bin/app"]).stdout;
    assert_eq!((outcome.status.code(), &outcome.stdout), (Some(3), &format!("{app}later\n")), "{outcome}");
    assert!(outcome.stderr.contains(" calls of the start in `app.qtrace`"), "{outcome}");
    let report = test.quell(&["report", "app.qtrace"]).succeeds();
    assert!(report.contains(": its first ") && report.contains("only the start was recorded"), "{report}");
    let json: serde_json::Value =
        serde_json::from_str(&test.quell(&["report", "--json", "app.qtrace"]).succeeds()).unwrap();
    assert_eq!(json["recordings"][0]["ended"], "started");
    assert_eq!(test.quell(&["-q", "run", "app.qimg", "--", "env/bin/app"]).succeeds(), app);
}

#[test]
fn privileged_a_name_that_is_taken_leads_to_the_next() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.write("app-2.qtrace/notes", "not a trace\n");
    for (name, arguments) in [
        ("app.qtrace", &["record", "-o", "app.qtrace", "true"][..]),
        ("app-3.qtrace", &["record", "-o", "app.qtrace", "true"]),
        ("app.qtrace", &["record", "--force", "-o", "app.qtrace", "true"]),
        ("app-4.qtrace", &["record", "-o", "app.qtrace", "true"]),
    ] {
        let outcome = test.quell(arguments);
        let says = "quell: `app.qtrace` exists already: the trace becomes ";
        let said = outcome.stderr.lines().filter(|line| line.starts_with(says)).count();
        assert!(outcome.status.success(), "{outcome}");
        assert_eq!(said, usize::from(name != "app.qtrace"), "{outcome}");
        assert!(outcome.stderr.contains(&format!("in `{name}`")), "{outcome}");
        assert_eq!(header(&test, name)["completeness"], "complete");
    }
    assert_eq!(test.read_text("app-2.qtrace/notes"), "not a trace\n");
}

/// Records a shell that leaves a process behind, interrupts the recorder when it says so, and returns what it said.
fn interrupted(test: &Test, options: &[&str], trace: &str) -> (String, i32) {
    let script = "sleep 1000 > /dev/null 2>&1 & echo $!";
    let words = [&["record"], options, &["-o", trace, "--", "sh", "-c", script]].concat();
    let mut child = started(test, &words);
    let left = next_line(&mut child).parse().unwrap();
    let mut said = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    while !said.contains("Ctrl-C") {
        let mut byte = [0];
        assert_eq!(std::io::Read::read(stderr, &mut byte).unwrap(), 1, "{said}");
        said.push(byte[0].into());
    }
    send(child.id() as i32, rustix::process::Signal::INT);
    let outcome = test.wait(child);
    assert!(outcome.status.success(), "{outcome}");
    assert_eq!(header(test, trace)["completeness"], "complete");
    (said.replace(&format!("process {left}"), "process LEFT"), left)
}

const SAID: &str = "quell: warning: `sh` ended; still recording `sleep` (process LEFT)\nhint: Ctrl-C";

#[test]
fn privileged_a_process_left_behind_is_named_and_ctrl_c_ends_the_wait() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    // Of a process that ended and was not waited for, the command line is empty.
    let runs =
        |process: i32| std::fs::read(format!("/proc/{process}/cmdline")).is_ok_and(|line| !line.is_empty());
    let (said, left) = interrupted(&test, &[], "whole.qtrace");
    assert_eq!(said, SAID);
    assert!(!runs(left), "its calls would fail without a recorder");
    let (said, left) = interrupted(&test, &["--until-started=600"], "start.qtrace");
    assert_eq!(said, SAID);
    assert!(runs(left), "it may go on");
    kill(left);
}

#[test]
fn privileged_a_recording_inside_a_recording_names_the_outer_one() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let words = [
        &["record", "-o", "outer.qtrace", "--"][..],
        &with_quell(&["record", "-o", "inner.qtrace", "--", "true"])[..],
    ];
    let outcome = test.quell(&words.concat());
    assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    let said = "quell: error: cannot trace the command: `quell record` (process ";
    assert!(outcome.stderr.contains(said), "{outcome}");
    assert!(outcome.stderr.contains("hint: record once, around everything"), "{outcome}");
    assert!(!test.path("inner.qtrace").exists());
}

/// A recorded start ends where the program traces itself, so the inner recording is whole.
#[test]
fn privileged_a_recording_inside_a_recorded_start_ends_the_outer_one() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let inner = with_quell(&["record", "-o", "inner.qtrace", "--", "true"]);
    let words = [&["record", "--until-started", "-o", "outer.qtrace", "--"][..], &inner[..]].concat();
    test.quell(&words).succeeds();
    for trace in ["outer.qtrace", "inner.qtrace"] {
        test.quell(&["report", trace]).succeeds();
    }
}

#[test]
fn privileged_a_recorded_launcher_is_warned_about() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.write_mode("srun", "#!/bin/sh\n", 0o755);
    let outcome = test.quell(&["-q", "record", "-o", "t.qtrace", "--", "./srun", "-N2", "app"]);
    assert!(outcome.status.success(), "{outcome}");
    assert_eq!(
        outcome.stderr,
        "quell: warning: `srun` starts ranks outside of the recording\nhint: srun ... quell record -- CMD\n"
    );
}

#[test]
fn a_time_that_is_none_is_refused() {
    let test = Test::new();
    for time in ["0", "-1", "x", "inf", "nan"] {
        let outcome = test.quell(&["record", &format!("--until-started={time}"), "true"]);
        assert_eq!(outcome.status.code(), Some(125), "{outcome}");
    }
}
