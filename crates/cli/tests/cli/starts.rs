//! `quell predict T...`: a start on many nodes, from a recording to JSON and to a terminal; what is refused.

use serde_json::Value;

use crate::harness::{Need, Test};

fn traced() -> Test {
    let test = Test::new();
    test.quell(&["synth", "warp", "-o", "w.qtrace"]).succeeds();
    test
}

fn json(test: &Test, words: &[&str]) -> Value {
    let all = [&["predict", "w.qtrace", "--json"], words].concat();
    test.json(&all)
}

fn p50(object: &Value, at: usize) -> f64 {
    object["points"][at]["seconds"]["p50"].as_f64().unwrap()
}

#[test]
fn a_start_has_a_curve_with_range_bounds_and_knee() {
    let test = traced();
    let object = json(&test, &["--fs", "lustre,nfs", "--nodes", "1,16,1024", "--ppn", "2", "--samples", "5"]);
    assert_eq!(object["schema_version"], 1);
    assert_eq!(object["profile"], "lustre");
    let points = object["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    for point in points {
        let seconds = |key: &str| point["seconds"][key].as_f64().unwrap();
        assert!(seconds("p10") <= seconds("p50") && seconds("p50") <= seconds("p90"), "{point}");
        let mean = point["mean_seconds"]["p50"].as_f64().unwrap();
        assert!(mean > 0.0 && mean <= seconds("p50") * 1.001, "{point}");
        let bound = |key: &str| point["bounds"][key].as_f64().unwrap();
        assert!(
            bound("lower") <= seconds("p50") * 1.001 && seconds("p50") <= bound("upper") * 1.001,
            "{point}"
        );
    }
    assert_eq!(points[2]["ranks"], 2048);
    assert_eq!(points[2]["saturated"], true);
    assert!(object["knee_nodes"].as_f64().unwrap() < 1024.0);
    assert_eq!(object["profiles"].as_array().unwrap().len(), 2);
    assert_eq!(object["inputs"]["processes_per_node"], 2);
    // The same seed gives the same ranges.
    let again = json(&test, &["--fs", "lustre,nfs", "--nodes", "1,16,1024", "--ppn", "2", "--samples", "5"]);
    assert_eq!(object, again);
}

/// The inputs of a prediction from a log with these calls and an end. Unit of `end`: microseconds.
fn inputs_of_log(calls: &str, end: u64) -> serde_json::Value {
    let test = Test::new();
    let begin = r#"7 1700000000.000000 execve("/d/app", ["app"], 0x7 /* 0 vars */) = 0 <0.000010>"#;
    test.write("log", format!("{begin}\n{calls}7 1700000000.{end:06} +++ exited with 0 +++\n"));
    test.quell(&["import", "strace", "log", "-o", "t.qtrace"]).succeeds();
    let words = ["predict", "t.qtrace", "--root", "/d", "--fs=nfs", "--nodes=1", "--samples=1", "--json"];
    test.json(&words)["inputs"].clone()
}

/// Pairs of calls as a recorder of 7 us a stop shows them. A call that needs no work takes 7 us and one with a path 10; 9 us lie behind
/// the one, and 109 behind the other, because the program computes for 100.
#[test]
fn computing_is_told_without_the_cost_of_the_recorder() {
    let mut log = String::new();
    for number in 0..1000 {
        let [stat, seek] = [10 + 109, 10 + 109 + 19].map(|after| after + 135 * number);
        log += &format!("7 1700000000.{stat:06} access(\"/d/{number}\", F_OK) = 0 <0.000010>\n");
        log += &format!("7 1700000000.{seek:06} lseek(0, 0, SEEK_SET) = 0 <0.000007>\n");
    }
    let inputs = inputs_of_log(&log, 135_119);
    let is_near = |name: &str, expected: f64| (inputs[name].as_f64().unwrap() / expected - 1.0).abs() < 0.01;
    assert!(is_near("think_seconds", 0.1) && is_near("recorder_us", 17.5), "{inputs}");
}

#[test]
fn the_recorder_costs_something_where_every_call_has_a_path() {
    let mut log = String::new();
    for number in 0..1000 {
        let stat = 22 + 22 * number;
        log += &format!("7 1700000000.{stat:06} access(\"/d/{number}\", F_OK) = 0 <0.000010>\n");
    }
    let inputs = inputs_of_log(&log, 22_044);
    assert!(inputs["think_seconds"].as_f64().unwrap() < 0.001, "{inputs}");
}

#[test]
fn changes_change_what_they_say() {
    let test = traced();
    let on = |fs: &str, words: &[&str]| {
        let all = [&["--fs", fs, "--nodes", "512", "--ppn", "2", "--samples", "1"], words].concat();
        json(&test, &all)
    };
    for fs in ["hopper-home", "nfs"] {
        let plain = p50(&on(fs, &[]), 0);
        for words in [
            &["--image"][..],
            &["--image=broadcast"],
            &["--keep-absences"],
            &["--fewer-misses", "1/2"],
            &["--fewer-files", "50%"],
            &["--atomic-open"],
        ] {
            assert!(p50(&on(fs, words), 0) <= plain * 1.001, "{fs} {words:?}");
        }
    }
    let with = |words: &[&str]| on("hopper-home", words);
    let plain = p50(&with(&[]), 0);
    assert!(p50(&with(&["--warm"]), 0) <= plain * 1.001);
    assert!(p50(&with(&["--image"]), 0) < plain / 10.0);
    assert!(p50(&with(&["--background", "50%"]), 0) > plain * 1.9);
    let launched = p50(&with(&["--launch", "70"]), 0);
    assert!((launched - plain - 70.0).abs() < 1e-6, "{launched} {plain}");
    assert_eq!(with(&["--image", "--atomic-open"])["inputs"]["what_if"].as_array().unwrap().len(), 2);
}

#[test]
fn a_rank_s_mean_counts_from_its_own_start_and_the_slowest_from_the_first_one_s() {
    let test = traced();
    let skewed = json(&test, &["--fs", "lustre", "--nodes", "4", "--skew", "100", "--samples", "2"]);
    let (slowest, mean) = (p50(&skewed, 0), skewed["points"][0]["mean_seconds"]["p50"].as_f64().unwrap());
    assert!(slowest >= 100.0 && mean < slowest - 99.0, "{slowest} {mean}");
    assert_eq!(skewed["inputs"]["skew_seconds"], 100.0);
}

#[test]
fn a_start_from_an_image_stands_beside_the_one_with_peers() {
    let test = traced();
    let with = |image: &[&str]| {
        json(&test, &[&["--fs", "lustre", "--nodes", "1,1024,100000", "--samples", "2"], image].concat())
    };
    let read = with(&["--image"]);
    let beside = read["peers"].as_array().unwrap();
    let number = |at: usize, key: &str| beside[at][key].as_f64().unwrap();
    assert_eq!(beside.len(), 3);
    assert_eq!(beside[1]["read_seconds"], read["points"][1]["seconds"]);
    assert_eq!(number(1, "read_bytes"), 1024.0 * number(0, "read_bytes"));
    assert_eq!(number(1, "peers_bytes"), number(0, "read_bytes"));
    assert_eq!(beside[1]["all_find_peers"], true);
    assert_eq!(beside[2]["all_find_peers"], false);
    assert_eq!(with(&["--image=broadcast"])["peers"], read["peers"]);
    assert_eq!(with(&[])["peers"].as_array().unwrap().len(), 0);
    let words = ["predict", "w.qtrace", "--fs", "lustre", "--nodes", "1,100000", "--image", "--samples", "2"];
    let printed = test.quell(&words).succeeds();
    assert!(
        printed.contains("with --peers") && printed.contains("with 100 000 nodes that start at once"),
        "{printed}"
    );
}

#[test]
fn an_image_on_one_data_server_comes_later_than_one_that_is_spread() {
    let test = traced();
    let with = |stripes: &str| {
        let words = ["--fs", "lustre", "--image", "--nodes", "16384", "--samples", "2", "--stripes", stripes];
        p50(&json(&test, &words), 0)
    };
    assert!(with("1") > with("8") * 2.0, "{} {}", with("1"), with("8"));
}

#[test]
fn ways_to_the_nodes_are_compared_on_one_file_system() {
    let test = traced();
    let words = ["--fs", "hopper-home", "--nodes", "1,1024", "--samples", "3", "--compare"];
    let found = json(&test, &words);
    let ways = found["profiles"].as_array().unwrap();
    let names: Vec<&str> = ways.iter().map(|way| way["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["plain", "once a node", "container", "image", "broadcast", "auto", "local"]);
    let at = |way: usize| ways[way]["points"][1]["seconds"]["p50"].as_f64().unwrap();
    assert!(at(0) > at(1) && at(4) < at(5) && at(5) < at(0) && at(6) <= at(4), "{found}");
    let outcome = test.quell(&[&["predict", "w.qtrace"], &words[..]].concat());
    assert!(outcome.stdout.contains("broadcast"), "{outcome}");
    let refused = test.quell(&["predict", "w.qtrace", "--compare", "--fs", "nfs,gpfs"]);
    assert!(refused.stderr.contains("on one file system"), "{refused}");
}

#[test]
fn privileged_the_check_of_run_auto_is_predicted_by_its_entries() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.pack();
    let compared = test.json(&["check", "--json", "app.qimg"]);
    let words = ["--root", "env", "--fs", "lustre", "--nodes", "1", "--samples", "1", "--compare", "--json"];
    let found = test.json(&[&["predict", "app.qtrace"], &words[..]].concat());
    let operations = |name: &str| {
        let way = found["profiles"].as_array().unwrap().iter().find(|way| way["name"] == name).unwrap();
        way["points"][0]["metadata_operations"].as_f64().unwrap()
    };
    assert_eq!(
        operations("auto") - operations("broadcast"),
        compared["entries"].as_f64().unwrap(),
        "{compared}"
    );
}

#[test]
fn privileged_what_makes_a_recording_doubtful_is_said_first() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    std::fs::create_dir(test.path("X")).unwrap();
    let program = "import os, sys\nos.path.exists('X/a')\nsys.exit(3)";
    test.quell(&["-q", "record", "-o", "t.qtrace", "--", "python3", "-ISc", program]);
    let object =
        test.json(&["predict", "t.qtrace", "--root", "X", "--fs=nfs", "--nodes=1", "--samples=1", "--json"]);
    assert!(object["notes"].to_string().contains("ended with status 3"), "{object}");
    let local = "schema_version = 1\nname = 'disk'\nkind = 'measured'\n[network]\nround_trip_us = 1\n";
    test.write("disk.toml", local);
    let outcome =
        test.quell(&["predict", "t.qtrace", "--root", "X", "--fs=disk.toml", "--nodes=1", "--samples=1"]);
    assert!(outcome.stderr.contains("measured on a local disk"), "{outcome}");
    assert!(outcome.stdout.contains("assumed"), "{outcome}");
}

#[test]
fn every_profile_says_what_was_assumed_for_it_and_where_it_breaks_down() {
    let test = traced();
    let bare = "schema_version = 1\nname = 'bare'\nkind = 'measured'\n[metadata.operations_per_second]\nlookup = 900\n";
    test.write("bare.toml", bare);
    for fs in ["bare.toml", "bare.toml,nfs"] {
        let words = ["predict", "w.qtrace", "--fs", fs, "--nodes", "1,65536"];
        let outcome = test.quell(&[&words[..], &["--samples=2"]].concat());
        let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let named = if fs == "bare.toml" { "" } else { "bare: " };
        assert!(text.contains(&format!("assumed {named}the tree on 1 metadata server")), "{outcome}");
        test.quell(&[&words[..], &["--samples=2", "--html=page.html"]].concat()).succeeds();
        let page = std::fs::read_to_string(test.path("page.html")).unwrap();
        std::fs::remove_file(test.path("page.html")).unwrap();
        assert!(page.contains(&format!("assumed: {named}the tree on 1 metadata server")), "{page}");
        assert!(text.contains(&format!("doubt {named}the profile does not say")), "{outcome}");
        let image = test.quell(&[&words[..], &["--samples=2", "--image"]].concat());
        let text = image.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("server, the image on 1 data server,"), "{image}");
        assert!(text.contains("times over capacity at 65 536 nodes: expect failures"), "{outcome}");
        assert_eq!(text.matches("regime ").count(), fs.split(',').count(), "{outcome}");
    }
}

#[test]
fn ways_that_share_an_assumption_say_it_once() {
    let test = traced();
    let words = ["predict", "w.qtrace", "--fs=lustre", "--nodes=64", "--samples=2", "--compare"];
    let outcome = test.quell(&words);
    let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    let shared = "assumed container, image, broadcast, auto: the tree on 1 metadata server, the image on 1 data server,";
    assert_eq!((text.matches(shared).count(), text.matches("the image on").count()), (1, 1), "{outcome}");
}

#[test]
fn a_wide_range_names_its_figure_and_the_way_to_learn_it() {
    let test = traced();
    let behind = "schema_version = 1\nname = 'behind'\nkind = 'measured'\n[network]\nround_trip_us = 100\n\
                  [metadata.operations_per_second]\nlookup = 1000000\n[forwarding]\n\
                  gateways = { p10 = 1, p50 = 8, p90 = 64 }\ngateway_requests_per_second = 1000\n";
    test.write("behind.toml", behind);
    for (fs, expected) in [
        (
            "behind.toml",
            ["the tree on 1 metadata server,", "the uncertainty of `gateways`", "its administrators know it"],
        ),
        (
            "nfs",
            [
                "the tree on all metadata servers,",
                "the uncertainty of `operations_per_second`",
                "quell calibrate DIR",
            ],
        ),
    ] {
        let outcome = test.quell(&["predict", "w.qtrace", "--fs", fs, "--nodes", "4096", "--samples", "50"]);
        let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in expected {
            assert!(text.contains(words), "{words}: {outcome}");
        }
    }
    let words = ["predict", "w.qtrace", "--fs", "nfs,behind.toml", "--nodes", "4096", "--samples", "50"];
    let outcome = test.quell(&words);
    let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("narrower nfs: the uncertainty of `operations_per_second` alone spans"),
        "{outcome}"
    );
}

#[test]
fn a_profile_without_the_processor_time_of_requests_is_noted_where_cores_are_shared() {
    let test = traced();
    let own = test.quell(&["predict", "--print-fs", "nfs"]).succeeds();
    test.write("own.toml", own.replace("[client]\n", "[client]\ncpu_us = 90\n"));
    for (fs, cores, is_noted) in [("nfs", "2", true), ("nfs", "8", false), ("own.toml", "2", false)] {
        let words = ["--fs", fs, "--nodes", "1", "--ppn", "8", "--cores", cores, "--samples", "2"];
        let notes = json(&test, &words)["notes"].to_string();
        assert_eq!(notes.contains("does not name `cpu_us`"), is_noted, "{words:?} {notes}");
    }
}

#[test]
fn privileged_a_sleep_is_noted_unless_computing_is_given() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    std::fs::create_dir(test.path("X")).unwrap();
    let words = ["-q", "record", "-o", "t.qtrace", "--", "sh", "-c", "test -e X/a; sleep 3; test -e X/b"];
    assert_eq!(test.quell(&words).code(), 1);
    for (think, is_noted) in [(&[][..], true), (&["--think=0.1"][..], false)] {
        let words = ["predict", "t.qtrace", "--root", "X", "--fs=nfs", "--nodes=1", "--samples=2", "--json"];
        let object = test.json(&[&words[..], think].concat());
        assert_eq!(object["notes"].to_string().contains("if the program slept"), is_noted, "{object}");
    }
}

#[test]
fn measured_times_of_another_number_of_ranks_are_warned_of() {
    let test = traced();
    test.write("times.csv", "nodes,ppn,seconds\n4,1,1.5\n4,8,2.5\n");
    let words = ["predict", "w.qtrace", "--fs=nfs", "--nodes=4", "--samples=2", "--html=page.html"];
    let outcome = test.quell(&[&words[..], &["--measured=times.csv"]].concat());
    assert_eq!(outcome.code(), 0, "{outcome}");
    let said = "warning: 1 of 2 measured times are of another number of ranks a node than --ppn 1";
    assert!(outcome.stderr.contains(said), "{outcome}");
}

#[test]
fn the_launch_is_a_line_of_its_own_and_the_curve_is_drawn() {
    let test = traced();
    let words =
        ["predict", "w.qtrace", "--fs", "hopper-home", "--nodes", "1..64", "--samples=2", "--launch=70"];
    let outcome = test.quell(&words);
    assert!(outcome.stdout.contains("launch   70.0 s, no file system's time"), "{outcome}");
    let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("s without the launch)"), "{outcome}");
    let (_, plot) = outcome.stdout.split_once("Seconds by nodes: median *").unwrap();
    let plot: Vec<&str> = plot.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    assert_eq!(plot.iter().map(|line| line.matches('*').count()).sum::<usize>(), 7, "{outcome}");
    assert!(plot.last().unwrap().ends_with("64"), "{outcome}");
}

#[test]
fn a_file_system_that_nobody_named_is_a_wide_prior_and_says_so() {
    let outcome = traced().quell(&["predict", "w.qtrace", "--nodes", "1,65536", "--samples", "5"]);
    assert!(outcome.stderr.contains("warning: no --fs: this is a wide prior"), "{outcome}");
    assert!(outcome.stderr.contains("quell calibrate DIR"), "{outcome}");
    assert!(outcome.stdout.contains("wide (prior)"), "{outcome}");
    assert!(outcome.stdout.contains("expect failures"), "{outcome}");
}

#[test]
fn nodes_that_start_over_an_hour_do_not_raise_a_storm() {
    let test = traced();
    let words = ["--fs", "nfs", "--nodes", "4096", "--samples", "5"];
    let point = |words: &[&str]| json(&test, words)["points"][0].clone();
    let (storm, calm) = (point(&words), point(&[&words[..], &["--skew", "3600"]].concat()));
    assert_eq!((&storm["may_fail"], &calm["saturated"]), (&true.into(), &false.into()), "{storm} {calm}");
    let outcome = test.quell(&[&["predict", "w.qtrace", "--skew", "3600"], &words[..]].concat());
    assert!(!outcome.stdout.contains("expect failures"), "{outcome}");
    assert!(outcome.stdout.contains("starting within 3 600 s"), "{outcome}");
}

#[test]
fn privileged_threads_that_ask_beside_each_other_are_noted() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    let ask = "import os, threading\ndef ask(k):\n    for i in range(300): os.path.exists(f'X/{k}/{i}')\n";
    let beside = "all = [threading.Thread(target=ask, args=(k,)) for k in range(4)]\n\
                  for one in all: one.start()\nfor one in all: one.join()";
    std::fs::create_dir(test.path("X")).unwrap();
    for (calls, is_noted) in [(beside, true), ("for k in range(4): ask(k)", false)] {
        let program = format!("{ask}{calls}");
        test.quell(&["-q", "record", "--force", "-o", "t.qtrace", "--", "python3", "-ISc", &program])
            .succeeds();
        let words = ["predict", "t.qtrace", "--root", "X", "--fs=nfs", "--nodes=1", "--samples=1", "--json"];
        let object = test.json(&words);
        let said = "calls on the tree ran beside those of another thread or process";
        assert_eq!(object["notes"].to_string().contains(said), is_noted, "{object}");
    }
}

#[test]
fn wrong_requests_for_a_start_are_one_line() {
    let test = traced();
    for (words, said) in [
        (&["predict"][..], "no recording is given"),
        (&["predict", "w.qtrace", "--nodes", "1..1e9"], "no number of nodes"),
        (&["predict", "w.qtrace", "--fs", "lustr"], "perhaps `lustre`"),
        (
            &["predict", "w.qtrace", "--root", "/proc/nowhere"],
            "no call of this recording went below `/proc/nowhere`",
        ),
        (&["predict", "w.qtrace", "--background", "100%"], "leave something"),
        (&["predict", "w.qtrace", "--fewer-files", "3"], "0 to 1"),
        (&["predict", "w.qtrace", "--skew", "nan"], "from 0 to 1000000"),
        (&["predict", "w.qtrace", "--shared-host"], "--cores"),
        (&["predict", "w.qtrace", "--cores", "0.5"], "from 1 to 65536"),
        (&["predict", "w.qtrace", "--depth", "2"], "--root"),
        (&["predict", "absent.qtrace"], "cannot open `absent.qtrace`"),
    ] {
        let outcome = test.quell(words);
        assert_eq!(outcome.code(), 2, "{words:?} {outcome}");
        assert!(outcome.stderr.contains(said), "{words:?} {outcome}");
        assert!(outcome.stdout.is_empty(), "{words:?} {outcome}");
    }
}

#[test]
fn a_recording_without_calls_on_a_network_says_what_to_do() {
    let test = Test::new();
    test.write("log", "1 stat(\"/etc/passwd\", {st_mode=S_IFREG|0644}) = 0\n1 +++ exited with 0 +++\n");
    test.quell(&["-q", "import", "strace", "log", "-o", "local.qtrace"]).succeeds();
    let outcome = test.quell(&["predict", "local.qtrace"]);
    assert_eq!(outcome.code(), 2, "{outcome}");
    assert!(outcome.stderr.contains("no call of this recording went to a network file system"), "{outcome}");
    assert!(outcome.stderr.contains("hint: `--root DIR` counts what lies below DIR"), "{outcome}");
}

#[test]
fn privileged_a_tree_that_changed_since_changes_no_prediction() {
    let Some(test) = Test::privileged(&[Need::Ptrace, Need::Program("python3")]) else { return };
    std::fs::create_dir_all(test.path("X/t")).unwrap();
    let program = "import os\nfor i in range(300): os.path.exists(f'X/t/{i}') or os.path.exists(f'X/no/{i}')";
    test.quell(&["-q", "record", "-o", "two.qtrace", "--", "python3", "-ISc", program]).succeeds();
    let predicted = |root: &str| -> Value {
        let words =
            ["predict", "two.qtrace", "--root", root, "--depth=2", "--fs=nfs", "--nodes=64", "--json"];
        test.json(&[&words[..], &["--samples=2"]].concat())
    };
    let requests = |object: &Value| object["points"][0]["operations"]["lookup_absent"].as_f64().unwrap();
    let notes = |object: &Value| object["notes"].to_string();
    let own = predicted("X");
    assert_eq!(requests(&own), 64.0 * 301.0, "`X/no` is not there, and is asked for once: {own}");
    assert!(notes(&own).contains("/X/no` is not there on this machine"), "{own}");
    std::fs::rename(test.path("X/t"), test.path("X/tt")).unwrap();
    let changed = predicted("X");
    assert_eq!(requests(&changed), 64.0 * 600.0, "{changed}");
    assert!(notes(&changed).contains("has changed since the recording"), "{changed}");
    std::fs::rename(test.path("X"), test.path("Y")).unwrap();
    let gone = predicted(test.path("X").to_str().unwrap());
    assert_eq!(requests(&gone), 64.0 * 600.0, "{gone}");
    assert!(notes(&gone).contains("/X` is not here"), "{gone}");
}

#[test]
fn ways_on_one_file_system_are_compared_run_by_run() {
    let test = traced();
    let words = ["--fs", "lustre", "--nodes", "4096", "--ppn", "64", "--compare"];
    let object = json(&test, &words);
    let overlaps = |object: &Value| -> Vec<Value> {
        object["profiles"].as_array().unwrap().iter().map(|profile| profile["overlaps"].clone()).collect()
    };
    let launched = json(&test, &[&words[..], &["--launch", "6000"]].concat());
    assert_eq!(
        overlaps(&object),
        overlaps(&launched),
        "what is added to every time tells no way from another"
    );
    let profiles = object["profiles"].as_array().unwrap();
    let way = |name: &str| profiles.iter().find(|profile| profile["name"] == name).unwrap();
    let seconds = |name: &str, end: &str| way(name)["points"][0]["seconds"][end].as_f64().unwrap();
    // The server's rates are uncertain, and the same for both.
    assert!(seconds("plain", "p10") < seconds("once a node", "p90"), "{object}");
    assert!(!way("plain")["overlaps"].as_array().unwrap().contains(&"once a node".into()), "{object}");
}

#[test]
fn places_whose_ranges_overlap_are_named() {
    let test = traced();
    let words =
        ["predict", "w.qtrace", "--fs", "lustre,nfs,wide,gpfs,beegfs", "--nodes", "1,1024", "--samples", "9"];
    let outcome = test.quell(&words);
    assert!(outcome.stdout.contains("cannot be told apart from"), "{outcome}");
    assert!(outcome.stdout.lines().all(|line| line.chars().count() <= 80), "{outcome}");
    let object = json(&test, &["--fs", "lustre,nfs", "--nodes", "1024", "--samples", "9"]);
    let second = object["profiles"].as_array().unwrap().iter().find(|profile| profile["rank"] == 2).unwrap();
    assert_eq!(second["overlaps"].as_array().unwrap().len(), 1, "{object}");
}

#[test]
fn a_pipe_that_nobody_writes_into_is_refused() {
    let test = traced();
    rustix::fs::mknodat(rustix::fs::CWD, test.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
        .unwrap();
    for flag in ["--fs", "--measured"] {
        let outcome = test.quell(&["predict", "w.qtrace", "--nodes=1", "--html=p.html", flag, "pipe"]);
        assert_eq!(outcome.code(), 2, "{outcome}");
        assert!(outcome.stderr.contains("it is a pipe that no process writes to"), "{outcome}");
    }
}
