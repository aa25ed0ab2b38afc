//! `run --gather` and `quell gather`: programs find what they find plain, their files lie in one container a node, and `gather extract`
//! gives them back.

use std::process::{Child, Command, Stdio};

use crate::harness::{FILTERS, Need, Outcome, Test, kill, next_line, session, snapshot};
use crate::processes::named;
use crate::scratch::{FUSE, both, plant};

/// Names, types, modes, sizes, times and content below a directory.
fn tree(test: &Test, directory: &str) -> String {
    let script = "cd \"$1\" && find . -mindepth 1 ! -name '*.qout' -printf '%P %y %m %n %l %s %T@\\n' | \
                  sed -E '/ d /s/ [0-9]+ +[0-9]+ [0-9.]+$//' | sort && find . -type f ! -name '*.qout' | sort | xargs -r md5sum";
    test.run(&["sh", "-c", script, "sh", directory]).stdout
}

/// Names that lie in `directory`.
fn containers(test: &Test, directory: &str) -> Vec<String> {
    let found = test.script(&format!("ls -A {directory} | grep '\\.qout$'")).stdout;
    found.lines().map(|name| format!("{directory}/{name}")).collect()
}

/// A shell script that makes, changes, moves and removes in the directory `$1`.
const WORK: &str = "cd $1; mkdir -p made/deep; echo one > made/deep/one; echo two > two; mv two made/two; ln made/two hard; \
                    ln -s made/two link; mkfifo pipe; chmod 640 hard; touch -d '2001-02-03 04:05:06.789' made/two; : > empty; \
                    head -c 300000 /dev/zero | tr '\\0' z > large; truncate -s 100000 large; echo end >> large; \
                    truncate -s 1M sparse; echo gone > gone; rm gone; mkdir left; rmdir left; cat made/deep/one hard";

#[test]
fn privileged_what_is_gathered_comes_back() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir plain results").succeeds();
        test.write("work", WORK);
        let plain = test.script("sh work plain");
        let ours = test.script("$quell run --gather results -- sh work results");
        assert_eq!((ours.code(), &ours.stdout), (0, &plain.stdout));
        insta::with_settings!({ filters => [FILTERS, &[(r"results/\S+\.qout", "results/[CONTAINER]")]].concat() }, {
            insta::allow_duplicates!(insta::assert_snapshot!(ours.stderr, @"quell: `[DIR]/results/[CONTAINER]`: 8 files of [SIZE]"));
        });
        assert_eq!(containers(&test, "results").len(), 1);
        let extracted = test.quell(&["-q", "gather", "extract", "results"]);
        assert_eq!((extracted.code(), extracted.stderr.as_str()), (0, ""));
        let without_times = |tree: String| {
            tree.lines()
                .map(|line| {
                    line.split(' ').filter(|word| !word.contains('.')).collect::<Vec<_>>().join(" ") + "\n"
                })
                .collect::<String>()
        };
        assert_eq!(without_times(tree(&test, "results")), without_times(tree(&test, "plain")));
        let times = "cd $1; stat -c '%n %y' made/two hard";
        test.write("times", times);
        assert_eq!(test.script("sh times results").stdout, test.script("sh times plain").stdout);
        // A second extraction finds everything.
        let again = test.quell(&["gather", "extract", "results"]);
        assert!(again.stderr.contains(": 0 files of 0 B written, 8 there already"), "{again}");
        // So does tar, which needs nothing of quell.
        test.script("mkdir tar; tar -xf results/*.qout -C tar; rm -r tar/.quell.index").succeeds();
        assert_eq!(tree(&test, "tar"), tree(&test, "results"));
        assert_eq!(test.script("tar -tf results/*.qout").stderr, "");
    }
}

#[test]
fn privileged_an_extraction_tells_versions_apart_that_have_the_same_size_and_time() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir d; cd d; printf AAAA > file; echo a > attribute; ln -s old link; truncate -s 1M hole")
        .succeeds();
    test.script("cd d; touch -h -d @5 *; cp -a . ../plain").succeeds();
    let work = "printf BBBB > file; setfattr -n user.k -v new attribute; ln -sfn new link; \
                printf x | dd of=hole bs=1 seek=500000 conv=notrunc status=none; touch -h -d @5 *";
    test.write("work", work);
    test.script("cd plain; sh ../work").succeeds();
    test.script("$quell -q run --gather d -- sh -c 'cd d; sh ../work'").succeeds();
    let refused = test.quell(&["gather", "extract", "d"]);
    for name in ["file", "attribute", "link", "hole"] {
        let told = format!("`{name}` is there already, and is not what the container has");
        assert!(refused.code() == 1 && refused.stderr.contains(&told), "{refused}");
    }
    assert_eq!(test.quell(&["-q", "gather", "extract", "--force", "d"]).code(), 0);
    let state = "stat -c '%n %s %a %Y' file attribute link hole; md5sum file hole; readlink link; getfattr -d attribute";
    let state = |directory: &str| test.script(&format!("cd {directory}; {state}")).succeeds();
    assert_eq!(state("d"), state("plain"));
    let again = test.quell(&["gather", "extract", "d"]);
    assert!(again.code() == 0 && again.stderr.contains("4 there already"), "{again}");
}

#[test]
fn privileged_a_file_that_its_owner_may_not_read_is_extracted_once() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.script("mkdir d; $quell -q run --gather d -- sh -c 'echo x > d/closed; chmod 0 d/closed'")
        .succeeds();
    test.quell(&["-q", "gather", "extract", "d"]).succeeds();
    let again = test.quell(&["gather", "extract", "d"]);
    assert!(again.code() == 0 && again.stderr.contains("1 there already"), "{again}");
}

#[test]
fn privileged_ranks_and_later_runs_see_what_was_gathered() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        test.write("first", "cd tmp; echo first > a; mkdir d; echo x > d/x; echo y > d/y; echo more >> old; rm sub/deep; echo b > b");
        test.write(
            "second",
            "cd tmp; cat a d/x old; ls sub; echo second >> a; rm d/y; mkdir e; mv b e/; ls . d e",
        );
        test.script("cp -a tmp plain; sed s/tmp/plain/ first > f; sed s/tmp/plain/ second > s").succeeds();
        let plain = test.script("sh f; sh s");
        let ours =
            test.script("$quell -q run --gather tmp -- sh first; $quell -q run --gather tmp -- sh second");
        assert_eq!((&ours.stdout, ours.stderr.as_str()), (&plain.stdout, ""));
        assert_eq!(containers(&test, "tmp").len(), 2);
        // The real directory is as before.
        assert_eq!(test.script("cat tmp/old tmp/sub/deep").stdout, "old\ndeep\n");
        let refused = test.quell(&["gather", "extract", "tmp"]);
        insta::allow_duplicates!(snapshot!(refused, @"
        status 1
        --- stderr
        quell: `tmp`: 3 files of [SIZE] written
        quell: warning: `old` is there already, and is not what the container has
        quell: warning: `sub/deep` was removed by a program of the run, and is still there
        hint: `--force` makes the directory what the programs left
        "));
        assert_eq!(test.quell(&["-q", "gather", "extract", "--force", "tmp"]).code(), 0);
        let names = "find . ! -name '*.qout' -printf '%P %y %m %l\\n' | sort; find . -type f ! -name '*.qout' | sort | xargs cat";
        assert_eq!(
            test.script(&format!("cd tmp; {names}")).stdout,
            test.script(&format!("cd plain; {names}")).stdout
        );
        // A file that was changed since counts, and not the containers.
        test.write("tmp/a", "third\n");
        assert_eq!(test.quell(&["-q", "run", "--gather", "tmp", "--", "cat", "tmp/a"]).stdout, "third\n");
        assert_eq!(containers(&test, "tmp").len(), 2, "nothing was gathered");
    }
}

/// A program that writes files of random lengths, puts some on stable storage, and says so.
const WRITER: &str = "import hashlib, os, random, sys
random.seed(int(sys.argv[2]))
os.chdir(sys.argv[1])
print('ready', flush=True)
open_files = {}
for number in range(10**6):
    name = f'{random.randrange(40)}' if random.random() < 0.3 else f'new-{number}'
    mode = random.choice(['wb', 'ab', 'r+b']) if os.path.exists(name) else 'wb'
    with open(name, mode) as file:
        for _ in range(random.randrange(1, 4)):
            if mode == 'r+b': file.seek(random.randrange(200000))
            file.write(random.randbytes(random.choice([10, 1000, 70000, 300000])))
        file.flush()
        if random.random() < 0.2: file.truncate(random.randrange(100000))
        chosen = random.random()
        if chosen < 0.5:
            os.fsync(file.fileno()) if chosen < 0.25 else os.fdatasync(file.fileno())
            with open(name, 'rb') as again: content = again.read()
            print('synced', name, hashlib.md5(content).hexdigest(), flush=True)
        else:
            print('touched', name, flush=True)
    if chosen > 0.9:
        other = f'moved-{random.randrange(20)}'
        os.rename(name, other)
        print('touched', other, flush=True)
";

/// Has a writer run until `killed` has killed it or its server, and checks that what it acknowledged is there.
fn keeps_what_was_acknowledged(test: &Test, round: u64, seed: u64, stop: &dyn Fn(&mut Child, &Test)) {
    let directory = format!("results-{round}");
    test.script(&format!("mkdir {directory}; rm -f said")).succeeds();
    let mut command = test.shell(&format!(
        "exec $quell -q run --gather {directory} -- python3 writer.py {directory} {seed} > said"
    ));
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let said = || test.read_text("said");
    crate::harness::wait_until("the writer is ready", || {
        test.path("said").exists() && said().contains("ready")
    });
    let milliseconds = seed % 97 * 7;
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    stop(&mut child, test);
    child.wait().unwrap();
    test.silence();
    let mut known = std::collections::BTreeMap::new();
    let said = said();
    // A line that a kill cut is none.
    for line in said.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[..] {
            ["synced", name, sum] => _ = known.insert(name.to_owned(), sum.to_owned()),
            ["touched", name] => _ = known.remove(name),
            _ => {}
        }
    }
    // The call after the last line may have changed its file, or moved it.
    let last = said.lines().last().and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default();
    let listed = test.quell(&["gather", "ls", "--json", &directory]);
    assert!(listed.code() == 0, "seed {seed}: {listed}");
    test.script(&format!("mkdir out-{round}")).succeeds();
    let extracted = test.quell(&["-q", "gather", "extract", "-o", &format!("out-{round}"), &directory]);
    assert_eq!(extracted.code(), 0, "seed {seed}: {extracted}");
    let is_reused = |name: &str| name == last || !name.starts_with("new-");
    for (name, sum) in known.iter().filter(|(name, _)| !is_reused(name)) {
        let found = test.script(&format!("md5sum < out-{round}/{name}"));
        assert!(
            found.stdout.starts_with(sum),
            "seed {seed}: `{name}` is not what fsync acknowledged: {found}"
        );
    }
    test.script(&format!("rm -r out-{round} {directory}")).succeeds();
}

#[test]
fn privileged_what_fsync_acknowledged_outlives_any_kill() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Program("python3")]) else { return };
    test.write("writer.py", WRITER);
    let seed = std::env::var("QUELL_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = seed.unwrap_or_else(|| std::process::id().into());
    println!("QUELL_TEST_SEED={seed}");
    for round in 0..8 {
        keeps_what_was_acknowledged(&test, round, seed + 31 * round, &|child, test| match round % 3 {
            0 => kill(named(test.processes(), "quell-scratch")[0]),
            1 => kill(child.id().cast_signed()),
            _ => test.processes().into_iter().for_each(kill),
        });
    }
}

#[test]
fn privileged_a_killed_server_is_told_and_the_rest_can_be_read() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir results").succeeds();
        let job = "echo safe > results/safe; sync results/safe; echo ready; read -r line; cat results/safe";
        let mut command = test.shell(&format!("exec $quell run --gather results -- sh -c '{job}'"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        assert_eq!(next_line(&mut child), "ready");
        kill(named(test.processes(), "quell-scratch")[0]);
        drop(child.stdin.take());
        let outcome = test.wait(child);
        assert_eq!(outcome.code(), 1, "{outcome}");
        assert!(
            outcome.stderr.contains("up to its last flush, and all that fsync acknowledged"),
            "{outcome}"
        );
        assert!(outcome.stderr.contains("hint: quell gather ls "), "{outcome}");
        let read = test.quell(&["gather", "cat", "results", "safe"]);
        assert_eq!(read.stdout, "safe\n");
        assert!(
            read.stderr
                .contains("has no end: its run was killed, or goes on; files are as at its last flush"),
            "{read}"
        );
        // A later run sees it too.
        assert_eq!(
            test.quell(&["-q", "run", "--gather", "results", "--", "cat", "results/safe"]).stdout,
            "safe\n"
        );
    }
}

#[test]
fn privileged_a_full_disk_is_met_as_plain_and_loses_nothing_that_was_acknowledged() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root, Need::Program("python3")]) else { return };
    test.write(
        "fill.py",
        "import errno, os, sys\n\
         os.chdir(sys.argv[1])\n\
         met, number = set(), 0\n\
         for number in range(4000):\n\
         \x20   try:\n\
         \x20       with open(f'{number}', 'wb', buffering=0) as file:\n\
         \x20           assert file.write(b'x' * 20000) == 20000; os.fsync(file.fileno())\n\
         \x20       if met: break\n\
         \x20   except OSError as error:\n\
         \x20       met.add(error.errno)\n\
         \x20       if number > 3000: break\n\
         print(met == {errno.ENOSPC})\n\
         with open(f'{sys.argv[2]}', 'w') as file: file.write(f'{number}')\n",
    );
    test.script("mkdir results").succeeds();
    let script = "mount -t tmpfs -o size=12m gathered results; $quell run --gather results -- python3 fill.py results $PWD/met; echo $?; \
                  mkdir out; $quell -q gather extract -o out results; ls out | wc -l; find out -size -20000c | wc -l";
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", script]);
    command.env("quell", *crate::harness::QUELL);
    let full = test.finish(command);
    let lines: Vec<_> = full.stdout.lines().collect();
    assert_eq!(lines[0], "True", "{full}");
    let files: u64 = lines[2].parse().unwrap();
    assert!(files > 400, "{full}");
}

#[test]
fn privileged_nodes_share_a_directory() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir results").succeeds();
    test.write(
        "rank",
        "hostname $1; export PMIX_NAMESPACE=7 OMPI_COMM_WORLD_RANK=$2 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1\n\
         exec $quell run --gather results -- sh -c \"echo $2 > results/rank-$2; echo $1 > results/same; echo equal > results/equal; \
         touch here-$2; until [ -e here-0 ] && [ -e here-1 ]; do sleep 0.01; done; ls results\"\n",
    );
    let node =
        |number: u32| format!("unshare --uts --mount sh rank node{number} {number} > out-{number} 2>&1 & ");
    test.script(&format!("export quell; {}{}wait", node(0), node(1))).succeeds();
    assert_eq!(test.read_text("out-1"), "equal\nrank-1\nsame\n");
    let found = containers(&test, "results");
    assert_eq!(found.len(), 2);
    assert!(
        found[0].starts_with("results/7.node0.") && found[1].starts_with("results/7.node1."),
        "{found:?}"
    );
    let listed = test.quell(&["gather", "ls", "results"]);
    assert_eq!(listed.code(), 1, "{listed}");
    let names: Vec<_> = listed.stdout.lines().map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(names, ["equal", "rank-0", "rank-1"]);
    assert!(listed.stderr.contains("warning: `same` is left out: `results/7.node0."), "{listed}");
    assert_eq!(test.quell(&["-q", "gather", "extract", "results"]).code(), 1);
    assert_eq!(
        test.script("ls results | grep -v qout; cat results/rank-*").stdout,
        "equal\nrank-0\nrank-1\n0\n1\n"
    );
    assert_eq!(test.quell(&["gather", "cat", &found[1], "same"]).stdout, "node1\n");
}

#[test]
fn privileged_what_cannot_be_gathered_is_refused() {
    let Some(test) = Test::privileged(FUSE) else { return };
    plant(&test);
    test.write("results/no.qout", "no container");
    session!(|line| test.script(line), @"
    $ quell run --gather absent -- true => 125
    quell: error: `--gather absent`: ENOENT (no such file or directory)
    hint: mkdir -p absent
    $ quell run --gather tmp/old -- true => 125
    quell: error: `--gather tmp/old`: not a directory
    $ quell run --gather / -- true => 125
    quell: error: `--gather /` would cover the whole system
    hint: name the directory in which the program writes its results
    $ quell run --gather 'tmp/*/rank-*' -- true => 125
    quell: error: `--gather tmp/*/rank-*`: a pattern names files of one directory
    hint: `--gather tmp` takes all that programs make there
    $ quell run --gather 'absent/rank-*' -- true => 125
    quell: error: `--gather absent`: ENOENT (no such file or directory)
    hint: mkdir -p absent
    $ quell run --gather 'tmp/rank-*' --gather tmp/sub -- true => 125
    quell: error: `--gather`: `[DIR]/tmp/sub` lies in `[DIR]/tmp`, of which a pattern is given
    hint: name directories of which none lies in another
    $ quell run --gather tmp --scratch tmp/sub -- true => 125
    quell: error: `--gather [DIR]/tmp` and `--scratch`: one of the directories lies in the other
    hint: name directories of which none lies in another
    $ quell gather ls tmp => 2
    quell: error: `tmp` holds no container
    hint: name the directory of `quell run --gather DIR`, or a file `*.qout`
    $ quell gather ls results/no.qout => 2
    quell: error: `results/no.qout`: not a container of `quell run --gather`
    $ quell gather cat results absent => 2
    quell: warning: `results/no.qout`: not a container of `quell run --gather`
    quell: error: `absent` is not in the container
    hint: `quell gather ls CONTAINER` lists what is there
    ");
}

#[test]
fn privileged_statistics_tell_of_containers() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir results").succeeds();
    let script = "for i in $(seq 300); do echo $i > results/$i; done";
    test.quell(&["-q", "run", "--stats", "stats.json", "--gather", "results", "--", "sh", "-c", script])
        .succeeds();
    let stats = test.read_json("stats.json");
    let gather = &stats["gather"];
    assert_eq!((&gather["files"], &gather["files_made"]), (&300.into(), &300.into()), "{gather}");
    assert!(gather["container_writes"].as_u64().unwrap() <= 3, "{gather}");
    assert!(gather["container_bytes"].as_u64().unwrap() > 300 * 1024, "{gather}");
    assert!(gather["original"]["lookup"].as_u64().unwrap() <= 2, "{gather}");
}

#[test]
fn privileged_a_large_file_that_was_there_keeps_its_change() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        // Longer than memory holds: its content is recorded before its name.
        test.script("mkdir r; head -c 9000000 /dev/zero > r/original; chmod 644 r/original").succeeds();
        test.script("$quell -q run --gather r -- sh -c 'head -c 20000000 /dev/zero > r/big; echo 1 > r/a; mkdir r/d; ln r/a r/d/b'").succeeds();
        test.script("$quell -q run --gather r -- sh -c 'echo more >> r/big; sync r/big'").succeeds();
        test.script("$quell -q run --gather r -- sh -c 'chmod 600 r/original; echo 2 >> r/a; cat r/d/b' | grep -c . | grep -qx 2").succeeds();
        test.script("$quell -q run --gather r -- sh -c 'mv r/big r/moved; echo end >> r/original'")
            .succeeds();
        test.quell(&["-q", "gather", "extract", "--force", "r"]).succeeds();
        let found = test.script(
            "cd r; stat -c '%n %s %a' original moved; tail -c 5 moved; tail -c 4 original; cat a d/b",
        );
        assert_eq!(
            found.stdout, "original 9000004 600\nmoved 20000005 644\nmore\nend\n1\n2\n1\n2\n",
            "{found}"
        );
    }
}

#[test]
fn privileged_many_attributes_of_a_file_are_read_after_a_kill() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r").succeeds();
        // 2.4 MB of attributes, then a file that fsync acknowledges; then the server is killed.
        test.write(
            "attributes.py",
            "import os, signal, sys\n\
             open('r/x', 'w').close()\n\
             kept = 0\n\
             for number in range(40):\n    \
                 try:\n        os.setxattr('r/x', f'user.{number}', bytes(60000)); kept += 1\n    \
                 except OSError: break\n\
             file = os.open('r/important', os.O_CREAT | os.O_WRONLY)\n\
             os.write(file, b'important'); os.fsync(file)\n\
             print(kept, flush=True); sys.stdin.read()\n",
        );
        let mut command = test.shell("exec $quell -q run --gather r -- python3 attributes.py");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let kept: usize = next_line(&mut child).parse().unwrap();
        assert!(kept > 10, "{kept}");
        kill(named(test.processes(), "quell-scratch")[0]);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(test.script("$quell -q gather cat r important").stdout, "important");
    }
}

#[test]
fn privileged_a_file_that_was_made_after_a_run_removed_its_name_stays() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        // The clock of files ticks each few milliseconds.
        test.script("mkdir r; echo old > r/x; $quell -q run --gather r -- rm r/x; sleep 0.1; echo new > r/x")
            .succeeds();
        test.script("$quell -q run --gather r -- sh -c 'cat r/x; echo y > r/y' | grep -qx new").succeeds();
        // The second container is later than the file, and says nothing of it.
        assert_eq!(test.script("$quell -q run --gather r -- cat r/x").stdout, "new\n");
        test.quell(&["-q", "gather", "extract", "--force", "r"]);
        assert_eq!(test.script("cat r/x").stdout, "new\n");
    }
}

#[test]
fn privileged_all_names_of_a_removed_file_go() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r; echo old > r/a; ln r/a r/b; $quell -q run --gather r -- rm r/a r/b").succeeds();
        test.quell(&["-q", "gather", "extract", "--force", "r"]).succeeds();
        assert_eq!(test.script("ls r | grep -v qout").stdout, "");
    }
}

#[test]
fn privileged_attributes_that_programs_give_a_directory_are_kept() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        let state = |directory: &str| {
            let script = format!(
                "cd {directory}; stat -c '%n %a %y' . old/sub; stat -c '%n %a' old; getfattr -d -m user. . old old/sub"
            );
            test.script(&script).stdout
        };
        test.write(
            "work",
            "cd $1; chmod 711 old; touch -d 2001-02-03 old/sub; setfattr -n user.a -v new old/sub; setfattr -x user.b old; \
             setfattr -n user.top -v top .; chmod 750 .; touch -d 2002-03-04 .",
        );
        test.script(
            "mkdir -p plain/old/sub && setfattr -n user.b -v b plain/old && setfattr -n user.a -v a plain/old/sub && \
             cp -a plain results && sh work plain",
        )
        .succeeds();
        let ours = test.script("$quell -q run --gather results -- sh work results");
        assert_eq!((ours.code(), ours.stderr.as_str()), (0, ""));
        // A later run sees them, and passes them on.
        let later = test.script(
            "$quell -q run --gather results -- sh -c 'stat -c %a results/old; getfattr --only-values -n user.a results/old/sub; \
             echo x > results/old/x'",
        );
        assert_eq!(later.stdout, "711\nnew");
        let told = test.quell(&["gather", "extract", "results"]);
        for path in ["old", "old/sub"] {
            assert!(told.stderr.contains(&format!("directory `{path}` keeps its attributes")), "{told}");
        }
        assert_eq!((told.code(), told.stderr.contains("results` keeps its attributes")), (1, true), "{told}");
        let forced = test.quell(&["-q", "gather", "extract", "--force", "results"]);
        assert_eq!((forced.code(), forced.stderr.as_str()), (0, ""));
        assert_eq!(state("results"), state("plain"));
    }
}

/// A shell script that works in the directory `$1`, with names that match `rank-*` and others.
const RANKS: &str = "cd $1; for r in 0 1 2; do echo $r > rank-$r; echo log > log-$r; done; mkdir rank-d sub; echo x > rank-d/x; \
                     echo y > sub/rank-y; cat rank-old other; echo more >> rank-old; echo more >> other; mv log-1 log-renamed; \
                     mv rank-1 rank-7; ln rank-0 rank-hard; ln -s rank-0 link; ls; cat *-*; rm rank-2 log-2; rmdir rank-2 2>/dev/null; \
                     test rank-7 -nt other || echo older; touch x && mv x rank-moved && echo moved > rank-moved && mv rank-moved y; cat y; ls -A";

#[test]
fn privileged_a_pattern_gathers_names_that_match_and_leaves_others_in_place() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir plain results; for d in plain results; do echo old > $d/rank-old; echo other > $d/other; done; rm -f plain/z");
        test.write("work", RANKS);
        let plain = test.script("sh work plain");
        let ours = test.script("$quell -q run --gather 'results/rank-*' -- sh work results");
        assert_eq!(
            (ours.code(), &ours.stdout, ours.stderr.as_str()),
            (0, &plain.stdout, plain.stderr.as_str())
        );
        let left = test.script("cd results; ls -A | grep -v qout; cat rank-old other sub/rank-y");
        assert_eq!(left.stdout, "link\nlog-0\nlog-renamed\nother\nrank-old\nsub\ny\nold\nother\nmore\ny\n");
        assert_eq!(containers(&test, "results").len(), 1);
        test.quell(&["-q", "gather", "extract", "--force", "results"]).succeeds();
        let untimed = "cd $1; find . -mindepth 1 ! -name '*.qout' -printf '%P %y %m %n %l\\n' | sort; cat rank-*; cat y other";
        test.write("untimed", untimed);
        let (ours, plain) = (test.script("sh untimed results"), test.script("sh untimed plain"));
        assert_eq!(ours.stdout, plain.stdout);
    }
}

#[test]
fn privileged_names_beside_a_pattern_are_the_originals_and_other_processes_see_them() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r; echo 1 > r/counter");
        // A process outside makes and changes names beside the pattern, which the run sees; locks meet those of outside.
        let script = "echo start > r/flag; while ! test -e r/answer; do sleep .02; done; cat r/answer; ls r; \
                      flock -n r/counter -c 'echo free' || echo locked; rm r/answer; test -e r/answer || echo removed";
        let run = format!(
            "$quell -q run --gather 'r/rank-*' -- sh -c \"{script}\" & \
                           while ! test -e r/flag; do sleep .02; done; exec 9< r/counter; flock 9; echo yes > r/new; mv r/new r/answer; wait"
        );
        let ours = test.script(&run);
        assert_eq!(
            (ours.code(), ours.stdout.as_str()),
            (0, "yes\nanswer\ncounter\nflag\nlocked\nremoved\n"),
            "{ours}"
        );
    }
}

/// Makes files under one name and gives them another, as programs do that replace a file at once, in the directory `$1`.
const REPLACES: &str = r#"
import os, sys, shutil
os.chdir(sys.argv[1])
def replace(old, new, text, mode=0o640):
    with open(old, "w") as f:
        f.write(text); f.flush(); os.fsync(f.fileno())
    os.chmod(old, mode); os.utime(old, (1000000000, 1000000001)); os.setxattr(old, "user.colour", b"red")
    os.replace(old, new)
    s = os.stat(new)
    print(new, open(new).read(), oct(s.st_mode), s.st_mtime, os.getxattr(new, "user.colour"), os.path.exists(old))
for round in range(20):
    replace(".tmp", "rank-1", f"one {round}")      # Into the container,
    replace("rank-tmp", "other", f"two {round}")   # out of it,
    replace("rank-2.tmp", "rank-2", "three")       # within it,
    replace("tmp.3", "real", "four", 0o600)        # and beside it.
f = open("held", "w"); f.write("x"); f.flush()
try: os.rename("held", "rank-held"); os.rename("rank-held", "held"); print("moved")
except OSError as e: print(e.strerror)
f.close(); os.mkdir("dir")
print(shutil.move("held", "rank-held"), shutil.move("dir", "rank-dir"), sorted(n for n in os.listdir()))
"#;

#[test]
fn privileged_a_file_is_replaced_at_once_by_one_that_the_pattern_does_not_match() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir plain r");
        test.write("work.py", REPLACES);
        let plain = test.script("python3 work.py plain");
        let ours = test.script("$quell -q run --gather 'r/rank-*' -- python3 work.py r");
        // One that is open cannot be copied.
        assert_eq!(
            (ours.code(), ours.stdout),
            (0, plain.stdout.replace("moved", "Invalid cross-device link"))
        );
    }
}

#[test]
fn privileged_ranks_share_a_pattern_and_a_killed_server_is_told() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r");
        let rank = "echo $1 > r/rank-$1; echo $1 > r/log-$1; n=0; until test $n = 3; do n=$(ls r | grep -c rank); sleep .02; done; ls r";
        test.write("rank", rank);
        let ours = test.script(
            "for r in 0 1 2; do SLURM_JOB_ID=7 $quell -q run --gather 'r/rank-*' -- sh rank $r & done; wait",
        );
        assert_eq!(ours.stdout.lines().filter(|line| line.starts_with("rank")).count(), 9, "{ours}");
        assert_eq!(containers(&test, "r").len(), 1);
        assert_eq!(test.script("cat r/log-*").stdout, "0\n1\n2\n");
        let words = ["run", "--gather", "r/rank-*", "--", "sh", "-c", "echo ready; read -r line; ls r"];
        let mut child = test.start(&words);
        assert_eq!(next_line(&mut child), "ready");
        kill(named(test.processes(), "quell-buffer")[0]);
        drop(child.stdin.take());
        let outcome = test.wait(child);
        assert!(outcome.stderr.contains("the server of a directory with a pattern was killed"), "{outcome}");
        test.silence();
    }
}

/// Everything that a tool sees below a directory, but the top's own attributes.
const ALL: &str = "cd $1; find . -mindepth 1 -printf '%P %y %m %n %l %s %T@ %u %g\\n' | sed -E '/ d /s/ [0-9]+ ([0-9]+\\.)/ \\1/' | sort; \
                   find . -type f | sort | xargs md5sum; getfattr -d hard .; ls -U | sort";

/// A script of the test's user in a mount namespace that root makes: other tests count mounts.
fn apart(test: &Test, script: &str) -> Outcome {
    let inner = test.shell(script);
    let mut command = Command::new("unshare");
    command.arg("--mount").arg(inner.get_program()).args(inner.get_args()).env_clear();
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    inner.get_current_dir().map(|directory| command.current_dir(directory));
    test.finish(command)
}

#[test]
fn privileged_a_mount_shows_what_extract_writes() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir results mnt copy");
        test.write(
            "work",
            format!("{WORK}; setfattr -n user.colour -v red hard; setfattr -n user.top -v kept .; echo none > none.qout; for i in $(seq 3000); do echo $i > made/$i; done"),
        );
        test.write("all", ALL);
        test.script("$quell -q run --gather results -- sh work results; $quell -q run --gather results -- sh -c 'cd results; echo more >> hard; rm empty; echo new > new'").succeeds();
        // A name of containers is left out.
        assert_eq!(test.quell(&["-q", "gather", "extract", "--force", "-o", "copy", "results"]).code(), 1);
        let script = "$quell gather mount results $PWD/mnt || exit 9; sh all mnt > shown; sh all copy > extracted; \
                      diff shown extracted | head -n 20; test $(wc -l < shown) -gt 6000 && echo all; \
                      { echo x > mnt/x; } 2>&1 | grep -o 'Read-only file system'; rm mnt/hard 2>&1 | grep -o 'Read-only file system'; \
                      fusermount3 -u mnt || umount mnt; ls -A mnt; \
                      until ! pgrep -f \"gather mount results $PWD/mnt\" > /dev/null; do sleep 0.02; done; echo ended";
        let shown = apart(&test, script);
        let read_only = "Read-only file system\n";
        assert_eq!((shown.code(), shown.stdout), (0, format!("all\n{read_only}{read_only}ended\n")));
        assert!(shown.stderr.contains("shows the files until"), "{}", shown.stderr);
    }
}

#[test]
fn privileged_a_mount_in_the_foreground_ends_with_a_signal_and_wrong_words_are_explained() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r mnt; $quell -q run --gather r -- sh -c 'echo a > r/a; head -c 100000 /dev/urandom > r/b'").succeeds();
        let flip = "import glob, sys; n = glob.glob('r/*.qout')[0]; c = bytearray(open(n, 'rb').read()); \
                    b = sys.stdin.buffer.read(); c[c.index(b[:1000]) + 500] ^= 1; open(n, 'wb').write(c)";
        test.write("flip.py", flip);
        // A damaged file cannot be read; others can.
        let script = "$quell gather mount -f r mnt & p=$!; until test -e mnt/a; do sleep 0.01; done; cat mnt/a; kill $p; wait $p; echo $?; \
                      ls -A mnt; $quell gather cat r b | python3 flip.py; $quell -q gather mount r mnt; cat mnt/a; \
                      cat mnt/b 2>&1 > copied | grep -o 'Input/output error'; fusermount3 -u mnt || umount mnt";
        let shown = apart(&test, script);
        assert_eq!(
            (shown.code(), shown.stdout.as_str()),
            (0, "a\n0\na\nInput/output error\n"),
            "{}",
            shown.stderr
        );
        insta::allow_duplicates!({
            session!(|line| test.script(line), @r"
        $ quell gather mount r absent => 2
        quell: error: `absent`: ENOENT (no such file or directory)
        hint: mkdir -p absent
        $ quell gather mount r flip.py => 2
        quell: error: `flip.py`: not a directory
        hint: the last word is the directory to mount over
        $ quell gather mount absent mnt => 2
        quell: error: `absent`: ENOENT (no such file or directory)
        hint: name the directory of `quell run --gather DIR`, or a file `*.qout`
        $ quell gather mount flip.py mnt => 2
        quell: error: `flip.py`: not a container of `quell run --gather`
        ")
        });
    }
}

/// Appends with fsync, then changes and cuts short what was recorded, in the file `log` of the directory `$1`.
const GROWS: &str = r#"
import os, sys
f = open(sys.argv[1] + "/log", "w+b", 0)
def sync(): os.fsync(f.fileno())
for i in range(1000): f.write(b"%099d\n" % i); sync()
f.seek(50); f.write(b"changed"); sync()
f.seek(70000); f.write(b"changed"); sync()
f.truncate(66000); sync(); f.seek(0, 2); f.write(b"behind"); sync()
f.truncate(80000); f.seek(79990); f.write(b"end"); sync()
for i in range(100): f.seek(0, 2); f.write(b"%09d\n" % i); sync()
f.seek(0); sys.stdout.buffer.write(f.read())
"#;

#[test]
fn privileged_a_file_that_grows_by_little_costs_little() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir plain r");
        test.write("grows.py", GROWS);
        let plain = test.script("python3 grows.py plain");
        let ours = test.script("$quell -q run --gather r -- python3 grows.py r");
        assert!(ours.code() == 0 && ours.stdout == plain.stdout, "{}", ours.stderr);
        assert!(test.quell(&["gather", "cat", "r", "log"]).stdout == plain.stdout);
        // 1100 appends: each costs a few blocks of tar, and not a piece of 64 KiB.
        let bytes: u64 = test.script("cat r/*.qout | wc -c").stdout.trim().parse().unwrap();
        assert!(bytes < 1100 * 6000, "{bytes}");
    }
}

#[test]
fn privileged_a_file_of_another_node_is_named_if_programs_asked_for_it() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir results");
    test.write(
        "rank",
        "hostname node$1; export PMIX_NAMESPACE=7 OMPI_COMM_WORLD_RANK=$1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=1\n\
         exec $quell run --gather results -- sh -c \"echo $1 > results/rank-$1; sync results/rank-$1; test -e results/none; touch here-$1; \
         until [ -e here-0 ] && [ -e here-1 ]; do sleep 0.01; done; cat results/rank-1; touch over-$1; until [ -e over-0 ]; do sleep 0.01; done\"\n",
    );
    let node = |number: u32| format!("unshare --uts --mount sh rank {number} > out-{number} 2>&1 & ");
    test.script(&format!("export quell; {}{}wait", node(0), node(1))).succeeds();
    let said = test.read_text("out-0");
    let expected = "quell: warning: programs of this node asked for `rank-1` and did not find it: `7.node1.";
    assert!(said.contains(expected) && said.contains(" of another node has it\n"), "{said}");
    assert_eq!(test.read_text("out-1"), "1\n");
}
