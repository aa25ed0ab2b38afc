//! Other users of the node: what they hold, listen on, own or change stops no command, and gets nothing from one.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use crate::harness::{Need, Test, wait_until};

/// A user who is neither root nor the test's.
const STRANGER: u32 = 64_321;

/// A process of the stranger's, which has said `ready`.
struct Stranger(Child);

impl Stranger {
    /// Runs a script of Python as the stranger.
    fn python(script: &str) -> Self {
        let mut command = Command::new("python3");
        command.args(["-c", script]).uid(STRANGER).gid(STRANGER).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Listens under `names` before a full door, and never lets anybody in.
    fn behind_full_doors(names: &[String]) -> Self {
        let names: Vec<String> = names.iter().map(|name| format!("'\\0{name}'")).collect();
        Self::python(&format!(
            "import socket, sys\nkept = []\nfor name in [{}]:\n\
             \x20   s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n    s.bind(name)\n    s.listen(0)\n\
             \x20   kept.append(s)\n    try:\n        while True:\n\
             \x20           c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n            c.setblocking(False)\n\
             \x20           c.connect(name)\n            kept.append(c)\n    except BlockingIOError:\n        pass\n\
             print('ready', flush=True)\nsys.stdin.read()",
            names.join(", ")
        ))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The name at which ranks of `app.qimg` meet, without the number of the try.
fn meeting_place(test: &Test) -> String {
    let mut run = test.shell("exec $quell run app.qimg -- sleep 60").spawn().unwrap();
    let mut name = None;
    wait_until("the server listens", || {
        let holders = test.holders();
        name = holders.first().and_then(|holder| abstract_name(*holder));
        name.is_some()
    });
    run.kill().unwrap();
    run.wait().unwrap();
    wait_until("the server has gone", || test.processes().is_empty());
    name.unwrap()
}

/// The abstract name that begins with `quell-` of a socket that `process` has open.
fn abstract_name(process: i32) -> Option<String> {
    let sockets: Vec<String> = std::fs::read_dir(format!("/proc/{process}/fd"))
        .ok()?
        .filter_map(|entry| {
            let target = std::fs::read_link(entry.ok()?.path()).ok()?;
            Some(target.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned())
        })
        .collect();
    let table = std::fs::read_to_string("/proc/net/unix").unwrap();
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let name = fields.get(7)?.strip_prefix("@quell-")?.strip_suffix("-0")?;
        sockets.iter().any(|inode| fields.get(6) == Some(&inode.as_str())).then(|| format!("quell-{name}"))
    })
}

/// What tells a run from the image: the mounts that the command sees.
const IS_SERVED: &str = "$quell run app.qimg -- grep -c quell- /proc/self/mountinfo";

#[test]
fn privileged_a_stranger_who_never_answers_stops_no_run() {
    let Some(test) = Test::of_nobody(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    let name = meeting_place(&test);
    let first = vec![format!("{name}-0")];
    let _stranger = Stranger::behind_full_doors(&first);
    for _ in 0..2 {
        let served = test.script(IS_SERVED);
        assert_eq!((served.code(), served.stderr.as_str()), (0, ""), "{served}");
    }
    // Ranks that start together meet behind the name that is taken.
    let together = test.script(
        "for i in 1 2 3 4 5 6 7 8; do $quell run app.qimg -- sh -c 'readlink /proc/self/ns/mnt; sleep 1' & done; wait",
    );
    let namespaces: std::collections::BTreeSet<&str> = together.stdout.lines().collect();
    assert_eq!((namespaces.len(), together.stdout.lines().count()), (1, 8), "{together}");
}

#[test]
fn privileged_strangers_at_every_name_make_a_run_plain() {
    let Some(test) = Test::of_nobody(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    let name = meeting_place(&test);
    let all: Vec<String> = (0..16).map(|attempt| format!("{name}-{attempt}")).collect();
    let _stranger = Stranger::behind_full_doors(&all);
    let outcome = test.quell(&["run", "app.qimg", "--", "cat", "env/lib/a.txt"]);
    assert_eq!((outcome.code(), outcome.stdout.as_str()), (0, "alpha\n"), "{outcome}");
    assert!(outcome.stderr.contains("runs plain: cannot meet the other ranks"), "{outcome}");
    assert!(outcome.stderr.contains("other users"), "{outcome}");
}

#[test]
fn privileged_a_run_that_failed_for_its_limits_fails_no_other() {
    let Some(test) = Test::of_nobody(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    for limit in ["8", "9", "10"] {
        let tight = format!("ulimit -n {limit}; exec $quell run app.qimg -- true");
        let plain = test.script(&tight);
        assert!(plain.stderr.contains("runs plain"), "{limit}: {plain}");
        for _ in 0..3 {
            let next = test.script(IS_SERVED);
            assert_eq!((next.code(), next.stderr.as_str()), (0, ""), "{limit}: {next}");
        }
    }
}

#[test]
fn privileged_strangers_who_connect_keep_no_failed_run_alive() {
    let Some(test) = Test::of_nobody(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    let name = meeting_place(&test);
    let _stranger = Stranger::python(&format!(
        "import socket, threading\nprint('ready', flush=True)\nwhile True:\n\
         \x20   c = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n    try:\n        c.connect('\\0{name}-0')\n\
         \x20   except OSError:\n        pass\n    c.close()"
    ));
    let outcome =
        test.script("(ulimit -n 8; $quell -q run app.qimg -- true); exec $quell run app.qimg -- true");
    assert_eq!(outcome.stderr.matches("runs plain").count(), 1, "{outcome}");
    wait_until("the failed run has gone", || test.processes().is_empty());
}
