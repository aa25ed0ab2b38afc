//! An image whose file system fails while it is fetched: the originals answer for what did not arrive.

use std::os::unix::fs::FileExt;
use std::process::{Child, Stdio};

use crate::harness::{Need, Outcome, Test, next_line, wait_until};

pub(crate) const NEEDS: &[Need] =
    &[Need::Root, Need::Fuse, Need::Ptrace, Need::Program("squashfuse_ll"), Need::Program("mksquashfs")];

/// The image on a FUSE file system from another server, which counts as a network file system.
pub(crate) struct Elsewhere<'t> {
    test: &'t Test,
    server: Child,
}

impl<'t> Elsewhere<'t> {
    /// Packs a tree of which no part lies in the first fetch alone, and puts the image there.
    pub(crate) fn of(test: &'t Test, options: &str) -> Self {
        test.plant();
        for number in 1..=6 {
            let lines = (number * 1_000_000..).take(300_000).map(|line| format!("{line}\n"));
            test.write(&format!("env/data/{number}"), lines.collect::<String>());
        }
        test.script(&format!(
            "$quell -q record -o app.qtrace -- cat env/data/* > plain; mkdir stored mounted
             $quell -q pack app.qtrace --root env --whole-files {options} -o stored/app.qimg
             mksquashfs stored packed.sqfs -quiet -no-progress > /dev/null"
        ))
        .succeeds();
        let mut command = test.command(&["squashfuse_ll", "-f", "packed.sqfs", "mounted"]);
        let server = command.stdin(Stdio::null()).spawn().unwrap();
        wait_until("the image is there", || test.path("mounted/app.qimg").exists());
        Self { test, server }
    }

    /// Its server dies.
    fn die(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }

    /// From now on what lies behind the first third of the image is unreadable.
    fn fail(&self) {
        let file = std::fs::File::options().write(true).open(self.test.path("packed.sqfs")).unwrap();
        let bytes = file.metadata().unwrap().len();
        // Its tables are at the end.
        let garbage = vec![0xff; usize::try_from(bytes / 3).unwrap()];
        file.write_all_at(&garbage, bytes / 2).unwrap();
    }
}

impl Drop for Elsewhere<'_> {
    fn drop(&mut self) {
        self.die();
        self.test.script("umount -l mounted").succeeds();
    }
}

/// The output of a program that reads everything after the image's file system has died.
fn read_after_death(elsewhere: &mut Elsewhere) -> Outcome {
    let test = elsewhere.test;
    let script = "echo ready; read -r line; cat env/data/*";
    let words =
        ["run", "--check", "none", "--stats", "stats.json", "mounted/app.qimg", "--", "sh", "-c", script];
    let mut child = test.start(&words);
    assert_eq!(next_line(&mut child), "ready");
    elsewhere.die();
    drop(child.stdin.take());
    test.wait(child)
}

#[test]
fn privileged_what_does_not_arrive_of_an_image_comes_from_the_originals() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    let mut elsewhere = Elsewhere::of(&test, "");
    elsewhere.fail();
    assert_eq!(read_after_death(&mut elsewhere).succeeds(), test.read_text("plain"));
    let counted = test.read_json("stats.json");
    assert_ne!(counted["original"]["read"], 0, "{counted}");
    assert!(counted["image"]["bytes_fetched"].as_u64() < counted["image"]["bytes"].as_u64(), "{counted}");
}

#[test]
fn privileged_what_does_not_arrive_of_a_complete_image_is_an_error_and_never_zeros() {
    let Some(test) = Test::privileged(NEEDS) else { return };
    let mut elsewhere = Elsewhere::of(&test, "--complete");
    elsewhere.fail();
    let outcome = read_after_death(&mut elsewhere);
    assert_eq!(outcome.code(), 1, "{outcome}");
    assert!(outcome.stderr.contains("Input/output error"), "{outcome}");
    let plain = test.read_text("plain");
    let lines: std::collections::BTreeSet<&str> = plain.lines().collect();
    assert!(outcome.stdout.lines().all(|line| lines.contains(line)), "bytes that no file has");
}
