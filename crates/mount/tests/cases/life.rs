//! The command is itself, and nothing outlives it.

use std::fs::DirEntry;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::scene::{Scene, USERS, User, failed, kill, next_line, succeeded, wait_until};

pub(crate) fn status_is_the_commands() {
    for user in USERS {
        let scene = Scene::new(user);
        let status = |command: &[&str]| scene.run(&[], command).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status(&["true"]).code(), Some(0));
        assert_eq!(status(&["sh", "-c", "exit 3"]).code(), Some(3));
        assert_eq!(status(&["sh", "-c", "kill -TERM $$"]).signal(), Some(15));
        assert_eq!(status(&["sh", "-c", "kill -KILL $$"]).signal(), Some(9));
        let plain = scene.root().join("bin/plain");
        for (command, expected, text) in [
            ("no-such-command", 127, "command not found"),
            ("/proc/no/such/command", 127, "command not found"),
            ("/", 126, "EISDIR (is a directory)"),
            (plain.to_str().unwrap(), 126, "EACCES (permission denied)"),
        ] {
            let (status, message) = failed(&scene.run(&[], &[command]).output().unwrap());
            assert_eq!(status, expected, "{command}");
            assert!(message.contains(text), "{message}");
        }
        // No process stays in between: the command's number is that of what was started.
        let mut child = scene.run(&[], &["sh", "-c", "echo $$"]).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(next_line(&mut child), child.id().to_string());
        child.wait().unwrap();
    }
}

pub(crate) fn nothing_is_left_after_sigkill() {
    for user in USERS {
        let scene = Scene::new(user);
        let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let shared = || std::fs::read_dir("/dev/shm").unwrap().count();
        let (mounts_before, shared_before) = (mounts(), shared());
        let script = format!("echo ready; cat {}/lib/fifo; true", scene.root().display());
        let mut child = scene.run(&[], &["sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
        assert_eq!(next_line(&mut child), "ready");
        assert_eq!(scene.servers().len(), 1);
        wait_until("cat waits", || !scene.named("cat").is_empty());
        scene.processes().into_iter().for_each(kill);
        child.wait().unwrap();
        scene.wait_for_silence();
        assert_eq!((mounts(), shared()), (mounts_before, shared_before));
        // The original is as it was, and can be used again at once.
        assert_eq!(scene.script(&format!("cat {}/lib/a.txt", scene.root().display())), "alpha\n");
    }
}

/// The command ends, a grandchild goes on: it is served until it ends too, and the server with it.
pub(crate) fn grandchildren_are_served() {
    for user in USERS {
        let scene = Scene::new(user);
        let done = scene.path("done");
        let script = format!(
            "(read line < {0}/go; cat {1}/lib/big.bin | wc -c > {0}/done) > /dev/null 2>&1 &",
            scene.path("").display(),
            scene.root().display()
        );
        rustix::fs::mknodat(rustix::fs::CWD, scene.path("go"), rustix::fs::FileType::Fifo, 0o666.into(), 0)
            .unwrap();
        scene.give(&scene.path("go"));
        scene.script(&script);
        std::fs::write(scene.path("go"), "now\n").unwrap();
        wait_until("the grandchild has read", || {
            std::fs::read_to_string(&done).is_ok_and(|text| text == "3000017\n")
        });
        scene.wait_for_silence();
    }
}

/// With the server gone, and the holder that would have replaced it, open files and cached answers still work, and
/// the rest fails at once.
pub(crate) fn dead_server_does_not_hang() {
    let scene = Scene::new(User::Ordinary);
    let script = format!(
        "cd {}; cat lib/a.txt; exec 3< lib/a.txt; cat lib/a.txt > /dev/null; echo ready; read line < {}; cat <&3; cat lib/big.bin 2>&1; true",
        scene.root().display(),
        scene.path("go").display()
    );
    rustix::fs::mknodat(rustix::fs::CWD, scene.path("go"), rustix::fs::FileType::Fifo, 0o666.into(), 0)
        .unwrap();
    scene.give(&scene.path("go"));
    let mut child = scene.run(&[], &["sh", "-c", &script]).stdout(Stdio::piped()).spawn().unwrap();
    assert_eq!(next_line(&mut child), "alpha");
    assert_eq!(next_line(&mut child), "ready");
    scene.kill_all_servers();
    std::fs::write(scene.path("go"), "now\n").unwrap();
    let output = succeeded(&child.wait_with_output().unwrap());
    assert!(output.starts_with("alpha\n"), "{output}");
    assert!(output.contains("Transport endpoint is not connected"), "{output}");
}

/// While no process can be had, the server is not replaced; as soon as one can be, it is, and no request fails.
pub(crate) fn no_process_for_a_while() {
    let scene = Scene::new(User::Ordinary);
    let script = format!("cd {}; echo ready; read line; cat lib/a.txt", scene.root().display());
    let mut child = scene.start(&[], &["sh", "-c", &script]);
    assert_eq!(next_line(&mut child), "ready");
    let holder = scene.holders()[0].to_string();
    let prlimit = |words: &[&str]| scene.prints(&[&["prlimit", "--pid", &holder], words].concat());
    let most = prlimit(&["--nproc", "--noheadings", "--output", "HARD"]);
    prlimit(&["--nproc=1:"]);
    scene.servers().into_iter().for_each(kill);
    drop(child.stdin.take());
    std::thread::sleep(Duration::from_millis(500));
    assert!(scene.servers().is_empty(), "the limit does not hold");
    prlimit(&[&format!("--nproc={}:", most.trim())]);
    assert_eq!(succeeded(&child.wait_with_output().unwrap()), "alpha\n");
}

/// The server has none of its starter's streams, terminals and descriptors, no working directory and no child.
pub(crate) fn server_holds_nothing() {
    for user in USERS {
        let scene = Scene::new(user);
        let mut child = scene
            .run(&[], &["sh", "-c", "echo ready; exec sleep 60"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        assert_eq!(next_line(&mut child), "ready");
        let descriptors = |process: i32| -> Vec<(i32, String)> {
            let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
            let number = |entry: &DirEntry| entry.file_name().to_str().unwrap().parse().unwrap();
            let target = |entry: &DirEntry| std::fs::read_link(entry.path()).ok();
            entries
                .filter_map(|entry| {
                    let entry = entry.unwrap();
                    Some((number(&entry), target(&entry)?.into_os_string().into_string().unwrap()))
                })
                .collect()
        };
        let theirs: Vec<String> =
            descriptors(child.id().try_into().unwrap()).into_iter().map(|(_, target)| target).collect();
        // The server's first thread has only its lifeline; all else is in the holder's table too.
        for process in scene.servers().into_iter().chain(scene.holders()) {
            let cwd = std::fs::read_link(format!("/proc/{process}/cwd")).unwrap();
            assert_eq!(cwd.to_str(), Some("/"));
            for (number, target) in descriptors(process) {
                let known = ["/dev/fuse", "socket:", "anon_inode:", "user:[", "mnt:[", "pidfd:", "pipe:"];
                // Roots are tied to their originals.
                let image = [scene.image(), scene.root()].iter().any(|known| known == Path::new(&target));
                let expected = match number {
                    0..3 => target == "/dev/null",
                    _ => image || known.iter().any(|known| target.starts_with(known)),
                };
                assert!(expected, "{number} -> {target}");
                assert!(number < 3 || !theirs.contains(&target), "{number} -> {target}");
            }
        }
        // Not a child of the application: its wait() must never see the server.
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id()));
        assert!(children.is_ok_and(|list| list.trim().is_empty()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
