//! An image compressed for transport: every command opens it, `run` serves it, a damaged one gets one clear line.

use crate::harness::{Need, Test};

/// The planted tree with its compressed image, for root and for an ordinary user.
fn packed() -> Option<[Test; 2]> {
    let needs = &[Need::Fuse, Need::Ptrace, Need::Program("zstd")];
    let tests = [Test::privileged(needs)?, Test::of_ordinary_user(needs)?];
    for test in &tests {
        test.plant();
        test.quell(&["-q", "record", "-o", "app.qtrace", "--", "env/bin/app"]).succeeds();
        test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env", "--compress"]).succeeds();
    }
    Some(tests)
}

#[test]
fn privileged_every_command_opens_it() {
    let Some(tests) = packed() else { return };
    for test in tests {
        test.script("zstd -dq app.qimg -o plain.qimg && chmod 600 plain.qimg").succeeds();
        assert_eq!(test.quell(&["run", "app.qimg", "--", "env/bin/app"]), test.run(&["env/bin/app"]));
        assert_eq!(test.quell(&["run", "plain.qimg", "--", "env/bin/app"]), test.run(&["env/bin/app"]));
        for look in
            [&["image", "ls"][..], &["image", "cat"], &["image", "info", "--json"], &["image", "check"]]
        {
            let with = |image: &str| {
                let path = test.text("env/lib/a.txt");
                let paths = if look[1] == "cat" { vec![path.as_str()] } else { Vec::new() };
                let outcome = test.quell(&[look, &[image], &paths].concat());
                (outcome.code(), outcome.stdout.replace(image, "IMG"))
            };
            assert_eq!(with("app.qimg"), with("plain.qimg"), "{look:?}");
        }
        let repacked = ["-q", "pack", "app.qtrace", "-o", "again.qimg", "--root", "env", "--compress=9"];
        test.quell(&repacked).succeeds();
        assert!(test.read("again.qimg") == test.read("app.qimg"), "the same bytes");
    }
}

#[test]
fn privileged_a_damaged_or_too_large_one_is_refused() {
    let Some([test, _]) = packed() else { return };
    let run = |image: &str| test.quell(&["run", image, "--", "echo", "plain"]);
    test.script("head -c -20 app.qimg > short.qimg; chmod 600 short.qimg").succeeds();
    let short = run("short.qimg");
    assert_eq!(short.code(), 125);
    assert!(short.stderr.contains("was it copied completely?\nhint: copy it again"), "{}", short.stderr);
    assert_eq!(test.quell(&["image", "info", "short.qimg"]).code(), 2);
    test.script("echo text | zstd -q > other.qimg; chmod 600 other.qimg").succeeds();
    assert!(run("other.qimg").stderr.contains("without quell's table of frames"));

    let small = test.quell(&["run", "--memory", "1000", "app.qimg", "--", "echo", "plain"]);
    assert_eq!((small.code(), small.stdout.as_str()), (0, "plain\n"));
    assert!(small.stderr.contains("the command runs plain: it takes "), "{}", small.stderr);
    assert!(
        small.stderr.contains("bytes of memory, and may take 1000\nhint: raise `--memory`"),
        "{}",
        small.stderr
    );
    let required = test.quell(&["run", "--memory", "1K", "--require", "app.qimg", "--", "echo", "plain"]);
    assert_eq!((required.code(), required.stdout.as_str()), (125, ""));
    assert_eq!(test.quell(&["run", "--memory", "64M", "app.qimg", "--", "true"]).code(), 0);
    assert_eq!(test.quell(&["run", "--memory", "lots", "app.qimg", "--", "true"]).code(), 125);
}
