//! `run --learn` and `pack --refresh --learn`: what a run had to ask of the originals, the next image answers.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::harness::{Need, QUELL, Test, session, snapshot, wait_until};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace, Need::Program("python3")];

/// A program that imports as many packages as it is told, in an order that its seed decides.
const PROGRAM: &str = "import random, sys\n\
    site = sys.path[0] + '/site'\n\
    sys.path.insert(0, site)\n\
    names = ['pkg%d' % number for number in range(int(sys.argv[1]))]\n\
    random.Random(int(sys.argv[2])).shuffle(names)\n\
    print(sorted(__import__(name).value for name in names))\n";

/// The program and eight packages, each with a module and data of its own.
fn plant(test: &Test) {
    test.write("env/main.py", PROGRAM);
    for number in 0..8 {
        let package = format!("env/site/pkg{number}");
        let code = format!(
            "import os\nfrom .part import value\nhere = os.path.dirname(__file__)\n\
             assert open(here + '/data.txt').read() == 'data {number}\\n'\n\
             assert not os.path.exists(here + '/site.cfg')\n"
        );
        test.write(&format!("{package}/__init__.py"), code);
        test.write(&format!("{package}/part.py"), format!("value = {number}\n"));
        test.write(&format!("{package}/data.txt"), format!("data {number}\n"));
    }
}

/// Runs the program from the image; what reached the originals.
#[track_caller]
fn run(test: &Test, packages: u32, seed: u32) -> u64 {
    let (packages, seed) = (packages.to_string(), seed.to_string());
    let line = ["run", "--stats", "s.json", "--learn", "learned", "app.qimg", "--", "python3", "env/main.py"];
    let expected = test.run(&["python3", "-B", "env/main.py", &packages, &seed]).succeeds();
    assert_eq!(test.quell(&[&line[..], &[&packages, &seed]].concat()).succeeds(), expected);
    wait_until("the last process has ended", || {
        test.path("s.json").exists() && test.path("learned").exists()
    });
    let stats = test.read_json("s.json");
    let counts = stats["original"].as_object().unwrap().values();
    counts.map(|count| count.as_u64().unwrap()).sum()
}

fn refresh(test: &Test) -> String {
    test.quell(&["-q", "pack", "--refresh", "app.qimg", "--learn", "learned"]).succeeds()
}

/// Each day the program imports one more package, and each day it does so in another order.
#[test]
fn privileged_a_program_that_changes_daily_converges_without_a_recording() {
    for test in [Test::privileged(ALL), Test::of_ordinary_user(ALL)].into_iter().flatten() {
        plant(&test);
        test.script("for day in 0 1 2 3 4 5 6 7 8; do python3 env/main.py $day 0; done").succeeds();
        test.quell(&["-q", "record", "-o", "app.qtrace", "python3", "env/main.py", "1", "0"]).succeeds();
        test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
        assert_eq!(run(&test, 1, 1), 0, "as recorded");
        for day in 2..=5 {
            assert!(run(&test, day, day) > 0, "a package more");
            assert!(test.read_text("learned").contains("data.txt"), "{}", test.read_text("learned"));
            refresh(&test);
            assert_eq!(run(&test, day, day + 17), 0, "learned, whatever the order");
            assert_eq!(test.read_text("learned").lines().count(), 2, "nothing more to learn");
        }
    }
}

/// The first import of each package compiles it: that is written to the originals, and is there in the next image.
#[test]
fn privileged_bytecode_that_a_run_writes_is_held_by_the_next_image() {
    let Some(test) = Test::privileged(ALL) else { return };
    plant(&test);
    test.run(&["python3", "env/main.py", "1", "0"]).succeeds();
    test.quell(&["-q", "record", "-o", "app.qtrace", "python3", "env/main.py", "1", "0"]).succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
    for day in 2..=3 {
        assert!(run(&test, day, day) > 0);
        assert!(test.path(&format!("env/site/pkg{}/__pycache__", day - 1)).is_dir());
        let said = refresh(&test);
        assert!(!said.contains("stays the original"), "bytecode makes nothing live: {said}");
        assert_eq!(run(&test, day, 0), 0);
    }
}

/// Of a large file the next image holds the blocks that any run read, not all of it.
#[test]
fn privileged_parts_of_files_are_learned_too() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.write("env/large", vec![7; 8 << 20]);
    let program = "import sys; f = open('env/large', 'rb', 0); f.seek(int(sys.argv[1]) << 20); print(len(f.read(4096)))";
    let words = |at| ["python3", "-c", program, at];
    test.quell(&[&["-q", "record", "-o", "app.qtrace"][..], &words("0")].concat()).succeeds();
    test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env"]).succeeds();
    let length = || test.path("app.qimg").metadata().unwrap().len();
    assert!(length() < 1 << 20);
    for at in ["3", "5"] {
        let run = |stats| {
            let line = ["run", "--stats", stats, "--learn", "learned", "app.qimg", "--"];
            test.quell(&[&line[..], &words(at)].concat()).succeeds();
            wait_until("the last process has ended", || {
                test.path(stats).exists() && test.path("learned").exists()
            });
            let stats = test.read_json(stats);
            stats["original"]["read"].as_u64().unwrap()
        };
        assert!(run("before.json") > 0);
        assert!(test.read_text("learned").contains("env/large"));
        refresh(&test);
        assert_eq!(run("after.json"), 0);
        assert!(length() < 2 << 20, "not all of it");
    }
}

/// Paths that a run learned obey the rules of recorded ones: changed, locked and secret files stay out.
#[test]
fn privileged_what_is_learned_passes_the_rules_of_packing() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    test.write_mode("env/aside/id_rsa", "-----BEGIN OPENSSH PRIVATE KEY-----\n", 0o600);
    test.write("env/out/old", "old\n");
    test.write("outside/file", "outside\n");
    test.quell(&["-q", "pack", "--refresh", "app.qimg"]).succeeds();
    let script = "cat env/aside/deep/data env/aside/id_rsa outside/file; ls env/aside/deep; echo new > env/out/new; \
                  test -e env/aside/absent; true";
    test.quell(&["run", "--learn", "learned", "app.qimg", "--", "sh", "-c", script]).succeeds();
    wait_until("it is learned", || test.path("learned").exists());
    assert_eq!(test.path("learned").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    snapshot!(test.read_text("learned").replace(&test.text(""), "[DIR]/").split_off(81), @"
    found	-	-	[DIR]/env/aside
    absent	-	-	[DIR]/env/aside/absent
    found,listed	-	-	[DIR]/env/aside/deep
    found,read	0	0-4096	[DIR]/env/aside/deep/data
    found,read	1	0-4096	[DIR]/env/aside/id_rsa
    found	-	-	[DIR]/env/out
    found,absent,changed	-	-	[DIR]/env/out/new
    end 7 0
    ");
    test.write("env/aside/deep/more", "new\n");
    snapshot!(test.quell(&["pack", "--refresh", "app.qimg", "--learn", "learned"]), @"
    status 0
    --- stdout
    app.qimg: [SIZE] with 4 files of [SIZE], 20 names in 5 directories, 2 absences

    packed below:
      [DIR]/env  (it was given with `--root`, 14 paths were asked for, 1 directory below it stays the original)

    stays the original:
      [DIR]/env/out  (`new` was changed by a later run)

    left out, for they look like secrets:
      [DIR]/env/aside/id_rsa  (its name is that of a private key)

    learned: 7 paths

    since the old image: 1 covered
      covered   [DIR]/env/aside
    ");
    let script =
        "cat env/aside/deep/data; ls env/aside/deep; test -e env/aside/absent; echo more > env/out/new";
    test.quell(&["run", "--stats", "s.json", "app.qimg", "--", "sh", "-c", script]);
    wait_until("the statistics appear", || test.path("s.json").exists());
    let stats = test.read_json("s.json");
    assert_eq!(stats["original_paths"], Value::Array(Vec::new()), "{stats}");
}

#[test]
fn privileged_ranks_learn_on_one_node_unless_others_are_named() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    let learned = || {
        let names = std::fs::read_dir(test.path("")).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with("learned")).collect();
        names.sort();
        names
    };
    let run = |rank: &str, job: &str, ranks: &[&str]| {
        let (rank, job) = (format!("PMI_RANK={rank}"), format!("SLURM_JOB_ID={job}"));
        let line = ["env", &rank, "PMI_SIZE=9", &job, *QUELL, "run", "--check", "none", "--learn", "learned"];
        let command = ["app.qimg", "--", "cat", "env/aside/deep/data"];
        test.run(&[&line[..], ranks, &command].concat()).succeeds();
    };
    run("3", "1", &[]);
    run("3", "2", &["--learn-ranks", "3,4"]);
    run("0", "3", &[]);
    wait_until("two files", || learned().len() == 2);
    assert_eq!(learned(), ["learned", "learned.rank3"]);
    assert!(test.read("learned") == test.read("learned.rank3"));
}

#[test]
fn privileged_what_no_run_wrote_is_refused() {
    let Some(test) = Test::privileged(ALL) else { return };
    test.pack();
    test.write("foreign", "something else\n");
    test.write("cut", format!("quell-learned 1 {}\nfound\t-\t-\t/x\n", "0".repeat(64)));
    session!(|line| test.script(line), @"
    $ quell pack --refresh app.qimg --learn foreign => 2
    quell: error: `foreign`: not written by `quell run --learn`
    hint: `quell run --learn FILE IMG -- CMD` writes one when the command has ended
    $ quell pack --refresh app.qimg --learn cut => 2
    quell: error: `cut`: cut short
    hint: `quell run --learn FILE IMG -- CMD` writes one when the command has ended
    $ quell pack --refresh app.qimg --learn absent => 2
    quell: error: cannot read `absent`: ENOENT (no such file or directory)
    $ quell run --learn absent/learned app.qimg -- true => 125
    quell: error: lessons file `absent/learned`: ENOENT (no such file or directory)
    hint: `--learn FILE` takes a file that you may create
    ");
}
