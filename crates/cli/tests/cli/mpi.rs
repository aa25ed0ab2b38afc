//! `quell run` behind the launchers of Open MPI and MPICH, with real programs: the end of a job, by any cause.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::{Need, Outcome, QUELL, Test, compiled, send, wait_until};

/// An MPI library of the distribution.
#[derive(Clone, Copy, Debug)]
struct Library {
    launcher: &'static [&'static str],
    compiler: &'static str,
    rank: &'static str,
    status: Status,
}

/// The meaning of the launcher's status when a job fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    /// It tells how the ranks ended.
    Faithful,
    /// `mpiexec` of MPICH 4.0, whatever it launches, counts ranks that it has ended itself as successes, so that an
    /// interrupted job may give 0; and it dies of SIGPIPE when it tells a proxy to clean up that has just gone.
    Unsteady,
}

const LIBRARIES: [Library; 2] = [
    Library {
        launcher: &[
            "mpirun.openmpi",
            "--allow-run-as-root",
            "--oversubscribe",
            "--mca",
            "plm",
            "isolated",
            "--mca",
            "btl",
            "self,vader",
        ],
        compiler: "mpicc.openmpi",
        rank: "OMPI_COMM_WORLD_RANK",
        status: Status::Faithful,
    },
    Library {
        launcher: &["mpiexec.mpich"],
        compiler: "mpicc.mpich",
        rank: "PMI_RANK",
        status: Status::Unsteady,
    },
];

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Fuse,
    Need::Ptrace,
    Need::Program("mpirun.openmpi"),
    Need::Program("mpicc.openmpi"),
    Need::Program("mpiexec.mpich"),
    Need::Program("mpicc.mpich"),
];

impl Library {
    /// `ranks` of a command, with `$rank`, `$quell` and a place for the launcher's session.
    fn command(self, test: &Test, ranks: &str, command: &[&str]) -> Command {
        let mut command = test.command(&[self.launcher, &["-n", ranks], command].concat());
        std::fs::create_dir_all(test.path("session")).unwrap();
        test.give("session");
        command.env("TMPDIR", test.path("session")).env("quell", *QUELL).env("rank", self.rank);
        command
    }

    /// The same from the image, of a shell script in which `$me` is the rank.
    fn script(self, test: &Test, ranks: &str, script: &str) -> Command {
        let script = format!("eval me=\\$$rank; {script}");
        self.command(test, ranks, &[*QUELL, "run", "app.qimg", "--", "sh", "-c", &script])
    }
}

/// A tree with its image, for an ordinary user.
fn packed() -> Option<Test> {
    let test = Test::of_ordinary_user(NEEDS)?;
    test.pack();
    Some(test)
}

/// The launcher has ended by itself and its status is `right`, as far as that can be asked of it.
#[track_caller]
fn assert_status(library: Library, outcome: &Outcome, right: impl Fn(i32) -> bool) {
    let lost_its_proxy =
        || library.status == Status::Unsteady && outcome.status.signal() == Some(Signal::PIPE.as_raw());
    assert!(outcome.status.code().map_or_else(lost_its_proxy, right), "{library:?}: {outcome}");
}

/// Of what the job started nothing is left.
#[track_caller]
fn assert_nothing_left(test: &Test, outcome: &Outcome, files: &[String]) {
    test.silence();
    let mut left = test.files();
    left.retain(|name| !name.starts_with("session"));
    assert_eq!(left, files, "{outcome}");
    let session: Vec<_> = std::fs::read_dir(test.path("session")).unwrap().collect();
    assert!(session.is_empty(), "{session:?}: {outcome}");
}

/// The number of ranks that have made their file.
fn started(test: &Test) -> usize {
    test.files().iter().filter(|name| name.starts_with("started.")).count()
}

fn remove_started(test: &Test) {
    (0..4).for_each(|rank| std::fs::remove_file(test.path(&format!("started.{rank}"))).unwrap());
}

/// The output of all ranks is one file, whole when the launcher has ended, and the launcher waits for no collector.
#[test]
fn privileged_output_of_each_library_is_collected() {
    for library in LIBRARIES {
        let Some(test) = Test::of_ordinary_user(NEEDS) else { return };
        let script = "eval me=\\$$rank; seq -f \"$me says %g\" 500; test $me != 2 || exec sleep 0.1";
        let run = [*QUELL, "run", "--output", "log", "--label", "--", "sh", "-c", script];
        let outcome = test.finish(library.command(&test, "4", &run));
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""), "{library:?}: {outcome}");
        let text = test.read_text("log");
        for rank in 0..4 {
            let start = format!("{rank}: ");
            let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&start)).collect();
            let expected: Vec<_> = (1..=500).map(|number| format!("{rank} says {number}")).collect();
            assert_eq!(found, expected, "{library:?}");
        }
        assert_eq!(text.lines().count(), 2000);
        assert_nothing_left(&test, &outcome, &["log".to_owned()]);
    }
}

#[test]
fn privileged_ranks_of_each_library_exchange_data() {
    for library in LIBRARIES {
        let Some(test) = Test::of_ordinary_user(NEEDS) else { return };
        test.plant();
        compiled(&test, "exchange", library.compiler, &[]);
        std::fs::rename(test.path("exchange"), test.path("env/bin/exchange")).unwrap();
        test.script("$quell -q record -o app.qtrace cat env/bin/exchange > exchange").succeeds();
        test.quell(&["-q", "pack", "app.qtrace", "--root", "env"]).succeeds();
        let exchanged = |before: &[&str]| -> BTreeSet<String> {
            let command = library.command(&test, "2", &[before, &["env/bin/exchange"]].concat());
            let printed = test.finish(command).succeeds();
            let words: Vec<Vec<&str>> = printed.lines().map(|line| line.split(' ').collect()).collect();
            assert!(words.len() == 2 && words.iter().all(|line| line[3..] == ["0", "wrong"]), "{printed}");
            words.iter().map(|line| line[2].to_owned()).collect()
        };
        let plain = exchanged(&[]);
        let shared = exchanged(&[*QUELL, "run", "app.qimg", "--"]);
        assert!(shared.len() == 1 && shared.is_disjoint(&plain), "{library:?}: {shared:?}");
    }
}

#[test]
fn privileged_a_check_that_fails_ends_the_job() {
    for library in LIBRARIES {
        let Some(test) = packed() else { return };
        let files = test.files();
        test.write("env/lib/a.txt", "altered\n");
        let mut job = library.script(&test, "4", "sleep 1000 & exec sleep 1000");
        job.env("QUELL_ON_STALE", "fail");
        let outcome = test.finish(job);
        assert_status(library, &outcome, |status| status == 1);
        assert_eq!(outcome.stderr.matches("quell: error: 1 of the image's sources").count(), 1, "{outcome}");
        assert_nothing_left(&test, &outcome, &files);
    }
}

#[test]
fn privileged_rank_0_may_end_before_the_others() {
    const SCRIPT: &str = "[ $me != 0 ] || { echo $$ > first; exit 0; }\n\
        while [ ! -s first ] || [ -e /proc/$(cat first)/exe ]; do sleep 0.02; done\n\
        cat env/lib/unread.txt env/aside/deep/data";
    for library in LIBRARIES {
        let Some(test) = packed() else { return };
        let printed = test.finish(library.script(&test, "4", SCRIPT)).succeeds();
        let mut lines: Vec<&str> = printed.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, ["data", "data", "data", "unread", "unread", "unread"], "{library:?}");
    }
}

/// The rank dies when all have started: before that, `mpiexec` of MPICH 4.0 waits for ever, whatever it launches.
#[test]
fn privileged_a_rank_that_dies_takes_the_job_along() {
    for library in LIBRARIES {
        let Some(test) = packed() else { return };
        let files = test.files();
        for death in ["kill -SEGV $$", "kill -KILL $$"] {
            let script = format!(
                "cat env/lib/a.txt > /dev/null; : > started.$me; [ $me = 1 ] || exec sleep 1000\n\
                 for rank in 0 2 3; do until [ -e started.$rank ]; do sleep 0.02; done; done; {death}"
            );
            let outcome = test.finish(library.script(&test, "4", &script));
            remove_started(&test);
            assert_status(library, &outcome, |status| status != 0);
            assert_nothing_left(&test, &outcome, &files);
        }
    }
}

#[test]
fn privileged_an_interrupted_launcher_leaves_nothing() {
    for library in LIBRARIES {
        let Some(test) = packed() else { return };
        let files = test.files();
        for signal in [Signal::INT, Signal::TERM] {
            let mut command = library.script(&test, "4", ": > started.$me; exec sleep 1000");
            let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            wait_until("all ranks have started", || started(&test) == 4);
            send(i32::try_from(child.id()).unwrap(), signal);
            let outcome = test.wait(child);
            remove_started(&test);
            assert_status(library, &outcome, |status| status != 0 || library.status == Status::Unsteady);
            assert_nothing_left(&test, &outcome, &files);
        }
    }
}

/// A socket of PMI that the server kept would keep the launcher waiting for ranks that have ended.
#[test]
fn privileged_the_server_has_no_socket_and_no_stream_of_the_launcher() {
    const SCRIPT: &str = "for number in 0 1 2 $PMI_FD; do readlink /proc/self/fd/$number >> descriptors; done\n\
        : > started.$me; while [ ! -e go ]; do sleep 0.02; done";
    for library in LIBRARIES {
        let Some(test) = packed() else { return };
        let mut command = library.script(&test, "2", SCRIPT);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("all ranks have started", || started(&test) == 2);
        let servers = test.servers();
        assert_eq!(servers.len(), 1);
        let held: BTreeSet<String> = std::fs::read_dir(format!("/proc/{}/fd", servers[0]))
            .unwrap()
            .filter_map(|entry| Some(std::fs::read_link(entry.ok()?.path()).ok()?.to_str()?.to_owned()))
            .collect();
        let of_ranks = test.read_text("descriptors");
        let of_ranks: Vec<&str> = of_ranks.lines().filter(|name| *name != "/dev/null").collect();
        assert!(of_ranks.len() >= 4, "{of_ranks:?}");
        assert!(of_ranks.iter().all(|name| !held.contains(*name)), "{of_ranks:?} {held:?}");
        test.write("go", "");
        test.wait(child).succeeds();
    }
}
