//! The server beside what it serves: how many there are, what they survive, who may share one.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Need, QUELL, Test, next_line, send, wait_until, with_quell};

const ALL: &[Need] = &[Need::Root, Need::Fuse, Need::Ptrace];

fn packed() -> Option<Test> {
    let test = Test::of_ordinary_user(ALL)?;
    test.pack();
    Some(test)
}

/// A shell script from `image`, waiting for its input after it has printed `ready`.
fn lasting(test: &Test, image: &str, script: &str) -> Child {
    let script = format!("echo ready; read -r line; {script}");
    let mut child = test.start(&["run", image, "--", "sh", "-c", &script]);
    assert_eq!(next_line(&mut child), "ready");
    child
}

/// Its output, when it may go on.
fn released(test: &Test, mut child: Child) -> String {
    drop(child.stdin.take());
    test.wait(child).succeeds()
}

#[test]
fn privileged_a_hundred_ranks_that_come_at_once_share_a_server() {
    let Some(test) = packed() else { return };
    let script = "readlink /proc/self/ns/mnt; cat env/lib/a.txt; : > here.$me; \
                  while [ ! -e go ]; do sleep 0.1; done; ls env/lib";
    let ranks: Vec<Child> = (0..100)
        .map(|me| {
            let mut command = test.command(&with_quell(&["run", "app.qimg", "--", "sh", "-c", script]));
            command.env("me", me.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    wait_until("all have come", || {
        test.files().iter().filter(|name| name.starts_with("here.")).count() == 100
    });
    assert_eq!(test.servers().len(), 1);
    test.write("go", "");
    let namespaces: BTreeSet<String> = ranks
        .into_iter()
        .map(|rank| {
            let said = test.wait(rank).succeeds();
            let (namespace, rest) = said.split_once('\n').unwrap();
            assert_eq!(rest, "alpha\na.txt\nb.txt\nunread.txt\n");
            namespace.to_owned()
        })
        .collect();
    assert_eq!(namespaces.len(), 1);
}

/// 128 processes of one run touch at the same moment what the kernel has not seen yet.
#[test]
fn privileged_128_processes_are_cold_at_once() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    test.plant();
    let content = |number: usize| format!("{number}\n").repeat(20_000);
    (0..16).for_each(|number| test.write(&format!("env/data/{number}"), content(number)));
    test.script("$quell -q record -o app.qtrace -- sh -c 'cat env/data/* > /dev/null'").succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "--root", "env"]).succeeds();
    let plain = test.script("sha256sum env/data/*; stat -c '%n %s %i %y %A' env/data/*").succeeds();
    let script = "touch begun; for n in $(seq 128); do\n\
        (while [ ! -e go ]; do sleep 0.01; done; { sha256sum env/data/*; stat -c '%n %s %i %y %A' env/data/*; } > out.$n) &\n\
        done; : > go; wait";
    test.quell(&["run", "app.qimg", "--", "sh", "-c", script]).succeeds();
    for number in 1..=128 {
        assert_eq!(test.read_text(&format!("out.{number}")), plain, "{number}");
    }
}

#[test]
fn privileged_images_and_jobs_have_a_server_each() {
    let Some(test) = packed() else { return };
    test.write("other/data", "other\n");
    test.script("$quell -q record -o other.qtrace cat other/data").succeeds();
    test.quell(&["-q", "pack", "other.qtrace", "--root", "other"]).succeeds();
    let first = lasting(&test, "app.qimg", "cat env/lib/unread.txt");
    let second = lasting(&test, "other.qimg", "cat other/data");
    assert_eq!(test.servers().len(), 2);
    let jobs: Vec<Child> = ["7", "8"]
        .into_iter()
        .map(|job| {
            let mut command = test.command(&with_quell(&[
                "run",
                "app.qimg",
                "--",
                "sh",
                "-c",
                "echo ready; read -r line; cat env/lib/b.txt",
            ]));
            command
                .env("SLURM_JOB_ID", job)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            assert_eq!(next_line(&mut child), "ready");
            child
        })
        .collect();
    assert_eq!(test.servers().len(), 4);
    assert_eq!(released(&test, first), "unread\n");
    assert_eq!(released(&test, second), "other\n");
    for job in jobs {
        assert_eq!(released(&test, job), "beta\n");
    }
}

#[test]
fn privileged_users_of_one_image_have_a_server_each() {
    let (Some(of_ordinary_user), Some(of_root)) = (packed(), Test::privileged(ALL)) else { return };
    let image = of_ordinary_user.text("app.qimg");
    let data = of_ordinary_user.text("env/lib/unread.txt");
    let users = [&of_ordinary_user, &of_root];
    let runs = users.map(|test| {
        let script = format!("echo ready; read -r line; cat {data}");
        let mut child = test.start(&["run", "--trust", &image, "--", "sh", "-c", &script]);
        assert_eq!(next_line(&mut child), "ready");
        child
    });
    assert!(users.iter().all(|test| test.servers().len() == 1));
    for (test, run) in users.into_iter().zip(runs) {
        assert_eq!(released(test, run), "unread\n");
    }
}

/// Signals that a scheduler sends to every process of a job before its time is up, and that of a terminal that hangs up.
#[test]
fn privileged_the_servers_survive_the_warning_before_the_end() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        let run = lasting(&test, "app.qimg", "cat env/lib/unread.txt env/aside/deep/data; ls env/lib");
        let all = test.processes();
        let command = i32::try_from(run.id()).unwrap();
        for signal in [Signal::HUP, Signal::INT, Signal::TERM, Signal::USR1, Signal::USR2, Signal::XCPU] {
            all.iter().filter(|process| **process != command).for_each(|process| send(*process, signal));
        }
        assert_eq!(released(&test, run), "unread\ndata\na.txt\nb.txt\nunread.txt\n");
    }
}

/// A pipe has ended when the command has, although a process that it left keeps the server.
#[test]
fn privileged_a_reader_sees_the_end_while_the_server_lives() {
    let Some(test) = packed() else { return };
    test.run(&["mkfifo", "-m", "666", "go"]).succeeds();
    let script = "setsid sh -c 'read -r line < go; cat env/lib/unread.txt > late' < /dev/null > /dev/null 2>&1 & echo done";
    // `finish` waits for every process that holds the streams.
    assert_eq!(test.quell(&["run", "app.qimg", "--", "sh", "-c", script]).succeeds(), "done\n");
    assert_eq!(test.servers().len(), 1);
    test.script("echo > go").succeeds();
    test.silence();
    assert_eq!(test.read_text("late"), "unread\n");
}

/// Tools that start commands their own way.
#[test]
fn privileged_started_by_other_tools() {
    let Some(test) = packed() else { return };
    let run = "$quell run app.qimg --";
    let cases = [
        (format!("setsid --wait {run} cat env/lib/a.txt"), "alpha\n"),
        (format!("nohup {run} cat env/lib/a.txt 2> /dev/null"), "alpha\n"),
        (format!("timeout 50 {run} cat env/lib/a.txt"), "alpha\n"),
        (format!("timeout 0.2 {run} sleep 1000; echo $?"), "124\n"),
        (format!("{run} timeout 0.2 sleep 1000; echo $?"), "124\n"),
        (format!("seq 20 | xargs -P 8 -n 1 {run} cat env/lib/a.txt | sort -u"), "alpha\n"),
        (
            format!("{run} sh -c 'seq 20 | xargs -P 8 -n 1 cat env/lib/b.txt 2> /dev/null' | sort -u"),
            "beta\n",
        ),
        (format!("nice {run} cat env/lib/a.txt < /dev/null"), "alpha\n"),
        (format!("{run} {run} {run} cat env/lib/a.txt"), "alpha\n"),
        (format!("{run} cat env/lib/a.txt <&-"), "alpha\n"),
        (format!("{run} sh -c 'cat env/lib/a.txt > out' >&-; cat out"), "alpha\n"),
        (format!("{run} sh -c 'cat env/lib/a.txt > out' <&- >&- 2>&-; cat out"), "alpha\n"),
        (format!("unset HOME; {run} cat env/lib/a.txt"), "alpha\n"),
        (format!("{run} env - $quell run app.qimg -- cat env/lib/a.txt"), "alpha\n"),
    ];
    for (script, expected) in cases {
        let outcome = test.script(&script);
        assert_eq!(outcome.stdout, expected, "{script}: {outcome}");
    }
}

/// One image inside another: of the same directory, where the inner one is seen, and of another.
#[test]
fn privileged_images_inside_each_other() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        test.write("other/data", "other\n");
        test.script("$quell -q record -o b.qtrace cat env/lib/unread.txt; $quell -q record -o c.qtrace cat other/data")
            .succeeds();
        for (image, root) in [("b", "env"), ("c", "other")] {
            test.quell(&["-q", "pack", &format!("{image}.qtrace"), "--root", root]).succeeds();
        }
        let script = "$quell run app.qimg -- $quell run b.qimg -- $quell run c.qimg -- \
                      cat env/lib/unread.txt env/lib/a.txt env/aside/deep/data other/data; ls env/lib";
        let printed = test.script(script).succeeds();
        assert_eq!(printed, "unread\nalpha\ndata\nother\na.txt\nb.txt\nunread.txt\n");
        let again = "$quell run app.qimg -- $quell run b.qimg -- $quell run app.qimg -- env/bin/app";
        assert_eq!(test.script(again).succeeds(), test.run(&["env/bin/app"]).succeeds());
    }
}

/// With few descriptors allowed, many processes are still served.
#[test]
fn privileged_few_descriptors_are_enough() {
    let Some(test) = packed() else { return };
    let many = "for n in $(seq 60); do cat env/lib/unread.txt env/lib/b.txt & done; wait";
    for limit in ["ulimit -S -n 12", "ulimit -n 40"] {
        let outcome = test.script(&format!("{limit}; $quell run app.qimg -- sh -c '{many}'"));
        assert_eq!(outcome.stderr, "", "{limit}");
        assert_eq!(outcome.succeeds().lines().filter(|line| *line == "unread").count(), 60, "{limit}");
    }
}

/// A holder that has no descriptor left for another rank looks at the door again after a pause, not at once.
#[test]
fn privileged_ranks_beyond_the_limit_of_descriptors_keep_no_processor_busy() {
    let Some(test) = packed() else { return };
    for mode in ["mount", "extract"] {
        test.write("rank", "while [ ! -e go ]; do sleep 0.2; done");
        let run = format!("$quell -q run --mode {mode} app.qimg -- sh rank");
        test.write("runs", format!("ulimit -n 24; for n in $(seq 40); do {run} & done; wait"));
        test.write("calls", "");
        let mut all = test.shell("exec strace -f --seccomp-bpf -qq -o calls -e trace=accept4 sh runs");
        let all = all.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let refused = || test.read_text("calls").matches("EMFILE").count();
        wait_until("a rank is refused for want of a descriptor", || refused() > 0);
        // A holder that looks again without a pause makes far more attempts in this time.
        std::thread::sleep(Duration::from_secs(3));
        let attempts = refused();
        test.write("go", "");
        test.wait(all).succeeds();
        assert!(attempts < 400, "{mode}: {attempts} attempts without a descriptor");
        test.run(&["rm", "go", "calls"]).succeeds();
    }
}

/// A program at its limit of processes whose server is killed: the next server answers with the few threads that it gets.
#[test]
fn privileged_few_threads_of_a_later_server_answer_too() {
    let Some(test) = Test::of_ordinary_user(&[ALL, &[Need::Program("python3")]].concat()) else { return };
    test.pack();
    test.mode("app.qimg", 0o644);
    test.write("fill.py", FILL);
    let mut command = std::process::Command::new("prlimit");
    let id = 56_000 + std::process::id() % 4_000;
    let user = [&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups"];
    command.args(["--nproc=60", "setpriv"]).args(user).args([*QUELL, "run", "--trust", "app.qimg"]);
    command.args(["python3", "fill.py"]).current_dir(test.path("")).env_clear();
    command.env("PATH", "/usr/bin:/bin").env("DIRECTORY_OF_THE_TEST", test.path(""));
    let outcome = test.finish(command);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("beta\n", ""), "{outcome}");
}

/// Kills the server while its holder is stopped, takes all processes that are allowed, gives four back, and opens a file.
const FILL: &str = r#"
import os, signal, time

def own(name):
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{entry}/comm").read().strip() == name and os.stat(f"/proc/{entry}").st_uid == os.getuid():
                return int(entry)
        except OSError:
            pass

holder, server = own("quell-holder"), own("quell-server")
os.kill(holder, signal.SIGSTOP)
os.kill(server, signal.SIGKILL)
while open(f"/proc/{server}/stat").read().split(") ")[1][0] != "Z":
    time.sleep(0.01)
sleepers = []
try:
    while True:
        pid = os.fork()
        if not pid:
            signal.pause()
        sleepers.append(pid)
except BlockingIOError:
    pass
for pid in sleepers[:4]:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
os.kill(holder, signal.SIGCONT)
try:
    print(open("env/lib/b.txt").read(), end="")
finally:
    for pid in sleepers[4:]:
        os.kill(pid, signal.SIGKILL)
"#;

/// The image is used, or it is said why not; the command runs in any case.
#[test]
fn privileged_few_processes_or_little_memory_are_no_hang() {
    let Some(test) = packed() else { return };
    test.mode("app.qimg", 0o644);
    let run = [*QUELL, "run", "--trust", "app.qimg", "cat", "env/lib/a.txt"];
    // A user of this test alone, because processes are counted by user.
    let id = 60_000 + std::process::id() % 4_000;
    let user = [&format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups"];
    // From too few to enough: 16 processes and threads are.
    for (limit, count) in [("--nproc", 18), ("--as", 12)] {
        for value in 1..=count {
            let value = if limit == "--as" { value << 22 } else { value };
            let limit = format!("{limit}={value}");
            let mut command = std::process::Command::new("prlimit");
            command.args([&limit, "setpriv"]).args(user).args(run).current_dir(test.path("")).env_clear();
            command.env("PATH", "/usr/bin:/bin").env("DIRECTORY_OF_THE_TEST", test.path(""));
            let outcome = test.finish(command);
            let too_small = limit.starts_with("--as") && outcome.stdout.is_empty() && outcome.code() != 0;
            let ran = outcome.stdout == "alpha\n"
                && (outcome.stderr.is_empty() || outcome.stderr.contains("runs plain"));
            assert!(ran || too_small, "{limit}: {outcome}");
        }
    }
    test.silence();
}
