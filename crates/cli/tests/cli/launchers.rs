//! Under a launcher: which ranks record and speak, and real MPI ranks that exchange data inside one namespace.

use std::collections::BTreeSet;
use std::process::Command;

use crate::harness::{Need, QUELL, Test, program, snapshot, with_quell};

/// A job whose nodes have equally many ranks, numbered node by node.
#[derive(Clone, Copy)]
struct Job {
    nodes: u32,
    per_node: u32,
}

/// Two nodes with two ranks each.
const SMALL: Job = Job { nodes: 2, per_node: 2 };

impl Job {
    fn ranks(self) -> u32 {
        self.nodes * self.per_node
    }
}

/// The variables that a launcher gives to a rank of a job.
type Variables = fn(u32, Job) -> Vec<(&'static str, u32)>;

const LAUNCHERS: [(&str, Variables); 5] = [
    ("Slurm", |rank, job| {
        vec![
            ("SLURM_PROCID", rank),
            ("SLURM_NTASKS", job.ranks()),
            ("SLURM_LOCALID", rank % job.per_node),
            ("SLURM_NODEID", rank / job.per_node),
            ("SLURM_STEP_NUM_NODES", job.nodes),
            ("SLURM_JOB_ID", 17),
            ("SLURM_STEP_ID", 0),
        ]
    }),
    ("Open MPI", |rank, job| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", job.ranks()),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank % job.per_node),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", job.per_node),
        ]
    }),
    ("PMI", |rank, job| {
        vec![
            ("PMI_RANK", rank),
            ("PMI_SIZE", job.ranks()),
            ("MPI_LOCALRANKID", rank % job.per_node),
            ("MPI_LOCALNRANKS", job.per_node),
        ]
    }),
    ("PALS", |rank, job| {
        vec![
            ("PALS_RANKID", rank),
            ("PALS_SIZE", job.ranks()),
            ("PALS_LOCAL_RANKID", rank % job.per_node),
            ("PALS_LOCAL_SIZE", job.per_node),
            ("PALS_NODEID", rank / job.per_node),
        ]
    }),
    ("Flux", |rank, job| {
        vec![
            ("FLUX_TASK_RANK", rank),
            ("FLUX_JOB_SIZE", job.ranks()),
            ("FLUX_TASK_LOCAL_ID", rank % job.per_node),
            ("FLUX_JOB_NNODES", job.nodes),
            ("FLUX_JOB_ID", 17),
        ]
    }),
];

/// Runs quell as each rank of a job; what all said together.
fn as_ranks(test: &Test, variables: Variables, job: Job, arguments: &[&str]) -> String {
    let run = |number: u32| {
        let mut command = test.command(&with_quell(arguments));
        command.envs(variables(number, job).into_iter().map(|(name, value)| (name, value.to_string())));
        let outcome = test.finish(command);
        assert!(outcome.status.success(), "{outcome}");
        outcome.stderr
    };
    (0..job.ranks()).map(run).collect()
}

fn traces(test: &Test) -> Vec<String> {
    test.files().into_iter().filter(|name| name.ends_with(".qtrace")).collect()
}

/// The first node's trace is rank 0's, the last node's that of its first rank; Flux does not tell who is on which node.
fn sampled(launcher: &str, job: Job) -> Vec<String> {
    let sample = format!("true.rank{}.qtrace", job.ranks() - job.per_node);
    let known = launcher != "Flux";
    ["true.qtrace".to_owned()].into_iter().chain(known.then_some(sample)).collect()
}

#[test]
fn privileged_at_most_one_rank_a_node_records_and_one_speaks() {
    for job in [SMALL, Job { nodes: 4, per_node: 16 }] {
        for (name, variables) in LAUNCHERS {
            let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
            let said = as_ranks(&test, variables, job, &["record", "--", "true"]);
            assert_eq!(traces(&test), sampled(name, job), "{name}");
            assert_eq!(said.lines().count(), 1, "{name}: {said}");
            assert!(said.contains("`true.qtrace`"), "{name}: {said}");
            let traces = traces(&test);
            let together: Vec<&str> =
                ["report"].into_iter().chain(traces.iter().map(String::as_str)).collect();
            test.quell(&together).succeeds();
        }
    }
}

#[test]
fn privileged_ranks_that_are_asked_for_record_and_the_lowest_speaks() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let record = ["record", "--ranks", "3,1", "-o", "app.qtrace", "--", "true"];
    let said = as_ranks(&test, LAUNCHERS[0].1, SMALL, &record);
    assert_eq!(traces(&test), ["app.rank1.qtrace", "app.rank3.qtrace"]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("in `app.rank1.qtrace`; next: "), "{said}");
    test.quell(&["report", "app.rank1.qtrace", "app.rank3.qtrace"]).succeeds();
}

#[test]
fn privileged_ranks_that_the_job_has_not_are_missed_once() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let said = as_ranks(&test, LAUNCHERS[0].1, SMALL, &["record", "--ranks", "4,9", "--", "true"]);
    assert_eq!(traces(&test), [""; 0]);
    assert_eq!(
        said,
        "quell: warning: no trace is made: the job has none of the ranks that `--ranks` names\n"
    );
}

#[test]
fn privileged_a_recorded_run_records_the_same_ranks() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    let run = ["--", *QUELL, "run", "app.qimg", "--", "env/bin/app"];
    as_ranks(&test, LAUNCHERS[0].1, SMALL, &[&["record", "-o", "a.qtrace"], &run[..]].concat());
    assert_eq!(traces(&test), ["a.qtrace", "a.rank2.qtrace", "app.qtrace"]);
    as_ranks(&test, LAUNCHERS[0].1, SMALL, &[&["record", "--ranks=1", "-o", "b.qtrace"], &run[..]].concat());
    assert_eq!(traces(&test), ["a.qtrace", "a.rank2.qtrace", "app.qtrace", "b.rank1.qtrace"]);
}

#[test]
fn privileged_one_rank_says_why_the_image_is_not_used() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    test.pack();
    let run = "mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/null c 1 3; mount --move dev /dev; rmdir dev; \
               for rank in 0 1 2 3; do SLURM_PROCID=$rank SLURM_STEP_ID=0 $quell run --mode mount app.qimg echo $rank; done";
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", run]);
    command.env("quell", *QUELL);
    snapshot!(test.finish(command), @"
    status 0
    --- stdout
    0
    1
    2
    3
    --- stderr
    quell: warning: the image is not used and the command runs plain: cannot open `/dev/fuse`: ENOENT (no such file or directory)
    hint: look at whether the kernel module `fuse` is loaded (`modprobe fuse`)
    ");
}

const MPI: &[Need] = &[
    Need::Root,
    Need::Fuse,
    Need::Ptrace,
    Need::Program("mpirun"),
    Need::Program("mpicc"),
    Need::Program("strace"),
];

/// Real ranks, as many as a wide node has, on however few processors there are.
fn of_64_ranks(test: &Test, before: &[&str], after: &[&str]) -> Command {
    let launcher =
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated", "-n", "64"];
    std::fs::create_dir(test.path("session")).unwrap();
    let mut command = test.command(&[before, &launcher, after].concat());
    command.env("TMPDIR", test.path("session"));
    command
}

#[test]
fn privileged_64_real_ranks_on_one_node_leave_one_trace() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("mpirun")]) else { return };
    test.write("data", "data\n");
    let outcome =
        test.finish(of_64_ranks(&test, &[], &[*QUELL, "record", "-o", "job.qtrace", "--", "cat", "data"]));
    let said = outcome.stderr.clone();
    assert_eq!(outcome.succeeds(), "data\n".repeat(64));
    assert_eq!(traces(&test), ["job.qtrace"]);
    assert_eq!(said.lines().filter(|line| line.starts_with("quell: ")).count(), 1, "{said}");
    assert_eq!(executions(&test), 1);
}

#[test]
fn privileged_a_recorded_launcher_of_64_ranks_leaves_one_trace() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("mpirun")]) else { return };
    test.write("data", "data\n");
    let record = [*QUELL, "record", "-o", "job.qtrace", "--"];
    let outcome = test.finish(of_64_ranks(&test, &record, &["cat", "data"]));
    assert_eq!(outcome.succeeds(), "data\n".repeat(64));
    assert_eq!(traces(&test), ["job.qtrace"]);
    assert_eq!(executions(&test), 1 + 64);
}

/// The number of programs that began in the trace `job.qtrace`.
fn executions(test: &Test) -> u64 {
    let report = test.json(&["report", "job.qtrace", "--json"]);
    let calls = report["syscalls"].as_array().unwrap().iter().find(|row| row["name"] == "execve").unwrap();
    calls["calls"].as_u64().unwrap() - calls["errors"].as_u64().unwrap()
}

/// Two ranks of a real MPI, started by its own launcher with `before` in front of the program.
fn mpirun(test: &Test, before: &[&str]) -> Command {
    let launcher =
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated", "-n", "2"];
    let copied_once = ["--mca", "btl", "self,vader", "--mca", "btl_vader_single_copy_mechanism", "cma"];
    let words = [&launcher[..], &copied_once, before, &["env/bin/exchange"]].concat();
    let mut command = test.command(&words);
    command.env("TMPDIR", test.path("session"));
    command
}

/// The output of both ranks: their namespaces, if all data was right.
fn exchanged(test: &Test, before: &[&str]) -> BTreeSet<String> {
    let printed = test.finish(mpirun(test, before)).succeeds();
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable();
    let namespaces = (0..2).map(|rank| {
        let line = lines.get(rank).copied().unwrap_or_default();
        let namespace =
            line.strip_prefix(&format!("rank {rank} ")).and_then(|rest| rest.strip_suffix(" 0 wrong"));
        namespace.unwrap_or_else(|| panic!("{printed}")).to_owned()
    });
    namespaces.collect()
}

fn with_exchange(test: &Test) {
    test.plant();
    program(test, "exchange", &[]);
    std::fs::rename(test.path("exchange"), test.path("env/bin/exchange")).unwrap();
    std::fs::create_dir(test.path("session")).unwrap();
    test.give("session");
    test.script("cat env/bin/exchange > /dev/null; $quell -q record -o app.qtrace cat env/bin/exchange")
        .succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "--root", "env"]).succeeds();
}

#[test]
fn privileged_real_ranks_exchange_data_inside_one_namespace() {
    let (Some(test), Some(of_ordinary_user)) = (Test::privileged(MPI), Test::of_ordinary_user(MPI)) else {
        return;
    };
    for test in [test, of_ordinary_user] {
        with_exchange(&test);
        let ours = std::fs::read_link("/proc/self/ns/mnt").unwrap().to_str().unwrap().to_owned();
        assert_eq!(exchanged(&test, &[]), BTreeSet::from([ours.clone()]));
        let run = [*QUELL, "run", "app.qimg", "--"];
        let shared = exchanged(&test, &run);
        assert!(shared.len() == 1 && !shared.contains(&ours), "{shared:?}");
        // The same, watched: the data goes by one copy from process to process.
        let watch = "exec strace -f -e trace=process_vm_readv -o copies.$OMPI_COMM_WORLD_RANK \"$@\"";
        let watched = exchanged(&test, &[&run[..], &["sh", "-c", watch, "sh"]].concat());
        assert_eq!(watched.len(), 1, "{watched:?}");
        for copies in ["copies.0", "copies.1"] {
            let copies = test.read_text(copies);
            let copied: u64 = copies.lines().filter_map(bytes_copied).sum();
            assert!(copied >= 10 * (8 << 20) / 2, "{copies}");
        }
        test.silence();
    }
}

/// The bytes that a line of strace's log says were copied from the other process.
fn bytes_copied(line: &str) -> Option<u64> {
    line.contains("process_vm_readv(").then(|| line.rsplit_once("= ")?.1.parse().ok()).flatten()
}
