//! The context of a recording: processes, threads, programs, files, mounts, and losses.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod support;

use quell_trace::{Call, Event, Outcome};
use std::collections::HashMap;
use support::{Run, Stage, fixture, may_trace};

fn events(run: &Run) -> Vec<Event> {
    let mut events = Vec::new();
    run.recording.for_each_event(|event| events.push(*event)).unwrap();
    events
}

fn path(run: &Run, id: Option<quell_trace::PathId>) -> String {
    id.map_or_else(String::new, |id| run.recording.paths.display(id))
}

#[test]
fn privileged_the_first_event_is_the_command_s_execve() {
    let Some(()) = may_trace() else { return };
    let run = Stage::new(&["/bin/true"]).record();
    let first = events(&run)[0];
    assert_eq!(
        (first.call, first.outcome, path(&run, first.path)),
        (Call::Execve, Outcome::Success(0), "/bin/true".into())
    );
    assert_eq!(first.start.0 / 1_000_000_000, 0, "times begin with the recording");
    assert!(events(&run).windows(2).all(|pair| pair[0].end() <= pair[1].end()));
}

#[test]
fn privileged_processes_and_programs_are_known() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::new(&["/bin/sh", "-c", "cat /etc/hostname; (exit 3); exit 4"])
        .with("LD_LIBRARY_PATH", "/none");
    let run = stage.record();
    let context = &run.recording.context;
    let exits: Vec<_> =
        context.processes.iter().map(|process| (process.parent.map(|id| id.0), process.exit)).collect();
    let status = |status| Some(quell_trace::Exit::Status(status));
    assert_eq!(exits, [(None, status(4)), (Some(0), status(0)), (Some(0), status(3))]);
    assert!(context.processes.iter().all(|process| process.end.is_some_and(|end| end > process.start)));
    let programs: Vec<_> = context.executions.iter().map(|execution| path(&run, execution.program)).collect();
    assert!(programs.len() == 2 && programs[1].ends_with("/bin/cat"), "{programs:?}");
    assert_eq!(context.executions[1].arguments, ["cat", "/etc/hostname"]);
    let names: Vec<_> =
        context.variables.iter().filter(|variable| variable.name == "LD_LIBRARY_PATH").collect();
    assert!(names.len() == 2 && names.iter().all(|variable| variable.value == "/none"));
    assert_eq!(path(&run, context.working_directory), stage.directory().to_str().unwrap());
    let inherited: Vec<_> = context.inherited.iter().map(|inherited| inherited.fd.to_string()).collect();
    let list = "n=0; while [ $n -lt 1024 ]; do [ -L /proc/$$/fd/$n ] && printf '%s ' $n; n=$((n+1)); done";
    let plain = Stage::new(&["/bin/sh", "-c", list]).run_plain().stdout;
    assert_eq!(inherited.join(" "), String::from_utf8_lossy(&plain).trim(), "nothing of the recorder's own");
    assert_eq!(path(&run, context.inherited[0].path), "/dev/null");
}

#[test]
fn privileged_threads_say_what_they_share() {
    let Some(()) = may_trace() else { return };
    let run = Stage::fixture("threads").record();
    let context = &run.recording.context;
    let (threads, first): (Vec<_>, Vec<_>) = context.threads.iter().partition(|thread| {
        context.threads.iter().any(|other| other.process == thread.process && other.start < thread.start)
    });
    assert_eq!((threads.len(), first.len(), context.processes.len()), (100, 11, 11));
    assert!(threads.iter().all(|thread| thread.shares_files && thread.shares_directory));
    assert!(first.iter().all(|thread| !thread.shares_files && !thread.shares_directory));
    let opened = events(&run).iter().filter(|event| path(&run, event.target) == "/etc/hostname").count();
    assert!(opened >= 2000, "opens and closes are resolved: {opened}");
}

#[test]
fn privileged_a_thread_that_executes_stays_itself() {
    let Some(()) = may_trace() else { return };
    for name in ["threaded_exec", "exec_without_leader"] {
        let stage = Stage::fixture(name);
        let run = stage.record();
        assert_eq!(run.output.stdout, stage.run_plain().stdout, "{name}");
        let context = &run.recording.context;
        assert_eq!(context.processes.len(), 1, "{name}");
        let execution = &context.executions[1];
        assert!(execution.thread.0 > 0, "{name}: not the first thread");
        let after = events(&run);
        let after = after.iter().filter(|event| event.start > execution.at);
        assert!(after.clone().all(|event| event.thread == execution.thread), "{name}");
        assert!(after.count() > 10, "{name}");
    }
}

#[test]
fn privileged_files_have_an_identity_from_their_first_open() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::new(&["/bin/sh", "-c", "echo hello > made; cat made made /etc/hostname > /dev/null"]);
    let run = stage.record();
    let files = &run.recording.context.files;
    let find = |name: &str| {
        let mut found = files.iter().filter(|file| path(&run, Some(file.path)) == name);
        let first = found.next().unwrap_or_else(|| panic!("{name} is known"));
        assert!(found.next().is_none(), "{name} once");
        first
    };
    let hostname = std::fs::metadata("/etc/hostname").unwrap();
    let known = find("/etc/hostname");
    use std::os::unix::fs::MetadataExt;
    assert_eq!((known.device, known.inode, known.mode), (hostname.dev(), hostname.ino(), hostname.mode()));
    assert_eq!(
        (known.size, known.modified),
        (hostname.len(), hostname.mtime() * 1_000_000_000 + hostname.mtime_nsec())
    );
    assert_eq!(find(stage.directory().join("made").to_str().unwrap()).size, 0, "as it was at the first open");
    let libraries = &run.recording.context.elf_files;
    assert!(
        libraries.iter().any(|file| file.needed.iter().any(|name| name.starts_with("libc.so"))),
        "{libraries:?}"
    );
}

#[test]
fn privileged_children_that_ask_not_to_be_traced_are_recorded() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::fixture("untraced");
    let run = stage.record();
    assert!(run.output.status.success(), "{:?}", run.output);
    let context = &run.recording.context;
    assert_eq!(context.processes.len(), 3);
    let children = events(&run);
    let opened =
        children.iter().filter(|event| event.process.0 > 0 && path(&run, event.path) == "/etc/hostname");
    assert_eq!(opened.count(), 2);
}

#[test]
fn privileged_children_of_killed_parents_are_recorded() {
    let Some(()) = may_trace() else { return };
    let run = Stage::fixture("orphans").record();
    assert!(run.output.status.success(), "{:?}", run.output);
    assert_eq!(run.recording.header.recorder.lost, 0);
    let context = &run.recording.context;
    assert!(context.processes.len() > 50 && context.processes.iter().all(|process| process.end.is_some()));
    assert!(context.processes.iter().skip(1).all(|process| process.parent.is_some()));
}

#[test]
fn privileged_calls_of_other_architectures_are_counted() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::fixture("foreign");
    if stage.run_plain().status.code() != Some(0) {
        println!("skipped, because this kernel runs no 32-bit programs");
        return;
    }
    let run = stage.record();
    assert_eq!(run.output.status.code(), Some(0), "{:?}", run.output);
    let recorder = &run.recording.header.recorder;
    assert_eq!(recorder.lost, 5);
    assert!(
        recorder.notes.iter().any(|note| note.contains("5 calls of 32-bit programs")),
        "{:?}",
        recorder.notes
    );
}

#[test]
fn privileged_mounts_are_those_that_the_process_saw() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::fixture("namespace");
    if !stage.run_plain().status.success() {
        println!("skipped, because this test may not mount");
        return;
    }
    let run = stage.record();
    assert!(run.output.status.success(), "{:?}", run.output);
    let context = &run.recording.context;
    assert_eq!(context.namespaces.len(), 2, "the command's and its own, which its child inherits");
    let point = stage.directory().join("mounted");
    let mounted =
        context.mounts.iter().find(|mount| Some(mount.mount_point.as_str()) == point.to_str()).unwrap();
    assert_eq!((mounted.kind.as_str(), mounted.namespace), ("tmpfs", context.namespaces[1].namespace));
    assert!(!context.mounts.iter().any(|mount| {
        mount.namespace == context.namespaces[0].namespace
            && Some(mount.mount_point.as_str()) == point.to_str()
    }));
    let inside = events(&run);
    let inside = inside.iter().find(|event| path(&run, event.path) == "mounted/inside").unwrap();
    let served = inside.file_system.map(|id| context.mounts[id.0 as usize].mount_point.clone());
    assert_eq!(served.as_deref(), point.to_str());
}

#[test]
fn privileged_a_descriptor_that_arrived_in_a_message_has_no_guessed_path() {
    let Some(()) = may_trace() else { return };
    let run = Stage::fixture("pass_descriptor").record();
    let calls = events(&run);
    let received = calls.iter().position(|event| event.call == Call::Recvmsg).unwrap();
    let read =
        calls[received..].iter().find(|event| event.call == Call::Read && event.process.0 == 0).unwrap();
    assert_eq!(read.target, None);
}

#[test]
fn privileged_sizes_of_vectors_are_summed() {
    let Some(()) = may_trace() else { return };
    let run = Stage::fixture("vectors").record();
    let calls = events(&run);
    let size = |call: Call| calls.iter().rev().find(|event| event.call == call).unwrap().size.0;
    assert_eq!((size(Call::Writev), size(Call::Pwritev), size(Call::Preadv)), (46, 21, 10));
    assert_eq!((size(Call::Pwritev2), size(Call::Readv)), (460, 33));
}

#[test]
fn privileged_a_set_user_id_program_keeps_its_privilege_for_root() {
    let Some(copy) = support::traced_directory() else { return };
    let id = copy.path().join("id");
    let prepare = "cp /usr/bin/id \"$1\" && chmod 755 \"$0\" && chown 65534 \"$1\" && chmod 4755 \"$1\"";
    let words = [copy.path().to_str().unwrap(), id.to_str().unwrap()];
    let prepared = std::process::Command::new("sh").args(["-c", prepare]).args(words).status().unwrap();
    let stage = Stage::new(&[id.to_str().unwrap(), "-u"]);
    if !prepared.success() || stage.run_plain().stdout != b"65534\n" {
        println!("skipped, because this test is not root or the file system ignores set-user-ID");
        return;
    }
    let run = stage.record();
    assert_eq!(run.output.stdout, b"65534\n");
    let notes = &run.recording.header.recorder.notes;
    assert!(!notes.iter().any(|note| note.contains("set-user-ID")), "{notes:?}");
}

/// The kernel takes a filter from such a process only if it renounces new privileges.
#[test]
fn privileged_root_without_cap_sys_admin_is_told_of_set_user_id_programs() {
    let Some(()) = may_trace() else { return };
    let copy = support::place::directory("quell-record-");
    let (id, trace) = (copy.path().join("id"), copy.path().join("t"));
    let prepare = "cp /usr/bin/id \"$0\" && chown 65534 \"$0\" && chmod 4755 \"$0\"";
    assert!(std::process::Command::new("sh").args(["-c", prepare]).arg(&id).status().unwrap().success());
    let output = std::process::Command::new("setpriv")
        .args(["--bounding-set", "-sys_admin"])
        .args([support::recorder().as_os_str(), trace.as_os_str(), id.as_os_str(), "-u".as_ref()])
        .output()
        .unwrap();
    if !output.status.success() {
        println!("skipped, because this test is not root: {output:?}");
        return;
    }
    assert_eq!(output.stdout, b"0\n");
    let notes = quell_trace::Recording::open(&trace).unwrap().header.recorder.notes;
    assert!(notes.iter().any(|note| note.contains("/id` is set-user-ID")), "{notes:?}");
}

#[test]
fn privileged_io_uring_is_warned_about() {
    let Some(()) = may_trace() else { return };
    let script =
        "import ctypes; p = ctypes.create_string_buffer(120); print(ctypes.CDLL(None).syscall(425, 1, p))";
    let run = Stage::new(&["/usr/bin/python3", "-c", script]).record();
    if run.output.stdout.starts_with(b"-1") || !run.output.status.success() {
        println!("skipped, because this kernel has no io_uring, or there is no Python");
        return;
    }
    assert!(run.recording.header.recorder.notes.iter().any(|note| note.contains("io_uring")));
}

#[test]
fn privileged_a_stopped_job_stops_as_one_and_goes_on() {
    let Some(()) = may_trace() else { return };
    // A shell with job control on a terminal: the command stops itself as the terminal's key would stop it.
    let folder = support::place::directory("quell-record-");
    let program = fixture("signals");
    let recorder = support::recorder();
    let job = format!("{} {}/t {}", recorder.display(), folder.path().display(), program.display());
    let began = folder.path().join("began").display().to_string();
    let script = format!(
        "set -m; {job} unasked > {began} & until grep -q ready {began}; do sleep 0.02; done; \
         kill -TSTP %1; until jobs | grep Stopped; do sleep 0.02; done; bg; wait %1; echo status $?"
    );
    let command = ["-qec".to_owned(), format!("bash -c '{script}'"), "/dev/null".to_owned()];
    let output = std::process::Command::new("script")
        .args(command)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("Stopped") && text.contains("status 0"), "{text}");
}

#[test]
fn privileged_threads_that_close_at_once_close_their_own_files() {
    let Some(()) = may_trace() else { return };
    for run in [Stage::fixture("closers").record(), Stage::fixture("closers").record_start(WHOLE)] {
        assert!(run.output.status.success(), "{:?}", run.output);
        let (mut named, mut closes, mut wrong) = (HashMap::new(), 0, Vec::new());
        for event in events(&run).iter().filter(|event| event.outcome.is_success()) {
            match event.call {
                Call::Access if path(&run, event.path).starts_with("file") => {
                    named.insert(event.thread, event.target);
                }
                Call::Close => {
                    let Some(expected) = named.remove(&event.thread) else { continue };
                    closes += 1;
                    if event.target != expected {
                        wrong.push(format!("{} for {}", path(&run, event.target), path(&run, expected)));
                    }
                }
                _ => {}
            }
        }
        assert_eq!((closes, wrong), (12 * 400 * 4, Vec::<String>::new()));
    }
}

/// Longer than any program of these tests is quiet: the start is the whole run.
const WHOLE: f64 = 1000.0;

#[test]
fn privileged_files_are_where_the_kernel_finds_them() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::fixture("places");
    let run = stage.record();
    assert!(run.output.status.success(), "{:?}", run.output);
    let below = |name: &str| format!("{}/{name}", stage.directory().display());
    let all = events(&run);
    let targets = |call| {
        let of_call = all.iter().filter(move |event| event.call == call && event.outcome.is_success());
        of_call.map(|event| path(&run, event.target)).collect::<Vec<_>>()
    };
    assert_eq!(targets(Call::Openat2), vec![below("root/etc/passwd"); 3]);
    let in_root = targets(Call::Pread64).into_iter().filter(|target| target.contains("/etc/passwd"));
    assert_eq!(in_root.collect::<Vec<_>>(), vec![below("root/etc/passwd"); 3]);
    let nameless = targets(Call::Fsync);
    assert!(nameless[0].starts_with(&below("root/#")), "{nameless:?}");
    assert_eq!(targets(Call::Write)[0], nameless[0]);
    let deep = below(&vec!["d".repeat(100); 60].join("/"));
    let opened = targets(Call::Openat);
    assert_eq!(opened.iter().filter(|target| **target == format!("{deep}/deep")).count(), 1, "by the shell");
    assert_eq!(targets(Call::Access).last().unwrap(), &format!("{deep}/deep"), "through a link");
}

#[test]
fn privileged_a_command_may_begin_in_a_very_long_directory() {
    let Some(()) = may_trace() else { return };
    let stage = Stage::fixture("places");
    let names = vec!["d".repeat(100); 60].join("/");
    let deep = format!("{}/{names}", stage.directory().display());
    let recorder = support::recorder();
    let trace = stage.directory().join("t.qtrace");
    // Step by step: the kernel takes no path of this length.
    let script = format!(
        "\"$0\" && for n in $(seq 60); do cd -P {} || exit 1; done; exec '{}' '{}' /bin/cat deep",
        "d".repeat(100),
        recorder.display(),
        trace.display()
    );
    let output = stage.run_under(&["/bin/bash", "-c", &script]);
    assert!(output.status.success(), "{output:?}");
    let recording = quell_trace::Recording::open(&trace).unwrap();
    let target = recording.paths.find(format!("{deep}/deep").as_bytes());
    assert!(
        target.is_some(),
        "{:?}",
        recording.context.working_directory.map(|id| recording.paths.display(id))
    );
}
