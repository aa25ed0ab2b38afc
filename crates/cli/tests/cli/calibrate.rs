//! `quell calibrate` on a local directory: its tables and profile, what it refuses, and that nothing is left behind however
//! it ends. What it measures is checked on the rig, in `tests/shared_fs`.

use crate::harness::{Need, Outcome, QUELL, Test, kill, send, snapshot, wait_until, with_quell};
use rustix::process::Signal;
use std::process::{Child, Stdio};

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
    let profile = test.read_text("fs.toml");
    for key in ["kind = \"measured\"", "round_trip_us", "lookup_absent", "create", "client_bytes_per_second"]
    {
        assert!(profile.contains(key), "{key}: {profile}");
    }
    assert!(!profile.contains("positive_seconds"), "without a second client that is not measured: {profile}");
    assert_eq!(test.files(), ["fs.toml", "here", "rows.csv"]);
}

#[test]
fn what_cannot_be_measured_in_is_refused_before_anything_is_made() {
    let test = Test::new();
    test.write("file", "");
    test.write("there.toml", "");
    std::fs::create_dir(test.path("here")).unwrap();
    let before = test.files();
    snapshot!(test.quell(&["calibrate", "/", "-o", "fs.toml"]), @"
    status 2
    --- stderr
    quell: error: `/` is the root of this node, not a directory to measure in
    hint: give a directory of the file system that is to be measured
    ");
    snapshot!(test.quell(&["calibrate", "/usr/..", "-o", "fs.toml"]), @"
    status 2
    --- stderr
    quell: error: `/` is the root of this node, not a directory to measure in
    hint: give a directory of the file system that is to be measured
    ");
    snapshot!(test.quell(&["calibrate", "missing", "-o", "fs.toml"]), @"
    status 2
    --- stderr
    quell: error: cannot work in `missing`: ENOENT (no such file or directory)
    hint: give a directory that is there
    ");
    snapshot!(test.quell(&["calibrate", "file", "-o", "fs.toml"]), @"
    status 2
    --- stderr
    quell: error: cannot work in `file`: ENOTDIR (not a directory)
    hint: give a directory that is there
    ");
    snapshot!(test.quell(&["calibrate", "here", "-o", "there.toml"]), @"
    status 2
    --- stderr
    quell: error: `there.toml` exists
    hint: `--force` replaces it, `-o FILE` writes elsewhere
    ");
    snapshot!(test.quell(&["calibrate", "here", "-o", "missing/fs.toml"]), @"
    status 2
    --- stderr
    quell: error: cannot write `missing/fs.toml`: ENOENT (no such file or directory)
    ");
    snapshot!(test.quell(&["calibrate", "here"]), @"
    status 2
    --- stderr
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
        ("env", "the second client is this client: both use one mount, and its cache"),
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

#[test]
fn privileged_directories_of_others_and_full_and_read_only_ones_are_refused() {
    let Some(test) = Test::of_nobody(&[]) else { return };
    snapshot!(test.quell(&["calibrate", "/mnt", "-o", "fs.toml"]), @"
    status 2
    --- stderr
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

/// Starts a calibration, and waits until it has made something.
fn under_way(test: &Test) -> Child {
    let words = with_quell(&["calibrate", "here", "-o", "fs.toml", "--processes=4"]);
    let mut command = test.command(&words);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
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
