//! SIGKILL of any process leaves nothing behind but a partial trace that can be read.

use std::path::Path;
use std::process::{Child, Stdio};

use crate::harness::{Need, Test, User, kill, next_line, session, wait_until, with_quell};

const ALL: &[Need] = &[Need::Root, Need::Fuse, Need::Ptrace];

/// SIGKILL, and the end of the process.
fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn privileged_a_killed_recorder_leaves_a_readable_trace() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.plant();
    let endless =
        "env/bin/app > /dev/null; while :; do test -e absent; test -e done && echo looked; sleep 0.01; done";
    let mut child = test.start(&["record", "-o", "app.qtrace", "--", "sh", "-c", endless]);
    let spool = || std::fs::metadata(test.path("app.qtrace/spool")).map_or(0, |spool| spool.len());
    wait_until("calls reach the disk", || spool() > 4096);
    test.write("done", "");
    next_line(&mut child);
    killed(child);
    test.silence();
    let report = test.quell(&["report", "app.qtrace"]);
    assert!(report.status.success() && report.stdout.contains("partial"), "{report}");
    let predicted = test.quell(&["predict", "app.qtrace", "--root", "env", "--fs", "nfs", "--nodes", "1"]);
    assert!(predicted.status.success() && predicted.stdout.contains("a recording is partial"), "{predicted}");
    test.quell(&["-q", "pack", "app.qtrace", "--root", "env"]).succeeds();
    session!(|line| test.script(line), @"
    $ quell record -o app.qtrace true
    quell: `app.qtrace` exists already: the trace becomes `app-2.qtrace`
    quell: recorded [N] calls in `app-2.qtrace`; next: quell report app-2.qtrace
    ");
    test.quell(&["-q", "record", "--force", "-o", "app.qtrace", "true"]).succeeds();
    assert!(!test.path("app.qtrace/spool").exists());
}

/// A mount namespace with an empty /tmp and /dev/shm of its own, and what runs in it.
struct Stage {
    test: Test,
    holder: Child,
}

impl Stage {
    fn new(user: User) -> Self {
        let test = Test::of(user);
        test.pack();
        let empty =
            "mount -t tmpfs none /tmp && mount -t tmpfs none /dev/shm && echo ready && exec sleep 1000";
        let as_root = Test::of(User::Ourselves);
        let mut holder = as_root.command(&["unshare", "--mount", "sh", "-c", empty]);
        // The holder is no process of the test.
        holder.env_remove("DIRECTORY_OF_THE_TEST");
        let mut holder = holder.stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(next_line(&mut holder), "ready");
        Self { test, holder }
    }

    /// Ranks that run from the image, each of which has printed a line.
    fn ranks(&self, count: usize, script: &str) -> Vec<Child> {
        let mut ranks: Vec<Child> = (0..count).map(|number| self.rank(number, script)).collect();
        ranks.iter_mut().for_each(|rank| assert_eq!(next_line(rank), "ready"));
        ranks
    }

    fn rank(&self, number: usize, script: &str) -> Child {
        let stats = format!("stats-{number}.json");
        let enter = format!("--target={}", self.holder.id());
        let run = with_quell(&["run", "--stats", &stats, "app.qimg", "--", "sh", "-c", script]);
        let as_user = self.test.command(&run);
        // Root enters the namespace; the test's user runs there.
        let mut command = std::process::Command::new("nsenter");
        let directory = format!("--wdns={}", self.test.text(""));
        command.args(["--mount", &enter, &directory]).arg(as_user.get_program());
        command.args(as_user.get_args()).env_clear();
        command.envs(as_user.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Remains of a run: processes, mounts, files.
    fn assert_clean(&self, files: &[String]) {
        self.test.silence();
        let root = format!("/proc/{}/root", self.holder.id());
        for directory in ["tmp", "dev/shm"] {
            let left: Vec<_> = std::fs::read_dir(Path::new(&root).join(directory)).unwrap().collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let mounts = std::fs::read_to_string(format!("/proc/{}/mountinfo", self.holder.id())).unwrap();
        assert!(!mounts.contains("fuse.quell"), "{mounts}");
        assert_eq!(self.test.files(), files);
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.holder.kill().unwrap();
        self.holder.wait().unwrap();
    }
}

const WAIT: &str =
    "cat env/lib/a.txt > /dev/null; echo ready; read -r line; cat env/lib/unread.txt env/aside/deep/data";

#[test]
fn privileged_killing_everything_of_a_run_leaves_nothing() {
    for user in [User::Ourselves, User::Ordinary] {
        if Test::of_ordinary_user(ALL).is_none() {
            return;
        }
        let stage = Stage::new(user);
        let test = &stage.test;
        let files = test.files();
        for order in ["applications first", "servers first", "everything"] {
            let ranks = stage.ranks(3, WAIT);
            let (servers, all) = (test.servers(), test.processes());
            assert_eq!(servers.len(), 1, "{order}");
            let mut order: Vec<i32> = match order {
                "applications first" => {
                    all.iter().copied().filter(|number| !servers.contains(number)).collect()
                }
                "servers first" => servers.clone(),
                _ => Vec::new(),
            };
            order.extend(all);
            order.into_iter().for_each(kill);
            ranks.into_iter().for_each(killed);
            test.silence();
            // A server that outlived the applications for a moment may have written what it counted.
            for number in 0..3 {
                let _absent = std::fs::remove_file(test.path(&format!("stats-{number}.json")));
            }
            stage.assert_clean(&files);
        }
        // And the next run is as any other.
        let mut ranks = stage.ranks(1, WAIT);
        let rank = ranks.remove(0);
        assert_eq!(test.wait(rank).succeeds(), "unread\ndata\n");
    }
}

#[test]
fn privileged_killing_the_first_rank_leaves_the_others_working() {
    for user in [User::Ourselves, User::Ordinary] {
        if Test::of_ordinary_user(ALL).is_none() {
            return;
        }
        let stage = Stage::new(user);
        let test = &stage.test;
        let mut ranks = stage.ranks(1, WAIT);
        ranks.extend(stage.ranks(3, WAIT));
        let server = test.servers();
        killed(ranks.remove(0));
        ranks.extend(stage.ranks(1, WAIT));
        assert_eq!(test.servers(), server, "a later rank joins");
        for rank in ranks {
            assert_eq!(test.wait(rank).succeeds(), "unread\ndata\n");
        }
        test.silence();
    }
}

#[test]
fn privileged_servers_that_are_killed_together_are_an_error_not_a_hang() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    let look = "echo ready; read -r line; cat env/lib/a.txt env/lib/b.txt; echo status $?";
    let mut child = test.start(&["run", "app.qimg", "--", "sh", "-c", look]);
    assert_eq!(next_line(&mut child), "ready");
    test.kill_all_servers();
    drop(child.stdin.take());
    let outcome = test.wait(child);
    assert_eq!(outcome.stdout, "status 1\n", "{outcome}");
    assert_eq!(test.quell(&["run", "app.qimg", "--", "cat", "env/lib/a.txt"]).succeeds(), "alpha\n");
}

#[test]
fn privileged_a_server_that_is_killed_is_replaced() {
    for user in [User::Ourselves, User::Ordinary] {
        if Test::of_ordinary_user(ALL).is_none() {
            return;
        }
        let stage = Stage::new(user);
        let test = &stage.test;
        let ranks = stage.ranks(3, WAIT);
        for victims in [test.servers(), test.holders()] {
            assert_eq!(victims.len(), 1);
            victims.iter().copied().for_each(kill);
            wait_until("both are there again", || {
                let (servers, holders) = (test.servers(), test.holders());
                servers.len() == 1
                    && holders.len() == 1
                    && !victims.iter().any(|one| servers.contains(one) || holders.contains(one))
            });
        }
        // A rank that comes after all that joins the others.
        let late = stage.ranks(1, WAIT);
        for rank in ranks.into_iter().chain(late) {
            assert_eq!(test.wait(rank).succeeds(), "unread\ndata\n");
        }
        test.silence();
    }
}

#[test]
fn privileged_a_killed_pack_leaves_the_old_image() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    let big = std::fs::File::create(test.path("env/lib/big")).unwrap();
    big.set_len(256 << 20).unwrap();
    test.script("$quell -q record -o big.qtrace cat env/lib/big env/lib/a.txt > /dev/null").succeeds();
    let (old, before) = (test.read("app.qimg"), test.files());
    for round in 0..3 {
        let child = test.start(&["pack", "big.qtrace", "--force", "-o", "app.qimg", "--root", "env"]);
        let descriptors = format!("/proc/{}/fd", child.id());
        wait_until("the image is being written", || {
            std::fs::read_dir(&descriptors).unwrap().any(|entry| {
                let target = entry.and_then(|entry| std::fs::read_link(entry.path())).unwrap_or_default();
                target.starts_with(test.path("")) && target.to_string_lossy().ends_with("(deleted)")
            })
        });
        std::thread::sleep(std::time::Duration::from_millis(10 * round));
        killed(child);
        assert!(test.read("app.qimg") == old, "the old image is whole");
        assert_eq!(test.files(), before);
    }
}
