//! The ways in which a log arrives: packed, through a pipe, out of an editor or a mail; and logs that are refused by name.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use quell_import::{ImportRequest, Imported};
use quell_trace::Recording;
use quell_trace::resolve::NoFileSystem;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/strace").join(name)
}

fn import(folder: &TempDir, logs: &[PathBuf]) -> Result<(Imported, String), String> {
    let directory = folder.path().join("t.qtrace");
    _ = std::fs::remove_dir_all(&directory);
    let request = ImportRequest {
        logs: logs.to_vec(),
        temporary: folder.path().to_owned(),
        directory: directory.clone(),
        working_directory: Some(b"/srv/app".to_vec()),
        mounts: Vec::new(),
        version: "0".into(),
    };
    let imported = quell_import::strace(&request, &mut NoFileSystem).map_err(|error| {
        let source = std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
        format!("{error}{source}").replace(folder.path().to_str().unwrap(), "")
    })?;
    let recording = Recording::open(&directory).unwrap();
    let mut events = Vec::new();
    let display = |path: Option<_>| path.map(|path| recording.paths.display(path));
    recording
        .for_each_event(|event| {
            events.push(format!("{:?} {:?} {:?}", event, display(event.path), display(event.target)));
        })
        .unwrap();
    Ok((imported, events.join("\n")))
}

/// A log in a fresh directory, as text or as bytes.
fn written(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("app.log");
    std::fs::write(&path, text).unwrap();
    (folder, path)
}

/// The output of a packer.
fn packed(packer: &str, log: &Path) -> Vec<u8> {
    let output = Command::new(packer).args(["-q", "-c"]).stdin(File::open(log).unwrap()).output().unwrap();
    assert!(output.status.success(), "{packer}: scripts/deps installs it");
    output.stdout
}

const PACKERS: [(&str, &str); 3] = [("gzip", "gz"), ("xz", "xz"), ("zstd", "zst")];

#[test]
fn a_packed_log_is_the_same_trace() {
    let folder = tempfile::tempdir().unwrap();
    let (_, plain) = import(&folder, &[fixture("ttt.log")]).unwrap();
    let names = ["separate-tt.log.31295", "separate-tt.log.31297", "separate-tt.log.31298"];
    let (_, separate) = import(&folder, &names.map(fixture)).unwrap();
    for (packer, suffix) in PACKERS {
        // The content tells the packer, not the name.
        let log = folder.path().join("app.log");
        std::fs::write(&log, packed(packer, &fixture("ttt.log"))).unwrap();
        assert_eq!(import(&folder, &[log]).unwrap().1, plain, "{packer}");
        let logs = names.map(|name| {
            let path = folder.path().join(format!("{name}.{suffix}"));
            std::fs::write(&path, packed(packer, &fixture(name))).unwrap();
            path
        });
        assert_eq!(import(&folder, &logs).unwrap().1, separate, "{packer}");
    }
}

#[test]
fn a_packed_log_that_is_cut_is_refused() {
    for (packer, _) in PACKERS {
        let whole = packed(packer, &fixture("ttt.log"));
        let (folder, log) = written(&whole[..whole.len() - 20]);
        let failure = import(&folder, &[log]).unwrap_err();
        let expected = format!("cannot read `/app.log`: `{packer} -dc` did not unpack all of it");
        assert!(failure.starts_with(&expected), "{failure}");
        assert!(!folder.path().join("t.qtrace").exists());
    }
}

#[test]
fn a_bomb_is_refused_at_its_first_lines() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("app.log");
    // A gigabyte of one line.
    let script = format!("head -c 1000000000 /dev/zero | gzip -1 > '{}'", log.display());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    assert_eq!(import(&folder, &[log]).unwrap_err(), "`/app.log` has more than 16 MiB in line 1");
}

#[test]
fn a_pipe_is_read_like_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (_, plain) = import(&folder, &[fixture("ttt.log")]).unwrap();
    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for text in [std::fs::read(fixture("ttt.log")).unwrap(), packed("xz", &fixture("ttt.log"))] {
        let into = pipe.clone();
        let writer = std::thread::spawn(move || std::fs::write(into, text).unwrap());
        assert_eq!(import(&folder, std::slice::from_ref(&pipe)).unwrap().1, plain);
        writer.join().unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the pipe and the trace, and no copy");
    let failure = import(&folder, &["/dev/zero".into()]).unwrap_err();
    assert_eq!(failure, "`/dev/zero` is a device or a socket, not a file");
}

#[test]
fn a_log_out_of_an_editor_or_a_mail_is_the_same_trace() {
    for name in ["ttt.log", "stacks.log", "everything.log"] {
        let text = std::fs::read_to_string(fixture(name)).unwrap();
        let (folder, log) = written(&text);
        let (_, plain) = import(&folder, &[log]).unwrap();
        let quoted: String = text.lines().map(|line| format!("> {line}\n")).collect();
        let twice: String = quoted.lines().map(|line| format!("> {line}\n")).collect();
        for changed in [
            format!("\u{feff}{text}"),
            text.replace('\n', "\r\n"),
            format!("Anna wrote on Monday:\n\n{quoted}\nRegards\n"),
            format!("\u{feff}{twice}"),
        ] {
            let (folder, log) = written(&changed);
            assert_eq!(import(&folder, &[log]).unwrap().1, plain, "{name}: {:.60}", changed);
        }
    }
}

/// Logs of ltrace 0.7.3 and of perf, as they print them.
const OTHERS: &[(&str, &str)] = &[
    (
        "strrchr(\"ls\", '/')                              = nil\nsetlocale(LC_ALL, \"\")   = \"C\"\n+++ exited (status 0) +++\n",
        "ltrace",
    ),
    (
        "SYS_brk(0)                                       = 0x55d2f9b8a000\nSYS_access(\"/etc/ld.so.preload\", 04) = -2\n",
        "ltrace",
    ),
    (
        "77 __libc_start_main([ \"sh\", \"-c\" ] <unfinished ...>\n77 open(\"/a\", 0) = 3\n77 close(3) = 0\n",
        "ltrace",
    ),
    ("open(\"/a\", 0, 0) = 3\nmalloc(32) = 0x55d5\nfree(0x55d5) = <void>\nstrlen(\"a\") = 1\n", "ltrace"),
    ("libc.so.6->malloc(32) = 0x55d5\nlibc.so.6->free(0x55d5) = <void>\n", "ltrace"),
    (
        "     0.000 ( 0.004 ms): ls/77 openat(dfd: CWD, filename: \"/etc/ld.so.cache\", flags: RDONLY|CLOEXEC) = 3\n",
        "perf",
    ),
    ("PERFILE2h\0\0\0\0\0\n", "perf"),
    ("ls    77 [001]  1234.5678: syscalls:sys_enter_openat: dfd: 0xffffff9c, filename: 0x7f\n", "perf"),
];

#[test]
fn logs_of_other_tools_are_refused_by_name() {
    for (text, tool) in OTHERS {
        let (folder, log) = written(text);
        let failure = import(&folder, &[log]).unwrap_err();
        assert!(failure.starts_with(&format!("`/app.log` is from {tool}, ")), "{text}: {failure}");
    }
    let noise = "strlen: a program's own word\nmalloc(3) = 4\n7 openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n7 close(3) = 0\n";
    let (folder, log) = written(noise);
    import(&folder, &[log]).unwrap();
}

#[test]
fn a_log_without_its_children_says_so() {
    let lacking = |logs: &[(&str, &str)]| {
        let folder = tempfile::tempdir().unwrap();
        let write = |(name, text): &(&str, &str)| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let logs: Vec<_> = logs.iter().map(write).collect();
        let (imported, _) = import(&folder, &logs).unwrap();
        if let Some(lacking) = &imported.lacking {
            assert!(imported.header.recorder.notes.contains(lacking));
        }
        imported.lacking.unwrap_or_default()
    };
    let parent = "vfork() = 8\nclone(child_stack=NULL, flags=SIGCHLD) = 9\nwait4(-1, NULL, 0, NULL) = 8\n";
    let child = "close(3) = 0\n+++ exited with 0 +++\n";
    assert_eq!(
        lacking(&[("a.log", parent)]),
        "2 children of the command are not in the log: `strace -f` follows them"
    );
    assert_eq!(
        lacking(&[("a.log.7", parent), ("a.log.8", child)]),
        "the log of 1 child is missing: name all files of the `strace -ff`"
    );
    assert_eq!(lacking(&[("a.log.7", parent), ("a.log.8", child), ("a.log.9", child)]), "");
    let followed =
        "7 vfork( <unfinished ...>\n8 close(3) = 0\n8 +++ exited with 0 +++\n7 <... vfork resumed>) = 8\n";
    assert_eq!(lacking(&[("a.log", followed)]), "");
}
