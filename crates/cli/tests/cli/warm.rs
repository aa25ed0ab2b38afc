//! `quell warm`: the pages and names that are in the client's memory afterwards, by the kernel's own words, and what it leaves alone.

use std::fs::File;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Stdio};

use rustix::fs::{Advice, CWD, FileType, Mode, mknodat};

use crate::harness::{Need, Outcome, QUELL, Test, session};

const PAGE: usize = 4096;

/// Takes a file out of the page cache.
fn evict(test: &Test, name: &str) {
    let file = File::open(test.path(name)).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).unwrap();
    assert_eq!(cached(test, name), 0, "{name}");
}

/// Pages of a file in the page cache, as `fincore` counts them by mmap(2) and mincore(2).
fn cached(test: &Test, name: &str) -> usize {
    let pages = test.run(&["fincore", "--noheadings", "--output", "PAGES", name]).succeeds();
    pages.trim().parse().unwrap()
}

/// Maps one page in the middle of a file and reads the first bytes of another. It ends with its mapping, in which the recorder looks.
const PROGRAM: &str = "import mmap, os\n\
    whole = os.open('data/mapped', os.O_RDONLY)\n\
    memory = mmap.mmap(whole, 0, prot=mmap.PROT_READ)\n\
    memory.madvise(mmap.MADV_RANDOM)\n\
    print(memory[6 << 20])\n\
    print(len(os.pread(os.open('data/read', os.O_RDONLY), 4096, 0)))\n\
    print(os.listdir('data/list'), os.path.exists('data/absent'), os.readlink('data/link'), flush=True)\n\
    os._exit(0)\n";

fn plant(test: &Test) {
    test.write("program.py", PROGRAM);
    test.write("data/mapped", vec![7; 8 << 20]);
    test.write("data/read", vec![8; 1 << 20]);
    test.write("data/list/a", "a");
    symlink("read", test.path("data/link")).unwrap();
    test.give("data/link");
}

fn record(test: &Test) {
    plant(test);
    test.quell(&["-q", "record", "-o", "t.qtrace", "--", "python3", "-IS", "program.py"]).succeeds();
}

const NEEDS: &[Need] = &[Need::Ptrace, Need::Program("python3"), Need::Program("fincore")];

#[test]
fn privileged_the_touched_pages_are_in_memory_and_little_else() {
    for test in [Test::privileged(NEEDS), Test::of_ordinary_user(NEEDS)].into_iter().flatten() {
        record(&test);
        test.quell(&["-q", "pack", "--root", "data", "t.qtrace", "-o", "i.qimg"]).succeeds();
        for subject in ["t.qtrace", "i.qimg"] {
            ["data/mapped", "data/read"].into_iter().for_each(|name| evict(&test, name));
            let said = test.json(&["warm", "--json", subject]);
            // Readahead of the kernel may add some.
            for (name, least, most) in [("data/mapped", 1, 8 << 20), ("data/read", 1, 1 << 20)] {
                let pages = cached(&test, name);
                assert!((least..most / PAGE / 2).contains(&pages), "{subject} {name}: {pages} {said}");
            }
            assert_eq!((&said["missing"], &said["changed"]), (&0.into(), &0.into()), "{subject} {said}");
            assert!(
                said["listings"].as_u64() >= Some(1) && said["links"].as_u64() >= Some(1),
                "{subject} {said}"
            );
        }
    }
}

#[test]
fn privileged_the_touched_page_itself_is_there() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    record(&test);
    evict(&test, "data/mapped");
    test.quell(&["-q", "warm", "t.qtrace"]).succeeds();
    // A read that must not wait gets the page, and none from a part that no program touched.
    let read = "import os, sys\n\
        def there(at):\n\
        \x20try: return os.preadv(f, [bytearray(1)], at, os.RWF_NOWAIT)\n\
        \x20except BlockingIOError: return 0\n\
        f = os.open('data/mapped', os.O_RDONLY)\n\
        print(there(6 << 20), there(1 << 20))";
    assert_eq!(test.run(&["python3", "-IS", "-c", read]).succeeds(), "1 0\n");
}

#[test]
fn privileged_a_directory_is_read_within_the_budget_and_no_pipe_is_opened() {
    let Some(test) = Test::privileged(&[Need::Program("fincore"), Need::Program("strace")]) else { return };
    plant(&test);
    for (name, kind) in [("pipe", FileType::Fifo), ("socket", FileType::Socket)] {
        mknodat(CWD, test.path("data").join(name), kind, Mode::from_raw_mode(0o666), 0).unwrap();
    }
    ["data/mapped", "data/read"].into_iter().for_each(|name| evict(&test, name));
    let said = test.json(&["warm", "--json", "data"]);
    assert_eq!(
        [&said["files"], &said["bytes"], &said["skipped"]].map(|count| count.as_u64().unwrap()),
        [3, (9 << 20) + 1, 0]
    );
    assert_eq!(
        [&said["names"], &said["listings"], &said["links"]].map(|count| count.as_u64().unwrap()),
        [7, 2, 1]
    );
    assert_eq!((cached(&test, "data/mapped"), cached(&test, "data/read")), (2048, 256));
    let limited = test.json(&["warm", "--json", "--budget", "3M", "data"]);
    assert!(limited["bytes"].as_u64() <= Some(3 << 20), "{limited}");
    assert_eq!(
        (&limited["names"], limited["skipped"].as_u64() >= Some(1)),
        (&said["names"], true),
        "{limited}"
    );
    test.run(&["strace", "-f", "-e", "trace=openat", "-o", "log", *QUELL, "-q", "warm", "data"]).succeeds();
    let log = test.read_text("log");
    let opened: Vec<&str> = log.lines().filter(|line| line.contains("data/pipe")).collect();
    assert!(opened.iter().all(|line| line.contains("O_PATH")), "{opened:?}");
    assert!(log.contains("O_NOATIME"), "{log}");
}

#[test]
fn privileged_what_changed_is_left_alone_and_counted() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    record(&test);
    let clean = test.json(&["warm", "--json", "t.qtrace"]);
    std::fs::remove_file(test.path("data/mapped")).unwrap();
    mknodat(CWD, test.path("data/mapped"), FileType::Fifo, Mode::from_raw_mode(0o666), 0).unwrap();
    test.write("data/read", "other");
    test.write("data/absent", "");
    std::fs::remove_file(test.path("data/link")).unwrap();
    let said = test.json(&["warm", "--json", "t.qtrace"]);
    assert_eq!((clean["missing"].as_u64(), clean["changed"].as_u64()), (Some(0), Some(0)), "{clean}");
    assert_eq!((said["missing"].as_u64(), said["changed"].as_u64()), (Some(1), Some(3)), "{said}");
}

#[test]
fn privileged_a_trace_of_another_machine_says_that_nothing_is_here() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    test.write(
        "log",
        "openat(AT_FDCWD, \"/elsewhere/a\", O_RDONLY) = 3\nread(3, \"x\", 9) = 1\nclose(3) = 0\n",
    );
    test.quell(&["-q", "import", "strace", "log", "-o", "t.qtrace"]).succeeds();
    session!(|line| test.script(line), @"
    $ quell warm t.qtrace => 1
    quell: error: `t.qtrace`: nothing of it is on this node: 1 name missing
    hint: it was made where these files are; warm it there
    ");
}

#[test]
fn privileged_a_file_that_may_not_be_read_is_skipped() {
    let Some(test) = Test::of_ordinary_user(&[]) else { return };
    test.write("data/open", "open");
    test.write("data/closed", "closed");
    std::fs::set_permissions(test.path("data/closed"), PermissionsExt::from_mode(0o000)).unwrap();
    let said = test.json(&["warm", "--json", "data"]);
    assert_eq!(
        (&said["names"], &said["files"], &said["skipped"]),
        (&2.into(), &1.into(), &1.into()),
        "{said}"
    );
}

#[test]
fn of_the_ranks_of_a_node_one_reads_and_speaks() {
    let test = Test::new();
    (0..200).for_each(|number| test.write(&format!("data/{number}"), "x"));
    let start = |rank: u32| -> Child {
        let mut command = test.command(&[*QUELL, "warm", "data"]);
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", "6").env("PMI_JOBID", "quell-test-warm");
        command.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    };
    let outcomes: Vec<Outcome> =
        (0..6).map(start).collect::<Vec<_>>().into_iter().map(|rank| test.wait(rank)).collect();
    assert!(outcomes.iter().all(|outcome| outcome.status.success()), "{outcomes:?}");
    let lines: usize = outcomes.iter().map(|outcome| outcome.stderr.lines().count()).sum();
    assert!(lines <= 1, "{outcomes:?}");
}

#[test]
fn privileged_a_command_that_runs_plain_is_read_ahead_of() {
    let Some(test) = Test::of_ordinary_user(&[Need::Fuse, Need::Ptrace, Need::Program("fincore")]) else {
        return;
    };
    // The program ends when a file that it has not read yet is in memory.
    let program = "#!/bin/sh\ncat env/first\n[ -z \"$1\" ] || until [ $(fincore -nbo PAGES env/second) = 256 ]; do \
                   sleep 0.1; done\ncat env/second | wc -c\nps --ppid $$ --no-headers -o comm | grep quell\nexit 0\n";
    test.write_mode("program", program, 0o755);
    test.write("env/first", "first\n");
    test.write("env/second", vec![b'x'; 1 << 20]);
    test.quell(&["-q", "record", "-o", "t.qtrace", "--", "./program"]).succeeds();
    test.quell(&["-q", "pack", "--root", "env", "t.qtrace", "-o", "i.qimg"]).succeeds();
    let run = |flags: &str| {
        evict(&test, "env/second");
        let forbid =
            "echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --inh-caps=-all --ambient-caps=-all";
        let run = format!("{forbid} {QUELL} run {flags} i.qimg -- ./program wait");
        test.run(&["unshare", "--user", "--map-current-user", "--keep-caps", "sh", "-c", &run])
    };
    let said = run("");
    assert_eq!((said.code(), &said.stdout[..]), (0, "first\n1048576\n"), "{said}");
    assert_eq!(said.stderr.matches("its files are read ahead beside it").count(), 1, "{said}");
    // It ends with the command, though it has a pipe to wait for.
    test.silence();
}

#[test]
fn privileged_the_list_of_a_bundle_is_as_cvmfs_reads_it() {
    let test = Test::new();
    let log = "openat(AT_FDCWD, \"/cvmfs/sw.org/v1/bin/python\", O_RDONLY) = 3\nread(3, \"x\", 9) = 1\nclose(3) = 0\n\
               openat(AT_FDCWD, \"/cvmfs/sw.org/v1/absent\", O_RDONLY) = -1 ENOENT (No such file or directory)\n\
               openat(AT_FDCWD, \"/cvmfs/sw.org/v1/lib/a.so\", O_RDONLY) = 3\nread(3, \"x\", 9) = 1\nclose(3) = 0\n\
               openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 3\nread(3, \"x\", 9) = 1\nclose(3) = 0\n";
    test.write("log", log);
    test.quell(&["-q", "import", "strace", "log", "-o", "t.qtrace"]).succeeds();
    session!(|line| test.script(line), @"
    $ quell warm --cvmfs-bundle bundle.json t.qtrace
    quell: wrote `bundle.json`: 1 file of /cvmfs/sw.org
    hint: publish it as `/cvmfs/sw.org/v1/bin/.cvmfsbundle-python`; clients need CVMFS_PREFETCH_FILEBUNDLES=yes
    ");
    let expected = serde_json::json!({
        "name": "CVMFS_BUNDLE", "version": "1.0.0", "encoding": "UTF-8", "dependencies": ["/v1/lib/a.so"]
    });
    assert_eq!(test.read_json("bundle.json"), expected);
    session!(|line| test.script(line), @"
    $ quell warm --cvmfs-bundle bundle.json . => 2
    quell: error: `.` is a directory: a list of a bundle is made of a trace or an image
    $ quell warm nowhere => 2
    quell: error: image `nowhere`: cannot read it: ENOENT (no such file or directory)
    hint: `quell pack TRACE -o IMG` makes an image
    ");
}
