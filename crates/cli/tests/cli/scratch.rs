//! `run --scratch`: programs find what they find plain, nothing of it reaches the real directory, and nothing is left.

use std::collections::BTreeSet;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use crate::harness::{FILTERS, Need, Test, kill, next_line, send, session, snapshot};
use crate::processes::named;

pub(crate) const FUSE: &[Need] = &[Need::Fuse];

/// Root and an ordinary user.
pub(crate) fn both(needs: &[Need]) -> Option<[Test; 2]> {
    Some([Test::privileged(needs)?, Test::of_ordinary_user(needs)?])
}

fn servers(test: &Test) -> Vec<i32> {
    named(test.processes(), "quell-scratch")
}

/// A directory `tmp` with a file and a directory.
pub(crate) fn plant(test: &Test) {
    test.write("tmp/old", "old\n");
    test.write("tmp/sub/deep", "deep\n");
    test.give("tmp/sub");
}

/// A shell script in `tmp`: what is made, changed, moved and removed.
const CHANGES: &str = "cd tmp; echo new > new; echo more >> old; mkdir -p made/a; mv sub made/; ln new made/hard; \
                       ln -s new link; mkfifo pipe; chmod 640 new; touch -d 2001-01-01 made/dated; rm -f gone; rmdir empty; \
                       mv swap.b swap.c; cat old made/sub/deep link";

/// The tree below `directory`, with everything that a copy must have.
fn tree(test: &Test, directory: &str) -> String {
    let script = "cd \"$1\" && find . -printf '%P %y %m %n %l %s\\n' | sed -E '/ d /s/ [0-9]+ +[0-9]+$//' | sort && \
                  find . -type f | sort | xargs -r cat && stat -c %y made/dated old 2>/dev/null | head -1";
    test.run(&["sh", "-c", script, "sh", directory]).stdout
}

#[test]
fn privileged_real_programs_work_as_in_the_plain_directory() {
    let Some(tests) = both(&[Need::Fuse, Need::Program("gcc"), Need::Program("sqlite3")]) else { return };
    for test in tests {
        test.write("tree/a/b", "b\n");
        test.script("head -c 3000000 /dev/urandom > tree/random; ln -s a tree/link; tar cf tree.tar tree")
            .succeeds();
        test.write("main.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n");
        test.write(
            "temporary.py",
            "import os, tempfile, shutil, mmap\n\
             for i in range(50):\n\
             \x20   with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryFile() as g, tempfile.TemporaryDirectory() as d:\n\
             \x20       f.write(b'x' * i); f.flush(); g.write(b'y'); g.seek(0)\n\
             \x20       shutil.copy(f.name, d); assert os.path.getsize(os.path.join(d, os.path.basename(f.name))) == i\n\
             with open(os.environ['TMPDIR'] + '/map', 'w+b') as f:\n\
             \x20   f.truncate(10000); m = mmap.mmap(f.fileno(), 10000); m[5000:5003] = b'abc'; m.flush()\n\
             \x20   f.seek(5000); print(f.read(4), sorted(os.listdir(os.environ['TMPDIR'])))\n",
        );
        let database = "create table t(a); begin; insert into t select value from generate_series(1, 2000); commit; \
                        create index i on t(a); pragma journal_mode=wal; insert into t values(0); select sum(a), count(*) from t;";
        test.write("database", database);
        for (program, directory) in [
            (
                "tar xf tree.tar -C $TMPDIR; cd $TMPDIR; find tree -printf '%p %m %s %l\\n' | sort; md5sum tree/random",
                "x",
            ),
            ("gcc -save-temps=obj -o $TMPDIR/main main.c && $TMPDIR/main; ls $TMPDIR", "y"),
            ("python3 temporary.py", "z"),
            ("sqlite3 $TMPDIR/db < database; sqlite3 $TMPDIR/db 'pragma integrity_check'", "w"),
        ] {
            let script = format!("export TMPDIR=$PWD/{directory}; {program}");
            let run = |quell: &str| {
                test.script(&format!("mkdir {directory}")).succeeds();
                let outcome = test.script(&format!("{quell} sh -c '{}'", script.replace('\'', "'\\''")));
                let left = test.script(&format!("ls -A {directory}; rm -r {directory}")).stdout;
                (outcome, left)
            };
            let (plain, _) = run("");
            let (ours, left) = run(&format!("$quell -q run --scratch {directory} --"));
            assert_eq!(ours, plain, "{program}");
            assert_eq!(left, "", "{program}");
            let (spilled, left) = run(&format!("$quell -q run --scratch {directory} --scratch-memory 0 --"));
            assert_eq!((spilled, left), (plain, String::new()), "{program}, with no memory");
        }
    }
}

#[test]
fn privileged_a_loop_of_temporary_files_asks_the_real_directory_nothing() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Ptrace, Need::Program("strace")]) else { return };
    test.write(
        "loop.py",
        "import os, sys\n\
         for i in range(int(sys.argv[1])):\n\
         \x20   name = f'tmp/{os.getpid()}-{i}'\n\
         \x20   with open(name, 'w') as f: f.write(str(i))\n\
         \x20   with open(name) as f: assert f.read() == str(i)\n\
         \x20   os.remove(name)\n",
    );
    plant(&test);
    // The server reaches the real directory by its descriptor alone.
    let by_descriptor = format!("<{}>, \"", test.text("tmp"));
    let asked = |count: &str| {
        let traced = ["strace", "-f", "-y", "-qq", "-e", "trace=file,desc", "-o", "traced"];
        let run =
            [*crate::harness::QUELL, "-q", "run", "--scratch", "tmp", "--", "python3", "loop.py", count];
        test.run(&[&traced[..], &run].concat()).succeeds();
        let lines = test.read_text("traced");
        let server = lines.lines().filter(|line| {
            line.contains(&by_descriptor) || line.contains("getdents64(") && line.contains("/tmp>")
        });
        server
            .map(|line| line.split_once(' ').unwrap().1.trim().split('(').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let (few, many) = (asked("3"), asked("812"));
    assert_eq!(few.len(), many.len(), "{few:?} {many:?}");
    assert!(many.len() < 12, "{many:?}");
}

#[test]
fn privileged_what_lay_there_is_read_and_stays() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        test.script("mkdir tmp/empty; echo gone > tmp/gone; echo swapped > tmp/swap.b; cp -a tmp plain")
            .succeeds();
        let before = tree(&test, "tmp");
        let ours = test.quell(&["run", "--scratch", "tmp", "--", "sh", "-c", CHANGES]);
        insta::allow_duplicates!(snapshot!(ours, @"
        status 0
        --- stdout
        old
        more
        deep
        new
        --- stderr
        quell: `[DIR]/tmp`: 5 files made, 6 files of [SIZE] discarded
        quell: warning: changes of 1 file and the removal of 4 names in `[DIR]/tmp` are discarded: what lay there is as before
        hint: `--keep` puts new and changed files to the directory
        "));
        assert_eq!(tree(&test, "tmp"), before);
        // The same, kept, is what the program leaves without quell.
        let plain = test.run(&["sh", "-c", &CHANGES.replace("cd tmp", "cd plain")]);
        for memory in ["1G", "0"] {
            test.script(
                "rm -rf tmp; mkdir -p tmp/sub tmp/empty; echo old > tmp/old; echo deep > tmp/sub/deep; \
                         echo gone > tmp/gone; echo swapped > tmp/swap.b",
            )
            .succeeds();
            let kept = test.quell(&[
                "-q",
                "run",
                "--scratch",
                "tmp",
                "--scratch-memory",
                memory,
                "--keep",
                "--",
                "sh",
                "-c",
                CHANGES,
            ]);
            assert_eq!((kept.code(), &kept.stdout), (0, &plain.stdout));
            // What was removed or renamed stays besides.
            let stayed = "set -e; cd tmp; cat gone swap.b sub/deep; rm gone swap.b sub/deep; rmdir empty sub";
            assert_eq!(test.script(stayed).succeeds(), "gone\nswapped\ndeep\n");
            assert_eq!(tree(&test, "tmp"), tree(&test, "plain"), "{memory}");
        }
    }
}

#[test]
fn privileged_ranks_of_a_node_share_one_scratch() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        let rank = |number: u32| {
            format!(
                "OMPI_COMM_WORLD_RANK={number} OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK={number} \
                 OMPI_COMM_WORLD_LOCAL_SIZE=3 PMIX_NAMESPACE=7 $quell run --scratch tmp -- sh -c 'echo {number} > tmp/{number}; \
                 until [ -e tmp/0 ] && [ -e tmp/1 ] && [ -e tmp/2 ]; do sleep 0.01; done; echo done > tmp/done-{number}; \
                 until [ -e tmp/done-0 ] && [ -e tmp/done-1 ] && [ -e tmp/done-2 ]; do sleep 0.01; done; cat tmp/[0-2]' & "
            )
        };
        let script: String = (0..3).map(rank).chain(["wait".to_owned()]).collect();
        let outcome = test.script(&format!("({script}) | sort"));
        insta::allow_duplicates!(snapshot!(outcome, @"
        status 0
        --- stdout
        0
        0
        0
        1
        1
        1
        2
        2
        2
        --- stderr
        quell: `[DIR]/tmp`: 6 files made, 6 files of [SIZE] discarded
        "));
        test.silence();
        assert_eq!(test.script("find tmp | sort").stdout, "tmp\ntmp/old\ntmp/sub\ntmp/sub/deep\n");
        // A later run has a scratch of its own.
        let later = test.quell(&["run", "--scratch", "tmp", "--", "ls", "tmp"]);
        assert_eq!((later.stdout.as_str(), later.stderr.as_str()), ("old\nsub\n", ""));
    }
}

#[test]
fn privileged_a_full_memory_spills_and_a_full_disk_fails_as_plain() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.write(
        "job",
        "head -c 300000 /dev/zero | tr '\\0' a > tmp/one; head -c 300000 /dev/zero | tr '\\0' b > tmp/two\n\
         md5sum tmp/one tmp/two; ls -A tmp\n",
    );
    test.script("mkdir tmp local").succeeds();
    let plain = test.script("sh job; rm tmp/*");
    let spilled = test.script(
        "$quell run --scratch tmp --scratch-memory 400k -- sh -c '. ./job; ls -A tmp >&2'; ls -A tmp",
    );
    assert_eq!(spilled.stdout, plain.stdout);
    insta::with_settings!({ filters => FILTERS.to_vec() }, {
        insta::assert_snapshot!(spilled.stderr, @"
        one
        two
        quell: `[DIR]/tmp`: 2 files made, 2 files of [SIZE] discarded; 1 file spilled to `[DIR]/tmp`
        ");
    });
    // A small disk of the node, then the real directory, which is small too.
    let script = "mount -t tmpfs -o size=200k scratch local; mount -t tmpfs -o size=800k scratch tmp; \
                  $quell run --scratch tmp --scratch-memory 0 --scratch-disk local -- sh job; echo $?; ls -A local tmp; \
                  $quell -q run --scratch tmp --scratch-memory 0 -- sh -c 'head -c 1000000 /dev/zero > tmp/three; stat -c %s tmp/three'; \
                  head -c 1000000 /dev/zero > tmp/four; stat -c %s tmp/four";
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", script]);
    command.env("quell", *crate::harness::QUELL);
    let full = test.finish(command);
    assert!(full.stdout.starts_with(&format!("{}0\nlocal:\n\ntmp:\n", plain.stdout)), "{full}");
    assert_eq!(full.stderr.matches("No space left on device").count(), 2, "{full}");
    assert!(
        full.stderr.contains("2 files spilled to `[DIR]/local`; 2 files spilled to `[DIR]/tmp`"),
        "{full}"
    );
}

/// A command under `run --scratch` that has written two files, of which one is spilled, and waits.
fn waiting(test: &Test) -> Child {
    let job = "echo small > tmp/small; head -c 200000 /dev/zero > tmp/large; echo ready; read -r line; cat tmp/small";
    let script = format!("exec $quell run --scratch tmp --scratch-memory 64k -- sh -c '{job}'");
    let mut child = test
        .shell(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(next_line(&mut child), "ready");
    child
}

#[test]
fn privileged_nothing_is_left_whatever_is_killed() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        let names =
            || test.files().into_iter().filter(|name| name.starts_with("tmp")).collect::<BTreeSet<_>>();
        let before = names();
        let mut child = waiting(&test);
        assert_ne!(names(), before);
        kill(child.id().cast_signed());
        child.wait().unwrap();
        test.silence();
        assert_eq!(names(), before, "after the run was killed");
        let mut child = waiting(&test);
        let server = servers(&test);
        assert_eq!(server.len(), 1);
        kill(server[0]);
        drop(child.stdin.take());
        let outcome = test.wait(child);
        assert!(
            outcome
                .stderr
                .contains("the server of the scratch directories was killed: what they held is lost"),
            "{outcome}"
        );
        // The next run removes what lies on a disk.
        assert_ne!(names(), before);
        assert_eq!(
            test.quell(&["run", "--scratch", "tmp", "--", "ls", "-A", "tmp"]).succeeds(),
            "old\nsub\n"
        );
        test.silence();
        assert_eq!(names(), before, "after the next run");
        // Signals by which jobs are ended reach the server too.
        let mut child = waiting(&test);
        // The end of its input would end the command, too.
        let input = child.stdin.take();
        send(servers(&test)[0], Signal::TERM);
        send(child.id().cast_signed(), Signal::TERM);
        assert_eq!(test.wait(child).code(), 143);
        drop(input);
        test.silence();
        assert_eq!(names(), before, "after SIGTERM");
    }
}

#[test]
fn privileged_wrong_directories_are_named_and_odd_ones_work() {
    let Some(test) = Test::privileged(FUSE) else { return };
    plant(&test);
    test.script("ln -s tmp link; ln -s nowhere dangling").succeeds();
    session!(|line| test.script(line), @"
    $ quell run --scratch absent -- true => 125
    quell: error: `--scratch absent`: ENOENT (no such file or directory)
    hint: mkdir -p absent
    $ quell run --scratch dangling -- true => 125
    quell: error: `--scratch dangling`: ENOENT (no such file or directory)
    hint: `--scratch DIR` takes a directory that you may look into
    $ quell run --scratch tmp/old -- true => 125
    quell: error: `--scratch tmp/old`: not a directory
    $ quell run --scratch /proc -- true => 125
    quell: error: `--scratch /proc`: `/proc` holds no files of programs
    hint: `--scratch DIR` takes a directory that programs write to
    $ quell run --scratch / -- true => 125
    quell: error: `--scratch /` would cover the whole system
    hint: name the directory of temporary files
    $ quell run --scratch tmp --scratch-disk tmp/sub -- true => 125
    quell: error: `--scratch-disk [DIR]/tmp/sub` lies in a scratch directory
    hint: name a directory of a disk of the node
    $ quell run --scratch tmp --scratch-disk absent -- true => 125
    quell: error: `--scratch-disk absent`: ENOENT (no such file or directory)
    hint: mkdir -p absent
    $ quell run --keep -- true => 125
    error: the following required arguments were not provided:
      --scratch <DIR[/PATTERN]>

    Usage: quell run [OPTIONS] IMG -- CMD [ARG]...
           quell run [OPTIONS] --auto -- CMD [ARG]...
           quell run [OPTIONS] --output FILE -- CMD [ARG]...
           quell run [OPTIONS] --scratch DIR -- CMD [ARG]...
           quell run [OPTIONS] --gather DIR -- CMD [ARG]...
           quell run [OPTIONS] --buffer DIR -- CMD [ARG]...

    For more information, try '--help'.
    $ quell run --scratch link -- sh -c 'echo x > tmp/x; ls link'
    --- stdout
    old
    sub
    x
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] discarded
    $ cd tmp/sub; quell run --scratch .. -- sh -c 'echo x > ../x; ls .. .'
    --- stdout
    .:
    deep

    ..:
    old
    sub
    x
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] discarded
    $ quell run --scratch tmp/sub --scratch tmp --scratch ./tmp -- sh -c 'echo x > tmp/sub/x; mv tmp/sub/x tmp; ls tmp'
    --- stdout
    old
    sub
    x
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] discarded
    $ QUELL_DISABLE=1 quell run --scratch absent -- echo plain
    --- stdout
    plain
    $ ls -A tmp
    --- stdout
    old
    sub
    ");
}

#[test]
fn privileged_mounts_below_a_scratch_directory_stay() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    plant(&test);
    let script = "mkdir tmp/mounted tmp/sub/inner; mount -t tmpfs mounted tmp/mounted; mount -t tmpfs inner tmp/sub/inner; echo in > tmp/mounted/file; \
                  $quell run --scratch tmp -- sh -c 'cat tmp/mounted/file; echo there > tmp/mounted/new; echo there > tmp/sub/inner/new; echo here > tmp/sub/new'; \
                  find tmp -type f | sort";
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", script]);
    command.env("quell", *crate::harness::QUELL);
    snapshot!(test.finish(command), @"
    status 0
    --- stdout
    in
    tmp/mounted/file
    tmp/mounted/new
    tmp/old
    tmp/sub/deep
    tmp/sub/inner/new
    --- stderr
    quell: `[DIR]/tmp`: 1 file made, 1 file of [SIZE] discarded
    ");
}

#[test]
fn privileged_a_scratch_directory_below_a_packed_one_is_scratch() {
    let Some(tests) = Test::packed(FUSE) else { return };
    for test in tests {
        let script = "cat env/lib/a.txt; echo new > env/aside/new; cat env/aside/deep/data env/aside/new; ls env/aside";
        let outcome = test.quell(&["run", "--scratch", "env/aside", "app.qimg", "--", "sh", "-c", script]);
        insta::allow_duplicates!(snapshot!(outcome, @"
        status 0
        --- stdout
        alpha
        data
        new
        deep
        new
        --- stderr
        quell: `[DIR]/env/aside`: 1 file made, 1 file of [SIZE] discarded
        "));
        assert_eq!(test.script("ls env/aside").stdout, "deep\n");
    }
}

#[test]
fn privileged_where_nothing_can_be_mounted_the_command_runs_plain() {
    let Some(test) = Test::of_ordinary_user(&[Need::Fuse]) else { return };
    plant(&test);
    let barred = |more: &str| {
        let script = format!(
            "mknod -m 600 fuse c 10 229; mount --bind fuse /dev/fuse; rm fuse; exec setpriv --reuid 65534 --regid 65534 --clear-groups -- $quell run {more} --scratch tmp -- sh -c 'echo x > tmp/new; ls tmp'"
        );
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &script])
            .current_dir(test.path(""))
            .env("HOME", "/proc/nonexistent")
            .env("quell", *crate::harness::QUELL);
        test.finish(command)
    };
    snapshot!(barred(""), @"
    status 0
    --- stdout
    new
    old
    sub
    --- stderr
    quell: warning: `--scratch` is not used and files go to the real directory: cannot open `/dev/fuse`: EACCES (permission denied)
    hint: look at the mode of `/dev/fuse` (0666 is usual)
    ");
    snapshot!(barred("--require"), @"
    status 125
    --- stderr
    quell: error: cannot open `/dev/fuse`: EACCES (permission denied)
    hint: look at the mode of `/dev/fuse` (0666 is usual)
    ");
}

/// A script as root in a mount namespace of its own.
pub(crate) fn in_own_mounts(test: &Test, script: &str) -> crate::harness::Outcome {
    let mut command = test.command(&["unshare", "--mount", "sh", "-c", script]);
    command.env("quell", *crate::harness::QUELL);
    test.finish(command)
}

#[test]
fn privileged_a_store_that_was_full_is_tried_again() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.script("mkdir tmp").succeeds();
    let job = "echo x > tmp/a; echo $?; touch full; until [ -e room ]; do sleep 0.01; done; echo y > tmp/b; cat tmp/b";
    let script = format!(
        "mount -t tmpfs -o nr_inodes=4 small tmp; touch tmp/1 tmp/2 tmp/3; \
         {{ until [ -e full ]; do sleep 0.01; done; rm tmp/1 tmp/2 tmp/3; touch room; }} & \
         $quell -q run --scratch tmp --scratch-memory 0 -- sh -c '{job}' 2>/dev/null; wait"
    );
    assert_eq!(in_own_mounts(&test, &script).stdout, "1\ny\n");
}

// Odd files, and limits that are met.

#[test]
fn privileged_files_of_two_devices_with_one_number_stay_two() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    let script = "mkdir one two tmp; mount -t tmpfs one one; mount -t tmpfs two two; mkdir one/a two/b; echo 1 > one/a/f; echo 2 > two/b/f; \
                  ln one/a/f one/a/g; [ $(stat -c %i one/a/f) = $(stat -c %i two/b/f) ] || echo unlike; \
                  mount -t overlay -o lowerdir=one:two,xino=off none tmp || exit; \
                  for file in one/a/f two/b/f; do [ $(stat -c %i $file) = $(stat -c %i tmp/${file#*/}) ] || echo unlike; done; \
                  $quell -q run --scratch tmp -- sh -c 'cat tmp/a/f tmp/b/f; stat -c %h tmp/a/f tmp/b/f; \
                  [ $(stat -c %i tmp/a/f) = $(stat -c %i tmp/a/g) ] && [ $(stat -c %i tmp/a/f) != $(stat -c %i tmp/b/f) ] && echo distinct; \
                  echo more >> tmp/a/f; cat tmp/a/g tmp/b/f'";
    snapshot!(in_own_mounts(&test, script), @"
    status 0
    --- stdout
    1
    2
    2
    1
    distinct
    1
    more
    2
    --- stderr
    quell: warning: changes of 2 files in `[DIR]/tmp` are discarded: what lay there is as before
    hint: `--keep` puts new and changed files to the directory
    ");
}

#[test]
fn privileged_holes_are_punched_without_their_size_in_memory() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.write(
        "job",
        "cd tmp; echo x > huge; truncate -s 4611686018427387904 huge; fallocate -p -o 0 -l 4611686018427387904 huge; echo $?; stat -c %s huge\n\
         head -c 300000 /dev/zero | tr '\\0' a > data; fallocate -p -o 1000 -l 200000 data; md5sum data\n\
         fallocate -l 400000 data; fallocate -n -o 400000 -l 70000 data; md5sum data; stat -c %s data\n\
         fallocate -p -o 290000 -l 900000 data; md5sum data\n",
    );
    let script = "mkdir tmp; mount -t tmpfs -o size=40m tmp tmp; (. ./job); rm tmp/*; for memory in 1G 0 200k; do \
                  echo; $quell -q run --scratch tmp --scratch-memory $memory -- sh ./job; done";
    let outcome = in_own_mounts(&test, script).succeeds();
    let mut outcomes = outcome.split("\n\n");
    let plain = outcomes.next().unwrap();
    assert!(plain.starts_with("0\n4611686018427387904\n"), "{outcome}");
    assert_eq!(outcomes.map(str::trim_end).collect::<Vec<_>>(), [plain; 3], "{outcome}");
}

#[test]
fn privileged_a_limit_of_memory_spills_and_kills_nothing() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        test.give("tmp");
        let script = "ulimit -v 250000; $quell run --scratch tmp --scratch-memory 2G -- sh -c \
                      'head -c 300000000 /dev/zero > tmp/large; head -c 100000 tmp/large | md5sum; stat -c %s tmp/large'";
        let outcome = test.script(script);
        assert!(outcome.stdout.ends_with("\n300000000\n"), "{outcome}");
        assert!(outcome.stderr.contains("1 file spilled to"), "{outcome}");
    }
}

#[test]
fn privileged_names_for_which_there_is_no_memory_are_refused_and_kill_nothing() {
    let Some(test) = Test::privileged(FUSE) else { return };
    plant(&test);
    test.write(
        "names.py",
        "import errno, os\n\
         made = 0\n\
         try:\n\
         \x20   while True:\n\
         \x20       os.mkdir(f'tmp/sub/{made}')\n\
         \x20       made += 1\n\
         except OSError as error:\n\
         \x20   print(made > 1000, errno.errorcode[error.errno], len(os.listdir('tmp/sub')) - made)\n\
         for number in range(made):\n\
         \x20   os.rmdir(f'tmp/sub/{number}')\n\
         os.mkdir('tmp/new')\n\
         print(os.listdir('tmp/sub'), open('tmp/old').read())\n",
    );
    let outcome =
        test.script("ulimit -v 120000; $quell run --require --scratch tmp -- python3 names.py; ls -R tmp");
    snapshot!(outcome, @"
    status 0
    --- stdout
    True ENOMEM 1
    ['deep'] old

    tmp:
    old
    sub

    tmp/sub:
    deep
    ");
}

#[test]
fn privileged_a_file_stays_in_memory_where_its_directory_may_not_be_written_to() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.script("mkdir tmp; head -c 300000 /dev/zero > tmp/file; chmod 555 tmp").succeeds();
    let outcome = test.script(
        "$quell -q run --scratch tmp --scratch-memory 0 -- sh -c 'echo x >> tmp/file; stat -c %s tmp/file'; chmod 755 tmp",
    );
    assert_eq!(outcome.succeeds(), "300002\n");
}
#[test]
fn privileged_a_file_that_is_emptied_is_not_copied() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    let script = "mkdir tmp; mount -t tmpfs -o size=64m tmp tmp; head -c 40000000 /dev/zero > tmp/large; ln tmp/large tmp/other; \
                  $quell -q run --scratch tmp --scratch-memory 1M -- sh -c ': > tmp/large && stat -c \"%s %h\" tmp/large tmp/other; \
                  echo new > tmp/large; cat tmp/other'; stat -c %s tmp/large; \
                  $quell -q run --scratch tmp --scratch-memory 1M -- sh -c 'truncate -s 3 tmp/large && od -An -tx1 tmp/other; \
                  truncate -s 5 tmp/large; od -An -tx1 tmp/other'";
    snapshot!(in_own_mounts(&test, script), @"
    status 0
    --- stdout
    0 2
    0 2
    new
    40000000
     00 00 00
     00 00 00 00 00
    --- stderr
    quell: warning: changes of 2 files in `[DIR]/tmp` are discarded: what lay there is as before
    hint: `--keep` puts new and changed files to the directory
    quell: warning: changes of 2 files in `[DIR]/tmp` are discarded: what lay there is as before
    hint: `--keep` puts new and changed files to the directory
    ");
}

#[test]
fn privileged_attributes_of_a_large_file_change_without_room_for_it() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    let job = "chmod 640 tmp/large && touch -d 2001-01-01 tmp/large && ln tmp/large tmp/other && setfattr -n user.a -v b tmp/large && \
               stat -c '%a %h %s %y' tmp/large && getfattr --only-values -n user.a tmp/other && md5sum tmp/other && ls tmp; \
               mv tmp/large tmp/moved && chmod 600 tmp/moved && md5sum tmp/moved";
    let script = format!(
        "mkdir tmp; mount -t tmpfs -o size=64m tmp tmp; head -c 40000000 /dev/zero > tmp/large; \
         $quell -q run --scratch tmp --scratch-memory 1M -- sh -c \"{job}\" 2>&-; stat -c '%a %h %s' tmp/*; {job}"
    );
    let outcome = in_own_mounts(&test, &script).succeeds();
    let (scratch, plain) = outcome.split_once("644 1 40000000\n").unwrap();
    assert_eq!(scratch, plain);
}

#[test]
fn privileged_a_file_that_its_owner_may_not_read_changes_as_plain() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    let job = "chmod 644 barred; stat -c %a barred; : > writable && stat -c '%a %s' writable; echo new > writable; touch -d 2001-01-01 writable; \
               ln writable other; stat -c '%h %s %y' writable; mv dated moved; touch -d 2001-01-01 moved; stat -c %y moved";
    let script = format!(
        "for name in plain tmp; do mkdir $name; cd $name; for file in barred writable dated; do echo old > $file; chmod 200 $file; done; \
         chmod 0 barred; cd ..; done; cd tmp; $quell -q run --scratch . -- sh -c \"{job}\"; cd ../plain; echo; {job}"
    );
    let outcome = test.script(&script);
    let (scratch, plain) = outcome.stdout.split_once("\n\n").unwrap();
    assert_eq!(format!("{scratch}\n"), plain, "{outcome}");
}

#[test]
fn privileged_processes_share_the_descriptors_of_the_server() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.write(
            "opens.py",
            "import os, sys\n\
             old = [open(f'tmp/old/{i}') for i in [*range(150), 'of-' + sys.argv[1]]]\n\
             os.remove('tmp/old/of-' + sys.argv[1])\n\
             for offset in 0, 6:\n\
             \x20   assert [os.pread(f.fileno(), 6, offset).decode() for f in old] == ['content'[offset:offset + 6]] * 151\n\
             for f in old: f.close()\n\
             new = [open(f'tmp/{sys.argv[1]}-{i}', 'w+') for i in range(150)]\n\
             os.remove(f'tmp/{sys.argv[1]}-0')\n\
             for word in 'one', 'two':\n\
             \x20   for f in new: f.write(word); f.flush()\n\
             for f in new: f.seek(0); assert f.read() == 'onetwo'\n\
             print('done')\n",
        );
        test.script(
            "mkdir -p tmp/old; for i in $(seq 0 149) of-1 of-2 of-3; do printf content > tmp/old/$i; done",
        )
        .succeeds();
        let script = "ulimit -n 200; $quell -q run --scratch tmp --scratch-memory 0 -- sh -c \
                      'for i in 1 2 3; do python3 opens.py $i & done; wait'";
        assert_eq!(test.script(script).stdout, "done\ndone\ndone\n");
    }
}

#[test]
fn privileged_extended_attributes_are_counted() {
    let Some(test) = Test::privileged(FUSE) else { return };
    plant(&test);
    test.script("setfattr -n user.old -v value tmp/old tmp/sub").succeeds();
    test.write(
        "job.py",
        "import errno, os\n\
         for round in range(3):\n\
         \x20   made = 0\n\
         \x20   try:\n\
         \x20       while made < 1000:\n\
         \x20           open(f'tmp/{made}', 'w').close()\n\
         \x20           os.setxattr(f'tmp/{made}', 'user.large', b'x' * 60000)\n\
         \x20           made += 1\n\
         \x20   except OSError as error:\n\
         \x20       print(errno.errorcode[error.errno], 10 < made < 20)\n\
         \x20   for path in f'tmp/{made}', 'tmp/old', 'tmp/sub':\n\
         \x20       os.setxattr(path, 'user.small', b'small')\n\
         \x20       print(os.listxattr(path), os.getxattr(path, 'user.small'))\n\
         \x20   os.setxattr('tmp/1', 'user.large', b'less')\n\
         \x20   os.setxattr('tmp/2', 'user.large', b'y' * 60000)\n\
         \x20   os.removexattr('tmp/3', 'user.large')\n\
         \x20   for number in range(made + 1): os.remove(f'tmp/{number}')\n",
    );
    let round = "ENOSPC True\n['user.small'] b'small'\n['user.old', 'user.small'] b'small'\n['user.old', 'user.small'] b'small'\n";
    let outcome =
        test.quell(&["-q", "run", "--scratch", "tmp", "--scratch-memory", "1M", "--", "python3", "job.py"]);
    assert_eq!(outcome.succeeds(), round.repeat(3));
}

#[test]
fn privileged_a_rank_without_a_limit_of_sizes_writes_beyond_the_first_ranks() {
    let Some(test) = Test::privileged(FUSE) else { return };
    plant(&test);
    let job = "head -c 300000 /dev/zero > tmp/limited; stat -c %s tmp/limited; ulimit -f unlimited; head -c 300000 /dev/zero > tmp/large; stat -c %s tmp/large";
    let script = |run: &str| format!("ulimit -S -f 100; {run} sh -c '{job}' 2>&-");
    let outcome = test.script(&script("$quell -q run --scratch tmp --scratch-memory 0 --"));
    assert!(outcome.stdout.ends_with("\n300000\n"), "{outcome}");
    assert_eq!(outcome.stdout, test.script(&script("")).stdout);
}

#[test]
fn privileged_a_pattern_makes_names_scratch_and_leaves_others_in_place() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        plant(&test);
        let script = "cd tmp; echo 1 > a.tmp; echo 2 > b; mkdir d.tmp; echo 3 > d.tmp/x; echo more >> old; cat a.tmp b d.tmp/x old; ls";
        let ours = test.quell(&["-q", "run", "--scratch", "tmp/*.tmp", "--", "sh", "-c", script]);
        assert_eq!(
            (ours.code(), ours.stdout.as_str()),
            (0, "1\n2\n3\nold\nmore\na.tmp\nb\nd.tmp\nold\nsub\n")
        );
        assert_eq!(test.script("cd tmp; ls -A; cat b old").stdout, "b\nold\nsub\n2\nold\nmore\n");
        let kept = test.quell(&["-q", "run", "--scratch", "tmp/*.tmp", "--keep", "--", "sh", "-c", script]);
        assert_eq!(kept.code(), 0, "{kept}");
        assert_eq!(
            test.script("cd tmp; ls -A; cat a.tmp d.tmp/x").stdout,
            "a.tmp\nb\nd.tmp\nold\nsub\n1\n3\n"
        );
    }
}

#[test]
fn privileged_the_ways_out_go_together() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir tmp results out app; echo 'print(\"hello\")' > app/a.py").succeeds();
        test.script("$quell -q record -o t.qtrace -- python3 app/a.py; $quell -q pack t.qtrace -o app.qimg --root app").succeeds();
        let script = "python3 app/a.py; echo t > tmp/t; echo r > results/rank-1; echo s > results/summary; \
                      for i in 1 2 3; do echo $i; done > out/o; cat tmp/t results/* out/o";
        test.write("job", script);
        let ours = test.script("$quell -q run app.qimg --scratch tmp/ --gather 'results/rank-*' --buffer out/ --output job.log -- sh job");
        assert_eq!((ours.code(), ours.stdout.as_str()), (0, ""), "{ours}");
        assert_eq!(test.script("cat job.log").stdout, "hello\nt\nr\ns\n1\n2\n3\n");
        assert_eq!(
            test.script("ls -A tmp out results | sed 's/.*qout/CONTAINER/' | sort").stdout,
            "\n\nCONTAINER\no\nout:\nresults:\nsummary\ntmp:\n"
        );
        test.script("$quell -q gather extract results/*.qout; cat results/rank-1 results/summary; cat out/o")
            .succeeds();
    }
}

#[test]
fn privileged_a_pattern_needs_no_right_to_list_the_directory() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir r; chmod 300 r");
        let script = "echo a > r/1.tmp; echo b > r/other; cat r/1.tmp r/other";
        let ours = test.quell(&["-q", "run", "--require", "--scratch", "r/*.tmp", "--", "sh", "-c", script]);
        assert_eq!((ours.code(), ours.stdout.as_str()), (0, "a\nb\n"), "{ours}");
        assert_eq!(test.script("chmod 700 r; ls -A r").stdout, "other\n");
    }
}
