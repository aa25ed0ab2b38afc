//! `quell calibrate` on a local directory: its tables and profile, what it refuses, and that nothing is left behind however
//! it ends. What it measures is checked on the rig, in `tests/shared_fs`.

use crate::harness::{Need, Outcome, QUELL, Test, kill, send, session, wait_until};
use rustix::process::Signal;
use std::process::Child;

/// Some seconds.
const SHORT: &[&str] =
    &["--quick", "--processes=2", "--items=4", "--iterations=2", "--file-size=4M", "--cache-wait=1s"];

fn calibrate(test: &Test, further: &[&str]) -> Outcome {
    test.quell(&[&["calibrate", "here", "-o", "fs.toml"], SHORT, further].concat())
}

/// A line for each row, without its figures.
fn rows(text: &str) -> String {
    let is_figure = |word: &str| word.starts_with(|character: char| character.is_ascii_digit());
    let row = |line: &str| {
        let words = line.split_whitespace().map(|word| if is_figure(word) { "N" } else { word });
        words.map(|word| if word.starts_with("--") { "--" } else { word }).collect::<Vec<_>>().join(" ")
    };
    text.lines().map(row).collect::<Vec<_>>().join("\n")
}

/// The cells of a table's rows, its head first.
fn table(stdout: &str, title: &str) -> Vec<Vec<String>> {
    let (_, after) = stdout.split_once(&format!("{title}\n")).unwrap();
    let cells = |line: &str| {
        let cells = line.split("  ").map(str::trim).filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect()
    };
    let lines = after.lines().take_while(|line| !line.is_empty());
    lines.filter(|line| !line.starts_with("---")).map(cells).collect()
}

/// The figures of a row of the CSV file, from `iteration` on, and what is before them.
fn figures(line: &str) -> (String, Vec<f64>) {
    let cells: Vec<&str> = line.split(',').collect();
    let figures = cells[6..].iter().map(|cell| cell.parse().unwrap_or(f64::NAN)).collect();
    (cells[..6].join(","), figures)
}

#[test]
fn tables_and_profile_and_rows_for_plots() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let said = calibrate(&test, &["--csv=rows.csv"]);
    assert!(said.stderr.contains("which is not known as a network file system"), "{said}");
    assert!(said.stderr.contains("next: quell predict T --fs fs.toml"), "{said}");
    let stdout = said.succeeds();
    let mdtest = stdout.split("\n\n").next().unwrap();
    insta::assert_snapshot!(rows(mdtest), @"
    rate (in ops/sec) of N processes: (of N iterations)
    Operation Directory Files Max Min Mean Std Dev
    -- -- -- -- -- -- --
    create shared cold N N N N
    create unique cold N N N N
    stat shared own client's N N N N
    stat unique own client's N N N N
    stat absent shared cold N N N N
    stat absent unique cold N N N N
    getattr unique cold N N N N
    open shared own client's N N N N
    open unique own client's N N N N
    open again unique own client's N N N N
    readdir unique own client's N N N N
    rename shared own client's N N N N
    rename unique own client's N N N N
    unlink shared own client's N N N N
    unlink unique own client's N N N N
    ");
    let csv = test.read_text("rows.csv");
    let header = "operation,directory,files,clients,processes,threads,iteration,count,seconds,ops_per_second,bytes_per_second,\
        latency_mean_us,latency_p10_us,latency_p50_us,latency_p90_us,latency_max_us";
    assert_eq!(csv.lines().next(), Some(header));
    assert_eq!(csv.lines().filter(|line| line.starts_with("create,unique,cold,1,2,1,")).count(), 2, "{csv}");
    for (title, columns, rows) in [
        ("\nmean rate by processes x threads", ["1", "2", "2x8"], &["create", "getattr", "unlink"][..]),
        ("one file: mean rate by processes x threads", ["1", "2", "1x2"], &["pread", "page fault"]),
    ] {
        let table = table(&stdout, title);
        assert_eq!(table[0][3..], columns, "{stdout}");
        for name in rows {
            let row = table.iter().find(|row| row[0] == *name).unwrap();
            let rates = row[3..].iter().map(|cell| cell.replace(' ', "").parse::<u64>().unwrap());
            assert!(rates.clone().count() >= 2 && rates.clone().all(|rate| rate > 0), "{row:?}");
        }
    }
    for line in csv.lines().skip(1) {
        let (case, row) = figures(line);
        let [_, count, seconds, rate, bytes, mean, p10, p50, p90, most] = row[..] else { panic!("{line}") };
        // Times have microseconds: of the shortest too few digits are left.
        let is_rate = seconds < 1e-3 || (count / seconds / rate - 1.0).abs() < 0.01;
        assert!(count >= 1.0 && is_rate, "{line}");
        assert!(p10 <= p50 && p50 <= p90 && p90 <= most && mean <= most && p10 > 0.0, "{line}");
        let block = if case.starts_with("read in order") { 1048576.0 } else { 4096.0 };
        assert!(bytes.is_nan() || (bytes / rate / block - 1.0).abs() < 0.01, "{line}");
    }
    for (operation, cache) in [
        ("read in order", "cold"),
        ("pread", "cold"),
        ("pread", "warm"),
        ("page fault", "cold"),
        ("page fault", "warm"),
    ] {
        let begin = format!("{operation},shared,{cache},1,1,1,");
        assert_eq!(csv.lines().filter(|line| line.starts_with(&begin)).count(), 2, "{begin}: {csv}");
    }
    let profile = test.read_text("fs.toml");
    for key in [
        "kind = \"measured\"",
        "round_trip_us",
        "lookup_absent",
        "create",
        "client_bytes_per_second",
        "creates_per_second",
    ] {
        assert!(profile.contains(key), "{key}: {profile}");
    }
    assert!(!profile.contains("positive_seconds"), "without a second client that is not measured: {profile}");
    assert_eq!(test.files(), ["fs.toml", "here", "rows.csv"]);
}

#[test]
fn a_calibration_ends_in_its_time_and_with_the_open_files_that_it_may_have() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let bounds = "--quick --processes=2 --items=200 --iterations=1 --file-size=4M --at-most=5s";
    let script = format!("ulimit -n 300 && exec $quell calibrate here -o fs.toml --csv rows.csv {bounds}");
    let said = test.script(&script);
    let message = "no time was left for: reads and page faults; `--at-most TIME` gives more";
    assert!(said.stderr.contains(message), "{said}");
    said.succeeds();
    let csv = test.read_text("rows.csv");
    let counts = |begin: &str| -> Vec<f64> {
        let lines = csv.lines().filter(|line| line.starts_with(begin));
        lines.map(|line| figures(line).1[1]).collect()
    };
    for operation in ["getattr", "open again", "readdir"] {
        let counts = counts(&format!("{operation},unique,"));
        assert!(!counts.is_empty() && counts.iter().all(|count| (1.0..300.0).contains(count)), "{csv}");
    }
    assert!(counts("pread,").is_empty() && counts("page fault,").is_empty(), "{csv}");
    assert!(!test.read_text("fs.toml").contains("[data]"));
    assert_eq!(test.files(), ["fs.toml", "here", "rows.csv"]);
}

#[test]
fn a_profile_that_cannot_be_written_is_printed_after_the_tables() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let name = "n".repeat(300);
    let said = test.quell(&[&["calibrate", "here", "-o", &name, "--csv=rows.csv"], SHORT].concat());
    assert_eq!(said.code(), 2, "{said}");
    assert!(said.stderr.contains("cannot write `nnn") && said.stderr.contains("ENAMETOOLONG"), "{said}");
    let (tables, profile) = said.stdout.split_once("\nname = ").unwrap();
    assert!(tables.contains("mean rate by processes"), "{said}");
    assert!(profile.contains("round_trip_us"), "{said}");
    assert_eq!(test.files(), ["here", "rows.csv"]);
}

#[test]
fn a_standard_output_that_is_full_loses_no_profile() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let words = SHORT.join(" ");
    let said = test.script(&format!("$quell calibrate here -o fs.toml --csv rows.csv {words} > /dev/full"));
    assert!(said.code() == 2 && said.stderr.contains("ENOSPC"), "{said}");
    assert_eq!(test.files(), ["fs.toml", "here", "rows.csv"]);
    test.quell(&["predict", "--print-fs", "fs.toml"]).succeeds();
}

#[test]
fn what_cannot_be_measured_in_is_refused_before_anything_is_made() {
    let test = Test::new();
    test.write("file", "");
    test.write("there.toml", "");
    std::fs::create_dir(test.path("here")).unwrap();
    let before = test.files();
    session!(|line| test.script(line), @"
    $ quell calibrate / -o fs.toml => 2
    quell: error: `/` is the root of this node, not a directory to measure in
    hint: give a directory of the file system that is to be measured
    $ quell calibrate /usr/.. -o fs.toml => 2
    quell: error: `/` is the root of this node, not a directory to measure in
    hint: give a directory of the file system that is to be measured
    $ quell calibrate missing -o fs.toml => 2
    quell: error: cannot work in `missing`: ENOENT (no such file or directory)
    hint: give a directory that is there
    $ quell calibrate file -o fs.toml => 2
    quell: error: cannot work in `file`: ENOTDIR (not a directory)
    hint: give a directory that is there
    $ quell calibrate here -o there.toml => 2
    quell: error: `there.toml` exists
    hint: `--force` replaces it, `-o FILE` writes elsewhere
    $ quell calibrate here -o missing/fs.toml => 2
    quell: error: cannot write `missing/fs.toml`: ENOENT (no such file or directory)
    $ quell calibrate here => 2
    error: the following required arguments were not provided:
      --output <FILE>

    Usage: quell calibrate [OPTIONS] DIR -o FILE

    For more information, try '--help'.
    ");
    assert_eq!(test.files(), before);
}

#[test]
fn a_second_client_is_another_client_with_quell() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    for (words, message) in [
        ("env", "the second client is a client that is measured already: both use one mount, and its cache"),
        ("false", "second client ended early"),
        ("echo", "second client said what no worker of quell says"),
        ("no-such-command", "second client ended early"),
    ] {
        let said = calibrate(&test, &["--second-client", words]);
        assert_eq!(said.code(), 2, "{said}");
        assert!(said.stderr.contains(message) && said.stderr.contains("hint: "), "{words}: {said}");
        assert_eq!(test.files(), ["here"], "{words}");
    }
}

/// As `ssh HOST` does it: what follows is joined with blanks and read again by a shell.
const AGAIN: &str = "sh -c 'eval \"$*\"' ssh";

#[test]
fn a_directory_of_any_name_reaches_a_second_client_behind_a_shell() {
    let test = Test::new();
    for name in ["a blank", "$(touch made)", "'quote", "a;touch made", "tilde~*"] {
        std::fs::create_dir(test.path(name)).unwrap();
        let words = [&["calibrate", name, "-o", "fs.toml", "--second-client", AGAIN], SHORT].concat();
        let said = test.quell(&words);
        assert_eq!(said.code(), 2, "{said}");
        assert!(
            said.stderr.contains("the second client is a client that is measured already"),
            "it has found {name}: {said}"
        );
        std::fs::remove_dir(test.path(name)).unwrap();
        assert!(test.files().is_empty(), "{:?}", test.files());
    }
    std::fs::create_dir(test.path("here")).unwrap();
    test.run(&["cp", *QUELL, "a quell"]).succeeds();
    let said = test.script("'./a quell' calibrate here -o fs.toml --second-client env");
    assert_eq!(said.code(), 2, "{said}");
    assert!(said.stderr.contains("would not read `[DIR]/a quell` as it is written"), "{said}");
}

#[test]
fn privileged_directories_of_others_and_full_and_read_only_ones_are_refused() {
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    session!(|line| test.script(line), @"
    $ quell calibrate /mnt -o fs.toml => 2
    quell: error: cannot work in `/mnt`: EACCES (permission denied)
    hint: give a directory that you may write to, such as `/mnt/$USER`
    ");
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    std::fs::create_dir(test.path("here")).unwrap();
    let on_tmpfs = |options: &str| {
        let script =
            format!("mount -t tmpfs -o {options} none here && {QUELL} calibrate here -o fs.toml --quick");
        test.run(&["unshare", "--mount", "sh", "-c", &script])
    };
    for (options, message) in [
        ("size=64k", "`here` is full: 65536 bytes free"),
        ("size=200M,nr_inodes=100", "files free"),
        ("ro", "EROFS"),
    ] {
        let said = on_tmpfs(options);
        assert_eq!(said.code(), 2, "{said}");
        assert!(said.stderr.contains(message) && said.stderr.contains("hint: "), "{options}: {said}");
    }
    assert_eq!(test.files(), ["here"]);
}

#[test]
fn privileged_what_cannot_be_removed_is_named_beside_another_error() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    std::fs::create_dir(test.path("here")).unwrap();
    test.write("second", "cd here/quell-calibrate-* && mkdir busy && mount -t tmpfs none busy\n");
    let script = format!("{QUELL} calibrate here -o fs.toml --quick --second-client 'sh second'");
    let said = test.run(&["unshare", "--mount", "sh", "-c", &script]);
    assert_eq!(said.code(), 2, "{said}");
    assert!(said.stderr.contains("error: second client ended early"), "{said}");
    assert!(said.stderr.contains("rm -r [DIR]/here/quell-calibrate-"), "{said}");
}

/// Starts a calibration, and waits until it has made something.
fn under_way(test: &Test) -> Child {
    let child = test.start(&["calibrate", "here", "-o", "fs.toml", "--processes=4"]);
    wait_until("there are files", || test.files().len() > 20);
    child
}

#[test]
fn an_interrupted_calibration_leaves_nothing_behind() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let test = Test::new();
        std::fs::create_dir(test.path("here")).unwrap();
        let child = under_way(&test);
        match signal {
            // A terminal's Ctrl-C reaches all of a job.
            Signal::INT => test.processes().into_iter().for_each(|process| send(process, signal)),
            _ => send(child.id().cast_signed(), signal),
        }
        let said = test.wait(child);
        assert_eq!(said.code(), code, "{said}");
        assert!(said.stderr.contains("interrupted; what was made is removed"), "{said}");
        test.silence();
        assert_eq!(test.files(), ["here"]);
    }
}

#[test]
fn processes_of_a_killed_calibration_end_and_the_next_names_what_it_left() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let child = under_way(&test);
    kill(child.id().cast_signed());
    test.wait(child);
    test.silence();
    let said = calibrate(&test, &[]);
    assert!(said.stderr.contains("an earlier calibration was killed"), "{said}");
    assert!(said.stderr.contains("rm -r [DIR]/here/quell-calibrate-"), "{said}");
    said.succeeds();
}

#[test]
fn ranks_of_a_launcher_meet_and_those_of_one_node_are_one_client() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let environment =
        "OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=$rank PMIX_NAMESPACE=7";
    let words = SHORT.join(" ");
    let script = format!(
        "for rank in 1 2 0; do env {environment} $quell calibrate here -o fs.toml {words} >out.$rank 2>err.$rank & pids=\"$pids $!\"; done
        for pid in $pids; do wait $pid || exit; done"
    );
    test.script(&script).succeeds();
    for rank in [1, 2] {
        assert_eq!(test.read_text(&format!("out.{rank}")) + &test.read_text(&format!("err.{rank}")), "");
    }
    assert!(test.read_text("out.0").contains("rate (in ops/sec) of 2 processes"));
    assert!(test.read_text("err.0").contains("lifetimes in this client's cache were not measured"));
    assert!(test.read_text("fs.toml").contains(", one client, from "));
    assert_eq!(std::fs::read_dir(test.path("here")).unwrap().count(), 0);
}

#[test]
fn a_rank_whose_leader_is_killed_ends() {
    let test = Test::new();
    std::fs::create_dir(test.path("here")).unwrap();
    let rank = |rank: u32, limit: &str| {
        format!(
            "OMPI_COMM_WORLD_RANK={rank} OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK={rank} PMIX_NAMESPACE=7 \
             {limit} $quell calibrate here -o fs.toml"
        )
    };
    // Rank 0 is killed while it measures.
    let script = format!("{} & other=$!; {} ; wait $other", rank(1, ""), rank(0, "timeout --signal=KILL 3"));
    assert_eq!(test.script(&script).code(), 0);
}
