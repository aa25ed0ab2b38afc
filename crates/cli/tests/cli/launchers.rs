//! Under a launcher: which ranks record and speak, and real MPI ranks that exchange data inside one namespace.

use std::collections::BTreeSet;
use std::process::Command;

use crate::harness::{Need, QUELL, Test, program, snapshot, with_quell};

/// The variables that a launcher gives to a rank.
type Rank = fn(u32) -> Vec<(&'static str, u32)>;

/// Two nodes with two ranks each, as launchers say it.
const LAUNCHERS: [(&str, Rank); 5] = [
    ("Slurm", |rank| {
        vec![
            ("SLURM_PROCID", rank),
            ("SLURM_NTASKS", 4),
            ("SLURM_LOCALID", rank % 2),
            ("SLURM_NODEID", rank / 2),
            ("SLURM_STEP_NUM_NODES", 2),
            ("SLURM_JOB_ID", 17),
            ("SLURM_STEP_ID", 0),
        ]
    }),
    ("Open MPI", |rank| {
        vec![
            ("OMPI_COMM_WORLD_RANK", rank),
            ("OMPI_COMM_WORLD_SIZE", 4),
            ("OMPI_COMM_WORLD_LOCAL_RANK", rank % 2),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", 2),
        ]
    }),
    ("PMI", |rank| {
        vec![("PMI_RANK", rank), ("PMI_SIZE", 4), ("MPI_LOCALRANKID", rank % 2), ("MPI_LOCALNRANKS", 2)]
    }),
    ("PALS", |rank| {
        vec![
            ("PALS_RANKID", rank),
            ("PALS_SIZE", 4),
            ("PALS_LOCAL_RANKID", rank % 2),
            ("PALS_LOCAL_SIZE", 2),
            ("PALS_NODEID", rank / 2),
        ]
    }),
    ("Flux", |rank| {
        vec![
            ("FLUX_TASK_RANK", rank),
            ("FLUX_JOB_SIZE", 4),
            ("FLUX_TASK_LOCAL_ID", rank % 2),
            ("FLUX_JOB_NNODES", 2),
            ("FLUX_JOB_ID", 17),
        ]
    }),
];

/// Runs quell as each of four ranks; what they said together.
fn as_ranks(test: &Test, rank: Rank, arguments: &[&str]) -> String {
    let run = |number: u32| {
        let mut command = test.command(&with_quell(arguments));
        command.envs(rank(number).into_iter().map(|(name, value)| (name, value.to_string())));
        let outcome = test.finish(command);
        assert!(outcome.status.success(), "{outcome}");
        outcome.stderr
    };
    (0..4).map(run).collect()
}

fn traces(test: &Test) -> Vec<String> {
    test.files().into_iter().filter(|name| name.ends_with(".qtrace")).collect()
}

#[test]
fn privileged_two_ranks_of_a_job_record_and_one_speaks() {
    for (name, rank) in LAUNCHERS {
        let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
        let said = as_ranks(&test, rank, &["record", "--", "true"]);
        let sampled: &[&str] =
            if name == "Flux" { &["true.qtrace"] } else { &["true.qtrace", "true.rank2.qtrace"] };
        assert_eq!(traces(&test), sampled, "{name}");
        assert_eq!(said.lines().count(), 1, "{name}: {said}");
        assert!(said.contains("`true.qtrace`"), "{name}: {said}");
    }
}

#[test]
fn privileged_ranks_that_are_asked_for_record() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    let said =
        as_ranks(&test, LAUNCHERS[0].1, &["record", "--ranks", "1,3", "-o", "app.qtrace", "--", "true"]);
    assert_eq!(
        (traces(&test), said.as_str()),
        (vec!["app.rank1.qtrace".into(), "app.rank3.qtrace".into()], "")
    );
    test.quell(&["report", "app.rank1.qtrace", "app.rank3.qtrace"]).succeeds();
}

#[test]
fn privileged_a_recorded_run_records_the_same_ranks() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    let run = ["--", QUELL, "run", "app.qimg", "--", "env/bin/app"];
    as_ranks(&test, LAUNCHERS[0].1, &[&["record", "-o", "a.qtrace"], &run[..]].concat());
    assert_eq!(traces(&test), ["a.qtrace", "a.rank2.qtrace", "app.qtrace"]);
    as_ranks(&test, LAUNCHERS[0].1, &[&["record", "--ranks=1", "-o", "b.qtrace"], &run[..]].concat());
    assert_eq!(traces(&test), ["a.qtrace", "a.rank2.qtrace", "app.qtrace", "b.rank1.qtrace"]);
}

#[test]
fn privileged_one_rank_says_why_the_image_is_not_used() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    test.pack();
    let run = "mkdir dev; mount -t tmpfs none dev; mknod -m 666 dev/null c 1 3; mount --move dev /dev; rmdir dev; \
               for rank in 0 1 2 3; do SLURM_PROCID=$rank SLURM_STEP_ID=0 $quell run app.qimg echo $rank; done";
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", run]);
    command.env("quell", QUELL);
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

/// What both ranks printed: their namespaces, when all data was right.
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
    let (Some(test), Some(of_nobody)) = (Test::privileged(MPI), Test::of_nobody(MPI)) else { return };
    for test in [test, of_nobody] {
        with_exchange(&test);
        let ours = std::fs::read_link("/proc/self/ns/mnt").unwrap().to_str().unwrap().to_owned();
        assert_eq!(exchanged(&test, &[]), BTreeSet::from([ours.clone()]));
        let run = [QUELL, "run", "app.qimg", "--"];
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

/// What a line of strace's log says was copied from the other process.
fn bytes_copied(line: &str) -> Option<u64> {
    line.contains("process_vm_readv(").then(|| line.rsplit_once("= ")?.1.parse().ok()).flatten()
}
