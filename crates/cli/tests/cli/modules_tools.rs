//! The commands of `quell modules` that run the site's own tools: measure, verify, convert to a cache, check.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use rustix::process::Signal;

use crate::harness::{Need, Outcome, Test, send, skip, wait_until, with_quell};

/// The prefix of a version that `tests/modules/install` unpacks; `None`, and a line with the reason, if it cannot be
/// installed.
pub(crate) fn tool(name: &str) -> Option<String> {
    let directory = match std::env::var_os("QUELL_TEST_MODULE_TOOLS") {
        Some(directory) => PathBuf::from(directory),
        None => crate::place::kept(Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap(), "module-tools"),
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/modules/install");
    let installed = Command::new(script).arg(&directory).output().unwrap();
    let prefix = directory.join(name);
    match installed.status.success() && prefix.is_dir() {
        true => Some(prefix.canonicalize().unwrap().to_str().unwrap().to_owned()),
        false => skip(&format!("{name} cannot be had here")),
    }
}

/// A test with a small example in `m`.
fn example(needs: &[Need]) -> Option<Test> {
    let test = Test::privileged(needs)?;
    test.quell(&["-q", "modules", "example", "--names", "2", "--versions", "2", "m"]).succeeds();
    Some(test)
}

fn json(outcome: &Outcome) -> Value {
    serde_json::from_str(&outcome.stdout).unwrap_or_else(|error| panic!("{error}: {}", outcome.stderr))
}

#[test]
fn privileged_measure_counts_every_strategy_that_a_version_has() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = example(&[Need::Ptrace, Need::Fuse]) else { return };
    let words =
        ["modules", "measure", "--json", "--runs", "1", "--tools", &prefix, "m/applications", "m/libraries"];
    let measured = json(&test.quell(&words));
    let row = |name: &str, command: &str| {
        let rows = measured["strategies"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name && row["command"] == command).cloned().unwrap_or_default()
    };
    let on_tree = |name: &str, command: &str| row(name, command)["on_tree"].as_u64().unwrap_or(u64::MAX);
    assert_eq!(row("plain", "avail")["modulefiles"], 8, "{measured}");
    assert!(row("plain", "avail")["calls"].as_u64().unwrap() > 200);
    assert!(on_tree("no extension library", "avail") > on_tree("plain", "avail"));
    assert!(on_tree("eval", "avail") < on_tree("modulepath rc", "avail"));
    assert!(on_tree("virtual", "avail -t") < on_tree("eval", "avail -t"));
    assert_eq!(on_tree("image", "load"), 0);
    let not: Vec<&str> = measured["not_measured"]
        .as_array()
        .unwrap()
        .iter()
        .map(|not| not["name"].as_str().unwrap())
        .collect();
    assert_eq!(not, ["cache", "cache, 4096 bytes", "cache, 1000000 bytes", "cache ignored"]);
    assert_eq!(measured["advice"].as_array().unwrap().len(), 6);
    // Users of a terminal get two tables of at most 80 columns, and one verdict.
    let text: Vec<&str> = words.iter().copied().filter(|word| *word != "--json").collect();
    let text = test.quell(&text).stdout;
    assert!(text.lines().filter(|line| !line.starts_with("  ")).all(|line| line.len() <= 80), "{text}");
    let heads: Vec<&str> = text.lines().filter(|line| line.contains("avail -t")).collect();
    assert_eq!(heads.len(), 2, "{text}");
    assert!(heads.iter().all(|head| head.ends_with("avail avail -t     load    login  restore")), "{text}");
    assert_eq!(text.matches("verdict: ").count(), 1, "{text}");
    let [found] = measured["recommendations"].as_array().unwrap().as_slice() else { panic!("{measured}") };
    let seconds = |name: &str| found[name].as_f64().unwrap();
    assert!(seconds("seconds_after") <= seconds("seconds_before"), "{found}");
    assert_eq!(found["strategy"] == "plain", found["command"].is_null(), "{found}");
}

#[test]
fn privileged_verify_shows_what_differs_and_ends_with_one() {
    let Some(prefix) = tool("modules-5.2.0") else { return };
    let Some(test) = example(&[]) else { return };
    test.run(&["cp", "-a", "m", "n"]).succeeds();
    let (old, new) = ("m/applications:m/libraries", "n/applications:n/libraries");
    let words = ["modules", "verify", "--tools", &prefix, old, new];
    let same = test.quell(&words);
    assert!(same.stdout.starts_with("no answer differs: "), "{}{}", same.stdout, same.stderr);
    assert_eq!(same.code(), 0);
    test.write("n/applications/appa/.version", "#%Module\nset ModulesVersion 1.0\n");
    let differs = test.quell(&words);
    assert_eq!(differs.code(), 1);
    for part in ["module load appa    Modules 5.2.0, as ", "answers differ: "] {
        assert!(differs.stdout.contains(part), "{}", differs.stdout);
    }
    let found = json(&test.quell(&[&words[..], &["--json"]].concat()));
    assert_eq!(found["same"], false);
    assert!(found["differences"].as_array().unwrap().iter().any(|one| one["question"] == "path appa"));
    let unequal = test.quell(&["modules", "verify", "--tools", &prefix, old, "n/libraries"]);
    assert_eq!((unequal.code(), unequal.stderr.contains("2 old modulepaths, and 1 new ones")), (2, true));
}

#[test]
fn privileged_a_cache_is_built_and_told_to_be_stale() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = example(&[]) else { return };
    let build = ["modules", "convert", "--to", "cache", "--tools", &prefix, "m/applications"];
    assert_eq!(test.quell(&["modules", "check", "m/applications"]).code(), 1, "there is none");
    let dry = test.quell(&[&build[..], &["--dry-run"]].concat());
    assert!(dry.stdout.contains("would be built") && !test.path("m/applications/.modulecache").exists());
    assert!(dry.code() == 0 && dry.stderr.contains("verdict: no answer differs: it would be built"), "{dry}");
    test.quell(&build).succeeds();
    assert_eq!(test.quell(&["modules", "check", "m/applications"]).stdout, "every cache is up to date\n");
    test.write("m/applications/appa/9.0", "#%Module\n");
    let stale = test.quell(&["modules", "check", "--json", "m/applications"]);
    assert_eq!(stale.code(), 1);
    assert_eq!(json(&stale)["changes"][0]["path"], "appa/9.0");
    test.quell(&[&build[..], &["--no-verify"]].concat()).succeeds();
    assert_eq!(test.quell(&["modules", "check", "m/applications"]).code(), 0);
    // Another cache is at another place.
    let elsewhere =
        |words: &[&str]| test.quell(&[&build[..], &["--out", "caches", "--json"], words].concat());
    let pending = elsewhere(&["--dry-run"]);
    assert_eq!(json(&pending)["pending"][0]["what"], "no-cache");
    assert_eq!(json(&elsewhere(&["--no-verify"]))["caches"][0]["rebuilt"], true);
    assert_eq!(json(&elsewhere(&["--dry-run"]))["pending"].as_array().unwrap().len(), 0);
    let check = || test.quell(&["modules", "check", "--out", "caches", "m/applications"]).code();
    assert_eq!(check(), 0);
    test.write("caches/applications/.modulecache", "#%Module5.3\n");
    assert_eq!(check(), 1);
    let strays = elsewhere(&["--delete-strays"]);
    assert!(
        strays.code() == 2 && strays.stderr.contains("leaves its modulepath as it is"),
        "{}",
        strays.stderr
    );
    // A modulepath that can have no cache is named, and is a failure if no other modulepath is given.
    test.mode("m/libraries", 0o700);
    let both = test.quell(&[&build[..], &["--no-verify", "m/libraries"]].concat());
    assert!(both.code() == 0 && both.stderr.contains("not every user can enter it"), "{both}");
    let alone = ["modules", "convert", "--to", "cache", "--tools", &prefix, "--no-verify", "m/libraries"];
    assert_eq!(test.quell(&alone).code(), 1);
    let no_tool = test.quell(&["modules", "convert", "--to", "cache", "--tools", "m", "m/applications"]);
    assert!(no_tool.stderr.contains("there is neither Environment Modules nor Lmod"), "{}", no_tool.stderr);
    assert_eq!(no_tool.code(), 2);
}

#[test]
fn privileged_measure_loads_a_module_that_there_is_with_each_strategy_of_lmod() {
    let Some(prefix) = tool("lmod-8.7.60") else { return };
    let Some(test) = example(&[Need::Ptrace, Need::Fuse]) else { return };
    let words =
        ["modules", "measure", "--json", "--runs", "1", "--tools", &prefix, "m/applications", "m/libraries"];
    let measured = json(&test.quell(&words));
    let rows = measured["strategies"].as_array().unwrap();
    let row = |name: &str, command: &str| {
        rows.iter().find(|row| row["name"] == name && row["command"] == command).unwrap()
    };
    let on_tree = |name: &str, command: &str| row(name, command)["on_tree"].as_u64().unwrap();
    // The two symbolic versions, which a terse listing has too, do not count.
    assert_eq!(row("plain", "avail")["modulefiles"], 8, "{measured}");
    assert_eq!(measured["not_measured"].as_array().unwrap().len(), 0, "{measured}");
    assert!(on_tree("system cache", "avail") < on_tree("plain", "avail") / 4);
    // The terse listing and loads ignore the cache, unless a setting says otherwise.
    for command in ["avail -t", "load"] {
        assert_eq!(on_tree("system cache", command), on_tree("plain", command), "{command}");
        assert!(on_tree("system cache, cached loads", command) < on_tree("plain", command) / 2, "{command}");
        assert_eq!(on_tree("image", command), 0);
    }
    assert!(row("plain", "login")["calls"].as_u64().unwrap() > 0, "{measured}");
    assert!(on_tree("plain", "restore") > 0 && on_tree("plain", "spider") > 0, "{measured}");
    let found = &measured["recommendations"][0];
    let settings = ["LMOD_RC=DIR/lmodrc.lua", "LMOD_CACHED_LOADS=yes"];
    assert_eq!(
        (&found["strategy"], &found["settings"]),
        (&"system cache, cached loads".into(), &settings.to_vec().into())
    );
    assert!(row("plain", "load")["calls"].as_u64() < row("plain", "avail")["calls"].as_u64());
    let absent = test.quell(&[&words[..], &["--load", "libb/sym(@libb/2.0)"]].concat());
    assert_eq!(absent.code(), 2);
    for part in ["`load libb/sym(@libb/2.0)` ends with status 1", "hint: `--load NAME`"] {
        assert!(absent.stderr.contains(part), "{}", absent.stderr);
    }
}

#[test]
fn privileged_a_sites_settings_are_those_of_the_judge() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = example(&[]) else { return };
    test.write("m/libraries/liba/9.0", "#%Module99\n");
    test.run(&["cp", "-a", "m", "n"]).succeeds();
    let rc = "#%Module\nif {[versioncmp $ModuleToolVersion 99] < 0} {\n  module-hide --hard liba/9.0\n}\n";
    test.write("n/libraries/.modulerc", rc);
    let verify = |setting: &str| {
        let words = format!("\"$quell\" modules verify --tools {prefix} m/libraries n/libraries");
        test.script(&format!("{setting} exec {words}"))
    };
    assert_eq!(verify("MODULES_VERBOSITY=silent").code(), 0);
    let without_check = verify("MODULES_MCOOKIE_VERSION_CHECK=0");
    assert!(
        without_check.code() == 1 && without_check.stdout.contains("load liba/9.0"),
        "{}",
        without_check.stdout
    );
}

#[test]
fn privileged_a_modulepath_that_can_have_no_cache_turns_no_nightly_check_red() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = example(&[]) else { return };
    std::fs::create_dir_all(test.path("empty")).unwrap();
    test.mode("m/libraries", 0o750);
    let paths = ["m/applications", "m/libraries", "empty"];
    let build = ["modules", "convert", "--to", "cache", "--no-verify", "--tools", &prefix];
    let dry = json(&test.quell(&[&build[..], &["--dry-run", "--json"], &paths].concat()));
    assert_eq!(dry["pending"].as_array().unwrap().len(), 1, "{dry}");
    assert_eq!(dry["left_out"].as_array().unwrap().len(), 2, "{dry}");
    for _ in 0..2 {
        let built = test.quell(&[&build[..], &paths].concat());
        assert!(
            built.code() == 0 && built.stderr.contains("it holds nothing that a cache could record"),
            "{built}"
        );
    }
    let checked = test.quell(&[&["modules", "check"][..], &paths].concat());
    assert_eq!(checked.code(), 0, "{checked}");
    for part in ["libraries: can have no cache: not every", "empty: can have no cache: it holds nothing"] {
        assert!(checked.stdout.contains(part), "{checked}");
    }
    let told = json(&test.quell(&[&["modules", "check", "--json"][..], &paths].concat()));
    assert_eq!((&told["fresh"], told["left_out"].as_array().unwrap().len()), (&Value::Bool(true), 2));
}

#[test]
fn privileged_a_cache_that_one_cannot_read_is_not_one_that_is_absent() {
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    test.write("m/a/1.0", "#%Module\n");
    test.write_mode("m/.modulecache", "#%Module5.3\n", 0o600);
    std::os::unix::fs::lchown(test.path("m/.modulecache"), Some(0), Some(0)).unwrap();
    let checked = test.quell(&["modules", "check", "--json", "m"]);
    assert_eq!((checked.code(), json(&checked)["changes"][0]["what"].as_str()), (1, Some("unreadable")));
}

/// A directory that other users cannot enter, with modulefiles in `restricted/m` and an rc file that, when it is evaluated,
/// records the users that can reach the temporary files.
fn restrict(test: &Test, temporary: &str) -> String {
    let (seen, temporary) = (test.text("seen"), test.text(temporary));
    let rc = format!("catch {{exec sh -c {{ls -ld {temporary}/.quell-caches-* >> {seen}}}}}\n");
    test.write("restricted/m/.modulerc", format!("#%Module\n{rc}"));
    test.write("restricted/m/a/1.0", "#%Module\nsetenv A s3cret\n");
    test.mode("restricted", 0o750);
    seen
}

#[test]
fn privileged_what_root_makes_aside_stays_below_a_closed_directory() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    let seen = restrict(&test, "restricted");
    test.write_mode("seen", "", 0o666);
    std::os::unix::fs::lchown(test.path("restricted"), None, Some(4321)).unwrap();
    let build = ["modules", "convert", "--to", "cache", "--tools", &prefix, "--user", "4321", "restricted/m"];
    let outside = test.quell(&[&build[..], &["--out", "open"]].concat());
    assert!(outside.code() == 1 && outside.stderr.contains("the cache would lie outside of it"), "{outside}");
    assert!(outside.stderr.contains("hint: `--out DIR` below the closed directory"), "{outside}");
    assert!(!test.path("open").exists() && test.read("seen").is_empty());
    test.quell(&build).succeeds();
    assert!(std::fs::read_to_string(seen).unwrap().starts_with("drwxr-xr-x"));
    assert!(test.files().iter().all(|name| !name.contains("quell-caches-")), "{:?}", test.files());
    test.quell(&["modules", "check", "restricted/m"]).succeeds();
    test.quell(&[&build[..], &["--out", "restricted/caches"]].concat()).succeeds();
    let Some(lmod) = tool("lmod-8.7.60") else { return };
    // The cache has no command for that file.
    std::fs::remove_file(test.path("restricted/m/.modulerc")).unwrap();
    let words = [
        "modules",
        "convert",
        "--to",
        "lmod-cache",
        "--tools",
        &lmod,
        "--user",
        "4321",
        "restricted/m",
        "--out",
    ];
    let outside = test.quell(&[&words[..], &["open"]].concat());
    assert!(outside.code() == 2 && outside.stderr.contains("the cache would lie outside of it"), "{outside}");
    test.quell(&[&words[..], &["restricted/lmod"]].concat()).succeeds();
}

#[test]
fn privileged_what_others_make_aside_of_a_closed_directory_is_theirs_alone() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    let seen = restrict(&test, "temporary");
    std::fs::create_dir(test.path("temporary")).unwrap();
    test.give("temporary");
    let words =
        [*crate::harness::QUELL, "modules", "convert", "--to", "cache", "--tools", &prefix, "restricted/m"];
    let mut command = test.command(&words);
    command.env("TMPDIR", test.path("temporary"));
    test.finish(command).succeeds();
    let seen = std::fs::read_to_string(seen).unwrap();
    assert!(seen.lines().all(|line| line.starts_with("drwx------")) && !seen.is_empty(), "{seen}");
}

#[test]
fn privileged_a_signal_that_ends_a_command_gives_its_status() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::privileged(&[]) else { return };
    test.quell(&["-q", "modules", "example", "--names", "250", "--versions", "4", "m"]).succeeds();
    let words =
        [*crate::harness::QUELL, "modules", "convert", "--to", "cache", "--tools", &prefix, "m/applications"];
    for (signal, status) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut command = test.command(&words);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        let quell = i32::try_from(child.id()).unwrap();
        let is_waiting = || {
            let status = std::fs::read_to_string(format!("/proc/{quell}/status")).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
            // SIGHUP, the last of the three signals.
            u64::from_str_radix(caught.trim(), 16).unwrap() & 1 == 1
        };
        wait_until("signals are waited for", is_waiting);
        send(quell, signal);
        let ended = test.wait(child);
        assert_eq!(ended.code(), status, "{ended}");
        assert!(ended.stderr.contains("ended by a signal"), "{ended}");
        assert!(!test.path("m/applications/.modulecache").exists());
    }
}

#[test]
fn who_asks_for_what_is_not_there_gets_a_hint() {
    let test = Test::new();
    test.write("m/a/1.0", "#%Module\n");
    for (words, said) in [
        (["verify", "m", "n\u{1b}o", "--exact"], "`n\\x1bo` is not a directory"),
        (["verify", "m", "m", "--with=A"], "`--with A` is not NAME=VALUE"),
        (["verify", "m", "m", "--user=nobody-of-this-name"], "there is no user `nobody-of-this-name` here"),
    ] {
        let outcome = test.quell(&[&["modules"], &words[..]].concat());
        let is_told = outcome.stderr.contains(said) && outcome.stderr.contains("hint: ");
        assert!(outcome.code() == 2 && is_told, "{outcome}");
    }
}

/// A modulefile that adds a modulepath, and a name that both have and the first hides in part.
fn plant_hierarchy(test: &Test) {
    let add = format!("#%Module\nmodule use {}\n", test.text("added"));
    for (path, text) in [
        ("m/env/1", add.as_str()),
        ("m/hdf5/1.8", "#%Module\n"),
        ("m/hdf5/1.14", "#%Module\n"),
        ("m/hdf5/.modulerc", "#%Module\nmodule-hide hdf5/1.14\n"),
        ("m/zlib/1", "#%Module\n"),
        ("m/zlib/2", "#%Module\n"),
        ("m/zlib/.version", "#%Module\nset ModulesVersion 1\n"),
        ("added/hdf5/1.12", "#%Module\n"),
        ("added/hdf5/1.14", "#%Module\n"),
    ] {
        test.write(path, text);
    }
}

#[test]
fn privileged_a_dry_run_asks_the_tools_and_says_what_the_real_run_would() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    plant_hierarchy(&test);
    let before = test.files();
    let convert = ["modules", "convert", "--to", "rc", "--tools", &prefix, "--user", "nobody", "m"];
    for more in [&["--dry-run"][..], &["--dry-run", "--in-place"]] {
        let dry = test.quell(&[&convert[..], more].concat());
        for part in [
            "trying again without moving the rc files of hdf5",
            "hdf5/.modulerc: an answer would differ if it moved",
            "summary: 1 files go, 1 are written, 1 rc files stay",
            "calls on the trees: avail 55 -> 56, load 29 -> 30, login 0 -> 0 (Modules 5.7.0, load zlib/1)",
            "estimate: the real run takes about ",
            "verdict: no answer differs: it would be converted",
        ] {
            assert!(dry.code() == 0 && dry.stderr.contains(part), "{part}: {dry}");
        }
        assert_eq!(test.files(), before);
    }
    test.quell(&[&convert[..], &["--in-place"]].concat()).succeeds();
    assert!(test.path("m/hdf5/.modulerc").is_file() && !test.path("m/zlib/.version").exists());
}

#[test]
fn privileged_a_dry_run_counts_the_calls_that_measure_counts() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    test.quell(&["modules", "example", "m"]).succeeds();
    let trees = ["--tools", &prefix, "m/applications", "m/libraries"];
    let measured =
        json(&test.quell(&[&["modules", "measure", "--runs", "1", "--json"], &trees[..]].concat()));
    let on_tree = |strategy: &str, command: &str| {
        let rows = measured["strategies"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"] == strategy && row["command"] == command);
        row.unwrap()["on_tree"].clone()
    };
    let dry = ["modules", "convert", "--to", "eval", "--dry-run", "--json"];
    let dry = json(&test.quell(&[&dry[..], &trees].concat()));
    let counted = dry["calls"].as_array().unwrap();
    assert_eq!(counted.len(), 3, "{dry}");
    for row in counted {
        let command = row["command"].as_str().unwrap();
        let expected = ["plain", "eval"].map(|strategy| on_tree(strategy, command));
        assert_eq!([row["old"].clone(), row["new"].clone()], expected, "{command}");
    }
}

#[test]
fn privileged_modulepaths_that_modulefiles_add_are_named_and_followed() {
    let Some(prefix) = tool("modules-5.7.0") else { return };
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    plant_hierarchy(&test);
    test.write("added/readme", "text");
    let command = test.run(&["find", &prefix, "-name", "modulecmd.tcl"]).succeeds();
    let command = format!("MODULES_CMD={}", command.trim());
    let of_shell = |words: &[&str]| test.run(&[&["env", &command][..], &with_quell(words)].concat());
    let added = "[DIR]/added";
    let build = ["modules", "convert", "--to", "cache", "--tools", &prefix, "m"];
    let alone = test.quell(&build);
    let said = format!(
        "hint: modulefiles add 1 further modulepath, such as `{added}`: `--follow` converts them too"
    );
    assert!(alone.code() == 0 && alone.stderr.contains(&said), "{alone}");
    let stale = of_shell(&["modules", "check", "--follow", "m"]);
    assert!(stale.code() == 1 && stale.stdout.contains("there is no cache"), "{stale}");
    let both = test.quell(&[&build[..], &["--follow"]].concat());
    assert!(both.code() == 0 && !both.stderr.contains("further modulepath"), "{both}");
    assert!(test.path("added/.modulecache").is_file());
    of_shell(&["modules", "check", "--follow", "m"]).succeeds();
    let audited = json(&of_shell(&["modules", "audit", "--follow", "--json", "m"]));
    assert_eq!(audited["modulepaths"], serde_json::json!(["[DIR]/m", added]));
    let strays = audited["findings"].as_array().unwrap().iter().filter(|one| one["code"] == "stray");
    assert_eq!(
        strays.map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>(),
        [format!("{added}/readme")]
    );
}

#[test]
fn privileged_a_cache_that_is_refused_shows_both_answers() {
    let Some(prefix) = tool("lmod-8.6.19") else { return };
    let Some(test) = Test::privileged(&[]) else { return };
    // This version does not know the command. With a cache, its listings do not say so any more.
    test.write("m/foo/1.0", "#%Module\n");
    test.write("m/foo/.modulerc", "#%Module4.7\nmodule-hide --soft foo/1.0\n");
    let words = ["modules", "convert", "--to", "lmod-cache", "--tools", &prefix, "--out", "out", "m"];
    let dry = test.quell(&[&words[..], &["--dry-run"]].concat());
    assert!(dry.code() == 1 && dry.stderr.contains("verdict: answers would differ"), "{dry}");
    assert!(!test.path("out").exists());
    let refused = test.quell(&words);
    let said = "  `module avail`, Lmod 8.6.19 as others, Lmod 8.6.19 as root: invalid command name \"module-hide\" -> nothing\n";
    assert!(refused.code() == 1 && refused.stderr.contains(said), "{refused}");
    let refused = json(&test.quell(&[&words[..], &["--json"]].concat()));
    let differing = refused["differing"].as_array().unwrap();
    assert_eq!(refused["differences"].as_u64().unwrap(), differing.len() as u64, "{refused}");
    let is_avail = |one: &&Value| one["question"] == "avail" && one["user"] == "others";
    let avail = differing.iter().find(is_avail).unwrap_or_else(|| panic!("{refused}"));
    assert!(avail["old"].as_str().unwrap().contains("foo/.modulerc"), "{avail}");
}

#[test]
fn privileged_a_timer_and_hooks_bring_caches_up_to_date() {
    let Some(prefix) = tool("modules-5.5.0") else { return };
    let Some(test) = example(&[Need::Root, Need::Program("python3")]) else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/modules");
    let quell = *crate::harness::QUELL;
    let settings = format!(
        "MODULEPATHS={}:{}\nCACHE=yes\nQUELL={quell}\nOPTIONS='--tools {prefix} --no-verify'\n",
        test.text("m/applications"),
        test.text("m/libraries")
    );
    test.write("settings", &settings);
    let cache = test.path("m/applications/.modulecache");
    let script = |name: &str| source.join(name).to_str().unwrap().to_owned();
    let settings = test.text("settings");
    let refresh = || test.run(&[&script("refresh"), &settings]);
    refresh().succeeds();
    let first = std::fs::read(&cache).unwrap();
    refresh().succeeds();
    assert_eq!(std::fs::read(&cache).unwrap(), first);
    // EasyBuild and Spack call these hooks after an installation.
    let hook = format!(
        "QUELL_MODULES_SETTINGS={settings} python3 -c 'import sys; sys.path.insert(0, \"{}\"); import easybuild_hooks; \
         easybuild_hooks.end_hook()'",
        source.display()
    );
    test.write(
        "bin/spack",
        "#!/bin/sh\nmkdir -p m/applications/new && echo '#%Module' >m/applications/new/$2\n",
    );
    test.mode("bin/spack", 0o755);
    let spack =
        format!("PATH=$PWD/bin:$PATH QUELL_MODULES_SETTINGS={settings} {} 1.0", script("spack-install"));
    for (number, (command, name)) in [(hook, "appa/9.0"), (spack, "new/1.0")].into_iter().enumerate() {
        if number == 0 {
            test.write("m/applications/appa/9.0", "#%Module\n");
        }
        test.run(&["sh", "-c", &command]).succeeds();
        let text = String::from_utf8_lossy(&std::fs::read(&cache).unwrap()).into_owned();
        assert!(text.contains(name), "{name}: {text}");
    }
    for unit in ["quell-modules.service", "quell-modules.timer", "cron"] {
        let text = std::fs::read_to_string(source.join(unit)).unwrap();
        assert!(
            unit.ends_with("timer") || text.contains("/usr/libexec/quell/modules/refresh /etc/quell/modules")
        );
    }
}
