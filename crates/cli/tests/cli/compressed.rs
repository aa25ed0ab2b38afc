//! An image compressed for transport: every command opens it, `run` serves it, a damaged one gets one clear line.

use std::io::Write;
use std::os::unix::fs::MetadataExt;

use crate::harness::{Need, Test, kill, next_line, wait_until};

/// The planted tree with its compressed image, for root and for an ordinary user.
fn packed() -> Option<[Test; 2]> {
    let needs = &[Need::Fuse, Need::Ptrace, Need::Program("zstd")];
    let tests = [Test::privileged(needs)?, Test::of_ordinary_user(needs)?];
    for test in &tests {
        test.plant();
        test.quell(&["-q", "record", "-o", "app.qtrace", "--", "env/bin/app"]).succeeds();
        test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env", "--compress"]).succeeds();
    }
    Some(tests)
}

#[test]
fn privileged_every_command_opens_it() {
    let Some(tests) = packed() else { return };
    for test in tests {
        test.script("zstd -dq app.qimg -o plain.qimg && chmod 600 plain.qimg").succeeds();
        assert_eq!(test.quell(&["run", "app.qimg", "--", "env/bin/app"]), test.run(&["env/bin/app"]));
        assert_eq!(test.quell(&["run", "plain.qimg", "--", "env/bin/app"]), test.run(&["env/bin/app"]));
        for look in
            [&["image", "ls"][..], &["image", "cat"], &["image", "info", "--json"], &["image", "check"]]
        {
            let with = |image: &str| {
                let path = test.text("env/lib/a.txt");
                let paths = if look[1] == "cat" { vec![path.as_str()] } else { Vec::new() };
                let outcome = test.quell(&[look, &[image], &paths].concat());
                (outcome.code(), outcome.stdout.replace(image, "IMG"))
            };
            assert_eq!(with("app.qimg"), with("plain.qimg"), "{look:?}");
        }
        let repacked = ["-q", "pack", "app.qtrace", "-o", "again.qimg", "--root", "env", "--compress=9"];
        test.quell(&repacked).succeeds();
        assert!(test.read("again.qimg") == test.read("app.qimg"), "the same bytes");
    }
}

#[test]
fn privileged_a_damaged_or_too_large_one_is_refused() {
    let Some([test, _]) = packed() else { return };
    let run = |image: &str| test.quell(&["run", image, "--", "echo", "plain"]);
    test.script("head -c -20 app.qimg > short.qimg; chmod 600 short.qimg").succeeds();
    let short = run("short.qimg");
    assert_eq!(short.code(), 125);
    assert!(short.stderr.contains("was it copied completely?\nhint: copy it again"), "{}", short.stderr);
    assert_eq!(test.quell(&["image", "info", "short.qimg"]).code(), 2);
    test.script("echo text | zstd -q > other.qimg; chmod 600 other.qimg").succeeds();
    assert!(run("other.qimg").stderr.contains("without quell's table of frames"));

    let small = test.quell(&["run", "--memory", "1000", "app.qimg", "--", "echo", "plain"]);
    assert_eq!((small.code(), small.stdout.as_str()), (0, "plain\n"));
    assert!(small.stderr.contains("the command runs plain: it takes "), "{}", small.stderr);
    assert!(
        small.stderr.contains("bytes of memory, and may take 1000\nhint: raise `--memory`"),
        "{}",
        small.stderr
    );
    let required = test.quell(&["run", "--memory", "1K", "--require", "app.qimg", "--", "echo", "plain"]);
    assert_eq!((required.code(), required.stdout.as_str()), (125, ""));
    assert_eq!(test.quell(&["run", "--memory", "64M", "app.qimg", "--", "true"]).code(), 0);
    assert_eq!(test.quell(&["run", "--memory", "lots", "app.qimg", "--", "true"]).code(), 125);
}

/// A program that reads a file three times. Its pages leave the kernel's cache in between.
const READER: &str = "
import hashlib, os, sys
def digest():
    print(hashlib.sha256(open('env/data', 'rb').read()).hexdigest(), flush=True)
    assert sys.stdin.readline() == 'on\\n'
    file = os.open('env/data', os.O_RDONLY)
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(file)
digest(); digest(); digest()
";

/// Bytes of memory that the image takes.
fn memory_of_image(test: &Test) -> u64 {
    let [holder] = test.holders()[..] else { panic!("{:?}", test.holders()) };
    let descriptors =
        std::fs::read_dir(format!("/proc/{holder}/fd")).unwrap().map(|entry| entry.unwrap().path());
    let is_image = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with("/memfd:quell-image"))
    };
    let image = descriptors.filter(|path| is_image(path)).map(|path| path.metadata().unwrap());
    image.map(|image| image.blocks() * 512).max().unwrap()
}

#[test]
fn privileged_memory_of_what_the_kernel_has_is_freed() {
    let needs = &[Need::Fuse, Need::Ptrace, Need::Program("python3")];
    let (Some(root), Some(user)) = (Test::privileged(needs), Test::of_ordinary_user(needs)) else { return };
    for test in [root, user] {
        test.write("reader", READER);
        test.script("mkdir env; seq 1500000 > env/data; for i in 1 2 3; do echo on; done > on").succeeds();
        test.script("$quell -q record -o app.qtrace -- python3 reader < on").succeeds();
        test.quell(&["-q", "pack", "app.qtrace", "-o", "app.qimg", "--root", "env", "--compress"]).succeeds();
        let digest = test.script("sha256sum < env/data").stdout[..64].to_owned();
        let mut child = test.start(&["run", "--stats", "stats.json", "app.qimg", "--", "python3", "reader"]);
        for round in 0..3 {
            assert_eq!(next_line(&mut child), digest, "{round}");
            match round {
                0 => {
                    wait_until("memory is free", || memory_of_image(&test) <= 4 << 20);
                    // The next server dismisses nothing that the kernel has not.
                    kill(test.servers()[0]);
                }
                // A part that is read a second time stays.
                _ => assert!(memory_of_image(&test) >= 8 << 20),
            }
            child.stdin.as_mut().unwrap().write_all(b"on\n").unwrap();
        }
        assert_eq!(test.wait(child).code(), 0);
        assert!(test.read_json("stats.json")["image"]["bytes_fetched"].as_u64().unwrap() > 18 << 20);
    }
}
