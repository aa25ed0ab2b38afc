//! `run --buffer`: files are as they are plain, and the file system sees few large reads and writes.

use std::process::Stdio;

use serde_json::Value;

use crate::harness::{Need, QUELL, Test, kill, next_line, session};
use crate::processes::named;
use crate::scratch::{FUSE, both};

/// Ranks of jobs of two nodes. Their jobs differ, so that they do not meet on the one machine.
const TWO_NODES: &str = "export SLURM_JOB_ID=7$rank SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_NTASKS=2 SLURM_NNODES=2 SLURM_LOCALID=0 \
                         SLURM_NODEID=$rank SLURM_STEP_NUM_NODES=2 SLURM_STEP_NUM_TASKS=2;";

fn buffers(test: &Test) -> Vec<i32> {
    named(test.processes(), "quell-buffer")
}

fn number(stats: &Value, of: &str, what: &str) -> u64 {
    stats["buffer"][0][of][what].as_u64().unwrap()
}

/// Writes `out/f` of `$1` pieces of 512 bytes, reads it in pieces of 512 bytes, and prints its digest.
const LOOP: &str = "import hashlib, os, sys\n\
                    with open('out/f', 'wb', buffering=0) as f:\n\
                    \x20   for i in range(int(sys.argv[1])): f.write(bytes([i % 251]) * 512)\n\
                    \x20   assert os.stat('out/f').st_size == 512 * int(sys.argv[1])\n\
                    with open('out/f', 'rb', buffering=0) as f:\n\
                    \x20   d = hashlib.md5()\n\
                    \x20   while b := f.read(512): d.update(b)\n\
                    print(d.hexdigest())\n";

#[test]
fn privileged_small_writes_and_reads_become_large_aligned_ones() {
    let Some(tests) = both(&[Need::Fuse, Need::Ptrace, Need::Program("strace")]) else { return };
    for test in tests {
        test.write("loop.py", LOOP);
        test.script("mkdir out").succeeds();
        let plain = test.script("python3 loop.py 8192; md5sum < out/f").succeeds();
        for (options, kernel_gathers, size) in
            [("private", true, 1 << 20), ("shared", false, 1 << 20), ("size=256K,shared", false, 256 << 10)]
        {
            let run = format!(
                "strace -f -qq -e trace=pwrite64,pread64 -o traced {} -q run --stats stats --buffer out/:{options} -- \
                 python3 loop.py 8192; md5sum < out/f",
                *QUELL
            );
            assert_eq!(test.script(&run).succeeds(), plain, "{options}");
            let stats = test.read_json("stats");
            assert_eq!(stats["buffer"][0]["kernel_gathers"], kernel_gathers);
            let large = (4 << 20) / size;
            // A buffer that waits for seconds is written before it is full.
            let writes = number(&stats, "file_system", "writes");
            assert!(large <= writes && writes * 64 < 8192, "{options}: {stats}");
            assert_eq!(number(&stats, "file_system", "bytes_written"), 4 << 20);
            assert!(number(&stats, "file_system", "reads") <= large, "{options}: {stats}");
            assert_eq!(number(&stats, "asked", "bytes_written"), 4 << 20);
            if !kernel_gathers {
                assert_eq!(number(&stats, "asked", "writes"), 8192);
            }
            assert!(number(&stats, "programs", "writes") >= 8192);
            // As the kernel saw them.
            let traced = test.read_text("traced");
            let calls: Vec<_> = traced.lines().filter(|line| line.contains(" pwrite64(")).collect();
            assert_eq!(calls.len() as u64, writes, "{options}: {traced}");
            assert!(calls.iter().any(|call| call.contains(&format!(", {size}, "))), "{options}: {traced}");
        }
    }
}

/// Writes of quell itself are none of the programs'.
#[test]
fn privileged_the_table_has_the_writes_of_programs_alone() {
    let Some(tests) = both(&[Need::Fuse]) else { return };
    for test in tests {
        let run = "mkdir out; $quell run --stats stats --buffer out -- dd if=/dev/zero of=out/f bs=512 count=100 status=none";
        let table = test.script(run);
        assert_eq!(number(&test.read_json("stats"), "programs", "writes"), 100, "{table}");
        assert_eq!(table.code(), 0);
    }
}

#[test]
fn privileged_real_programs_leave_the_same_files() {
    let Some(tests) = both(&[Need::Fuse, Need::Program("gcc"), Need::Program("sqlite3")]) else { return };
    for test in tests {
        test.write("tree/a/b", "b\n");
        test.script("head -c 3000000 /dev/urandom > tree/random; ln -s a tree/link; touch -d 2001-01-01 tree/a/b; chmod 600 tree/a/b; tar cf tree.tar tree")
            .succeeds();
        test.write("main.c", "#include <stdio.h>\nint main(void) { puts(\"compiled\"); return 0; }\n");
        test.write(
            "map.py",
            "import mmap, os\n\
             with open('out/map', 'w+b') as f:\n\
             \x20   f.truncate(10000); m = mmap.mmap(f.fileno(), 10000); m[5000:5003] = b'abc'; m.flush()\n\
             \x20   f.seek(5000); print(f.read(4)); f.seek(5001); f.write(b'X'); f.flush(); print(bytes(m[4999:5004]))\n\
             with open('out/holes', 'wb') as f:\n\
             \x20   f.seek(3000000); f.write(b'end')\n\
             for i in range(300):\n\
             \x20   with open('out/holes', 'r+b') as f: f.seek(i * 7777); f.write(bytes([i % 256]) * 100)\n\
             print(os.stat('out/holes').st_size)\n",
        );
        let programs = [
            "tar xf tree.tar -C out; find out -printf '%P %m %s %l %t\\n' | grep -v '^ \\|^tree ' | sort; md5sum out/tree/random",
            "gcc -save-temps=obj -o out/main main.c && out/main; ls out",
            "python3 map.py; md5sum out/*",
            "sqlite3 out/db 'create table t(a); insert into t select value from generate_series(1, 2000); select sum(a) from t;'; \
             sqlite3 out/db 'pragma integrity_check'",
            "cp -a tree out/copy; cp tree/random out/r; dd if=out/r of=out/s bs=777 status=none; mv out/s out/t; ln out/t out/u; \
             truncate -s 1000 out/t; rm out/r; printf x >> out/u; md5sum out/u; (echo 1; cat out/none; echo 2) > out/v 2>&1; cat out/v",
            "printf '#!/bin/sh\\necho executed\\n' > out/x; chmod +x out/x; out/x; cp /bin/true out/true; out/true; echo $?",
        ];
        for program in programs {
            let run = |quell: &str| {
                test.script("rm -rf out; mkdir out").succeeds();
                let ours = test.script(&format!("{quell} sh -c '{}'", program.replace('\'', "'\\''")));
                (ours, test.script("cd out; find . -type f | sort | xargs md5sum; find . | sort").succeeds())
            };
            let plain = run("");
            for options in ["private", "shared", "size=64K,count=1,shared"] {
                let ours = run(&format!("$quell -q run --buffer out:{options} --"));
                assert_eq!(ours, plain, "{program}, {options}");
            }
        }
    }
}

#[test]
fn privileged_what_cannot_be_buffered_is_passed_through_and_said() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir out").succeeds();
    test.write(
        "lock.py",
        "import fcntl, os, struct, sys\n\
         # Two processes count in one file; each reads what the other wrote.\n\
         f = os.open('out/n', os.O_RDWR | os.O_CREAT)\n\
         if os.fork() == 0: me = 1\n\
         else: me = 0\n\
         f = os.open('out/n', os.O_RDWR)\n\
         for i in range(200):\n\
         \x20   fcntl.lockf(f, fcntl.LOCK_EX)\n\
         \x20   n = int.from_bytes(os.pread(f, 8, 100), 'little')\n\
         \x20   os.pwrite(f, (n + 1).to_bytes(8, 'little'), 100)\n\
         \x20   fcntl.lockf(f, fcntl.LOCK_UN)\n\
         if me: os._exit(0)\n\
         os.wait(); print(int.from_bytes(os.pread(f, 8, 100), 'little'))\n",
    );
    for options in ["private", "shared"] {
        let script = format!(
            "rm -f out/*; $quell -q run --stats stats --buffer out:{options} -- sh -c 'python3 lock.py; \
             for i in 1 2 3 4; do (for j in $(seq 50); do echo line $i $j >> out/log; done) & done; wait; sort out/log | uniq | wc -l; \
             echo synchronous | dd of=out/s oflag=sync status=none; cat out/s'"
        );
        assert_eq!(test.script(&script).succeeds(), "400\n200\nsynchronous\n", "{options}");
        let passed = &test.read_json("stats")["buffer"][0]["passed"];
        let appended = if options == "private" { 0 } else { 200 };
        assert_eq!((&passed["appending"], &passed["synchronous"]), (&appended.into(), &1.into()));
        assert!(passed["locked"].as_u64().unwrap() > 0);
    }
}

#[test]
fn privileged_a_lock_of_an_open_file_goes_with_it_while_others_have_the_file_open() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.write(
            "locks.py",
            "import fcntl, os\n\
             one = os.open('out/f', os.O_RDWR | os.O_CREAT); other = os.open('out/f', os.O_RDWR)\n\
             os.write(one, b'text'); fcntl.flock(one, fcntl.LOCK_EX)\n\
             try: fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)\n\
             except BlockingIOError: print('held')\n\
             os.close(one); fcntl.flock(other, fcntl.LOCK_EX); print('taken')\n",
        );
        test.script("mkdir out").succeeds();
        for options in ["private", "shared"] {
            let script = format!("timeout 60 $quell -q run --buffer out:{options} -- python3 locks.py");
            assert_eq!(test.script(&script).succeeds(), "held\ntaken\n", "{options}");
        }
    }
}

#[test]
fn privileged_a_write_takes_set_user_id_from_a_file_at_once() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.write(
            "modes.py",
            "import os\n\
             for mode in [0o4755, 0o2755, 0o6711, 0o755]:\n\
             \x20   f = os.open('out/f', os.O_RDWR | os.O_CREAT)\n\
             \x20   for i in range(3):\n\
             \x20       os.fchmod(f, mode); before = os.fstat(f).st_mode\n\
             \x20       os.write(f, b'a'); os.write(f, b'b'); print(oct(before), oct(os.stat('out/f').st_mode))\n\
             \x20   os.close(f)\n",
        );
        test.script("mkdir out").succeeds();
        let plain = test.script("python3 modes.py").succeeds();
        for options in ["private", "shared"] {
            let script = format!("rm out/f; $quell -q run --buffer out:{options} -- python3 modes.py");
            assert_eq!(test.script(&script).succeeds(), plain, "{options}");
        }
    }
}

#[test]
fn privileged_a_file_of_another_user_is_closed_without_an_error_after_its_name_changed() {
    let Some(test) = Test::of_ordinary_user(FUSE) else { return };
    test.write(
        "names.py",
        "import os\n\
         os.rename('out/f', 'out/g'); f = os.open('out/g', os.O_RDWR); os.close(f)\n\
         os.link('out/g', 'out/h'); f = os.open('out/h', os.O_RDWR); os.fsync(f); os.close(f)\n\
         os.unlink('out/g'); f = os.open('out/h', os.O_RDWR); print(int(os.fstat(f).st_mtime), os.read(f, 9)); os.close(f)\n\
         try: os.utime('out/h', (1, 1))\n\
         except PermissionError: print('not ours')\n",
    );
    for command in ["", "$quell -q run --buffer out:private --", "$quell -q run --buffer out:shared --"] {
        test.script("rm -rf out; mkdir out").succeeds();
        std::fs::write(test.path("out/f"), "theirs").unwrap();
        test.mode("out/f", 0o666);
        let long_ago = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        std::fs::File::options()
            .write(true)
            .open(test.path("out/f"))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        let outcome = test.script(&format!("{command} python3 names.py; stat -c %Y out/h"));
        assert_eq!(outcome.succeeds(), "1000000000 b'theirs'\nnot ours\n1000000000\n", "{command}");
    }
}

#[test]
fn privileged_a_full_disk_reaches_the_program_and_the_user() {
    let Some(test) = Test::privileged(&[Need::Fuse, Need::Root]) else { return };
    test.write(
        "fill.py",
        "import os, sys\n\
         f = os.open('out/f', os.O_WRONLY | os.O_CREAT)\n\
         try:\n\
         \x20   for i in range(int(sys.argv[1])): os.write(f, b'x' * 4096)\n\
         except OSError as e: print('write', e.strerror)\n\
         for call in [os.fsync, os.close]:\n\
         \x20   try: call(f)\n\
         \x20   except OSError as e: print(call.__name__, e.strerror)\n",
    );
    for options in ["private", "shared"] {
        for (pieces, at_write) in [(1000, options == "shared"), (300, false)] {
            let script = format!(
                "mkdir -p out; mount -t tmpfs -o size=1m out out; $quell run --buffer out:{options} -- python3 fill.py {pieces}; echo $?"
            );
            let mut command = test.command(&["unshare", "--mount", "sh", "-c", &script]);
            command.env("quell", *QUELL);
            let outcome = test.finish(command);
            assert!(outcome.stdout.contains("No space left on device"), "{options} {pieces}: {outcome}");
            assert!(
                !at_write || outcome.stdout.starts_with("write No space"),
                "{options} {pieces}: {outcome}"
            );
            assert!(outcome.stdout.ends_with("125\n"), "{outcome}");
            assert!(outcome.stderr.contains("could not be written, first of `"), "{outcome}");
        }
    }
}

#[test]
fn privileged_nodes_see_what_was_closed_and_keep_each_others_bytes() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir out; mkfifo to from").succeeds();
        // Two nodes write every second record of one page after the other: neither writes what it did not change.
        test.write(
            "records.py",
            "import os, sys\n\
             rank = int(os.environ['SLURM_PROCID'])\n\
             f = os.open('out/shared', os.O_RDWR | os.O_CREAT)\n\
             for i in range(rank, 4000, 2): os.pwrite(f, bytes([65 + rank]) * 100, i * 100)\n\
             if rank == 0:\n\
             \x20   open('to', 'w').close(); open('from').close()\n\
             else:\n\
             \x20   open('to').close()\n\
             os.close(f)\n\
             if rank == 1: open('from', 'w').close()\n\
             else:\n\
             \x20   print(open('out/shared', 'rb').read() == (b'A' * 100 + b'B' * 100) * 2000)\n",
        );
        let run = |rank: &str| {
            let script = format!(
                "rank={rank}; {TWO_NODES} exec $quell -q run --stats stats$rank --buffer out -- python3 records.py"
            );
            let mut command = test.shell(&script);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        };
        let (zero, one) = (run("0"), run("1"));
        let (zero, one) = (test.wait(zero), test.wait(one));
        assert_eq!((zero.succeeds(), one.succeeds()), ("True\n".to_owned(), String::new()));
        assert_eq!(test.read_json("stats1")["buffer"][0]["kernel_gathers"], false);
    }
}

#[test]
fn privileged_what_fsync_acknowledged_survives_the_server() {
    let Some(tests) = both(FUSE) else { return };
    for test in tests {
        test.script("mkdir out").succeeds();
        test.write(
            "writes.py",
            "import os, sys\n\
             f = os.open('out/f', os.O_WRONLY | os.O_CREAT)\n\
             os.write(f, b'kept\\n'); os.fsync(f); os.write(f, b'lost\\n'); print('written', flush=True)\n\
             sys.stdin.read()\n\
             try: os.fsync(f); print('no error')\n\
             except OSError as e: print(e.strerror)\n",
        );
        for options in ["private", "shared"] {
            let mut child =
                test.start(&["run", "--buffer", &format!("out:{options}"), "--", "python3", "writes.py"]);
            assert_eq!(next_line(&mut child), "written");
            let servers = buffers(&test);
            assert_eq!(servers.len(), 1);
            kill(servers[0]);
            drop(child.stdin.take());
            let outcome = test.wait(child);
            assert!(
                outcome.stdout.contains("not connected") || outcome.stdout.contains("connection abort"),
                "{outcome}"
            );
            assert_eq!(outcome.code(), 125, "{outcome}");
            assert!(
                outcome.stderr.contains("was killed: bytes that no fsync or close had written are lost"),
                "{outcome}"
            );
            assert!(test.read_text("out/f").starts_with("kept\n"));
        }
    }
}

#[test]
fn privileged_flags_name_files_and_wrong_ones_are_explained() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir -p out/sub").succeeds();
    session!(|line| test.script(line), @"
    $ quell run --buffer absent -- true => 125
    quell: error: `--buffer absent`: ENOENT (no such file or directory)
    hint: mkdir -p absent
    $ quell run --buffer out:size=3M -- true => 125
    quell: error: `--buffer out:size=3M`: `size` takes a power of two from 64K to 64M
    hint: --buffer 'out/*.dat:size=4M,count=4,ahead=1'
    $ quell run --buffer out:fast -- true => 125
    quell: error: `--buffer out:fast`: `fast` is none of `size=`, `count=`, `ahead=`, `private`, `shared`
    hint: --buffer 'out/*.dat:size=4M,count=4,ahead=1'
    $ quell run --buffer out --buffer out/sub -- true => 125
    quell: error: `--buffer [DIR]/out/sub` lies below `--buffer [DIR]/out`
    hint: a pattern, as in `--buffer 'out/sub/*'`, names files below
    $ quell run --buffer out -- ls out
    --- stdout
    sub
    $ quell -q run --buffer 'out/*.dat:size=64K' -- sh -c 'echo x > out/a.dat; echo y > out/b; cat out/a.dat out/b'
    --- stdout
    x
    y
    ");
    let said =
        test.script("$quell run --buffer out/ -- sh -c 'head -c 3000000 /dev/zero > out/a.dat'").stderr;
    for row in ["programs, all files", "asked by the kernel", "file system", "a.dat"] {
        assert!(said.lines().any(|line| line.starts_with(&format!("quell: {row} "))), "{row}: {said}");
    }
}

#[test]
fn privileged_calls_on_a_file_that_is_still_open_at_the_end_are_counted() {
    let Some(test) = Test::privileged(FUSE) else { return };
    test.script("mkdir out").succeeds();
    let outcome = test.script(
        "mkfifo end; $quell run --buffer out:shared --stats stats.json -- \
         sh -c 'exec 3>out/a.dat; head -c 3000000 /dev/zero >&3; cat end 3>&3 &'; : > end",
    );
    assert!(outcome.stderr.lines().any(|line| line.starts_with("quell: a.dat ")), "{outcome}");
}
