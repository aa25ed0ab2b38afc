//! `quell fix`, `--fail-on`, `--threshold`: what they print, which status they end with, what they refuse.

use serde_json::Value;

use crate::harness::{Need, Test, session};

/// A program that asks for two files again and again, and a library path without use; its recording `app.qtrace`.
fn recorded() -> Option<Test> {
    let test = Test::privileged(&[Need::Ptrace, Need::Program("python3")])?;
    ["env/a", "env/b", "idle/1/x", "idle/2/x"].iter().for_each(|name| test.write(name, ""));
    test.write("app.py", "import os\nfor n in range(400):\n    os.stat('env/a')\n    os.stat('env/b')\n");
    let list: Vec<String> = (0..40).map(|n| test.text(&format!("idle/{n}"))).collect();
    let record = format!(
        "LD_LIBRARY_PATH={} $quell -q record -o app.qtrace -- /usr/bin/python3 -S app.py",
        list.join(":")
    );
    test.script(&record).succeeds();
    Some(test)
}

#[test]
fn privileged_the_cheapest_remedy_comes_first() {
    let Some(test) = recorded() else { return };
    let text = test.quell(&["fix", "app.qtrace"]).succeeds();
    let lines: Vec<&str> =
        text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).collect();
    assert!(lines[0].starts_with("1. costs nothing: saves "), "{text}");
    assert!(lines[1].starts_with("2. needs an image: saves "), "{text}");
    assert!(text.contains("\n  unset LD_LIBRARY_PATH\n"), "{text}");
    let json = test.json(&["fix", "--json", "app.qtrace"]);
    let steps = json["steps"].as_array().unwrap();
    assert_eq!(steps[0]["codes"], serde_json::json!(["search-path-misses"]));
    assert_eq!(steps[1]["codes"], serde_json::json!(["repeated-stats"]));
    let number = |value: &Value| value.as_u64().unwrap();
    let all = number(&json["metadata_operations"]);
    // The remedies have nothing in common: together they save the sum.
    let saved = number(&steps[0]["saves"]) + number(&steps[1]["saves"]);
    assert_eq!(number(&steps[1]["metadata_operations_together"]), all - saved);
    let report = test.quell(&["report", "app.qtrace"]).succeeds();
    assert!(report.contains("\nnext     quell fix app.qtrace\n"), "{report}");
    assert!(report.ends_with("\nnext     unset LD_LIBRARY_PATH\n"), "{report}");
}

#[test]
fn privileged_status_1_for_a_finding_that_is_asked_for() {
    let Some(test) = recorded() else { return };
    for (codes, threshold, expected) in [
        ("search-path-misses", "", 1),
        ("repeated-stats,tiny-writes", "", 1),
        ("any", "", 1),
        ("tiny-writes,julia-without-image", "", 0),
        ("any", "search-path-misses=100000,repeated-stats=1e6", 0),
        ("repeated-stats", "repeated-stats=797", 1),
        ("repeated-stats", "repeated-stats=798", 0),
    ] {
        let mut words = vec!["report", "app.qtrace", "--json", "--fail-on", codes];
        if !threshold.is_empty() {
            words.extend(["--threshold", threshold]);
        }
        let outcome = test.quell(&words);
        assert_eq!(outcome.code(), expected, "{codes} {threshold}: {}", outcome.stderr);
        assert!(outcome.stdout.starts_with('{'), "the report is printed all the same");
    }
}

#[test]
fn codes_limits_and_numbers_that_are_none() {
    let test = Test::new();
    session!(|line| test.script(line), @"
    $ quell report t --fail-on misses => 2
    error: invalid value 'misses' for '--fail-on <CODE>'
      [possible values: absent-attributes, chatty-output, collective-buffering, font-cache, julia-without-image, locale-files, lustre-striping, many-creates, module-rc-files, module-tree-walk, network-start-up, open-close-churn, polling, program-wrappers, python-bytecode, python-distributions, python-imports, python-user-site, readlink-storm, repeated-listings, repeated-stats, search-list-misses, search-path-misses, small-files-by-every-rank, temporary-files, tiny-reads, tiny-writes, any]

    For more information, try '--help'.
    $ quell fix t --threshold misses=3 => 2
    error: invalid value 'misses=3' for '--threshold <NAME=VALUE>': `misses` is none of absent-attributes, chatty-output, collective-buffering, font-cache, julia-without-image, locale-files, lustre-striping, many-creates, module-rc-files, module-tree-walk, network-start-up, open-close-churn, polling, program-wrappers, python-bytecode, python-distributions, python-imports, python-user-site, readlink-storm, repeated-listings, repeated-stats, search-list-misses, search-path-misses, small-file, small-files-by-every-rank, small-request, small-write, temporary-files, tiny-reads, tiny-writes

    For more information, try '--help'.
    $ quell fix t --threshold tiny-writes=many => 2
    error: invalid value 'tiny-writes=many' for '--threshold <NAME=VALUE>': `many` is no number from 0 up

    For more information, try '--help'.
    $ quell fix t --osts 0 => 2
    error: invalid value '0' for '--osts <N>': 0 is not in 1..=4294967295

    For more information, try '--help'.
    $ quell fix t => 2
    quell: error: cannot open `t`: ENOENT (no such file or directory)
    hint: `quell record -- CMD` makes a trace, named after the program
    ");
}

#[test]
fn the_limits_are_listed_without_a_recording() {
    let test = Test::new();
    let listed = test.quell(&["report", "--thresholds"]).succeeds();
    assert!(listed.contains("\nsearch-path-misses=200\n  operations: "), "{listed}");
    // Each line is what `--threshold` takes.
    for line in listed.lines().filter(|line| !line.starts_with(' ')) {
        let outcome = test.quell(&["fix", "t", "--threshold", line]);
        assert!(outcome.stderr.contains("`t`"), "{line}: {}", outcome.stderr);
    }
}

#[test]
fn privileged_one_image_holds_all_directories_that_causes_on_local_disks_name() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    ["one/sub/x", "two/sub/y"].iter().for_each(|name| test.write(name, ""));
    test.write(
        "app.py",
        "import os\nfor n in range(900):\n    os.stat('one/sub/x')\n    try: os.readlink('two/sub/y')\n    except OSError: pass\n",
    );
    test.script("$quell -q record -o app.qtrace -- /usr/bin/python3 -S app.py").succeeds();
    let json = test.json(&["fix", "--json", "app.qtrace"]);
    let steps = json["steps"].as_array().unwrap();
    let images: Vec<&str> = steps
        .iter()
        .filter_map(|step| step["finding"]["remedy"]["command"].as_str())
        .filter(|c| c.contains("quell pack"))
        .collect();
    let [image] = images[..] else { panic!("one image, not {images:?} of {steps:#?}") };
    for root in ["one/sub", "two/sub"] {
        assert!(image.contains(&format!("--root [DIR]/{root} ")), "{image}");
    }
    // The printed command runs: `pack` takes several roots, and the program starts from the image.
    let image = ["one", "two"]
        .iter()
        .fold(image.to_owned(), |image, name| image.replace(&format!("[DIR]/{name}"), &test.text(name)));
    let pack = image.split(" && ").next().unwrap();
    let run = format!(
        "{} && $quell -q run app.qimg -- /usr/bin/python3 -S app.py",
        pack.replacen("quell", "$quell -q", 1)
    );
    test.script(&run).succeeds();
}

#[test]
fn privileged_where_nothing_is_over_its_limit_an_image_is_named_for_files_that_are_shared() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.script("mkdir -p app/data; for i in $(seq 1500); do echo $i > app/data/$i; done; $quell -q record -o t.qtrace -- cat app/data/* > printed").succeeds();
    let fixed = test.quell(&["fix", "t.qtrace"]).succeeds();
    assert!(fixed.contains("nothing is over its limit"), "{fixed}");
    assert!(fixed.contains("if these files lie on a shared file system where the program runs:"), "{fixed}");
    let command = fixed
        .lines()
        .find(|line| line.contains("quell pack t.qtrace --root "))
        .unwrap_or_else(|| panic!("{fixed}"));
    test.script(&command.replace("quell ", "$quell ").replace("[DIR]/", "")).succeeds();
    // One that asks for little needs none.
    test.script("$quell -q record -o s.qtrace -- cat app/data/1 > printed").succeeds();
    assert!(!test.quell(&["fix", "s.qtrace"]).succeeds().contains("pack"));
}
