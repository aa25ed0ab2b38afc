//! Recordings of several ranks and widths, packed together: where they differ, and what other ranks will ask for.

use crate::harness::{Need, Test, snapshot};

const ALL: &[Need] = &[Need::Ptrace];

/// Records a script as a rank of a job.
fn record(test: &Test, rank: u32, width: u32, script: &str) {
    let (rank, width, name) =
        (rank.to_string(), format!("PMI_SIZE={width}"), format!("r{rank}w{width}.qtrace"));
    let quell = *crate::harness::QUELL;
    let set = format!("PMI_RANK={rank}");
    let record =
        ["env", &set, &width, quell, "-q", "record", "--ranks", &rank, "-o", &name, "sh", "-c", script];
    test.run(&record).succeeds();
    // A rank but 0 has its number in the name.
    let ranked = test.path(&name.replace(".qtrace", &format!(".rank{rank}.qtrace")));
    if ranked.exists() {
        std::fs::rename(ranked, test.path(&name)).unwrap();
    }
}

#[test]
fn privileged_recordings_that_agree_take_one_line() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.plant();
    record(&test, 0, 4, "env/bin/app");
    record(&test, 0, 64, "env/bin/app");
    snapshot!(test.quell(&["-q", "pack", "r0w4.qtrace", "r0w64.qtrace", "--root", "env"]), @"
    status 0
    --- stdout
    r0w4.qimg: [SIZE] with 3 files of [SIZE], 15 names in 3 directories, 1 absence
    2 recordings agree: rank 0 of 4, rank 0 of 64

    packed below:
      [DIR]/env  (it was given with `--root`, 7 paths were asked for, nothing below it was changed)
    ");
}

#[test]
fn privileged_what_only_some_ranks_asked_for_is_named_and_packed() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.plant();
    for rank in [0, 5] {
        test.write(&format!("env/parts/part.{rank:04}"), format!("part {rank}\n"));
    }
    test.write("env/extra/table", vec![7; 5000]);
    record(&test, 0, 8, "env/bin/app; cat env/parts/part.0000");
    record(
        &test,
        5,
        8,
        "env/bin/app; cat env/parts/part.0005 env/extra/table; test -e env/extra/absent; true",
    );
    record(&test, 0, 64, "env/bin/app; cat env/parts/part.0000; cat env/aside/deep/data");
    let traces = ["r0w8.qtrace", "r5w8.qtrace", "r0w64.qtrace"];
    snapshot!(test.quell(&[&["-q", "pack", "-o", "app.qimg", "--root", "env"][..], &traces].concat()), @"
    status 0
    --- stdout
    app.qimg: [SIZE] with 7 files of [SIZE], 22 names in 7 directories, 2 absences

    3 recordings differ; the image covers what any of them asked for:
      only rank 5 of 8: 3 paths, 2 files of [SIZE] among them, in [DIR]/env
      only rank 0 of 64: 1 path, 1 file of [SIZE] among them, in [DIR]/env/aside/deep
      only rank 0 of 64, rank 0 of 8: 1 path, 1 file of [SIZE] among them, in [DIR]/env/parts

    packed below:
      [DIR]/env  (it was given with `--root`, 12 paths were asked for, nothing below it was changed)
    --- stderr
    quell: warning: names contain the rank's number: the image lacks the names of ranks that were not recorded
      [DIR]/env/parts/part.%04d
    hint: the originals answer them; `--add DIR` packs all of a directory
    ");
    let held = test.quell(&["image", "ls", "app.qimg"]).succeeds();
    for name in ["parts/part.0000", "parts/part.0005", "extra/table", "aside/deep/data"] {
        assert!(held.lines().any(|line| line.ends_with(name) && line.contains("held")), "{name}: {held}");
    }
}
