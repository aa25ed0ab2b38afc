//! A command behaves as without quell: what it is given, what it says, what it is sent, how it ends.

use std::io::Write;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::harness::{Need, Outcome, QUELL, Test, next_line, program, send, wait_until};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// With quell before it, and with none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Plain,
    Record,
    Run,
    RecordedRun,
}

/// The ways that must be like the plain one.
const WAYS: [Way; 3] = [Way::Record, Way::Run, Way::RecordedRun];

impl Way {
    /// Words to put before a command. They work in every directory of the test.
    fn words(self, test: &Test) -> Vec<String> {
        let (trace, image) = (test.text("t.qtrace"), test.text("app.qimg"));
        let record = [*QUELL, "-q", "record", "--force", "-o", &trace, "--"];
        let run = [*QUELL, "-q", "run", &image, "--"];
        let words = match self {
            Self::Plain => Vec::new(),
            Self::Record => record.to_vec(),
            Self::Run => run.to_vec(),
            Self::RecordedRun => [&record[..], &run].concat(),
        };
        words.into_iter().map(str::to_owned).collect()
    }

    fn before(self, test: &Test, command: &[&str]) -> Vec<String> {
        self.words(test).into_iter().chain(command.iter().map(|word| (*word).to_owned())).collect()
    }

    /// The same as text for a shell.
    fn line(self, test: &Test) -> String {
        self.words(test).join(" ")
    }

    /// A recorder stays until the command has ended, and says how it did as a shell would.
    fn records(self) -> bool {
        matches!(self, Self::Record | Self::RecordedRun)
    }
}

fn packed() -> Option<Test> {
    let test = Test::privileged(ALL)?;
    test.pack();
    Some(test)
}

/// Runs `command` in every way, each with `setting` applied; all must be equal.
#[track_caller]
fn alike(test: &Test, command: &[&str], setting: impl Fn(&mut std::process::Command)) -> Outcome {
    let outcome = |way: Way| {
        let mut process = test.command(&way.before(test, command));
        setting(&mut process);
        test.finish(process)
    };
    let plain = outcome(Way::Plain);
    for way in WAYS {
        let other = outcome(way);
        assert_eq!(
            (other.code(), &other.stdout, &other.stderr),
            (plain.code(), &plain.stdout, &plain.stderr),
            "{way:?}"
        );
        assert!(
            way.records() || other.status == plain.status,
            "{way:?}: {} is not {}",
            other.status,
            plain.status
        );
    }
    plain
}

/// A shell script, in every way.
#[track_caller]
fn script(test: &Test, script: &str) -> Outcome {
    alike(test, &["sh", "-c", script], |_| {})
}

#[test]
fn privileged_what_is_given() {
    let (Some(ours), Some(of_ordinary_user)) = (Test::privileged(ALL), Test::of_ordinary_user(ALL)) else {
        return;
    };
    given_alike(&ours);
    given_alike(&of_ordinary_user);
}

fn given_alike(test: &Test) {
    test.pack();
    program(test, "given", &[]);
    let given = test.text("given");
    let usual = alike(test, &[&given], |_| {}).succeeds();
    assert!(usual.contains("directory [DIR]\n"), "{usual}");
    let below = alike(test, &["../../given"], |command| {
        command.current_dir(test.path("env/lib"));
    });
    assert!(below.stdout.contains("directory [DIR]/env/lib\n"), "{below}");
    let odd = |command: &mut std::process::Command| {
        command.env("EMPTY", "").env("TWO", "lines\nof it").env("QUELL_ABC", "d").env_remove("PATH");
    };
    alike(test, &[&given], odd);
}

#[test]
fn privileged_unusual_things_are_passed_on() {
    let Some(test) = packed() else { return };
    program(&test, "given", &[]);
    let outcome = |way: Way| test.run(&borrowed(&way.before(&test, &["./given"]), "./given"));
    let plain = outcome(Way::Plain).succeeds();
    let nice = rustix::process::getpriority_process(None).unwrap() + 3;
    for part in [
        &format!("nice {}", nice.min(19)),
        "signal 12  1",
        "signal 10 ignored 0",
        "signal 13 ignored 0",
        "descriptor 17 /dev/null",
        "umask 027",
        "limit 7 200 300",
    ] {
        assert!(plain.contains(part), "{part} in {plain}");
    }
    for way in WAYS {
        assert_eq!(outcome(way).succeeds(), plain, "{way:?}");
    }
}

fn borrowed<'a>(words: &'a [String], first: &'a str) -> Vec<&'a str> {
    [first].into_iter().chain(words.iter().map(String::as_str)).collect()
}

#[test]
fn privileged_status_and_streams() {
    let Some(test) = packed() else { return };
    for (how, code) in
        [("exit 0", 0), ("exit 7", 7), ("exit 255", 255), ("kill -TERM $$", 143), ("kill -KILL $$", 137)]
    {
        let outcome = script(&test, &format!("echo out; echo err >&2; cat env/lib/a.txt; {how}"));
        assert_eq!((outcome.code(), outcome.stdout.as_str()), (code, "out\nalpha\n"));
    }
}

#[test]
fn privileged_pipes() {
    let Some(test) = packed() else { return };
    for way in WAYS {
        let before = way.line(&test);
        let through =
            format!("seq 100000 | {before} cat env/lib/a.txt - | tail -n 1; {before} yes | head -n 1");
        assert_eq!(test.script(&through).succeeds(), "100000\ny\n", "{way:?}");
    }
}

#[test]
fn privileged_programs_of_every_kind() {
    let Some(test) = packed() else { return };
    program(&test, "vfork_exec", &[]);
    program(&test, "threads", &["-pthread"]);
    std::fs::rename(test.path("threads"), test.path("threads-shared")).unwrap();
    program(&test, "threads", &["-pthread", "-static"]);
    test.write_mode("bare", "cat env/lib/a.txt\n", 0o755);
    let nothing = |_: &mut std::process::Command| {};
    let app = "alpha\nbeta\nalpha\na.txt\nb.txt\nunread.txt\nabsent\n";
    assert_eq!(alike(&test, &["env/bin/app"], nothing).succeeds(), app);
    let by_path = alike(&test, &["app"], |command| {
        command.env("PATH", format!("{}:/usr/bin:/bin", test.text("env/bin")));
    });
    assert_eq!(by_path.succeeds(), app);
    for way in WAYS {
        assert_eq!(
            test.finish(test.command(&way.before(&test, &["./bare"]))).succeeds(),
            "alpha\n",
            "{way:?}"
        );
    }
    let vforked = alike(&test, &["./vfork_exec", "env/bin/app"], nothing).succeeds();
    assert_eq!(vforked, format!("{}0 failures\n", app.repeat(5)));
    for threads in ["./threads", "./threads-shared"] {
        let counted = alike(&test, &[threads, "env/lib/a.txt", "env/lib/absent"], nothing).succeeds();
        assert_eq!(counted, "1600 found, 1600 absent, 9600 bytes\n");
    }
}

/// A working directory that no path leads to.
#[test]
fn privileged_an_unreachable_working_directory() {
    let (Some(test), Some(of_ordinary_user)) = (packed(), Test::of_ordinary_user(ALL)) else { return };
    let removed = "mkdir gone; cd gone; rmdir ../gone; test -e ../env/bin/app && echo beside";
    for way in WAYS {
        let again = format!(
            "{removed}; {} sh -c 'test -e ../env || ls -A; readlink /proc/self/cwd'",
            way.line(&test)
        );
        assert!(test.script(&again).succeeds().contains("gone"), "{way:?}");
    }
    of_ordinary_user.pack();
    of_ordinary_user.write("closed/inner/file", "here\n");
    of_ordinary_user.mode("app.qimg", 0o644);
    of_ordinary_user.mode("closed", 0o000);
    for way in WAYS.into_iter().filter(|way| !way.records()) {
        let mut command = of_ordinary_user.command(&way.before(&of_ordinary_user, &["cat", "file"]));
        command.current_dir(of_ordinary_user.path("closed/inner"));
        assert_eq!(of_ordinary_user.finish(command).succeeds(), "here\n", "{way:?}");
    }
    of_ordinary_user.mode("closed", 0o755);
}

/// A resource limit that stops quell must not stop the command.
#[test]
fn privileged_limits_of_the_shell() {
    let Some(test) = packed() else { return };
    let many = "i=0; while test $i -lt 3000; do test -e /proc/absent/$i; i=$((i + 1)); done; cat env/lib/a.txt; exit 3";
    for way in WAYS {
        // Room for the header of a trace. Output goes into a pipe, which has no limit.
        let limited = format!("(ulimit -f 16; {} sh -c '{many}'; echo status $?) | cat", way.line(&test));
        let outcome = test.script(&limited);
        assert_eq!(outcome.stdout, "alpha\nstatus 3\n", "{way:?}");
        assert_eq!(outcome.stderr.contains("EFBIG"), way.records(), "{way:?}: {outcome}");
    }
    let mut command =
        test.command(&["prlimit", "--nproc=1", "setpriv", "--reuid=65533", "--clear-groups", *QUELL]);
    command.args(["run", "app.qimg", "echo", "plain"]);
    test.mode("app.qimg", 0o644);
    let outcome = test.finish(command);
    assert_eq!(outcome.stdout, "plain\n", "{outcome}");
}

#[test]
fn privileged_disabled_is_plain() {
    let Some(test) = packed() else { return };
    test.write_mode("bare", "cat env/lib/a.txt; exit 3\n", 0o755);
    let before = test.files();
    for arguments in [&["record", "-o", "new.qtrace", "--", "./bare"][..], &["run", "absent.qimg", "./bare"]]
    {
        let mut command = test.command(&crate::harness::with_quell(arguments));
        command.env("QUELL_DISABLE", "1");
        let outcome = test.finish(command);
        assert_eq!((outcome.code(), outcome.stdout.as_str(), outcome.stderr.as_str()), (3, "alpha\n", ""));
    }
    assert_eq!(test.files(), before);
}

/// A terminal with `command` in it, in its own session.
fn terminal(test: &Test, command: &str) -> Child {
    // A shell in between would end by the interrupt itself.
    let command = format!("exec {command}");
    let mut terminal = test.command(&["script", "-qec", &command, "/dev/null"]);
    terminal.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    terminal.spawn().unwrap()
}

#[test]
fn privileged_a_terminal_stays_a_terminal() {
    let Some(test) = packed() else { return };
    test.write_mode(
        "look",
        "#!/bin/sh\ntest -t 0 && test -t 1 && test -t 2 && ps -o stat= -p $$ | grep -q + && echo foreground; exit 6\n",
        0o755,
    );
    for way in WAYS {
        let mut child = terminal(&test, &format!("{} ./look", way.line(&test)));
        drop(child.stdin.take());
        let outcome = test.wait(child);
        assert!(outcome.stdout.contains("foreground"), "{way:?}: {outcome}");
        assert_eq!(outcome.code(), 6, "{way:?}");
    }
}

#[test]
fn privileged_the_interrupt_key_reaches_the_command_once() {
    let Some(test) = packed() else { return };
    program(&test, "signals", &[]);
    for way in WAYS {
        let mut child = terminal(&test, &format!("{} ./signals", way.line(&test)));
        assert_eq!(next_line(&mut child).trim(), "ready");
        child.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
        let stdin = child.stdin.take();
        let outcome = test.wait(child);
        drop(stdin);
        let said = outcome.stdout.replace("^C", "").replace('\r', "");
        assert_eq!((outcome.code(), said.as_str()), (5, "INT 1\n"), "{way:?}");
    }
}

#[test]
fn privileged_signals_to_quell_reach_the_command() {
    let Some(test) = packed() else { return };
    program(&test, "signals", &[]);
    for way in WAYS {
        for (signal, said) in
            [(Signal::TERM, "TERM 1\n"), (Signal::USR1, "USR1 1\n"), (Signal::HUP, "HUP 1\n")]
        {
            let mut command = test.command(&way.before(&test, &["./signals"]));
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            assert_eq!(next_line(&mut child), "ready");
            send(child.id() as i32, signal);
            let outcome = test.wait(child);
            assert_eq!((outcome.code(), outcome.stdout.as_str()), (5, said), "{way:?}");
        }
    }
}

/// A process that goes on when the command has ended: still served from the image, and recorded to its end.
#[test]
fn privileged_a_grandchild_outlives_the_command() {
    let Some(test) = packed() else { return };
    test.run(&["mkfifo", "go"]).succeeds();
    let outlive = "(read -r word < go; cat env/lib/b.txt > $word.unfinished; mv $word.unfinished $word) \
                   > /dev/null 2>&1 & echo left; exit 4";
    for way in WAYS {
        let out = format!("out-{way:?}");
        let mut command = test.command(&way.before(&test, &["sh", "-c", outlive]));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(next_line(&mut child), "left");
        let finished = if way.records() { None } else { Some(child.wait().unwrap().code()) };
        test.write("word", format!("{out}\n"));
        test.script("cat word > go").succeeds();
        wait_until("the grandchild has written", || test.path(&out).exists());
        assert_eq!(finished.unwrap_or_else(|| child.wait().unwrap().code()), Some(4), "{way:?}");
        assert_eq!(test.read_text(&out), "beta\n", "{way:?}");
        test.silence();
    }
}
