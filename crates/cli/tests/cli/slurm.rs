//! `srun quell run IMG -- CMD` under a real Slurm of four nodes: as without quell, checked once, nothing left behind.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::{NODES, Slurm, has_control_groups};
use crate::harness::{Outcome, User, kill, wait_until};

/// Words of a step, `options` of srun apart from each other by spaces.
fn step<'a>(options: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    ["srun", "--quiet", "--overcommit"]
        .into_iter()
        .chain(options.split(' '))
        .chain(command.iter().copied())
        .collect()
}

/// The same behind `quell run`.
fn from_image<'a>(options: &'a str, command: &[&'a str]) -> Vec<&'a str> {
    let run = [*crate::harness::QUELL, "run", "app.qimg", "--"];
    step(options, &[&run[..], command].concat())
}

/// Lines of all ranks, which come in any order.
fn lines(outcome: Outcome) -> Vec<String> {
    let mut lines: Vec<String> = outcome.succeeds().lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn privileged_a_step_prints_what_it_prints_without_quell() {
    for user in [User::Ordinary, User::Ourselves] {
        let Some(slurm) = Slurm::new(user) else { return };
        for options in ["-N2 -n4 -l --mpi=none", "-N3 -n6 -l --mpi=pmi2", "-N4 -n16 -l --mpi=pmi2"] {
            let plain = lines(slurm.run(&step(options, &["env/bin/app"])));
            let outcome = slurm.run(&from_image(options, &["env/bin/app"]));
            assert_eq!(outcome.stderr, "", "{options}");
            assert_eq!(lines(outcome), plain, "{options}");
        }
        slurm.assert_clean(&[]);
    }
}

/// Each node has one file, in which the lines of its ranks are whole and in order, as `srun -l` marks them.
#[test]
fn privileged_the_output_of_a_step_is_a_file_for_each_node() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let script = "n=0; while [ $n -lt 300 ]; do echo \"$(uname -n) $n\"; n=$((n+1)); done";
    let expected = lines(slurm.run(&step("-N4 -n16 -l", &["sh", "-c", script])));
    for output in ["log", "log.%h"] {
        let run =
            [*crate::harness::QUELL, "-q", "run", "--output", output, "--label", "--", "sh", "-c", script];
        let outcome = slurm.run(&step("-N4 -n16", &run));
        assert_eq!(
            (outcome.code(), outcome.stdout.as_str(), outcome.stderr.as_str()),
            (0, "", ""),
            "{output}"
        );
        let files = || slurm.test.files().into_iter().filter(|name| name.starts_with("log."));
        assert_eq!(files().count(), NODES as usize);
        let mut found = Vec::new();
        for file in files() {
            let text = slurm.test.read_text(&file);
            assert!(text.lines().all(|line| line.contains(&file["log.".len()..])), "{file}");
            found.extend(text.lines().map(str::to_owned));
        }
        found.sort_unstable();
        assert!(found == expected, "{output}: {} of {} lines", found.len(), expected.len());
        let all = files().collect::<Vec<_>>();
        all.iter().for_each(|file| std::fs::remove_file(slurm.test.path(file)).unwrap());
    }
    slurm.assert_clean(&[]);
}

#[test]
fn privileged_the_ranks_of_a_node_share_a_namespace_and_a_server() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let place = "echo $(hostname) $(readlink /proc/self/ns/mnt)";
    let plain = lines(slurm.run(&step("-N4 -n16", &["sh", "-c", place])));
    let shared = lines(slurm.run(&from_image("-N4 -n16", &["sh", "-c", place])));
    assert_eq!(shared.len(), 16);
    let namespaces = |lines: &[String]| -> BTreeMap<String, BTreeSet<String>> {
        let mut nodes: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines {
            let (node, namespace) = line.split_once(' ').unwrap();
            nodes.entry(node.to_owned()).or_default().insert(namespace.to_owned());
        }
        nodes
    };
    let (plain, shared) = (namespaces(&plain), namespaces(&shared));
    assert_eq!(shared.len(), NODES as usize);
    for (node, namespaces) in &shared {
        assert_eq!(namespaces.len(), 1, "{shared:?}");
        assert!(plain[node].is_disjoint(namespaces), "{shared:?}");
    }
    slurm.assert_clean(&[]);
}

/// Rank 0 comes late, and the others do not wait for it. Then its check ends the step, which would last for ever.
#[test]
fn privileged_a_check_that_fails_ends_the_step() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    slurm.test.write("env/lib/a.txt", "altered\n");
    let late = "[ $SLURM_PROCID != 0 ] || while [ $(ls started | wc -l) != 7 ]; do sleep 0.05; done\n\
                exec $quell run --on-stale fail app.qimg -- sh -c 'sleep 1000 & : > started/$SLURM_PROCID; exec sleep 1000'";
    for options in ["-N4 -n8", "-N4 -n8 --kill-on-bad-exit=1", "-N4 -n8 --mpi=pmi2", "-N1 -n8"] {
        slurm.test.run(&["mkdir", "started"]).succeeds();
        let outcome = slurm.run(&step(options, &["sh", "-c", late]));
        assert!(outcome.status.code().is_some_and(|status| status != 0), "{options}: {outcome}");
        let said: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("srun: ")).collect();
        let expected = [
            "quell: error: 1 of the image's originals changed since it was packed",
            "  [DIR]/env/lib/a.txt has another size",
        ];
        assert_eq!(said[..2], expected, "{options}: {outcome}");
        assert_eq!(outcome.stderr.matches("quell: error").count(), 1, "{options}: {outcome}");
        slurm.test.silence();
        slurm.test.run(&["rm", "-r", "started"]).succeeds();
    }
    slurm.assert_clean(&[]);
}

/// By default no step ends: all nodes serve what changed, and one line says so.
#[test]
fn privileged_a_change_is_seen_on_all_nodes_and_told_once() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    slurm.test.write("env/lib/a.txt", "altered\n");
    slurm.test.write("env/lib/added.txt", "");
    for options in ["-N4 -n8 -l", "-N4 -n8 -l --mpi=pmi2 --distribution=cyclic", "-N1 -n8 -l"] {
        let plain = lines(slurm.run(&step(options, &["env/bin/app"])));
        let run = [*crate::harness::QUELL, "run", "--on-stale", "live", "app.qimg", "--", "env/bin/app"];
        let outcome = slurm.run(&step(options, &run));
        assert_eq!(outcome.stderr.matches("changed since app.qimg was packed").count(), 1, "{outcome}");
        assert_eq!(lines(outcome), plain, "{options}");
        slurm.test.silence();
    }
    slurm.assert_clean(&["env/lib/added.txt"]);
}

/// The launchers of MPI libraries, which let srun start their daemons and those the ranks.
const INSIDE_AN_ALLOCATION: [&str; 2] = [
    "mpirun.openmpi --oversubscribe --mca oob_tcp_if_include lo --mca btl self,vader,tcp --mca btl_tcp_if_include lo",
    "mpiexec.mpich",
];

#[test]
fn privileged_launchers_of_mpi_inside_an_allocation() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let inside = |launcher: &str, command: &[&str]| {
        let words = ["salloc", "--quiet", "--overcommit", "-N2", "-n4"];
        slurm.launch(&[&words[..], &launcher.split(' ').collect::<Vec<_>>(), command].concat(), || ())
    };
    for launcher in INSIDE_AN_ALLOCATION {
        let plain = lines(inside(launcher, &["env/bin/app"]));
        let run = [*crate::harness::QUELL, "run", "app.qimg"];
        assert_eq!(lines(inside(launcher, &[&run[..], &["env/bin/app"]].concat())), plain, "{launcher}");
        let said = inside(launcher, &[*crate::harness::QUELL, "record", "--force", "-o", "a.qtrace", "true"]);
        assert_eq!(said.stderr.matches("quell: recorded").count(), 1, "{launcher}: {said}");

        slurm.test.write("env/lib/a.txt", "altered\n");
        let strict = [*crate::harness::QUELL, "run", "--on-stale", "fail", "app.qimg"];
        let outcome = inside(launcher, &[&strict[..], &["sleep", "1000"]].concat());
        assert!(outcome.status.code().is_some_and(|status| status != 0), "{launcher}: {outcome}");
        assert_eq!(outcome.stderr.matches("quell: error").count(), 1, "{launcher}: {outcome}");
        slurm.test.silence();
        slurm.test.run(&["rm", "-r", "a.qtrace", "a.rank2.qtrace"]).succeeds();
        slurm.test.write("env/lib/a.txt", "alpha\n");
        slurm
            .test
            .quell(&["-q", "pack", "--force", "app.qtrace", "-o", "app.qimg", "--root", "env"])
            .succeeds();
        slurm.remove_sessions();
    }
    slurm.assert_clean(&[]);
}

/// A job of two steps on each of two nodes, each with processes in the background.
const LASTING: &str = "#!/bin/sh\n\
    for step in 1 2; do\n\
    srun --quiet --overcommit --overlap -N2 -n4 $quell run app.qimg -- sh -c \
    'cat env/lib/a.txt env/lib/unread.txt > /dev/null; sleep 1000 & setsid sleep 1000 & \
    : > started/$SLURM_STEP_ID.$SLURM_PROCID; exec sleep 1000' &\n\
    done\nwait\n";

#[test]
fn privileged_a_cancelled_job_leaves_nothing_on_its_nodes() {
    for user in [User::Ordinary, User::Ourselves] {
        let Some(slurm) = Slurm::new(user) else { return };
        let lasting = if has_control_groups() { LASTING.to_owned() } else { LASTING.replace("setsid ", "") };
        slurm.test.write_mode("job.sh", lasting, 0o755);
        slurm.test.run(&["mkdir", "started"]).succeeds();
        let submit = ["sbatch", "--parsable", "--overcommit", "-N2", "-n4", "-o", "job.out", "job.sh"];
        let job = slurm.run(&submit).succeeds().trim().to_owned();
        wait_until("all ranks have started", || {
            slurm.test.files().iter().filter(|name| name.starts_with("started/")).count() == 8
        });
        assert_eq!(slurm.test.servers().len(), 4, "a server for each step on each node");
        slurm.run(&["scancel", &job]).succeeds();
        slurm.test.silence();
        slurm.test.run(&["rm", "-r", "started", "job.out"]).succeeds();
        slurm.assert_clean(&["job.sh"]);
    }
}

#[test]
fn privileged_an_interrupted_srun_leaves_nothing() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    slurm.test.run(&["mkdir", "started"]).succeeds();
    let lasting = from_image("-N2 -n4", &["sh", "-c", ": > started/$SLURM_PROCID; sleep 1000; exit 3"]);
    for signals in [1, 2] {
        let mut child = slurm.start(&lasting);
        wait_until("all ranks have started", || {
            slurm.test.files().iter().filter(|name| name.starts_with("started/")).count() == 4
        });
        // One TERM ends a step at once, two interrupts within a second do.
        let srun = i32::try_from(child.id()).unwrap();
        if signals == 1 {
            crate::harness::send(srun, rustix::process::Signal::TERM);
        } else {
            kill(srun);
        }
        child.wait().unwrap();
        slurm.test.silence();
        slurm.test.run(&["sh", "-c", "rm started/*"]).succeeds();
    }
    slurm.test.run(&["rmdir", "started"]).succeeds();
    slurm.assert_clean(&[]);
}

#[test]
fn privileged_the_tasks_of_an_array_are_jobs_of_their_own() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let script = "#!/bin/sh\n$quell run app.qimg -- sh -c 'env/bin/app; echo $SLURM_ARRAY_TASK_ID'\n";
    slurm.test.write_mode("job.sh", script, 0o755);
    let submit = ["sbatch", "--parsable", "--array=1-12", "-n1", "-o", "job.%a", "job.sh"];
    slurm.run(&submit).succeeds();
    let expected = slurm.test.run(&["env/bin/app"]).succeeds();
    let names: Vec<String> = (1..=12).map(|task| format!("job.{task}")).collect();
    // An output appears before its task.
    let has_printed = |name: &String| slurm.test.path(name).metadata().is_ok_and(|output| output.len() > 0);
    let all = || names.iter().all(has_printed) && slurm.test.processes().is_empty();
    wait_until("all tasks have ended", all);
    for (name, task) in names.iter().zip(1..) {
        assert_eq!(slurm.test.read_text(name), format!("{expected}{task}\n"), "{name}");
    }
    let made: Vec<&str> = names.iter().map(String::as_str).chain(["job.sh"]).collect();
    slurm.assert_clean(&made);
}

/// The processors that the server may use, beside those of rank 0.
#[test]
fn privileged_the_server_stays_in_the_step_and_off_the_core_of_rank_0() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let allowed = |process: i32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        status.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:\t")?.to_owned())).unwrap()
    };
    let processors = std::thread::available_parallelism().unwrap().get();
    for cpus in [1, 2].into_iter().filter(|cpus| *cpus <= processors) {
        let options = format!("-N1 -n{cpus} -c1 --cpu-bind=cores --exact");
        let words = ["sh", "-c", "echo ready; read -r line; exit 0"];
        let words: Vec<&str> =
            from_image(&options, &words).into_iter().filter(|w| *w != "--overcommit").collect();
        let mut command = slurm.command(&words);
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        (0..cpus).for_each(|_| assert!(crate::harness::next_line(&mut child).starts_with("ready")));
        let servers = slurm.test.servers();
        assert_eq!(servers.len(), 1);
        let of_step: BTreeSet<String> =
            slurm.test.processes().into_iter().filter(|process| is_shell(*process)).map(allowed).collect();
        assert_eq!(of_step.len(), cpus, "each rank has a core of its own: {of_step:?}");
        let of_server = allowed(servers[0]);
        // Without confinement it may be on any core.
        assert!(of_step.contains(&of_server) || !has_control_groups(), "{of_step:?} {of_server}");
        drop(child.stdin.take());
        child.wait().unwrap();
    }
    slurm.assert_clean(&[]);
}

fn is_shell(process: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name == "sh\n")
}

/// Processes that a rank leaves running end with the step, and the server, which lives as long, does not delay that.
#[test]
fn privileged_processes_left_by_ranks_end_with_the_step() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let left = if has_control_groups() { "1000" } else { "2" };
    let leave = format!("setsid sleep {left} > /dev/null 2>&1 & cat env/lib/a.txt");
    let outcome = slurm.run(&from_image("-N2 -n4", &["sh", "-c", &leave]));
    assert_eq!(lines(outcome), ["alpha"; 4]);
    slurm.assert_clean(&[]);
}

/// Slurm's clean-up kills the server as soon as the last task has ended, so a task that lasts a moment longer than the
/// program leaves it the time to write.
#[test]
fn privileged_statistics_are_written_while_the_step_lasts() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let script = "$quell run --stats stats.json app.qimg env/bin/app\n\
                  while [ ! -e stats.json ]; do sleep 0.05; done";
    slurm.run(&step("-N1 -n1", &["sh", "-c", script])).succeeds();
    let stats = slurm.test.read_json("stats.json");
    assert_eq!(stats["namespace"], "created");
    assert_ne!(stats["requests"]["lookup"], 0);
    slurm.assert_clean(&["stats.json"]);
}

/// A program that looks for many names, enough for an image to be worth it.
const LOOKS: &str = "#!/bin/sh\ncd \"${0%/*}/..\"\nn=0\n\
    while [ $n -lt 300 ]; do test -e lib/absent$n; n=$((n + 1)); done\n";

/// The same line in each job: the first is recorded, later ones run from the image, with one namespace a node.
#[test]
fn privileged_one_word_in_every_job() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    let program = format!("{LOOKS}echo $(hostname) $(readlink /proc/self/ns/mnt)\n");
    slurm.test.write_mode("one/bin/app", program, 0o755);
    let (cache, root) = (slurm.test.text("cache"), slurm.test.text("one"));
    let auto =
        [*crate::harness::QUELL, "run", "--auto", "--cache", &cache, "--root", &root, "--", "one/bin/app"];
    let job = || {
        let outcome = slurm.run(&step("-N4 -n16", &auto));
        assert_eq!(outcome.stderr, "");
        let said = lines(outcome);
        assert_eq!(said.len(), 16);
        said.into_iter().collect::<BTreeSet<String>>()
    };
    let plain = job();
    assert_eq!(plain.len(), NODES as usize, "one namespace a node, its own");
    slurm.test.silence();
    // Slurm may have ended the process that makes the image.
    slurm.test.quell(&["cache", "make", "--cache", &cache]).succeeds();
    slurm.test.script("readlink cache/*/current | grep -x image-1.qimg").succeeds();
    assert_eq!(job(), plain, "the image is too new for this step");
    slurm.test.script("touch -h -d '2 minutes ago' cache/*/current").succeeds();
    let packed = job();
    assert_eq!(packed.len(), NODES as usize);
    assert!(packed.is_disjoint(&plain), "{packed:?}");
    slurm.test.silence();
    slurm.test.run(&["rm", "-r", "cache", "one"]).succeeds();
    slurm.assert_clean(&[]);
}

/// Slurm ends what a step leaves behind, also the process that makes the image. The epilogue waits for that one.
#[test]
fn privileged_the_task_epilogue_of_the_first_rank_has_the_image_made() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    slurm.test.write_mode("one/bin/app", LOOKS, 0o755);
    let packaging = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    slurm.test.write_mode(
        "task-epilog",
        std::fs::read_to_string(packaging.join("auto/task-epilog")).unwrap(),
        0o755,
    );
    slurm.test.script("mkdir bin && cp $quell bin/quell").succeeds();
    let (cache, root) = (slurm.test.text("cache"), slurm.test.text("one"));
    let options = format!("-N2 -n4 --task-epilog={}", slurm.test.text("task-epilog"));
    let auto = [*crate::harness::QUELL, "run", "--auto", "--root", &root, "--", "one/bin/app"];
    let mut command = slurm.command(&step(&options, &auto));
    command.env("QUELL_CACHE", &cache).env("PATH", format!("{}:/usr/bin:/bin", slurm.test.text("bin")));
    slurm.test.finish(command).succeeds();
    slurm.test.script("readlink cache/*/current | grep -x image-1.qimg").succeeds();
    slurm.test.run(&["rm", "-r", "cache", "one", "bin", "task-epilog"]).succeeds();
    slurm.assert_clean(&[]);
}

/// A site's wrapper of srun: one job in two records rank 0 of its first step, and each prints what it prints plain.
#[test]
fn privileged_one_job_in_two_is_sampled() {
    let Some(slurm) = Slurm::new(User::Ordinary) else { return };
    slurm.test.run(&["mkdir", "-p", "site", "samples"]).succeeds();
    slurm.test.write_mode("site/srun", include_str!("../../../../packaging/sample/srun"), 0o755);
    let script = "#!/bin/sh\n\
        export PATH=\"$PWD/site:${quell%/*}:$PATH\" QUELL_SAMPLE=2 QUELL_SAMPLES=\"$PWD/samples\"\n\
        for step in 1 2; do srun --quiet --overcommit -N 4 -n 8 -l env/bin/app || echo failed; done\n";
    slurm.test.write_mode("job.sh", script, 0o755);
    let plain = lines(slurm.run(&step("-N4 -n8 -l", &["env/bin/app"])));
    let mut twice = [plain.clone(), plain].concat();
    twice.sort_unstable();
    let mut sampled = BTreeSet::new();
    for _ in 0..4 {
        let submit =
            ["sbatch", "--wait", "--parsable", "--overcommit", "-N4", "-n8", "-o", "job.%j", "job.sh"];
        let job: u32 = slurm.run(&submit).succeeds().trim().parse().unwrap();
        let mut said: Vec<_> =
            slurm.test.read_text(&format!("job.{job}")).lines().map(str::to_owned).collect();
        said.sort_unstable();
        assert_eq!(said, twice, "{job}");
        let trace = slurm.test.path(&format!("samples/job-{job}/rank0.qtrace"));
        assert_eq!(trace.exists(), job.is_multiple_of(2), "{job}");
        if trace.exists() {
            let header = quell_trace::Recording::open(&trace).unwrap().header;
            assert_eq!(header.rank.map(|rank| rank.0), Some(0));
            assert!(
                header.job.is_some_and(|of| of.starts_with(&job.to_string())) && header.recorder.events > 0
            );
            sampled.insert(job);
        }
    }
    assert_eq!(sampled.len(), 2);
    slurm.test.script("$quell -q collect samples/*/*.qtrace -o fleet").succeeds();
    slurm.test.script("rm -r samples site fleet job.*").succeeds();
    slurm.assert_clean(&[]);
}
