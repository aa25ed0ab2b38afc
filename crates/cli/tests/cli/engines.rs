//! Both engines of `record` on real programs: equal output, equal roots, the same absences, images that serve as well.

use std::collections::BTreeSet;

use quell_trace::Recording;
use serde_json::Value;

use crate::harness::{Need, Outcome, Test, snapshot, wait_until, with_quell};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace, Need::Program("cc"), Need::Program("git")];

/// Programs with the words that run them; those that are not installed are left out.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "python3",
        "python3 -B -c 'import json, email.message, xml.dom.minidom, sqlite3; print(json.dumps([1]))'",
    ),
    ("python3", "python3 -c 'try:\n import numpy; print(numpy.arange(3))\nexcept ImportError: print(0)'"),
    ("perl", "perl -MPOSIX -MData::Dumper -e 'print Dumper([floor(3.7)])'"),
    ("sort", "cat work/src/* | sort | uniq -c | awk '{print $1}' | head -n 3"),
    ("ls", "ls -R work"),
    ("find", "find work -name 'f*' -newer work/src/main.c -o -name main.c"),
    ("git", "git -C work/repo status"),
    ("gcc", "cd work/src && gcc -c -o ../f1.o f1.c && rm ../f1.o"),
    ("make", "rm -f work/src/*.o work/src/program; make -s -j2 -C work/src && work/src/program; ls work/src"),
    ("node", "node -e 'console.log(require(\"os\").EOL.length, require(\"zlib\").constants.Z_OK)'"),
    ("tclsh", "echo 'puts [package require http]; exit 4' | tclsh"),
    // Threads that compile and collect would touch other pages of the program's library from run to run.
    ("java", "java -Xint -XX:+UseSerialGC -version"),
    ("awk", "awk '{print NR, $1; exit}' work/src/main.c nowhere"),
    ("sh", "work/static work/src work/none"),
    ("sh", "work/static work/src; kill -9 $$"),
    // Descriptors that an execution closes.
    (
        "python3",
        "python3 -c 'import os; os.open(\"work/src/main.c\", 0); os.execv(\"work/static\", [\"s\", \"work\"])'",
    ),
    ("bash", "bash -c 'for f in work/src/*.c; do test -e $f.o || read -r l < $f; done; echo $l'"),
    ("lua5.4", "LUA_PATH='work/?.lua' lua5.4 -e 'print(pcall(require, \"none\"))'"),
    (
        "sqlite3",
        "sqlite3 work/none.db 'select sqlite_version() > 3'; sqlite3 -readonly work/absent.db 'select 1'",
    ),
    ("modulecmd", "MODULEPATH=/usr/share/modules/modulefiles modulecmd bash avail -t"),
];

/// A tree with sources, a repository and a static program.
fn plant(test: &Test) {
    let objects: Vec<_> = (1..5).map(|number| format!("f{number}.o")).collect();
    for number in 1..5 {
        test.write(
            &format!("work/src/f{number}.c"),
            format!("int f{number}(int x) {{ return x + {number}; }}\n"),
        );
    }
    test.write(
        "work/src/main.c",
        "#include <stdio.h>\nint f1(int);\nint main(void) { printf(\"%d\\n\", f1(1)); }\n",
    );
    let objects = objects.join(" ");
    test.write("work/src/Makefile", format!("program: main.o {objects}\n\tcc -o $@ main.o {objects}\n"));
    test.write(
        "work/static.c",
        "#include <dirent.h>\n#include <stdio.h>\n#include <sys/stat.h>\nint main(int n, char **w) {\n\
         for (int i = 1; i < n; i++) { DIR *d = opendir(w[i]); struct stat s; int names = 0;\n\
         while (d && readdir(d)) names++;\nprintf(\"%d %d\\n\", names, stat(w[i], &s)); }\nreturn 5; }\n",
    );
    let build = "cc -static -o work/static work/static.c && mkdir work/repo && cp work/src/* work/repo && cd work/repo && \
                 git init -q . && git add . && git -c user.name=x -c user.email=x@y commit -qm one && echo >> f1.c";
    test.script(build).succeeds();
    // Git looks again and again at files made within one tick of the clock.
    test.script("touch -d 2020-01-01 work/repo/* work/src/*; touch -d 2021-01-01 work/src/f1.c; git -C work/repo status").succeeds();
}

/// Records a shell script below `/usr` and `work`, and packs that.
fn record(test: &Test, engine: &str, script: &str) -> Outcome {
    let trace = format!("{engine}.qtrace");
    let recording =
        ["-q", "record", "-f", "--engine", engine, "-o", &trace, "--root", "/usr", "--root", "work"];
    let words: Vec<_> = recording.into_iter().chain(["--", "sh", "-c", script]).collect();
    test.quell(&words)
}

/// The directories that an image of the recording covers, and those below them that stay the originals.
fn pack(test: &Test, engine: &str) -> Vec<String> {
    let (trace, image) = (format!("{engine}.qtrace"), format!("{engine}.qimg"));
    let packing = ["-q", "pack", "-f", "--public", &trace, "-o", &image, "--root", "/usr", "--root", "work"];
    let said = test.quell(&packing).succeeds();
    let place = |line: &str| line.strip_prefix("  ")?.split("  (").next().map(str::to_owned);
    said.lines().filter_map(place).collect()
}

/// Names below the roots that were asked for and are absent.
fn missed(test: &Test, engine: &str) -> BTreeSet<Vec<u8>> {
    let recording = Recording::open(&test.path(&format!("{engine}.qtrace"))).unwrap();
    let roots = [b"/usr".to_vec(), test.text("work").into_bytes()];
    let mut missed = BTreeSet::new();
    recording
        .for_each_event(|event| {
            let path = event.target.filter(|_| event.is_miss()).map(|target| recording.paths.bytes(target));
            if let Some(path) = path.filter(|path| roots.iter().any(|root| is_below(path, root))) {
                missed.insert(path.to_vec());
            }
        })
        .unwrap();
    missed
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// Operations on the originals that a run from the image leaves.
fn left(test: &Test, engine: &str, script: &str) -> (Outcome, u64) {
    let (image, stats) = (format!("{engine}.qimg"), format!("{engine}.json"));
    _ = std::fs::remove_file(test.path(&stats));
    let outcome = test.quell(&["-q", "run", "--stats", &stats, &image, "--", "sh", "-c", script]);
    wait_until("the statistics appear", || test.path(&stats).exists());
    let stats: Value = serde_json::from_slice(&test.read(&stats)).unwrap();
    let left = stats["original"].as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum();
    (outcome, left)
}

#[test]
fn privileged_both_engines_record_the_same_of_programs() {
    let (Some(root), Some(user)) = (Test::privileged(ALL), Test::of_ordinary_user(ALL)) else { return };
    for test in [root, user] {
        plant(&test);
        let is_installed =
            |program: &str| test.run(&["sh", "-c", &format!("command -v {program}")]).status.success();
        let programs: Vec<_> = PROGRAMS.iter().filter(|(program, _)| is_installed(program)).collect();
        let names: BTreeSet<_> = programs.iter().map(|(program, _)| program).collect();
        assert!(names.len() >= 12, "{names:?}");
        for (program, script) in programs {
            let plain = test.script(script);
            for engine in ["ptrace", "mount"] {
                let recorded = record(&test, engine, script);
                let told =
                    |outcome: &Outcome| (outcome.code(), outcome.stdout.clone(), outcome.stderr.clone());
                assert_eq!(told(&recorded), told(&plain), "{engine} {program}");
            }
            assert_eq!(pack(&test, "mount"), pack(&test, "ptrace"), "{program}");
            compare_absences(&missed(&test, "ptrace"), &missed(&test, "mount"), script);
            let (by_ptrace, by_mount) = (left(&test, "ptrace", script), left(&test, "mount", script));
            assert_eq!(by_mount.0.code(), plain.code(), "{program}");
            assert!(by_mount.1 <= by_ptrace.1, "{script}: {} of {} left", by_mount.1, by_ptrace.1);
        }
    }
}

/// The mount sees where the kernel's walk ended, ptrace the whole name: below an absent directory, one stands for all.
#[track_caller]
fn compare_absences(by_ptrace: &BTreeSet<Vec<u8>>, by_mount: &BTreeSet<Vec<u8>>, script: &str) {
    let text = |path: &Vec<u8>| String::from_utf8_lossy(path).into_owned();
    let unseen: Vec<_> =
        by_ptrace.iter().filter(|path| !by_mount.iter().any(|end| is_below(path, end))).map(text).collect();
    assert_eq!(unseen, [""; 0], "{script}: seen by ptrace alone");
    let invented: Vec<_> =
        by_mount.iter().filter(|end| !by_ptrace.iter().any(|path| is_below(path, end))).map(text).collect();
    assert_eq!(invented, [""; 0], "{script}: seen by the mount alone");
}

#[test]
fn privileged_changes_below_the_mount_are_the_programs_own() {
    const CHANGES: &str = r"
        cd work; mkdir -p a/b; for i in 1 2 3; do echo $i > a/b/f$i; done; mv a/b a/c; ln -s c a/l; cat a/l/f1
        cp -r a z; rm -r a; chmod 600 z/c/f1; stat -c %a z/c/f1; truncate -s 5 z/c/f2; stat -c %s z/c/f2
        echo x >> z/c/f3; cat z/c/f3; ln z/c/f3 z/h; stat -c %h z/h; touch -d 2001-01-01 z/h; stat -c %y z/h
        (umask 077; mkdir z/p; touch z/p/q); stat -c %a z/p z/p/q; mkfifo z/pipe; (echo through > z/pipe &) ; cat z/pipe
        rmdir z; echo > absent/x; mkdir z; cat z; ls -R z; tar cf t.tar z; tar tf t.tar | sort
        flock -n z/h flock -n z/h true; echo $?; flock z/h true; echo $?; ls -la missing; exec 3< z/h; rm z/h; cat <&3";
    const DATA: &str = "import sqlite3, mmap, os, fcntl, tempfile, subprocess\n\
        os.chdir('work')\nc = sqlite3.connect('d.db'); c.execute('create table t(x)')\n\
        c.executemany('insert into t values(?)', [(i,) for i in range(1000)]); c.commit()\n\
        print(c.execute('select sum(x) from t').fetchone()); c.close()\n\
        f = open('m', 'w+b'); f.write(b'0' * 8192); f.flush(); m = mmap.mmap(f.fileno(), 8192)\n\
        m[4096:4100] = b'abcd'; m.flush(); m.close(); f.seek(4096); print(f.read(4))\n\
        t = tempfile.TemporaryFile(dir='.'); t.write(b'q'); t.seek(0); print(t.read())\n\
        a = open('ap', 'ab', 0); b = open('ap', 'ab', 0); a.write(b'A'); b.write(b'B'); a.write(b'C'); print(open('ap').read())\n\
        def appending(name):\n    f = os.open(name, os.O_RDWR | os.O_CREAT | os.O_APPEND); os.write(f, b'0123456789'); return f\n\
        f = appending('mapped'); m = mmap.mmap(f, 10); m[:1] = b'X'; m.flush(); m.close(); os.close(f); print(open('mapped').read())\n\
        f = appending('set'); fcntl.fcntl(f, fcntl.F_SETFL, 0); os.pwrite(f, b'YY', 3); fcntl.fcntl(f, fcntl.F_SETFL, os.O_APPEND)\n\
        os.pwrite(f, b'ZZ', 3); os.close(f); print(open('set').read())\n\
        k = open('kept', 'w'); print(subprocess.run(['ls', 'kept'], close_fds=False).returncode)\n\
        c = os.open('changed', os.O_RDWR | os.O_CREAT); os.fchmod(c, 0); fcntl.lockf(c, fcntl.LOCK_EX); os.close(os.dup(c))\n\
        fcntl.lockf(c, fcntl.LOCK_SH)\n\
        l = os.open('lk', os.O_RDWR | os.O_CREAT); fcntl.lockf(l, fcntl.LOCK_EX)\n\
        p = os.fork()\nif p == 0:\n    try: fcntl.lockf(os.open('lk', os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)\n    \
        except OSError as e: os._exit(e.errno)\n    os._exit(0)\nprint(os.waitpid(p, 0)[1] >> 8)\nos.rename('m', 'n'); print(sorted(os.listdir()))\n";
    let (Some(root), Some(user)) = (Test::privileged(ALL), Test::of_ordinary_user(ALL)) else { return };
    for test in [root, user] {
        let fresh = || test.script("rm -rf work; mkdir work").succeeds();
        for words in [["sh", "-c", CHANGES], ["python3", "-c", DATA]] {
            fresh();
            let plain = test.run(&words);
            let files = test.files();
            fresh();
            let recording =
                ["-q", "record", "-f", "--engine", "mount", "-o", "t.qtrace", "--root", "work", "--"];
            let recorded = test.quell(&recording.into_iter().chain(words).collect::<Vec<_>>());
            assert_eq!(recorded, plain);
            let found: Vec<_> =
                test.files().into_iter().filter(|name| !name.starts_with("t.qtrace")).collect();
            assert_eq!(
                found,
                files.into_iter().filter(|name| !name.starts_with("t.qtrace")).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn privileged_the_mount_takes_the_place_of_a_barred_ptrace() {
    let Some(test) = Test::privileged(ALL) else { return };
    crate::harness::program(&test, "barred", &[]);
    test.plant();
    let barred = |words: &[&str]| {
        let words: Vec<_> = ["./barred", "ptrace"].into_iter().chain(with_quell(words)).collect();
        test.run(&words)
    };
    snapshot!(barred(&["record", "--root", "env", "--", "env/bin/app"]), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: warning: recorded through a mount, which sees less than ptrace does: a seccomp filter, as of a container, forbids `ptrace`
    quell: recorded [N] calls in `app.qtrace`; next: quell report app.qtrace
    ");
    let report = test.quell(&["report", "--json", "app.qtrace"]).succeeds();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["recorder"]["engine"], "mount");
    snapshot!(barred(&["record", "-f", "--engine", "ptrace", "--", "env/bin/app"]), @"
    status 125
    --- stderr
    quell: error: cannot trace the command: a seccomp filter, as of a container, forbids `ptrace`: EPERM (operation not permitted)
    hint: `--engine mount` needs no ptrace; `quell doctor` says what it needs instead
    ");
    snapshot!(test.quell(&["record", "-f", "--engine", "mount", "--root", "env", "--", "env/bin/app"]), @"
    status 0
    --- stdout
    [OUTPUT OF APP]
    --- stderr
    quell: recorded [N] calls in `app.qtrace`; next: quell report app.qtrace
    ");
    snapshot!(test.quell(&["record", "-f", "--engine", "mount", "--root", "env/none", "--", "env/bin/app"]), @"
    status 125
    --- stderr
    quell: error: cannot record through a mount: `env/none` is no directory
    hint: `--root DIR` names a directory other than `/`, `/proc`, `/sys` and `/dev`
    ");
}

#[test]
fn privileged_a_job_that_was_stopped_is_interrupted_as_ever() {
    let Some(test) = Test::privileged(ALL) else { return };
    // A program without children: a shell that is stopped inside vfork(2) never stops, with quell or without.
    test.write_mode(
        "answer",
        "#!/usr/bin/perl\n$SIG{INT} = sub { exit 5 };\nopen my $file, '>', 'began';\nsleep 1 while 1;\n",
        0o755,
    );
    for engine in ["ptrace", "mount"] {
        test.write(
            "job",
            format!(
                "set -m; rm -f began; $quell -q record -f --engine {engine} --root /usr -o t.qtrace ./answer &\n\
                 until test -e began; do sleep 0.02; done; kill -TSTP %1; until jobs | grep Stopped; do sleep 0.02; done\n\
                 bg; kill -INT %1; wait %1; echo status $?\n"
            ),
        );
        // With a terminal, as a job has one.
        let said = test.script("script -qec 'bash job' /dev/null").succeeds();
        assert!(said.contains("status 5"), "{engine}: {said}");
    }
}

#[test]
fn privileged_a_late_signal_leaves_the_status_of_the_command() {
    let Some(test) = Test::privileged(ALL) else { return };
    // The recorder looks for up to 200 ms whether the command got the first signal too. The second comes meanwhile. On a
    // busy machine the command outlives that time and gets its signals forwarded, so it ignores them.
    test.write_mode(
        "last",
        "#!/bin/bash\ntrap '' USR1 INT; kill -USR1 $PPID; sleep 0.05; kill -INT $PPID; exit 5\n",
        0o755,
    );
    for engine in ["ptrace", "mount"] {
        let output =
            test.quell(&["record", "-f", "--engine", engine, "--root", "/usr", "-o", "t.qtrace", "./last"]);
        assert!(output.to_string().starts_with("status 5\n"), "{engine}: {output}");
    }
}
