//! `run --stats`: the file is there when `quell run` has ended, and nothing else differs from a run without it.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;

use rustix::process::Signal;

use crate::harness::{Need, Test, next_line, send, wait_until};
use crate::scratch::plant;

const ALL: &[Need] = &[Need::Root, Need::Fuse, Need::Ptrace];

fn packed() -> Option<Test> {
    let test = Test::of_ordinary_user(ALL)?;
    test.pack();
    Some(test)
}

fn lookups(test: &Test, file: &str) -> u64 {
    let stats = test.read_json(file);
    stats["requests"]["lookup"].as_u64().unwrap()
}

#[test]
fn privileged_the_file_is_there_at_once_and_follows_the_umask() {
    let Some(tests) = Test::packed(ALL) else { return };
    for test in tests {
        for round in 0..10 {
            let (umask, mode) = [("077", 0o600), ("022", 0o644), ("0", 0o666)][round % 3];
            let file = format!("stats-{round}.json");
            let script = format!(
                "umask {umask}; $quell run --stats {file} app.qimg -- cat env/lib/a.txt && cat {file} > copy"
            );
            assert_eq!(test.script(&script).succeeds(), "alpha\n");
            assert!(lookups(&test, "copy") > 0);
            let is_mode = || test.path(&file).metadata().unwrap().mode() & 0o7777;
            assert_eq!(is_mode(), mode, "{umask}");
            test.silence();
            assert_eq!(is_mode(), mode, "{umask}, at the end");
        }
    }
}

#[test]
fn privileged_it_is_there_for_extractions_and_what_is_learned_too() {
    let Some(test) = packed() else { return };
    let script =
        "$quell run --mode extract --stats s.json app.qimg -- cat env/lib/a.txt && cat s.json > copy";
    assert_eq!(test.script(script).succeeds(), "alpha\n");
    assert!(test.read_text("copy").contains("\"extract\""));
    let script = "$quell run --learn learned app.qimg -- cat env/aside/deep/data && cat learned > copy";
    assert_eq!(test.script(script).succeeds(), "data\n");
    test.silence();
    assert_eq!(test.read_text("copy"), test.read_text("learned"));
}

/// Requests of a process that outlives the command are counted when it has ended.
#[test]
fn privileged_what_outlives_the_command_is_counted_at_the_end() {
    let Some(test) = packed() else { return };
    test.run(&["mkfifo", "-m", "666", "go"]).succeeds();
    let script = "setsid sh -c 'read -r line < go; cat env/lib/unread.txt env/lib/b.txt' \
                  < /dev/null > late 2> /dev/null & echo done";
    let first = test.quell(&["run", "--stats", "s.json", "app.qimg", "--", "sh", "-c", script]);
    assert_eq!(first.succeeds(), "done\n");
    let before = lookups(&test, "s.json");
    test.script("echo > go").succeeds();
    test.silence();
    assert_eq!(test.read_text("late"), "unread\nbeta\n");
    assert!(lookups(&test, "s.json") > before);
}

#[test]
fn privileged_a_replaced_holder_writes_it() {
    let Some(test) = packed() else { return };
    let script = "cat env/lib/a.txt; echo ready; read -r line";
    let mut child = test.start(&["run", "--stats", "s.json", "app.qimg", "--", "sh", "-c", script]);
    assert_eq!((next_line(&mut child), next_line(&mut child)), ("alpha".into(), "ready".into()));
    test.holders().into_iter().for_each(crate::harness::kill);
    drop(child.stdin.take());
    child.wait().unwrap();
    assert!(lookups(&test, "s.json") > 0);
    test.silence();
}

#[test]
fn privileged_the_command_ends_as_without_it() {
    let Some(test) = packed() else { return };
    let run = ["", "--stats s.json"].map(|flag| format!("$quell run {flag} app.qimg --"));
    let cases = [
        "$run sh -c 'exit 7'; echo $?",
        "$run no-such-command 2> err; echo $? $(cat err)",
        "$run ./env/lib/a.txt 2> err; echo $?",
        "$run sh -c 'kill -TERM $$'; echo $?",
        "$run sh -c 'kill -KILL $$'; echo $?",
        "$run sh -c 'kill -SEGV $$'; echo $?",
        "timeout 0.3 $run sleep 1000; echo $?",
        "timeout -s KILL 0.3 $run sleep 1000; echo $?",
        "trap '' HUP CHLD; $run sh -c 'grep -E \"Sig(Blk|Ign)\" /proc/self/status; kill -HUP $$; echo lived'",
        "$run sh -c 'ls /proc/self/fd | wc -l; echo $# $0' zero one",
        "{ $run sh -c 'exec > /dev/null 2>&1; sleep 0.5; : > late'; } | cat; test -e late && echo early",
        "$run cat <&-; echo $?",
        "seq 1000 | $run head -n 1",
        "$run sh -c 'exec 9> lock; flock 9; exec 9>&-; flock -n lock true; echo $?'",
    ];
    for case in cases {
        let outcomes = run.clone().map(|run| {
            let outcome = test.script(&case.replace("$run", &run));
            let _absent = std::fs::remove_file(test.path("late"));
            (outcome.stdout, outcome.stderr, outcome.status)
        });
        assert_eq!(outcomes[1], outcomes[0], "{case}");
    }
}

/// Signals to the process that was started reach the command, which answers as it likes.
#[test]
fn privileged_signals_stops_and_ends_pass_through() {
    let Some(test) = packed() else { return };
    let script = "trap 'echo usr1' USR1; trap 'echo term; exit 3' TERM; trap 'echo cont' CONT; echo $$; \
                  while :; do sleep 0.05; done";
    let mut child = test.start(&["run", "--stats", "s.json", "app.qimg", "--", "sh", "-c", script]);
    let wrapper = i32::try_from(child.id()).unwrap();
    let shell: i32 = next_line(&mut child).parse().unwrap();
    send(wrapper, Signal::USR1);
    assert_eq!(next_line(&mut child), "usr1");
    send(shell, Signal::STOP);
    let state = |process: i32| {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    wait_until("it stops with its command", || state(wrapper) == 'T');
    send(wrapper, Signal::CONT);
    assert_eq!(next_line(&mut child), "cont");
    send(wrapper, Signal::TERM);
    assert_eq!(next_line(&mut child), "term");
    assert_eq!(child.wait().unwrap().code(), Some(3));
    test.silence();
}

#[test]
fn privileged_a_killed_wrapper_takes_its_command_along() {
    let Some(test) = packed() else { return };
    let mut child = test.start(&[
        "run",
        "--stats",
        "s.json",
        "app.qimg",
        "--",
        "sh",
        "-c",
        "echo ready; exec sleep 1000",
    ]);
    assert_eq!(next_line(&mut child), "ready");
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    test.silence();
}

/// A known workload below a scratch directory, and the system calls of its server.
#[test]
fn privileged_a_scratch_directory_is_counted() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Program("strace")]) else { return };
    plant(&test);
    let job = "for i in 1 2 3 4 5; do echo $i > tmp/$i; done; cat tmp/old tmp/sub/deep; rm tmp/1 tmp/2";
    let script = format!(
        "strace -f -y -qqq -o traced -e trace=openat $quell -q run --scratch tmp --stats stats.json -- sh -c '{job}'"
    );
    assert_eq!(test.script(&script).succeeds(), "old\ndeep\n");
    let stats = test.read_json("stats.json");
    assert_eq!((&stats["mode"], &stats["requests"]["lookup"]), (&"off".into(), &0.into()), "{stats}");
    let scratch = &stats["scratch"];
    let count = |names: &[&str]| names.iter().fold(scratch, |value, name| &value[name]).as_u64().unwrap();
    assert_eq!(
        (count(&["files_made"]), count(&["bytes_written"]), count(&["bytes_read"])),
        (5, 10, 9),
        "{stats}"
    );
    assert_eq!((count(&["requests", "write"]), count(&["requests", "read"])), (5, 2), "{stats}");
    assert!(count(&["requests", "lookup"]) >= 5 && count(&["requests", "other"]) >= 7, "{stats}");
    assert_eq!((count(&["original", "open"]), count(&["original", "readdir"])), (2, 2), "{stats}");
    let calls = test.read_text("traced");
    let within = format!("<{}", test.text("tmp"));
    let is_lookup =
        |line: &&str| line.contains("O_PATH") && line.contains("O_NOFOLLOW") && line.contains(&within);
    assert_eq!(
        count(&["original", "lookup"]),
        calls.lines().filter(is_lookup).count() as u64,
        "{stats}\n{calls}"
    );
    let spilled = ["spilled_files", "spilled_bytes", "kept_files", "kept_bytes"];
    assert_eq!(spilled.map(|name| count(&[name])), [0; 4], "{stats}");
    // Spilled files, kept files, and two directories.
    let run = "$quell -q run --scratch tmp --scratch other --scratch-memory 0 --keep --output log --stats kept.json";
    let job =
        "echo new > tmp/new; echo more >> tmp/new; echo other > other/new; : > tmp/empty; echo x >> tmp/old";
    test.script(&format!("mkdir other; {run} -- sh -c '{job}'")).succeeds();
    let stats = test.read_json("kept.json");
    assert_eq!(
        spilled.map(|name| stats["scratch"][name].as_u64().unwrap()),
        [3, 4 + 5 + 6 + 4 + 2, 4, 9 + 6 + 6],
        "{stats}"
    );
    assert_eq!(stats["output"]["lines"], 0, "{stats}");
}

#[test]
fn privileged_a_scratch_directory_beside_an_image_is_counted() {
    let Some(test) = packed() else { return };
    let script = "$quell -q run --scratch tmp --stats stats.json app.qimg -- sh -c 'cat env/lib/a.txt; echo new > tmp/new'";
    assert_eq!(test.script(&format!("mkdir tmp; {script}")).succeeds(), "alpha\n");
    let counted = || {
        let stats = test.read_json("stats.json");
        (stats["mode"].clone(), stats["scratch"]["files_made"].clone())
    };
    assert_eq!(counted(), ("mount".into(), 1.into()));
    test.silence();
    assert_eq!(counted(), ("mount".into(), 1.into()));
}

/// The disk of the node is none of the file system's, and what keeping asks is told by what was kept.
#[test]
fn privileged_a_scratch_directory_is_counted_apart_from_the_nodes_disk_and_from_keeping() {
    let Some(test) = Test::privileged(&[Need::Fuse]) else { return };
    plant(&test);
    test.script("mkdir local").succeeds();
    let job = "echo new > tmp/sub/new; echo more >> tmp/old; cat tmp/sub/deep";
    let counted = |flags: &str| {
        let run = format!(
            "$quell -q run --scratch tmp --scratch-memory 0 {flags} --stats stats.json -- sh -c '{job}'"
        );
        test.script(&run).succeeds();
        test.read_json("stats.json")["scratch"].clone()
    };
    let places = ["disk_files", "disk_bytes", "spilled_files", "spilled_bytes"];
    let own = counted("");
    assert_eq!(places.map(|name| own[name].as_u64().unwrap()), [0, 0, 2, 13], "{own}");
    let disk = counted("--scratch-disk local");
    assert_eq!(places.map(|name| disk[name].as_u64().unwrap()), [2, 13, 0, 0], "{disk}");
    assert_eq!(disk["original"], own["original"]);
    let kept = counted("--keep");
    assert_eq!(kept["original"], own["original"]);
    assert_eq!((&kept["kept_files"], &kept["kept_bytes"]), (&2.into(), &13.into()), "{kept}");
}
