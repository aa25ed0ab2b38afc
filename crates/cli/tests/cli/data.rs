//! Phases, the data side and ranks of real programs, as `quell report --json` has them, against programs that know what they
//! do: a known pattern of requests, borders of phases marked by calls, ranks that write in a known way.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Need, QUELL, Test, program};

const MPI: &[Need] = &[Need::Ptrace, Need::Program("mpicc.openmpi"), Need::Program("mpirun.openmpi")];
const MPICH: &[Need] = &[Need::Ptrace, Need::Program("mpicc.mpich"), Need::Program("mpirun.mpich")];
const OPEN_MPI_8: [&str; 8] =
    ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--mca", "plm", "isolated", "-n", "8"];
const RANKS_8: &str = "0,1,2,3,4,5,6,7";

fn report(test: &Test, traces: &[&str]) -> Value {
    let said = test.quell(&[&["report", "--json"], traces].concat()).succeeds();
    serde_json::from_str(&said).unwrap()
}

fn file<'a>(report: &'a Value, name: &str) -> &'a Value {
    let files = report["data"]["files"].as_array().unwrap();
    let is_meant = |file: &&Value| file["path"].as_str().unwrap().ends_with(&format!("/{name}"));
    files.iter().find(is_meant).unwrap_or_else(|| panic!("{name} is missing: {files:?}"))
}

/// calls, bytes, sequential, gaps, gap bytes
fn requests(file: &Value, direction: &str) -> [u64; 5] {
    ["calls", "bytes", "sequential", "gaps", "gap_bytes"].map(|name| file[direction][name].as_u64().unwrap())
}

fn phase(report: &Value, name: &str) -> u64 {
    let phases = report["phases"].as_array().unwrap();
    let found = phases.iter().find(|phase| phase["name"] == name);
    found.map_or(0, |phase| phase["metadata_operations"].as_u64().unwrap())
}

/// Compiles with the compiler of an MPI, which knows where that MPI is.
fn with_mpi(test: &Test, compiler: &str, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(format!("{name}.c"));
    let mut build = Command::new(compiler);
    build.args(["-DMPI", "-O1", "-Wall", "-Werror", "-o"]).arg(test.path(name)).arg(source).arg("-lm");
    assert!(build.status().unwrap().success(), "{name} compiles");
}

#[test]
fn privileged_requests_are_counted_where_they_lie() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    program(&test, "requests", &[]);
    test.quell(&["-q", "record", "-o", "t", "--", "./requests"]).succeeds();
    let report = report(&test, &["t"]);
    for (name, direction, expected) in [
        ("sequential", "writes", [100, 51_200, 100, 0, 0]),
        // 4000 in a row by two processes and two descriptors, a gap, the rest, nothing; then from the start again.
        ("sequential", "reads", [8, 4000 + 41_200 + 1200, 6, 1, 6000]),
        ("strided", "writes", [10, 40_960, 1, 9, 36_864]),
        ("backwards", "writes", [5, 5000, 1, 1, 1000]),
        ("appended", "writes", [5, 50, 5, 0, 0]),
        ("copied", "writes", [1, 1100, 1, 0, 0]),
    ] {
        assert_eq!(requests(file(&report, name), direction), expected, "{name} {direction}");
    }
    let sequential = file(&report, "sequential");
    let field = |name: &str| sequential[name].as_u64();
    assert_eq!(
        (field("opens"), field("creates"), field("closes"), field("reach")),
        (Some(3), Some(1), Some(3), Some(51_200))
    );
    assert_eq!((&sequential["bytes_unknown"], field("mappings")), (&Value::Bool(true), Some(1)));
    assert_eq!(sequential["writes"]["sizes"][10], 100, "of 512 bytes");
    assert_eq!(file(&report, "strided")["creates"], 1);
    assert_eq!(
        (&report["data"]["streams"]["calls"], &report["data"]["streams"]["bytes"]),
        (&2.into(), &8.into())
    );
    // At the end: one for reading, two for appending, one for the copy; the streams are pipes.
    let most = report["open_files"]["most"].as_array().unwrap();
    assert_eq!(most.iter().map(|most| most.as_u64().unwrap()).max(), Some(4), "{most:?}");
}

#[test]
fn privileged_bytes_equal_those_that_strace_sees() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("strace"), Need::Program("python3")])
    else {
        return;
    };
    test.write(
        "move.py",
        "with open('out', 'wb') as out:\n    for n in range(3000): out.write(b'x' * (n % 700))\n\
         with open('out', 'rb') as back:\n    while back.read(1000): pass\n    back.seek(5); back.read(7)\n",
    );
    let commands: [&[&str]; 2] = [
        &["/usr/bin/python3", "move.py"],
        &["dd", "if=/dev/zero", "of=out", "bs=3000", "count=50", "seek=3", "status=none"],
    ];
    for command in commands {
        test.run(
            &[&["strace", "-f", "-y", "-e", "trace=read,write,pread64,pwrite64", "-o", "log"], command]
                .concat(),
        )
        .succeeds();
        test.quell(&[&["-q", "record", "-f", "-o", "t", "--"], command].concat()).succeeds();
        let report = report(&test, &["t"]);
        let of_out = file(&report, "out");
        for (direction, call) in [("reads", "read("), ("writes", "write(")] {
            let (calls, bytes) = returned(&test.read_text("log"), call);
            assert_eq!(requests(of_out, direction)[..2], [calls, bytes], "{command:?} {direction}");
        }
    }
    let of_out = file(&report(&test, &["t"]), "out").clone();
    // dd seeks to its third block first: no gap, because nothing was before it.
    assert_eq!(requests(&of_out, "writes"), [50, 150_000, 49, 0, 0]);
    assert_eq!(of_out["reach"], 159_000);
}

/// Calls on `out` in strace's log, and the sum of what they returned.
fn returned(log: &str, call: &str) -> (u64, u64) {
    let lines = log.lines().filter(|line| line.contains(call) && line.contains("/out>"));
    let results = lines.filter_map(|line| line.rsplit_once("= ")?.1.parse::<u64>().ok());
    results.fold((0, 0), |(calls, bytes), moved| (calls + 1, bytes + moved))
}

#[test]
fn privileged_the_loader_ends_where_main_begins() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    for (options, loader) in [(&["-lm"][..], true), (&["-lm", "-static"][..], false)] {
        program(&test, "marks", options);
        test.quell(&["-q", "record", "-f", "-o", "t", "--", "./marks"]).succeeds();
        let report = report(&test, &["t"]);
        let all = report["totals"]["metadata_operations"].as_u64().unwrap();
        // The mark, and 20 in the steady state.
        assert_eq!(phase(&report, "loader") > 0, loader, "{options:?}");
        if loader {
            assert_eq!((phase(&report, "loader"), phase(&report, "steady")), (all - 21, 21));
        }
    }
}

#[test]
fn privileged_initialisation_ends_where_imports_end() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    let script = "#!/usr/bin/python3\nimport os, json, argparse, decimal, http.client\n\
                  for _ in range(30): os.access('/quell-steady', 0)\n";
    test.write_mode("app", script, 0o755);
    test.quell(&["-q", "record", "-o", "t", "--", "./app"]).succeeds();
    let report = report(&test, &["t"]);
    let all = report["totals"]["metadata_operations"].as_u64().unwrap();
    let [loader, imports, steady] = ["loader", "initialisation", "steady"].map(|name| phase(&report, name));
    assert_eq!(loader + imports + steady, all);
    assert!((30..33).contains(&steady), "{steady} of {all} operations after 30 of its own");
    assert!(loader > 5 && imports > 100, "{loader} {imports}");
}

#[test]
fn privileged_mpi_initialises_between_its_marks() {
    for (needs, compiler, launcher) in
        [(MPI, "mpicc.openmpi", &OPEN_MPI_8[..6]), (MPICH, "mpicc.mpich", &["mpirun.mpich"][..])]
    {
        let Some(test) = Test::privileged(needs) else { return };
        with_mpi(&test, compiler, "marks");
        let record = ["-n", "2", *QUELL, "-q", "record", "--ranks", "0,1", "-o", "t", "--", "./marks"];
        test.run(&[launcher, &record].concat()).succeeds();
        let report = report(&test, &["t"]);
        let marks = marks(&test, "t");
        let expected = marks[1] - marks[0] - 1;
        let found = phase(&report, "mpi-init");
        assert!(found.abs_diff(expected) * 50 <= expected, "{compiler}: {found} of {expected} operations");
        assert!(phase(&report, "steady") >= 21, "{compiler}");
    }
}

/// Metadata operations before the start and before the end of MPI_Init.
fn marks(test: &Test, trace: &str) -> [u64; 2] {
    let trace = quell_trace::Trace::open(&[test.path(trace)]).unwrap();
    let recording = &trace.recordings[0];
    let (mut before, mut found) = (0, [0; 2]);
    recording
        .for_each_event(|event| {
            let path = event.path.map(|path| recording.paths.bytes(path));
            for (mark, at) in [&b"/quell-mark-begin"[..], b"/quell-mark-end"].into_iter().zip(&mut found) {
                if path == Some(mark) {
                    *at = before;
                }
            }
            before += u64::from(event.call.class().is_metadata());
        })
        .unwrap();
    found
}

#[test]
fn privileged_ways_in_which_ranks_write_are_told_apart() {
    let Some(test) = Test::privileged(MPI) else { return };
    with_mpi(&test, "mpicc.openmpi", "ranks");
    for (way, name, files, ranks) in [
        ("spokesperson", "spoken", 1, 1),
        ("file-per-process", "own.#", 8, 8),
        ("shared-file", "shared", 1, 8),
        ("aggregated", "collective", 1, 2),
    ] {
        let output = format!("{way}.qtrace");
        let record = [*QUELL, "-q", "record", "--ranks", RANKS_8, "-o", &output, "--", "./ranks", way];
        test.run(&[&OPEN_MPI_8[..], &record].concat()).succeeds();
        let traces: Vec<String> = (0..8)
            .map(|rank| if rank == 0 { output.clone() } else { format!("{way}.rank{rank}.qtrace") })
            .collect();
        let report = report(&test, &traces.iter().map(String::as_str).collect::<Vec<_>>());
        let patterns = report["data"]["patterns"].as_array().unwrap();
        let is_meant = |row: &&Value| {
            row["direction"] == "write" && row["name"].as_str().unwrap().ends_with(&format!("/{name}"))
        };
        let row = patterns.iter().find(is_meant).unwrap_or_else(|| panic!("{way}: {patterns:?}"));
        assert_eq!(row["pattern"], way);
        let numbers = ["files", "ranks", "bytes"].map(|name| row[name].as_u64().unwrap());
        assert_eq!(numbers, [files, ranks, 8 << 20], "{way}");
    }
}

#[test]
fn privileged_ranks_that_did_the_same_are_one_row() {
    let Some(test) = Test::privileged(MPICH) else { return };
    with_mpi(&test, "mpicc.mpich", "marks");
    let ranks = (0..16).map(|rank| rank.to_string()).collect::<Vec<_>>().join(",");
    let record = [*QUELL, "-q", "record", "--ranks", &ranks, "-o", "t.qtrace", "--", "./marks"];
    test.run(&[&["mpirun.mpich", "-n", "16"], &record[..]].concat()).succeeds();
    let traces: Vec<String> = (0..16)
        .map(|rank| if rank == 0 { "t.qtrace".into() } else { format!("t.rank{rank}.qtrace") })
        .collect();
    let report = report(&test, &traces.iter().map(String::as_str).collect::<Vec<_>>());
    let folds = report["folds"].as_array().unwrap();
    assert_eq!(folds.len(), 1, "{folds:?}");
    assert_eq!((&folds[0]["ranks"], &folds[0]["recordings"]), (&"0-15".into(), &16.into()));
    // With one of them twice, that is said, and both are in the fold.
    let twice = [traces.iter().map(String::as_str).collect::<Vec<_>>(), vec!["t.qtrace"]].concat();
    let said = test.quell(&[&["report"], &twice[..]].concat()).succeeds();
    assert!(said.contains("counted twice") && said.contains("0-15"), "{said}");
}
