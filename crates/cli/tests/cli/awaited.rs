//! A file that another process makes, in the original, beside a program that waits for it.

use std::process::Child;

use crate::harness::{Need, Test, next_line};

const ALL: &[Need] = &[Need::Fuse, Need::Ptrace];

/// Both kinds of users.
fn of_both() -> Option<[Test; 2]> {
    Some([Test::privileged(ALL)?, Test::of_ordinary_user(ALL)?])
}

/// Says that a file is not there, waits until it is, and prints it.
fn wait_for(name: &str) -> String {
    format!("test -e {name} || echo waiting; while ! test -e {name}; do sleep 0.01; done; cat {name}")
}

/// Puts a file there with its content: one that is created and then written would be seen empty by who waits for it.
fn appears(test: &Test, name: &str, content: &str) {
    test.write("appearing", content);
    std::fs::rename(test.path("appearing"), test.path(name)).unwrap();
}

/// Starts quell with a script that prints a line when it waits.
fn started(test: &Test, arguments: &[&str], script: &str) -> Child {
    let words = [arguments, &["--", "sh", "-c", script]].concat();
    let mut child = test.start(&words);
    assert_eq!(next_line(&mut child), "waiting");
    child
}

/// The output of a script that runs from the image and waits while `happens` changes the originals.
fn meanwhile(test: &Test, script: &str, happens: impl FnOnce()) -> String {
    let child = started(test, &["run", "app.qimg"], script);
    happens();
    test.wait(child).succeeds()
}

#[test]
fn privileged_where_the_recording_saw_the_waiting() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.plant();
        test.write("env/results/old", "");
        let script = format!("cat env/lib/a.txt > /dev/null; {}", wait_for("env/results/awaited"));
        let recorded = started(&test, &["-q", "record", "-o", "app.qtrace"], &script);
        appears(&test, "env/results/awaited", "recorded\n");
        assert_eq!(test.wait(recorded).succeeds(), "recorded\n");
        let packed = test.quell(&["-q", "pack", "app.qtrace", "--root", "env"]).succeeds();
        assert!(packed.contains("stays the original:\n  [DIR]/env/results  ("), "{packed}");
        std::fs::remove_file(test.path("env/results/awaited")).unwrap();
        let seen = meanwhile(&test, &script, || appears(&test, "env/results/awaited", "run\n"));
        assert_eq!(seen, "run\n");
    }
}

/// Ways to look whether `env/results/awaited` is there, as shells and scripts do.
const LOOKS: [&str; 4] = [
    "test -e env/results/awaited",
    "stat env/results/awaited >/dev/null 2>&1",
    "test -e env/results/failed || test -e env/results/awaited",
    "ls env/results | grep -q awaited",
];

/// The recording waited as long as it did, and nothing happened.
#[test]
fn privileged_where_the_recording_waited_in_vain() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.plant();
        test.write("env/results/old", "");
        for look in LOOKS {
            let script = |tries: u32| {
                format!(
                    "cat env/lib/a.txt > /dev/null; {look} || echo waiting; tries=0; \
                     while [ $tries -lt {tries} ] && ! {{ {look}; }}; do sleep 0.3; tries=$((tries+1)); done; \
                     cat env/results/awaited"
                )
            };
            let recorded = started(&test, &["-q", "record", "--force", "-o", "app.qtrace"], &script(6));
            assert_eq!(test.wait(recorded).code(), 1, "{look}");
            let packed = test.quell(&["-q", "pack", "--force", "app.qtrace", "--root", "env"]).succeeds();
            assert!(packed.contains("stays the original:\n  [DIR]/env/results  ("), "{look}: {packed}");
            let seen = meanwhile(&test, &script(1000), || appears(&test, "env/results/awaited", "there\n"));
            assert_eq!(seen, "there\n", "{look}");
            std::fs::remove_file(test.path("env/results/awaited")).unwrap();
        }
    }
}

/// A program that asks without a pause, for one name and for another that would tell it to stop. Its tries are bounded, so that
/// the test fails and does not hang where an image answers for ever that nothing is there.
#[test]
fn privileged_where_the_recording_asked_without_a_pause() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.plant();
        test.write("env/results/old", "");
        test.write(
            "poll.py",
            "import os, sys\n\
             tries, awaited, stop = int(sys.argv[1]), 'env/results/awaited', 'env/results/failed'\n\
             print('waiting', flush=True)\n\
             while tries and not os.path.exists(awaited) and not (sys.argv[2:] and os.path.exists(stop)):\n\
             \x20   tries -= 1\n\
             print(open(awaited).read().strip() if tries else 'gave up')\n",
        );
        for stop in ["", " stop"] {
            let script = |tries: u32| {
                format!("cat env/lib/a.txt > /dev/null; exec /usr/bin/python3 -S -I poll.py {tries}{stop}")
            };
            let recorded = started(&test, &["-q", "record", "--force", "-o", "app.qtrace"], &script(200));
            assert_eq!(test.wait(recorded).succeeds(), "gave up\n");
            let packed = test.quell(&["-q", "pack", "--force", "app.qtrace", "--root", "env"]).succeeds();
            assert!(packed.contains("stays the original:\n  [DIR]/env/results  ("), "{stop}: {packed}");
            let seen =
                meanwhile(&test, &script(3_000_000), || appears(&test, "env/results/awaited", "there\n"));
            assert_eq!(seen, "there\n", "{stop}");
            std::fs::remove_file(test.path("env/results/awaited")).unwrap();
        }
    }
}

#[test]
fn privileged_where_the_recording_never_looked() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.pack();
        for name in ["env/aside/awaited", "env/aside/deep/awaited"] {
            assert_eq!(meanwhile(&test, &wait_for(name), || appears(&test, name, "there\n")), "there\n");
        }
    }
}

#[test]
fn privileged_where_the_program_itself_writes() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.pack();
        let script =
            format!("test -e env/lib/absent; echo own > env/lib/own; {}", wait_for("env/lib/awaited"));
        assert_eq!(meanwhile(&test, &script, || appears(&test, "env/lib/awaited", "there\n")), "there\n");
    }
}

/// A frozen directory stays as it was packed until the run ends. The next run sees the originals.
#[test]
fn privileged_where_the_image_is_frozen() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.pack();
        let look = "cat env/lib/a.txt > /dev/null; test -e env/lib/awaited || echo waiting; read -r line; \
                    cat env/lib/a.txt; test -e env/lib/awaited || echo absent; ls env/lib";
        let mut child = started(&test, &["run", "app.qimg"], look);
        test.write("env/lib/awaited", "there\n");
        test.write("env/lib/a.txt", "changed\n");
        drop(child.stdin.take());
        assert_eq!(test.wait(child).succeeds(), "alpha\nabsent\na.txt\nb.txt\nunread.txt\n");
        let next = test.quell(&["run", "app.qimg", "cat", "env/lib/awaited"]);
        assert!(next.stderr.contains("served from the originals: [DIR]/env/lib, "), "{next}");
        assert_eq!(next.succeeds(), "there\n");
    }
}

/// A file whose size the kernel has just been told, and that another process then writes and closes.
#[test]
fn privileged_what_another_has_closed_is_read_whole() {
    let Some(tests) = of_both() else { return };
    for test in tests {
        test.pack();
        let script = "cat env/lib/a.txt > /dev/null; stat -c %s env/aside/deep/data; echo waiting; \
            while [ ! -e go ]; do :; done; cat env/aside/deep/data";
        let mut child = test.start(&["run", "app.qimg", "--", "sh", "-c", script]);
        assert_eq!(next_line(&mut child), "5");
        assert_eq!(next_line(&mut child), "waiting");
        test.write("env/aside/deep/data", "all that was written\n");
        test.write("go", "");
        assert_eq!(test.wait(child).succeeds(), "all that was written\n");
    }
}
