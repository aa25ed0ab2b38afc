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

    /// Listens under `names` before a full door, and never accepts a connection.
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

/// The difference that a run from the image makes: the mounts that the command sees.
const IS_SERVED: &str = "$quell run app.qimg -- grep -c quell- /proc/self/mountinfo";

#[test]
fn privileged_a_stranger_who_never_answers_stops_no_run() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
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
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
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
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
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
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
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

/// A directory that every user may write and whose links the kernel follows for every owner: no sticky bit.
fn shared(test: &Test) {
    std::fs::create_dir(test.path("shared")).unwrap();
    test.mode("shared", 0o777);
    std::fs::create_dir(test.path("private")).unwrap();
    test.mode("private", 0o700);
    test.write("private/precious", "precious\n");
}

/// A link of the stranger's.
fn planted(test: &Test, name: &str, target: &str) {
    std::os::unix::fs::symlink(target, test.path(name)).unwrap();
    std::os::unix::fs::lchown(test.path(name), Some(STRANGER), Some(STRANGER)).unwrap();
}

/// Every way in which a command is told where to write; `OUT` stands for that.
const OUTPUTS: [&str; 11] = [
    "$quell -q report app.qtrace --html OUT",
    "$quell -q predict app.qtrace --root env --fs nfs --nodes 4 --html OUT",
    "$quell -q import strace log -o OUT",
    "$quell -q pack app.qtrace -o OUT --force --root env",
    "$quell -q pack app.qtrace -o OUT --force --compress --root env",
    "$quell -q image extract --fill --force -o OUT app.qimg",
    "$quell -q image export --fill --tar -o OUT app.qimg",
    "$quell -q image export --fill --squashfs -o OUT app.qimg",
    "$quell -q image export --fill --erofs -o OUT app.qimg",
    "$quell -q run --stats OUT app.qimg -- env/bin/app",
    "$quell -q run --learn=OUT app.qimg -- env/bin/app",
];

/// A recording takes the next free name, so a link in its way costs nothing.
#[test]
fn privileged_a_recording_is_not_written_behind_a_strangers_link() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    shared(&test);
    planted(&test, "shared/last", "../private/precious");
    planted(&test, "shared/new", "../private/new");
    planted(&test, "shared/way", "../private");
    for out in ["shared/last", "shared/new"] {
        test.script(&format!("$quell -q record -o {out} -- true")).succeeds();
        assert!(test.path(&format!("{out}-2/header.json")).is_file(), "{out}");
    }
    let behind = test.script("$quell -q record -o shared/way/new -- true");
    assert_ne!(behind.code(), 0, "{behind}");
    assert_eq!(std::fs::read_dir(test.path("private")).unwrap().count(), 1);
    assert_eq!(test.read_text("private/precious"), "precious\n");
}

#[test]
fn privileged_no_output_follows_a_strangers_link() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    shared(&test);
    test.write(
        "log",
        "17 1764000000.000001 openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY) = 3</etc/passwd> <0.000007>\n",
    );
    for output in OUTPUTS {
        planted(&test, "shared/last", "../private/precious");
        planted(&test, "shared/new", "../private/new");
        planted(&test, "shared/way", "../private");
        for out in ["shared/last", "shared/new", "shared/way/new"] {
            let outcome = test.script(&output.replace("OUT", out));
            assert_ne!(outcome.code(), 0, "{output} {out}: {outcome}");
            test.silence();
            let left: Vec<_> = std::fs::read_dir(test.path("private")).unwrap().collect();
            assert_eq!(
                (left.len(), test.read_text("private/precious").as_str()),
                (1, "precious\n"),
                "{output} {out}"
            );
        }
        let left: Vec<_> =
            std::fs::read_dir(test.path("shared")).unwrap().map(|it| it.unwrap().path()).collect();
        assert_eq!(left.len(), 3, "{output}: {left:?}");
        left.iter().for_each(|path| std::fs::remove_file(path).unwrap());
        // An output that is one's own goes to the place that it names.
        let outcome = test
            .script(&format!("{}; s=$?; rm -rf shared/own; exit $s", output.replace("OUT", "shared/own")));
        assert_eq!(outcome.code(), 0, "{output}: {outcome}");
        test.silence();
        test.script("rm -rf shared/*");
    }
}

#[test]
fn privileged_a_recording_stays_in_its_directory_whatever_has_its_name() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    shared(&test);
    let exchange = "mv shared/t.qtrace shared/moved; ln -s ../private shared/t.qtrace";
    test.quell(&["-q", "record", "-o", "shared/t.qtrace", "--", "sh", "-c", exchange]);
    assert_eq!(std::fs::read_dir(test.path("private")).unwrap().count(), 1);
    assert!(test.read_text("shared/moved/header.json").contains("\"complete\""));
    test.quell(&["report", "shared/moved"]).succeeds();
}

#[test]
fn privileged_an_image_that_others_can_change_or_replace_is_refused() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    test.script("mkdir -p way/here && cp app.qimg way/here").succeeds();
    let stranger = |name: &str, id: u32| std::os::unix::fs::lchown(test.path(name), Some(id), None).unwrap();
    let owner = std::os::unix::fs::MetadataExt::uid(&test.path("app.qimg").metadata().unwrap());
    let run = ["-q", "run", "way/here/app.qimg", "--", "cat", "env/lib/a.txt"];
    let refused = |why: &str| {
        let outcome = test.quell(&run);
        assert_eq!(outcome.code(), 125, "{why}: {outcome}");
        assert!(outcome.stderr.contains("hint: `--trust` uses it"), "{why}: {outcome}");
        test.quell(&["-q", "run", "--trust", "way/here/app.qimg", "--", "true"]).succeeds();
    };
    for mode in [0o620, 0o602] {
        test.mode("way/here/app.qimg", mode);
        refused("others write to it");
    }
    test.mode("way/here/app.qimg", 0o600);
    test.quell(&run).succeeds();
    for directory in ["way", "way/here"] {
        test.mode(directory, 0o777);
        refused("others rename in a directory above");
        test.mode(directory, 0o1777);
        test.quell(&run).succeeds();
        test.mode(directory, 0o775);
        test.quell(&run).succeeds();
        test.mode(directory, 0o755);
        stranger(directory, STRANGER);
        refused("a directory above is another's");
        stranger(directory, owner);
    }
    test.quell(&run).succeeds();
}

#[test]
fn privileged_root_extracts_no_rights_from_a_strangers_image() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    test.plant();
    test.mode("env/lib/b.txt", 0o6755);
    test.script("mknod -m 666 env/lib/null c 1 3; chown 1234:1235 env/lib/a.txt; setfattr -n security.capability -v 0x0100000200200000000000000000000000000000 env/lib/a.txt || true").succeeds();
    test.pack_as_it_is();
    let facts = |out: &str| {
        let at = test.text("env");
        test.script(&format!(
            "cd {out}{at}/lib && stat -c '%n %a %u:%g' a.txt b.txt; test -c null && echo device; getfattr -d -m - a.txt"
        ))
        .stdout
    };
    test.quell(&["-q", "image", "extract", "-o", "own", "app.qimg"]);
    let own = facts("own");
    assert!(own.starts_with("a.txt 644 1234:1235\nb.txt 6755 0:0\ndevice\n"), "{own}");
    for (owner, mode) in [(STRANGER, 0o600), (0, 0o622)] {
        std::os::unix::fs::chown(test.path("app.qimg"), Some(owner), None).unwrap();
        test.mode("app.qimg", mode);
        let outcome = test.quell(&["image", "extract", "--force", "-o", "others", "app.qimg"]);
        assert_eq!(outcome.code(), 1, "{outcome}");
        assert!(outcome.stderr.contains("others can change this image"), "{outcome}");
        assert_eq!(facts("others"), "a.txt 644 0:0\nb.txt 755 0:0\n");
    }
    test.quell(&["-q", "image", "extract", "--trust", "-o", "trusted", "app.qimg"]);
    assert_eq!(facts("trusted"), own);
}

#[test]
fn privileged_a_stamp_counts_where_the_user_alone_can_have_put_it() {
    let Some(test) = Test::of_ordinary_user(&[Need::Ptrace, Need::Fuse]) else { return };
    test.pack();
    test.quell(&["check", "app.qimg"]).succeeds();
    test.write("env/lib/a.txt", "changed\n");
    // A stamp that is put back would do the same.
    let run = ["run", "--on-stale", "fail", "app.qimg", "--", "true"];
    test.quell(&run).succeeds();
    test.mode("", 0o775);
    let compared = test.quell(&run);
    assert!(compared.code() != 0 && compared.stderr.contains("changed since"), "{compared}");
    let checked = test.quell(&["check", "app.qimg"]);
    assert_eq!(checked.code(), 1, "{checked}");
    assert!(!test.path("app.qimg.checked").exists());
}

/// Characters in a path that deceive its reader: colours, a line that begins anew, and text from right to left.
const HOSTILE: &str = "=cmd|' /C x'!A0 \u{1b}[31m\r\u{9b}5m\u{7f}\u{202e}gpj\u{2066}\u{200b}.sh";

#[test]
fn privileged_no_form_of_a_report_holds_characters_that_deceive() {
    let Some(test) = Test::privileged(&[Need::Ptrace]) else { return };
    test.write(HOSTILE, "x");
    let outcome = test.quell(&[
        "record",
        "-o",
        "app.qtrace",
        "--",
        "sh",
        "-c",
        "cat \"$1\" \"./$1\"; test -e \"$1-absent\"; cat /none",
        HOSTILE,
        HOSTILE,
    ]);
    assert_eq!(outcome.code(), 1, "{outcome}");
    let deceives = |letter: char| letter != '\n' && quell_base::is_hidden(letter);
    for form in [
        &["--colour=never"][..],
        &["--json"],
        &["--csv", "paths"],
        &["--csv", "names"],
        &["--csv", "failures"],
        &["--csv", "commands"],
        &["--html", "-"],
    ] {
        let outcome = test.quell(&[&["report", "app.qtrace"], form].concat());
        assert_eq!(outcome.code(), 0, "{form:?}: {outcome}");
        let found: String = outcome.stdout.chars().filter(|letter| deceives(*letter)).collect();
        assert_eq!(found, "", "{form:?}");
    }
    let missing = test.quell(&["report", HOSTILE]);
    assert!(missing.stderr.contains("gpj") && !missing.stderr.contains(deceives), "{missing}");
}

/// Frames of zeros: a small file that says it is very long. Made by `zstd`, which quell is linked with.
fn inflated(test: &Test, name: &str, frames: usize) {
    let zeros = vec![0; 16 << 20];
    let frame = zstd::bulk::compress(&zeros, 19).unwrap();
    let mut file = frame.repeat(frames);
    file.extend(0x184D_2A5E_u32.to_le_bytes());
    file.extend((frames as u32 * 8 + 9).to_le_bytes());
    for _ in 0..frames {
        file.extend((frame.len() as u32).to_le_bytes());
        file.extend((zeros.len() as u32).to_le_bytes());
    }
    file.extend((frames as u32).to_le_bytes());
    file.push(0);
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    test.write(name, file);
}

#[test]
fn privileged_a_small_image_of_a_strangers_takes_no_memory() {
    let Some(test) = Test::privileged(&[Need::Root]) else { return };
    inflated(&test, "bomb.qimg", 64);
    assert!(test.path("bomb.qimg").metadata().unwrap().len() < 1 << 20);
    std::os::unix::fs::chown(test.path("bomb.qimg"), Some(STRANGER), None).unwrap();
    for command in ["ls", "info", "check", "extract -o out", "export --tar -o out.tar"] {
        let outcome = test.script(&format!("exec prlimit --as=900000000 $quell image {command} bomb.qimg"));
        assert_eq!(outcome.code(), 2, "{command}: {outcome}");
        assert!(outcome.stderr.contains("bytes of memory, and others can change it"), "{command}: {outcome}");
    }
}

#[test]
fn privileged_an_image_that_its_owner_cuts_short_ends_a_command_with_words() {
    let Some(test) = Test::privileged(&[Need::Root, Need::Ptrace]) else { return };
    test.pack();
    for command in ["ls", "info", "check", "cat env/lib/a.txt", "extract -o out", "export --tar -o out.tar"] {
        test.script(&format!("cp app.qimg cut.qimg && chown {STRANGER} cut.qimg")).succeeds();
        // The last mapping before the image is read is that of the image. Its file is cut short when it is made.
        let (image, subcommand) = ("cut.qimg", command.split(' ').next().unwrap());
        let rest: Vec<&str> = command.split(' ').skip(1).collect();
        let script = format!(
            "exec 3<>{image}; strace -f -qq -o log -P {image} -e inject=mmap:signal=STOP $quell image {subcommand} \
             $(test {subcommand} = cat || printf '%s ' {0}) {image} $(test {subcommand} != cat || printf '%s ' {0}) &\
             pid=$!; until grep -qs 'stopped by SIGSTOP' log; do sleep 0.05; done; : >&3; truncate -s 4096 {image}; \
             kill -CONT $(pgrep -P $pid); wait $pid",
            rest.join(" ")
        );
        let outcome = test.script(&script);
        assert_eq!(outcome.code(), 2, "{command}: {outcome}");
        assert!(outcome.stderr.contains("cut short"), "{command}: {outcome}");
        test.script("rm -rf out* log");
    }
}
