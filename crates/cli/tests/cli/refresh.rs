//! `quell pack --refresh`: an image made anew of its originals, without a recording.

use crate::harness::{Need, Test, session, snapshot};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

#[test]
fn privileged_an_image_is_made_anew_and_says_what_changed() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    let before = test.read("app.qimg");
    snapshot!(test.quell(&["pack", "--refresh", "app.qimg"]), @"
    status 0
    --- stdout
    app.qimg: [SIZE] with 3 files of [SIZE], 15 names in 3 directories, 1 absence

    packed below:
      [DIR]/env  (it was given with `--root`, 7 paths were asked for, nothing below it was changed)

    nothing changed
    ");
    assert!(test.read("app.qimg") == before, "nothing changed");
    test.write("env/lib/a.txt", "changed\n");
    test.write("env/lib/new.txt", "new\n");
    std::fs::remove_file(test.path("env/lib/b.txt")).unwrap();
    let stale = test.quell(&["run", "--on-stale", "fail", "app.qimg", "--", "env/bin/app"]);
    assert_eq!(stale.status.code(), Some(1));
    snapshot!(test.quell(&["pack", "--refresh", "app.qimg"]), @"
    status 0
    --- stdout
    app.qimg: [SIZE] with 2 files of [SIZE], 15 names in 3 directories, 1 absence

    packed below:
      [DIR]/env  (it was given with `--root`, 7 paths were asked for, nothing below it was changed)

    since the old image: 1 changed, 1 gone, 1 new
      changed   [DIR]/env/lib/a.txt
      gone      [DIR]/env/lib/b.txt
      new       [DIR]/env/lib/new.txt
    ");
    test.quell(&["-q", "pack", "app.qtrace", "-o", "anew.qimg", "--root", "env"]).succeeds();
    assert!(test.read("app.qimg") == test.read("anew.qimg"), "as from the recording");
    let (plain, run) = (test.run(&["env/bin/app"]), test.quell(&["run", "app.qimg", "--", "env/bin/app"]));
    assert_eq!(run, plain);
}

#[test]
fn privileged_refreshing_refuses_what_it_must_not_touch() {
    let Some(test) = Test::of_ordinary_user(ALL) else { return };
    test.pack();
    std::fs::copy(test.path("app.qimg"), test.path("cut.qimg")).unwrap();
    test.give("cut.qimg");
    let mut bytes = test.read("cut.qimg");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(test.path("cut.qimg"), &bytes).unwrap();
    let damaged = test.quell(&["pack", "--refresh", "cut.qimg"]);
    assert!(damaged.stderr.starts_with("quell: error: image `cut.qimg`: damaged: "), "{damaged}");
    assert_eq!(damaged.status.code(), Some(2));
    assert!(test.read("cut.qimg") == bytes);
    std::os::unix::fs::chown(test.path("cut.qimg"), Some(1), Some(1)).unwrap();
    test.mode("cut.qimg", 0o644);
    session!(|line| test.script(line), @"
    $ quell pack --refresh cut.qimg => 2
    quell: error: image `cut.qimg`: it belongs to user 1, neither to you nor to root
    hint: if you trust it, make a copy of your own and refresh that
    ");
    std::os::unix::fs::chown(test.path("app.qimg"), Some(0), Some(0)).unwrap();
    test.mode("app.qimg", 0o644);
    session!(|line| test.script(line), @"
    $ quell pack --refresh app.qimg => 2
    quell: error: image `app.qimg` belongs to user 0, and only that user can replace it
    hint: `-o IMG` writes one of your own
    ");
    test.quell(&["pack", "--refresh", "app.qimg", "-o", "own.qimg"]).succeeds();
    session!(|line| test.script(line), @"
    $ quell pack --refresh own.qimg -o own.qtrace.qimg/x => 2
    quell: error: cannot pack: cannot create `own.qtrace.qimg/x`: ENOENT (no such file or directory)
    hint: `-o IMG` writes elsewhere
    ");
    std::fs::rename(test.path("env"), test.path("away")).unwrap();
    session!(|line| test.script(line), @"
    $ quell pack --refresh own.qimg => 2
    quell: error: cannot pack: `[DIR]/env`, which the image covers, is not a directory here
    hint: refresh where it is mounted; where it was given up, record and pack again
    $ quell pack --refresh own.qimg app.qtrace => 2
    error: the argument '--refresh <IMG>' cannot be used with '[T]...'

    Usage: quell pack [OPTIONS] T...
           quell pack [OPTIONS] --refresh IMG

    For more information, try '--help'.
    ");
}
