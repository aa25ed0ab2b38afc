//! `quell check`, the stamp that it leaves, and which ranks compare.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

use crate::harness::{NOBODY, Need, Outcome, Test, session, snapshot};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// Runs the program of the usual image as rank `rank` of a job, when no server of an earlier run is left that it could join.
fn run_as(test: &Test, rank: u32, check: &str) -> Outcome {
    test.silence();
    let rank = format!("PMI_RANK={rank}");
    let quell = *crate::harness::QUELL;
    test.run(&[
        "env",
        &rank,
        "PMI_SIZE=4",
        quell,
        "run",
        "--on-stale",
        "fail",
        "--check",
        check,
        "app.qimg",
        "--",
        "env/bin/app",
    ])
}

fn status(outcome: &Outcome) -> Option<i32> {
    outcome.status.code()
}

/// Without the time that a comparison took.
fn untimed(mut outcome: Outcome) -> Outcome {
    let seconds = outcome.stdout.rfind(", in ");
    seconds.into_iter().for_each(|at| outcome.stdout.truncate(at));
    outcome
}

#[test]
fn privileged_a_check_leaves_a_stamp_that_ranks_trust() {
    let tests = [Test::privileged(ALL), Test::of_ordinary_user(ALL)];
    insta::allow_duplicates! { tests.into_iter().flatten().for_each(|test| {
        test.pack();
        snapshot!(untimed(test.quell(&["check", "app.qimg"])), @"
        status 0
        --- stdout
        app.qimg: unchanged; 7 entries compared in 11 operations, at most 32 at a time
        --- stderr
        quell: ranks trust that for 10 minutes (`app.qimg.checked`)
        ");
        assert_eq!(test.path("app.qimg.checked").metadata().unwrap().mode() & 0o777, 0o600);
        // A change that a rank would find if it compared.
        test.write("env/lib/a.txt", "changed\n");
        let trusting = run_as(&test, 0, "first");
        let told = "quell: `app.qimg.checked` vouches for the originals, so they were not compared; `--check all` compares them\n";
        assert_eq!((status(&trusting), trusting.stderr.as_str()), (Some(0), told));
        assert_eq!(status(&run_as(&test, 0, "all")), Some(1), "the stamp is none for `--check all`");
        let whole = test.read_text("app.qimg.checked");
        test.write_mode("app.qimg.checked", &whole[..whole.len() - 1], 0o600);
        assert_eq!(status(&run_as(&test, 0, "first")), Some(1), "cut short");
        test.write_mode("app.qimg.checked", &whole, 0o666);
        assert_eq!(status(&run_as(&test, 0, "first")), Some(1), "another user could have written it");
        session!(|line| test.script(line), @"
        $ quell check app.qimg => 1
        quell: error: image `app.qimg`: 1 original has changed since it was made
          [DIR]/env/lib/a.txt has another size
        hint: quell pack --refresh app.qimg
        ");
        assert!(!test.path("app.qimg.checked").exists(), "what was said before does not hold any more");
        test.quell(&["-q", "pack", "--refresh", "app.qimg"]).succeeds();
        test.write_mode("app.qimg.checked", &whole, 0o600);
        test.write("env/lib/a.txt", "once more\n");
        assert_eq!(status(&run_as(&test, 0, "first")), Some(1), "the stamp of another image");
    }) }
}

#[test]
fn privileged_a_stamp_of_another_user_does_not_count() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    test.pack();
    test.quell(&["-q", "check", "app.qimg"]).succeeds();
    test.write("env/lib/a.txt", "changed\n");
    chown(test.path("app.qimg.checked"), Some(NOBODY - 1), None).unwrap();
    test.mode("app.qimg.checked", 0o644);
    assert_eq!(status(&run_as(&test, 0, "first")), Some(1));
    chown(test.path("app.qimg.checked"), Some(0), None).unwrap();
    assert_eq!(status(&run_as(&test, 0, "first")), Some(0), "root's does");
}

#[test]
fn privileged_where_no_stamp_can_be_left_the_result_stands() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    test.pack();
    test.quell(&["-q", "check", "app.qimg", "--valid-for", "0"]).succeeds();
    assert!(!test.path("app.qimg.checked").exists());
    chown(test.path(""), Some(0), None).unwrap();
    snapshot!(untimed(test.quell(&["check", "app.qimg"])), @"
    status 0
    --- stdout
    app.qimg: unchanged; 7 entries compared in 11 operations, at most 32 at a time
    --- stderr
    quell: warning: cannot leave `app.qimg.checked`, so the first rank of each job compares too: EACCES (permission denied) (the directory may not be written to)
    ");
    let json = test.json(&["check", "--json", "app.qimg"]);
    assert_eq!((json["unchanged"].as_bool(), json["stamp"].is_null()), (Some(true), true));
    assert!(json["stamp_error"].as_str().unwrap().contains("EACCES"), "{json}");
    chown(test.path(""), Some(NOBODY), None).unwrap();
}

/// The program lists the directory, and files of quell in it do not count as names.
#[test]
fn privileged_image_and_trace_may_lie_in_a_directory_that_the_image_answers_for() {
    let tests = [Test::privileged(ALL), Test::of_ordinary_user(ALL)];
    for test in tests.into_iter().flatten() {
        test.plant();
        test.quell(&["-q", "record", "-o", "env/lib/app.qtrace", "--", "env/bin/app"]).succeeds();
        let pack = ["-q", "pack", "env/lib/app.qtrace", "-o", "env/lib/app.qimg", "--root", "env"];
        let packed = test.quell(&pack).succeeds();
        assert!(!packed.contains("stays the original") && packed.contains("3 files"), "{packed}");
        let run = ["run", "env/lib/app.qimg", "--", "env/bin/app"];
        let plain = test.run(&["env/bin/app"]);
        assert_eq!(test.quell(&run), plain);
        let checked = test.quell(&["check", "env/lib/app.qimg"]);
        assert!(checked.stderr.contains("ranks trust that for 10 minutes"), "{checked}");
        assert_eq!(status(&checked), Some(0));
        test.silence();
        // The stamp knows that the image's own name came.
        let stamped =
            test.script("$quell run env/lib/app.qimg -- sh -c 'env/bin/app; test -e env/lib/app.qimg'");
        assert!(stamped.stderr.contains("vouches for the originals"), "{stamped}");
        assert_eq!((status(&stamped), stamped.stdout), (Some(0), test.run(&["env/bin/app"]).stdout));
        test.write("env/lib/other", "");
        assert_eq!(status(&test.quell(&["check", "env/lib/app.qimg"])), Some(1));
    }
}

#[test]
fn privileged_changes_are_listed_for_programs() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    let unchanged = test.quell(&["check", "--json", "--jobs", "3", "app.qimg"]);
    let said = unchanged.json();
    assert_eq!((status(&unchanged), said["unchanged"].as_bool()), (Some(0), Some(true)));
    assert_eq!(said["compared"], true);
    assert_eq!((said["jobs"].as_u64(), said["schema_version"].as_u64()), (Some(3), Some(1)));
    assert!(said["operations"].as_u64() > said["entries"].as_u64());
    assert_eq!(said["stamp"]["path"], "app.qimg.checked");
    std::fs::remove_file(test.path("env/lib/b.txt")).unwrap();
    std::fs::set_permissions(test.path("env/lib/a.txt"), PermissionsExt::from_mode(0o600)).unwrap();
    let changed = test.quell(&["check", "--json", "app.qimg"]);
    let said = changed.json();
    let named: Vec<_> = said["changes"].as_array().unwrap().iter().collect();
    assert_eq!((status(&changed), named.len()), (Some(1), 3), "{said}");
    assert_eq!(named[1]["path"], "[DIR]/env/lib/a.txt");
    assert_eq!((&named[1]["difference"], &named[2]["difference"]), (&"permissions".into(), &"gone".into()));
    session!(|line| test.script(line), @"
    $ quell check app.qtrace => 2
    quell: error: image `app.qtrace`: not a regular file
    hint: `quell pack TRACE -o IMG` makes an image
    $ quell check absent.qimg => 2
    quell: error: image `absent.qimg`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
}

#[test]
fn privileged_one_rank_of_each_node_compares_if_all_are_to() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    test.write("env/lib/a.txt", "changed\n");
    assert_eq!(status(&run_as(&test, 3, "first")), Some(0), "rank 0 would have");
    assert_eq!(status(&run_as(&test, 3, "none")), Some(0));
    assert_eq!(status(&run_as(&test, 3, "all")), Some(1), "it is the first of its node");
    // A rank that joins a node's server does not compare again.
    let script = "PMI_RANK=0 PMI_SIZE=2 $quell run --on-stale fail --check none app.qimg -- sh -c 'echo up; touch up; exec sleep 100' & \
        while ! PMI_RANK=1 PMI_SIZE=2 $quell run --on-stale fail --check all app.qimg -- true; do sleep 0.1; done; \
        while ! test -e up; do sleep 0.1; done; kill $!; wait";
    let joined = test.shell(script).output().unwrap();
    assert!(String::from_utf8_lossy(&joined.stdout).contains("up"), "{joined:?}");
}
