//! `run --output`: every byte of every rank, in few writes, whatever is killed or full.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::harness::{Need, QUELL, Test, kill, send, session, wait_until};
use crate::processes::named;

const STRACE: &[Need] = &[Need::Ptrace, Need::Program("strace")];

/// The variables of a rank of Open MPI, of `ranks` on this node alone.
fn variables(rank: usize, ranks: usize) -> String {
    format!(
        "OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE={ranks} OMPI_COMM_WORLD_LOCAL_RANK={rank} \
         OMPI_COMM_WORLD_LOCAL_SIZE={ranks} PMIX_NAMESPACE=7"
    )
}

/// A shell that starts ranks, as a launcher does, and waits for them. `run` is what follows `quell run`.
fn ranks(count: usize, run: &str) -> String {
    let rank = |rank: usize| format!("{} $quell run {run} &\n", variables(rank, count));
    (0..count).map(rank).chain(["wait\n".to_owned()]).collect()
}

/// Lines of rank `me`, one write each.
const CHATTER: &str =
    "me=$OMPI_COMM_WORLD_RANK; n=0; while [ $n -lt $lines ]; do echo \"rank $me says $n\"; n=$((n+1)); done";

fn lines_of(rank: usize, lines: usize) -> Vec<String> {
    (0..lines).map(|line| format!("rank {rank} says {line}")).collect()
}

/// The lines of each rank are all there, whole and in order, and nothing else is.
#[track_caller]
fn assert_complete(text: &str, ranks: usize, lines: usize) {
    for rank in 0..ranks {
        let start = format!("rank {rank} ");
        let found: Vec<_> = text.lines().filter(|line| line.starts_with(&start)).collect();
        assert_eq!(found, lines_of(rank, lines), "rank {rank}");
    }
    assert_eq!(text.lines().count(), ranks * lines);
}

fn collectors(test: &Test) -> Vec<i32> {
    named(test.processes(), "quell-output")
}

/// A shell script, started, with `$quell` and pipes.
fn started(test: &Test, script: &str) -> Child {
    test.shell(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn privileged_ranks_write_fifty_times_less_often_than_they_print() {
    let Some(test) = Test::privileged(STRACE) else { return };
    let chatter = format!("lines=2000; {CHATTER}");
    test.write("chatter", chatter);
    let writes = |name: &str, script: &str| {
        test.write("job", script);
        let traced =
            ["strace", "-f", "-qq", "-e", "trace=write,writev", "-P", &test.text(name), "-o", "traced"];
        let mut command = test.command(&[&traced[..], &["sh", "job"]].concat());
        command.env("quell", *QUELL);
        test.finish(command).succeeds();
        assert_complete(&test.read_text(name), 8, 2000);
        test.read_text("traced").lines().filter(|line| line.contains("write")).count()
    };
    let ours = writes("log", &ranks(8, "--output log -- sh chatter"));
    let plain =
        (0..8).map(|rank| format!("{} sh chatter >> plain &\n", variables(rank, 8))).collect::<String>();
    let plain = writes("plain", &(plain + "wait"));
    assert!(plain >= 16_000 && ours * 50 <= plain, "{ours} writes, plain {plain}");
}

#[test]
fn a_program_writes_what_it_writes_plain() {
    let test = Test::new();
    for (script, status) in [
        ("echo out; echo error >&2; printf partial", 0),
        ("", 0),
        ("printf 'a\\n\\nb' >&2; exit 7", 7),
        ("echo x; kill -TERM $$", 143),
        ("seq 100000", 0),
        ("head -c 100000000 /dev/zero | tr '\\0' x", 0),
        ("echo before; nosuchprogram", 127),
    ] {
        test.write("script", script);
        let plain = test.script("exec sh script > plain 2>&1");
        let ours = test.script("exec $quell run --output ours -- sh script");
        assert_eq!((ours.code(), ours.stdout.as_str(), ours.stderr.as_str()), (status, "", ""), "{script}");
        assert_eq!(plain.code(), status, "{script}");
        assert!(test.read("ours") == test.read("plain"), "{script}");
    }
    assert_eq!(
        test.script("exec $quell run --output ours -- sh -c 'kill -KILL $$'").status.signal(),
        Some(9)
    );
}

#[test]
fn binary_data_passes_through_bounded_memory() {
    let test = Test::new();
    test.script("head -c 100000000 /dev/urandom > data").succeeds();
    let mut child =
        started(&test, "exec $quell run --output copy -- sh -c 'cat data; echo; echo end; exec sleep 1000'");
    let length = test.path("data").metadata().unwrap().len() + 5;
    wait_until("all is written", || test.path("copy").metadata().is_ok_and(|file| file.len() == length));
    let status = std::fs::read_to_string(format!("/proc/{}/status", collectors(&test)[0])).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    assert!(peak < 32 << 10, "{status}");
    send(child.id().cast_signed(), Signal::TERM);
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    test.script("printf '\\nend\\n' | cat data - | cmp - copy").succeeds();
}

#[test]
fn each_line_bears_its_rank_on_demand() {
    let test = Test::new();
    test.script(&ranks(11, "--output log --label -- sh -c 'echo one; printf \"two\\nthree\\n\" >&2'"))
        .succeeds();
    let text = test.read_text("log");
    for rank in 0..11 {
        let label = format!("{rank:>2}: ");
        let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&label)).collect();
        assert_eq!(found, ["one", "two", "three"], "{text}");
    }
    assert_eq!(text.lines().count(), 33);
}

#[test]
fn lines_are_in_the_file_while_the_program_runs() {
    let test = Test::new();
    let child = started(&test, "exec $quell run --output log -- sh -c 'echo begun; read -r line; echo done'");
    wait_until("the line is there", || test.path("log").exists() && test.read_text("log") == "begun\n");
    test.wait(child).succeeds();
    assert_eq!(test.read_text("log"), "begun\ndone\n");
}

/// A daemon keeps the pipe: it does not keep `quell run`, and what it prints later is not lost.
#[test]
fn what_outlives_the_command_is_collected_too() {
    let test = Test::new();
    let daemon = "echo now; (while [ ! -e go ]; do sleep 0.01; done; echo later) & exit 3";
    let outcome = test.script(&format!("exec $quell run --output log -- sh -c '{daemon}'"));
    assert_eq!(outcome.code(), 3, "{outcome}");
    assert_eq!(test.read_text("log"), "now\n");
    // The next command does not destroy what the daemon will print.
    let next = test.script("exec $quell run --output log -- echo next");
    assert_eq!(next.stderr, "quell: warning: another step writes to `[DIR]/log`: it is appended to\n");
    test.write("go", "");
    test.silence();
    assert_eq!(test.read_text("log"), "now\nnext\nlater\n");
}

#[test]
fn collectors_that_are_killed_lose_nothing() {
    let test = Test::new();
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64 | 1;
    let mut state = seed;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    let chatter = "n=0; while [ ! -e stop ]; do echo \"rank $OMPI_COMM_WORLD_RANK says $n\"; n=$((n+1)); done; \
                   echo $n > lines.$OMPI_COMM_WORLD_RANK";
    test.write("chatter", chatter);
    for label in ["", "--label"] {
        let job = started(&test, &ranks(4, &format!("--output log {label} -- sh chatter")));
        let mut killed = 0;
        while killed < 60 {
            std::thread::sleep(std::time::Duration::from_micros(random(30_000)));
            collectors(&test).into_iter().for_each(|collector| {
                kill(collector);
                killed += 1;
            });
        }
        test.write("stop", "");
        let outcome = test.wait(job);
        test.silence();
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""), "seed {seed}");
        let text = test.read_text("log");
        let own = |rank: usize| {
            let start = if label.is_empty() { String::new() } else { format!("{rank}: ") };
            let lines: usize = test.read_text(&format!("lines.{rank}")).trim().parse().unwrap();
            lines_of(rank, lines).into_iter().map(move |line| format!("{start}{line}")).collect::<Vec<_>>()
        };
        let mut total = 0;
        for rank in 0..4 {
            let found: Vec<_> = text.lines().filter(|line| line.contains(&format!("rank {rank} "))).collect();
            let expected = own(rank);
            let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert!(
                found.len() == expected.len() && differs.is_none(),
                "seed {seed}, rank {rank}: {} lines of {}, line {differs:?} differs {label}: {:?}",
                found.len(),
                expected.len(),
                differs.map(|at| &found[at.saturating_sub(1)..found.len().min(at + 3)])
            );
            total += expected.len();
        }
        assert_eq!(text.lines().count(), total, "seed {seed}");
        std::fs::remove_file(test.path("stop")).unwrap();
    }
}

#[test]
fn a_killed_rank_leaves_all_that_it_printed() {
    let test = Test::new();
    for victim in ["$$", "$PPID"] {
        let script = format!("seq 5000; printf partial; kill -KILL {victim}; while :; do :; done");
        test.write("script", script);
        let outcome = test.script("exec $quell run --output log -- sh script");
        assert_eq!(outcome.status.signal(), Some(9), "{victim}");
        test.silence();
        let text = test.read_text("log");
        assert!(text.ends_with("\n5000\npartial") && text.lines().count() == 5001, "{victim}: {text}");
    }
}

#[test]
fn privileged_a_full_disk_is_told_and_takes_what_it_can() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Program("unshare")]) else { return };
    test.write("full/file", "");
    let script = "mount -t tmpfs -o size=64k none full && $quell run --output full/log -- \
                  sh -c 'seq 40000; exit STATUS'; echo $?; cp full/log log";
    for (own, status) in [(0, 125), (3, 3)] {
        let script = script.replace("STATUS", &own.to_string());
        let outcome =
            test.run(&["unshare", "--mount", "env", &format!("quell={}", *QUELL), "sh", "-c", &script]);
        assert_eq!(outcome.stdout, format!("{status}\n"), "{outcome}");
        let told = "of output are missing in `[DIR]/full/log`: ENOSPC (no space left on device)";
        assert!(outcome.stderr.contains(told), "{outcome}");
        let expected = test.script("seq 40000").succeeds();
        let text = test.read_text("log");
        assert!(text.len() == 64 << 10 && expected.starts_with(&text), "{} bytes", text.len());
    }
}

#[test]
fn the_file_is_opened_as_steps_expect() {
    let test = Test::new();
    let log = |words: &str, text: &str| {
        let script = format!("umask 027; exec $quell run --output log {words} -- echo {text}");
        test.script(&script).succeeds();
        test.read_text("log")
    };
    assert_eq!(log("", "one"), "one\n");
    assert_eq!(test.path("log").metadata().unwrap().mode() & 0o7777, 0o640);
    assert_eq!(log("--open-mode append", "two"), "one\ntwo\n");
    assert_eq!(log("", "three"), "three\n");
    // Ranks that start after others have ended belong to the same step.
    let late = format!(
        "{}{} $quell run --output log -- echo late",
        ranks(2, "--output log -- echo early"),
        variables(2, 3)
    );
    test.script(&late).succeeds();
    assert_eq!(test.read_text("log"), "early\nearly\nlate\n");
    // Two steps at once: the second one destroys nothing.
    let other = "PMIX_NAMESPACE=8 $quell run --output log -- echo other";
    let both = "PMIX_NAMESPACE=7 $quell run --output log -- sh -c 'echo one; read -r line; echo two'";
    let place = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_SIZE=1";
    let first = started(&test, &format!("{place} {both}"));
    wait_until("the first step has begun", || test.read_text("log") == "one\n");
    let second = test.script(&format!("{place} {other}"));
    assert_eq!(second.stderr, "quell: warning: another step writes to `[DIR]/log`: it is appended to\n");
    test.wait(first).succeeds();
    test.silence();
    assert_eq!(test.read_text("log"), "one\nother\ntwo\n");
}

#[test]
fn names_and_what_is_no_file() {
    let test = Test::new();
    test.run(&["mkfifo", "fifo"]).succeeds();
    test.write("dir/x", "");
    session!(|line| test.script(line), @r"
    $ quell run --output fifo -- true => 125
    quell: error: cannot write output to `[DIR]/fifo`: EINVAL (invalid argument)
    hint: `--output FILE` takes a file that you may create or write to
    $ quell run --output dir -- true => 125
    quell: error: cannot write output to `[DIR]/dir`: EISDIR (is a directory)
    hint: `--output FILE` takes a file that you may create or write to
    $ quell run --output none/log -- true => 125
    quell: error: cannot write output to `[DIR]/none/log`: ENOENT (no such file or directory)
    hint: `--output FILE` takes a file that you may create or write to
    $ quell run --output log.%r -- true => 125
    quell: error: `--output` knows no `%r`
    hint: `%h` is the host, `%j` the job, `%%` a `%`
    $ quell run --output log.%j -- true => 125
    quell: error: `%j` in `--output` needs a batch job
    hint: `%h` is the host, `%j` the job, `%%` a `%`
    $ quell -q run --output log -- nosuchprogram => 127
    $ cat log
    --- stdout
    quell: error: `nosuchprogram`: command not found
    hint: look for it with `type -a NAME`; a module may have to be loaded first
    ");
    let host = test.script("uname -n | cut -d. -f1").succeeds();
    let host = host.trim();
    test.script("LSB_JOBID=12 LSB_JOBINDEX=3 $quell run --output 'log.%j.%h.%%' -- echo x").succeeds();
    assert_eq!(test.read_text(&format!("log.12.{host}.%")), "x\n");
    let several =
        "SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_JOB_ID=7 SLURM_NTASKS=2 SLURM_STEP_NUM_NODES=2 SLURM_NODEID=0";
    let outcome = test.script(&format!("{several} $quell run --output several -- echo x"));
    assert_eq!(
        outcome.stderr,
        format!("quell: each node writes its own file, here `[DIR]/several.{host}`\n")
    );
    assert_eq!(test.read_text(&format!("several.{host}")), "x\n");
}

#[test]
fn privileged_it_goes_with_images_statistics_and_one_word() {
    let Some(test) = Test::of_ordinary_user(&[Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    let expected = test.run(&["env/bin/app"]).succeeds();
    for run in [
        "--output log app.qimg -- env/bin/app",
        "--output log --stats stats.json app.qimg -- env/bin/app",
        "--output log --mode extract app.qimg -- env/bin/app",
        "--output log --auto --cache cache --root env -- env/bin/app",
        "--output log --auto --cache cache --root env -- env/bin/app",
    ] {
        let outcome = test.script(&format!("exec $quell run {run}"));
        assert!(outcome.status.success() && outcome.stdout.is_empty(), "{run}: {outcome}");
        let log = test.read_text("log");
        let own = log.lines().filter(|line| !line.starts_with("quell:")).map(|line| format!("{line}\n"));
        assert_eq!(own.collect::<String>(), expected, "{run}");
        test.silence();
    }
    let stats = test.read_json("stats.json");
    assert_eq!((&stats["mode"], &stats["output"]["lines"]), (&"mount".into(), &7.into()), "{stats}");
    assert!(stats["output"]["bytes_written"].as_u64() >= Some(expected.len() as u64), "{stats}");
}

/// The server writes the file again when the namespace is gone, at the same moment: neither destroys what the other wrote.
#[test]
fn privileged_statistics_keep_the_output_of_each_run() {
    let Some(test) = Test::of_ordinary_user(&[Need::Fuse, Need::Ptrace]) else { return };
    test.pack();
    let script = "for n in $(seq 20); do $quell run --output log.$n --stats stats.$n app.qimg -- echo x || exit; done; \
                  $quell run --output log --stats plain -- seq 1000";
    let outcome = test.script(script);
    assert!(outcome.status.success(), "{outcome}");
    let told = outcome.stderr;
    assert!(
        told.ends_with("quell: 1000 lines of 3.80 KiB became 1 write of 3.80 KiB to `[DIR]/log`\n"),
        "{told}"
    );
    test.silence();
    for name in (1..=20).map(|number| format!("stats.{number}")) {
        assert_eq!(test.read_json(&name)["output"]["lines"], 1, "{name}");
    }
    assert_eq!(test.read_json("plain")["output"]["writes"], 1);
}

/// Nothing of namespaces or FUSE is needed.
#[test]
fn privileged_it_works_where_nothing_can_be_mounted() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Program("unshare")]) else { return };
    let bare = "sysctl -qw user.max_user_namespaces=0 2> /dev/null; mount -t tmpfs none /dev; \
                exec $quell run --output log -- echo x";
    let set = format!("quell={}", *QUELL);
    test.run(&["unshare", "--mount", "--user", "--map-root-user", "env", &set, "sh", "-c", bare]).succeeds();
    assert_eq!(test.read_text("log"), "x\n");
}

/// Without room for a process the program starts all the same, and its output is where it belongs.
#[test]
fn privileged_a_node_without_room_for_a_collector_runs_the_program() {
    let Some(test) = Test::of_ordinary_user(&[Need::Root]) else { return };
    let outcome = test.script("ulimit -p 1; exec $quell run --output log -- echo x");
    let told = "quell: warning: cannot collect output on this node: EAGAIN (try again): this rank writes by itself\n";
    assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, told), "{outcome}");
    assert_eq!(test.read_text("log"), "x\n");
}

#[test]
fn privileged_another_users_file_is_not_written_to() {
    let Some(test) = Test::of_ordinary_user(&[Need::Root]) else { return };
    let directory = test.path("shared");
    std::fs::create_dir(&directory).unwrap();
    std::fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
    test.write("victim", "precious\n");
    std::fs::write(directory.join("file"), "").unwrap();
    std::os::unix::fs::symlink(test.path("victim"), directory.join("link")).unwrap();
    let stranger = Some(1234);
    std::os::unix::fs::lchown(directory.join("link"), stranger, stranger).unwrap();
    std::os::unix::fs::chown(directory.join("file"), stranger, stranger).unwrap();
    std::fs::set_permissions(directory.join("file"), std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .unwrap();
    for name in ["link", "file"] {
        let outcome = test.quell(&["run", "--output", &format!("shared/{name}"), "--", "echo", "x"]);
        assert_eq!(outcome.code(), 125, "{name}: {outcome}");
    }
    assert_eq!(test.read_text("victim"), "precious\n");
}
