//! `quell top`: counts that are strace's, the processes that it follows, and programs and terminals that are left as they were.

use crate::attach::{field, is_untraced, of_strace_line, running, step, threads, traced, watch};
use crate::harness::{Need, QUELL, Test, kill, next_line, program, send, wait_until, with_quell};
use rustix::process::Signal;
use serde_json::Value;
use std::io::Write;
use std::process::{Child, Stdio};

/// The classes of calls, and the calls that the programs of these tests can make.
const CALLS: [(&str, &[&str]); 5] = [
    ("open", &["open", "openat"]),
    ("stat", &["stat", "lstat", "fstat", "newfstatat", "statx"]),
    ("access", &["access", "faccessat", "faccessat2"]),
    ("readlink", &["readlink", "readlinkat"]),
    ("list", &["getdents64"]),
];

/// The objects that were printed.
fn objects(test: &Test, name: &str) -> Vec<Value> {
    test.read_text(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A watch that prints objects into a file.
fn watcher(test: &Test, options: &str, name: &str) -> Child {
    let script = format!("exec \"$quell\" top {options} --json --interval 0.2 > {name}");
    test.shell(&script).stderr(Stdio::piped()).spawn().unwrap()
}

fn sum(objects: &[Value], name: &str) -> u64 {
    let of = |counts: &Value| counts.get(name).or(counts["classes"].get(name)).and_then(Value::as_u64);
    objects.iter().filter_map(|object| of(&object["interval"])).sum()
}

#[test]
fn privileged_counts_of_running_processes_equal_strace() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace")]) else { return };
    test.write("tree/sub/file", "content");
    program(&test, "rounds", &["-pthread"]);
    let names: Vec<&str> = CALLS.iter().flat_map(|(_, calls)| calls.iter().copied()).collect();
    let calls = format!("trace=execve,{}", names.join(","));
    watch(&test, |process| {
        let process = process.to_string();
        traced(
            &test,
            process.parse().unwrap(),
            &["strace", "-ff", "-qq", "-e", &calls, "-o", "log", "-p", &process],
        )
    });
    watch(&test, |process| {
        let script =
            format!("exec {QUELL} top -p {process} --json --interval 0.2 > top.jsonl", QUELL = *QUELL);
        traced(&test, process, &["sh", "-c", &script])
    });
    let logs = test.files().into_iter().filter(|name| name.starts_with("log."));
    let logs: Vec<String> = logs.map(|name| test.read_text(&name)).collect();
    let seen: Vec<_> = logs.iter().flat_map(|log| log.lines().filter_map(of_strace_line)).collect();
    let objects = objects(&test, "top.jsonl");
    for (class, calls) in CALLS {
        let theirs = seen.iter().filter(|(name, ..)| calls.contains(&name.as_str())).count() as u64;
        assert_eq!(sum(&objects, class), theirs, "{class}");
    }
    let missed = seen.iter().filter(|(_, error, _)| error == "ENOENT" || error == "ENOTDIR").count() as u64;
    assert!(missed > 0);
    let last = &objects.last().unwrap()["since_begin"];
    assert_eq!((sum(&objects, "missed"), last["missed"].as_u64()), (missed, Some(missed)));
    for object in &objects {
        let rows = |table: &str, others: &str| -> u64 {
            let rows =
                object[table].as_array().unwrap().iter().map(|row| row["operations"].as_u64().unwrap());
            rows.sum::<u64>() + object[others]["operations"].as_u64().unwrap()
        };
        let all = object["interval"]["operations"].as_u64().unwrap();
        assert_eq!(
            (rows("by_process", "other_processes"), rows("by_directory", "other_directories")),
            (all, all)
        );
    }
    let hot = |path: &str| objects.iter().any(|object| object["by_directory"].to_string().contains(path));
    assert!(hot(&test.text("tree")) && hot(&test.text("tree/sub")));
}

/// The child of a process.
fn child_of(process: u32) -> i32 {
    let children =
        || std::fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    wait_until("it has a child", || !children().trim().is_empty());
    children().split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn privileged_a_watched_program_runs_on_however_the_watch_ends() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let script = "echo $$; i=0; sum=0; until [ -e enough ]; do i=$((i+1)); test -e /absent$i || sum=$((sum+i)); \
                  [ $((i % 10)) = 0 ] && sum=$((sum + $(echo 1) - 1)); done; [ $sum = $((i*(i+1)/2)) ] && echo right; exit 9";
    let (child, process) = running(&test, &["sh", "-c", script]);
    let words = format!("top -p {process} --json");
    let words: Vec<&str> = words.split(' ').collect();
    for round in 0..12 {
        let mut command = test.command(&with_quell(&words));
        let watch = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until("it is watched", || !is_untraced(process));
        match round % 4 {
            0 => kill(watch.id() as i32),
            1 => kill(child_of(watch.id())),
            2 => send(watch.id() as i32, Signal::TERM),
            _ => send(child_of(watch.id()), Signal::INT),
        }
        test.wait(watch);
        wait_until("it is watched no more", || is_untraced(process));
    }
    test.write("enough", "");
    let outcome = test.wait(child);
    assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(9), "right\n"));
}

/// Neither the waits of a program nor the terminal show that there was a screen.
#[test]
fn privileged_a_screen_leaves_program_and_terminal_as_they_were() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("script")]) else { return };
    program(&test, "waits", &["-pthread"]);
    let (mut child, process) = running(&test, &["./waits"]);
    for (columns, ending) in [(80, "key"), (200, "interrupt"), (80, "kill")] {
        let inner = format!(
            "stty cols {columns} rows 24; stty -g > before; \"$quell\" top -p {process}; echo $? > status; stty -g > after"
        );
        let mut command = test.command(&["script", "-qfec", &inner, "typescript"]);
        command.env("quell", *QUELL).env("TERM", "xterm").stdin(Stdio::piped()).stdout(Stdio::null());
        let mut watch = command.spawn().unwrap();
        wait_until("it is watched", || {
            threads(process).iter().all(|thread| field(thread, "TracerPid:") != "0")
        });
        // The first screen has no counts yet.
        wait_until("a second screen is drawn", || test.read_text("typescript").matches("\x1b[H").count() > 1);
        match ending {
            "key" => watch.stdin.as_mut().unwrap().write_all(b"q").unwrap(),
            "interrupt" => watch.stdin.as_mut().unwrap().write_all(b"\x03").unwrap(),
            _ => kill(field(&process.to_string(), "TracerPid:").parse().unwrap()),
        }
        wait_until("it is watched no more", || is_untraced(process));
        test.wait(watch);
        let status = if ending == "kill" { "137\n" } else { "0\n" };
        assert_eq!((test.read_text("status").as_str(), ending), (status, ending));
        assert_eq!(test.read("before"), test.read("after"), "{ending}");
        let screens = test.read_text("typescript");
        assert_eq!(screens.matches("\x1b[?1049h").count(), 1, "{ending}");
        assert!(screens.rfind("\x1b[?1049l") > screens.rfind("by process"), "{ending}");
    }
    // A reader that goes away ends the watch like a key.
    let first = test.script(&format!("\"$quell\" top -p {process} --interval 0.1 | head -n 1")).succeeds();
    assert!(first.starts_with(&format!("watching process {process}: ")), "{first}");
    assert!(is_untraced(process));
    step(&mut child);
    let outcome = test.wait(child);
    assert_eq!((outcome.status.code(), &*outcome.stdout), (Some(0), "0 failures\n"), "{outcome}");
}

/// A user's and a job's processes, from before and from afterwards, until one must be let go.
#[test]
fn privileged_processes_of_a_user_or_a_job_are_followed() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse, Need::Program("setpriv")]) else { return };
    let user = (200_000 + std::process::id()).to_string();
    let job = format!("{user}.0");
    let asks = "echo $$; while read name; do [ $name = serve ] && exec 5<>/dev/fuse; test -e /absent$name; echo done; done";
    let of_user = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-c", asks];
    let variables = [format!("SLURM_JOB_ID={user}"), "SLURM_STEP_ID=0".to_owned()];
    let of_job = ["env", &variables[0], &variables[1], "sh", "-c", asks];
    for (words, options, watching) in [
        (&of_user[..], format!("--user {user}"), format!("user {user}")),
        (&of_job[..], format!("--job {job}"), format!("job {job}")),
    ] {
        let ask = |child: &mut Child, name: &str| {
            child.stdin.as_mut().unwrap().write_all(format!("{name}\n").as_bytes()).unwrap();
            assert_eq!(next_line(child), "done");
        };
        let (mut early, first) = running(&test, words);
        let watch = watcher(&test, &options, "top.jsonl");
        wait_until("the early one is watched", || !is_untraced(first));
        let (mut late, second) = running(&test, words);
        wait_until("the late one is watched", || !is_untraced(second));
        ask(&mut early, "1");
        ask(&mut late, "serve");
        assert!(is_untraced(second), "what serves FUSE is let go");
        wait_until("the other is watched again", || !is_untraced(first));
        ask(&mut early, "2");
        ask(&mut late, "3");
        send(watch.id() as i32, Signal::INT);
        test.wait(watch).succeeds();
        let objects = objects(&test, "top.jsonl");
        let missed = |process: i32| -> u64 {
            let rows = objects.iter().flat_map(|object| object["by_process"].as_array().unwrap());
            rows.filter(|row| row["process"] == process).map(|row| row["missed"].as_u64().unwrap()).sum()
        };
        assert_eq!((missed(first), missed(second)), (2, 0), "{watching}");
        let last = objects.last().unwrap();
        let note = format!(
            "process {second} opened `/dev/fuse`: a server of FUSE would not answer while it is stopped"
        );
        assert_eq!((&last["notes"][0], &last["watching"]), (&note.into(), &watching.into()));
        for child in [early, late] {
            assert!(test.wait(child).status.success());
        }
    }
}

/// Processes that run already are watched from the beginning, also those that are not named.
#[test]
fn privileged_the_first_interval_has_the_processes_of_a_user() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("setpriv")]) else { return };
    let user = (400_000 + std::process::id()).to_string();
    let asks = "echo $$; while true; do test -e /absent; done";
    let words = ["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups", "sh", "-c", asks];
    let (mut asking, process) = running(&test, &words);
    let first = test.json(&["top", "--user", &user, "--json", "--count", "1"]);
    asking.kill().unwrap();
    test.wait(asking);
    assert_eq!(
        (&first["processes"], &first["by_process"][0]["process"]),
        (&1.into(), &process.into()),
        "{first}"
    );
}

#[test]
fn what_cannot_be_watched_is_named() {
    let test = Test::new();
    for interval in ["0", "0.01", "1e19", "x"] {
        assert_eq!(test.quell(&["top", "--interval", interval]).status.code(), Some(2), "{interval}");
    }
    for (options, message) in [
        (&["-p", "999999999"][..], "there is no process 999999999"),
        (&["--user", "no such user"], "there is no user `no such user` here"),
        (&["--user", "0"], "the processes of root are not watched as a whole: file systems wait for some"),
    ] {
        let outcome = test.quell(&[&["top"], options].concat());
        assert_eq!(outcome.status.code(), Some(2), "{outcome}");
        assert!(outcome.stderr.starts_with(&format!("quell: error: {message}\nhint: ")), "{outcome}");
    }
}
