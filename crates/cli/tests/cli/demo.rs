//! `quell demo`: every step works for every user, and nothing is left behind.

use crate::harness::{Need, Test};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

#[test]
fn privileged_the_demo_shows_the_whole_way() {
    let (Some(ours), Some(of_ordinary_user)) = (Test::privileged(ALL), Test::of_ordinary_user(ALL)) else {
        return;
    };
    for test in [ours, of_ordinary_user] {
        let mut command = test.command(&crate::harness::with_quell(&["demo"]));
        command.env("TMPDIR", test.path(""));
        let outcome = test.finish(command);
        for step in ["# 1.", "# 2.", "# 3.", "# 4.", "# 5."] {
            assert!(outcome.stdout.contains(step), "{outcome}");
        }
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""));
        test.silence();
        assert_eq!(test.files(), Vec::<String>::new());
    }
}

/// Without FUSE the image is extracted, and the demo shows the saving.
#[test]
fn privileged_the_demo_shows_the_effect_without_fuse() {
    let (Some(ours), Some(of_ordinary_user)) = (Test::privileged(ALL), Test::of_ordinary_user(ALL)) else {
        return;
    };
    for (test, identity) in
        [(ours, ""), (of_ordinary_user, "setpriv --reuid 65534 --regid 65534 --clear-groups")]
    {
        let script = format!(
            "mount --bind /dev/null /dev/fuse; export TMPDIR={}; exec {identity} {} demo",
            test.text(""),
            crate::harness::QUELL
        );
        let outcome = Test::new().run(&["unshare", "--mount", "sh", "-c", &script]);
        test.silence();
        assert_eq!(test.files(), Vec::<String>::new());
        assert_eq!((outcome.code(), outcome.stderr.as_str()), (0, ""), "{outcome}");
        let row = outcome.stdout.lines().find(|line| line.starts_with("quell "));
        let counts: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert!(counts[1] == "0" && counts[2] != "0", "{outcome}");
    }
}

/// Without namespaces the image is of no use, so there is nothing to show, and the demo does not end as if there were. The
/// limit is that of a user namespace around.
#[test]
fn privileged_the_demo_fails_where_no_image_can_be_used() {
    let Some(test) = Test::privileged(ALL) else { return };
    let script = format!(
        "echo 0 > /proc/sys/user/max_mnt_namespaces && TMPDIR={} exec {} demo",
        test.text(""),
        crate::harness::QUELL
    );
    let outcome = test.run(&["unshare", "--user", "--map-root-user", "sh", "-c", &script]);
    assert!(outcome.code() == 2 && outcome.stderr.contains("quell doctor"), "{outcome}");
    test.silence();
    assert_eq!(test.files(), Vec::<String>::new());
}

#[test]
fn privileged_the_demo_keeps_what_it_made_where_that_is_wanted() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.plant();
    // The demo packs below a directory three names deep, which here is the test's own `env`.
    let demo = test.quell(&["demo", "--keep", "kept", "--", &test.text("env/bin/app")]);
    assert_eq!(demo.code(), 0, "{demo}");
    let mut kept: Vec<_> =
        std::fs::read_dir(test.path("kept")).unwrap().map(|file| file.unwrap().file_name()).collect();
    kept.sort();
    assert_eq!(kept, ["app.qimg", "packed.qtrace", "plain.qtrace"]);
    let diff = test.quell(&["diff", "--json", "kept/plain.qtrace", "kept/packed.qtrace"]).stdout;
    let diff: serde_json::Value = serde_json::from_str(&diff).unwrap();
    let served = diff["served_by"].as_array().unwrap().iter().find(|row| row["by"] == "quell").unwrap();
    assert!(served["a"] == 0 && served["b"].as_u64() > Some(0), "{diff}");
    // Each line can be typed, in another directory too.
    let typed: Vec<&str> = demo.stdout.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
    assert_eq!(typed.len(), 5, "{demo}");
    let typed = typed.join(" && ").replace("[DIR]", test.text("").trim_end_matches('/'));
    let script =
        format!("mkdir bin typed && ln -s $quell bin/ && PATH=$PWD/bin:$PATH && cd typed && {typed}");
    let typed = test.script(&script);
    assert!(typed.code() <= 1 && test.path("typed/packed.qtrace").is_dir(), "{script}: {typed}");
    let again = test.quell(&["demo", "--keep", "kept", "--", "true"]);
    assert!(again.code() == 2 && again.stderr.contains("EEXIST"), "{again}");
}
