//! A written recording reads back the same. A cut, damaged or foreign one is refused or marked partial.
#![allow(clippy::unwrap_used, reason = "what fails in a helper fails the test")]

use proptest::prelude::*;
use quell_trace::context::{InheritedFd, NamespaceChange};
use quell_trace::resolve::{LinkAnswer, Links};
use quell_trace::writer::{Ending, Finish, OpenedFile};
use quell_trace::*;
use std::path::Path;

fn header() -> Header {
    Header {
        working_directory: "/work".into(),
        began: 1.5e9,
        host: "node".into(),
        user: 1000,
        rank: Some(RankId(3)),
        ranks: Some(8),
        job: Some("7.0".into()),
        ..Header::begun("ptrace", "0", vec!["python3".into(), "app.py".into()])
    }
}

/// A file system in which `/work/link` is a link and every ELF file needs `libm.so`.
struct World;

impl Links for World {
    fn link(&mut self, path: &[u8]) -> LinkAnswer {
        match path {
            b"/work/link" => LinkAnswer::Link(b"target".to_vec()),
            _ => LinkAnswer::NoLink,
        }
    }
}

impl Finish for World {
    fn elf(&mut self, path: PathId, _: &[u8]) -> Option<ElfFile> {
        let needed = vec!["libm.so".into(), "libc.so".into()];
        Some(ElfFile {
            path,
            interpreter: None,
            soname: None,
            needed,
            rpath: None,
            runpath: Some("$ORIGIN".into()),
        })
    }

    fn stripe(&mut self, path: PathId, _: &[u8]) -> Option<Stripe> {
        Some(Stripe { path, count: 4, size: 1 << 20 })
    }
}

fn begin(directory: &Path) -> Writer {
    let mut writer = Writer::create(directory, header()).expect("a fresh directory");
    let work = writer.path(b"/work").unwrap();
    writer.working_directory(work).unwrap();
    writer.inherited(InheritedFd { fd: 0, path: None }).unwrap();
    let process = writer.process(Process::first(Pid(10))).unwrap();
    let thread = writer.thread(Thread::first(Pid(10), process)).unwrap();
    let mount = Mount {
        source: "mds:/fs".into(),
        device: 77,
        options: "rw".into(),
        ..Mount::of_type(5, "/", "lustre")
    };
    writer.mounts(vec![mount]).unwrap();
    writer.namespace(NamespaceChange { process, at: Nanos(0), namespace: 5 }).unwrap();
    let program = Some(writer.path(b"/usr/bin/python3").unwrap());
    let arguments = vec!["python3".into(), "app.py".into()];
    let execution = Execution { process, thread, at: Nanos(1), program, arguments };
    writer.execution(execution, vec![("PATH".into(), "/bin:/usr/bin".into())]).unwrap();
    writer
}

fn events(recording: &Recording) -> Vec<Event> {
    let mut events = Vec::new();
    recording.for_each_event(|event| events.push(*event)).unwrap();
    events
}

const PAGE: u64 = 4096;

fn pages(first: u64, count: u64) -> Extent {
    Extent { offset: first * PAGE, size: count * PAGE }
}

/// Two reports on one process that overlap, and one on another process that is incomplete.
fn touch(writer: &mut Writer) {
    let child = Process { pid: Pid(11), parent: Some(ProcessId(0)), start: Nanos(2), end: None, exit: None };
    writer.process(child).unwrap();
    let library = writer.path(b"/lib/libm.so").unwrap();
    let program = writer.path(b"/bin/\xff\n").unwrap();
    writer.touched(ProcessId(0), library, &[pages(4, 2), pages(0, 1)]).unwrap();
    writer.touched(ProcessId(0), program, &[pages(0, 3)]).unwrap();
    writer.touched(ProcessId(1), library, &[pages(9, 1)]).unwrap();
    writer.touched(ProcessId(0), library, &[pages(5, 2), pages(1, 1)]).unwrap();
    writer.looked(ProcessId(0)).unwrap();
}

/// Process, path, offset and size of a part.
type Named<'a> = (u32, &'a [u8], u64, u64);

/// The rows that [`touch`] must produce.
fn touched() -> Vec<Named<'static>> {
    let (library, program): (&[u8], &[u8]) = (b"/lib/libm.so", b"/bin/\xff\n");
    vec![(0, library, 0, 2 * PAGE), (0, library, 4 * PAGE, 3 * PAGE), (0, program, 0, 3 * PAGE)]
}

fn touched_of(recording: &Recording) -> Option<Vec<Named<'_>>> {
    let rows = recording.touched().unwrap()?;
    let named = |row: Touched| (row.process.0, recording.paths.bytes(row.path), row.offset, row.size);
    Some(rows.into_iter().map(named).collect())
}

fn open_link(writer: &mut Writer) {
    let path = Some(writer.path(b"link/\xff\n").unwrap());
    let event =
        Event { path, fd: Fd::WORKING_DIRECTORY, outcome: Outcome::Success(3), ..Event::new(Call::Openat) };
    writer.event(&event).unwrap();
    writer
        .identity(&OpenedFile { device: 77, inode: u64::MAX, mode: 0o100644, size: 9, modified: -1 })
        .unwrap();
}

const ENDING: Ending = Ending {
    ended: None,
    exit: Some(Exit::Status(3)),
    took: Some(Nanos(2_000_000_000)),
    lost: 1,
    notes: Vec::new(),
    client_counters: None,
};

#[test]
fn a_finished_recording_reads_back_with_resolved_paths_and_its_context() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    let mut writer = begin(&directory);
    open_link(&mut writer);
    writer.event(&Event { fd: Fd(3), flags: 5 << 32, ..Event::new(Call::Mmap) }).unwrap();
    writer.ended(ProcessId(0), Nanos(9), Some(Exit::Status(3))).unwrap();
    writer.finish(ENDING, &mut World).unwrap();

    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.header.completeness, Completeness::Complete);
    assert_eq!((recording.header.recorder.events, recording.header.recorder.lost), (2, 1));
    let seen = events(&recording);
    let target = seen[0].target.expect("a resolved path");
    assert_eq!(recording.paths.bytes(target), b"/work/target/\xff\n");
    assert_eq!((seen[1].target, seen[1].file_system), (Some(target), Some(MountId(0))));
    let context = &recording.context;
    assert_eq!(context.processes[0].exit, Some(Exit::Status(3)));
    assert_eq!(context.files[0].inode, u64::MAX);
    assert_eq!(context.elf_files[0].needed, ["libm.so", "libc.so"]);
    assert_eq!((context.links[0].target.as_str(), context.stripes[0].count), ("target", 4));
    assert_eq!(context.variables[0].value, "/bin:/usr/bin");
    assert!(!directory.join("spool").exists());
}

#[test]
fn a_recording_that_was_killed_is_read_from_its_spool_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    let mut writer = begin(&directory);
    open_link(&mut writer);
    writer.ended(ProcessId(0), Nanos(9), None).unwrap();
    drop(writer);
    let recording = Recording::open(&directory).unwrap();
    assert_eq!(recording.header.completeness, Completeness::Partial);
    assert_eq!(recording.paths.bytes(events(&recording)[0].target.unwrap()), b"/work/link/\xff\n");
}

#[test]
fn parts_of_files_are_merged_and_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    let mut writer = begin(&directory);
    touch(&mut writer);
    writer.finish(ENDING, &mut World).unwrap();
    assert_eq!(touched_of(&Recording::open(&directory).unwrap()), Some(touched()));
}

#[test]
fn a_recording_without_a_look_at_memory_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    begin(&directory).finish(ENDING, &mut World).unwrap();
    assert!(!directory.join("touched.parquet").exists());
    assert_eq!(Recording::open(&directory).unwrap().touched().unwrap(), None);
    let partial = folder.path().join("partial.qtrace");
    drop(begin(&partial));
    assert_eq!(Recording::open(&partial).unwrap().touched().unwrap(), None);
}

#[test]
fn a_killed_recorder_leaves_the_parts_of_processes_that_it_saw_to_their_end() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    let mut writer = begin(&directory);
    touch(&mut writer);
    drop(writer);
    assert_eq!(touched_of(&Recording::open(&directory).unwrap()), Some(touched()));
    // A spool cut at any byte gives all of a record or nothing of it.
    let spool = directory.join("spool");
    let whole = std::fs::read(&spool).unwrap();
    for length in 8..whole.len() {
        std::fs::write(&spool, &whole[..length]).unwrap();
        assert_eq!(touched_of(&Recording::open(&directory).unwrap()), None, "cut at {length}");
    }
}

#[test]
fn parts_that_the_table_lost_or_made_up_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, touch: &dyn Fn(&mut Writer)| {
        let directory = folder.path().join(name);
        let mut writer = begin(&directory);
        touch(&mut writer);
        writer.looked(ProcessId(0)).unwrap();
        writer.finish(ENDING, &mut World).unwrap();
        directory
    };
    let refuse = |directory: &Path| {
        Recording::open(directory).unwrap().touched().expect_err("a table that is wrong").to_string()
    };
    let made_up = write("path.qtrace", &|writer| {
        writer.touched(ProcessId(0), PathId(1 << 30), &[pages(0, 1)]).unwrap();
    });
    assert!(
        refuse(&made_up)
            .ends_with("touched.parquet` is damaged: a row is out of order or refers to a missing entry")
    );
    let impossible = write("extent.qtrace", &|writer| {
        let path = writer.path(b"/lib").unwrap();
        let ends_nowhere = Extent { offset: u64::MAX - 1, size: PAGE };
        writer.touched(ProcessId(0), path, &[ends_nowhere, pages(1, 0), pages(3, 1)]).unwrap();
    });
    assert_eq!(
        touched_of(&Recording::open(&impossible).unwrap()),
        Some(vec![(0, &b"/lib"[..], 3 * PAGE, PAGE)])
    );
    let lost = write("lost.qtrace", &|writer| touch(writer));
    std::fs::remove_file(lost.join("touched.parquet")).unwrap();
    assert!(refuse(&lost).starts_with("cannot open"));
}

#[test]
fn what_stands_before_damage_in_a_spool_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("app.qtrace");
    let mut writer = begin(&directory);
    open_link(&mut writer);
    drop(writer);
    let spool = directory.join("spool");
    let whole = std::fs::read(&spool).unwrap();
    let expected = events(&Recording::open(&directory).unwrap());
    assert!(!expected.is_empty());
    for tail in [&[0; 4096][..], &[0xff; 100], &[2; 77], &[3, 2, 0, 0, 0, b'{', b'x']] {
        std::fs::write(&spool, [&whole, tail].concat()).unwrap();
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(events(&recording)[..expected.len()], expected, "{:?}", &tail[..5]);
        assert_eq!(recording.header.completeness, Completeness::Partial);
    }
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |name: &str| Recording::open(&folder.path().join(name)).expect_err(name).to_string();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    std::fs::create_dir(folder.path().join("empty")).unwrap();
    assert!(refuse("file").contains("is not a trace: it is no directory"));
    assert!(refuse("empty").contains("is not a trace: it holds no `header.json`"));
    assert!(refuse("absent").starts_with("cannot open"));
    let directory = folder.path().join("app.qtrace");
    begin(&directory).finish(ENDING, &mut World).unwrap();
    let events = directory.join("events.parquet");
    let bytes = std::fs::read(&events).unwrap();
    std::fs::write(&events, &bytes[..bytes.len() / 2]).unwrap();
    let error = Recording::open(&directory).unwrap().for_each_event(|_| {}).expect_err("half a file");
    assert!(error.to_string().contains("is damaged"), "{error}");
    let header = std::fs::read_to_string(directory.join("header.json")).unwrap();
    std::fs::write(directory.join("header.json"), header.replace("\"version\": 1", "\"version\": 9"))
        .unwrap();
    assert!(refuse("app.qtrace").contains("has trace version 9"));
}

#[test]
fn a_changed_byte_of_any_table_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("t.qtrace");
    let mut writer = begin(&directory);
    open_link(&mut writer);
    touch(&mut writer);
    writer.finish(ENDING, &mut World).unwrap();
    let read = || {
        let recording = Recording::open(&directory)?;
        recording.touched()?;
        recording.for_each_event(|_| {})
    };
    read().unwrap();
    for entry in std::fs::read_dir(&directory).unwrap() {
        let file = entry.unwrap().path();
        if file.extension().is_none_or(|extension| extension != "parquet") {
            continue;
        }
        let whole = std::fs::read(&file).unwrap();
        for at in [0, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            std::fs::write(&file, &bytes).unwrap();
            let error = read().expect_err("a changed byte").to_string();
            assert!(error.ends_with("is damaged: its checksum is not the one in `header.json`"), "{error}");
        }
        std::fs::write(&file, &whole).unwrap();
    }
}

/// Sets every byte of a small table, data and footer, to the values most likely to break the reader, in a trace without
/// checksums.
#[test]
fn a_damaged_table_is_refused_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("t.qtrace");
    let mut writer = begin(&directory);
    open_link(&mut writer);
    touch(&mut writer);
    writer.finish(ENDING, &mut World).unwrap();
    forget_checksums(&directory);
    for name in ["stripes.parquet", "touched.parquet"] {
        let file = directory.join(name);
        let whole = std::fs::read(&file).unwrap();
        let mut refused = 0;
        for (at, byte) in whole.iter().enumerate() {
            for value in [0xff, byte ^ 0x80] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                std::fs::write(&file, &bytes).unwrap();
                if let Err(error) = Recording::open(&directory).and_then(|recording| recording.touched()) {
                    assert!(error.to_string().contains(&format!("{name}` is damaged: ")), "at {at}: {error}");
                    refused += 1;
                }
            }
        }
        assert!(refused > 0);
        std::fs::write(&file, &whole).unwrap();
    }
}

/// Turns a trace into one of the versions without checksums.
fn forget_checksums(directory: &Path) {
    let path = directory.join("header.json");
    let mut header: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    header.as_object_mut().unwrap().remove("files").unwrap();
    std::fs::write(path, header.to_string()).unwrap();
}

#[test]
fn a_trace_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Writer::create(folder.path(), header()), Err(TraceError::Exists { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn events_read_back_as_written(
        rows in proptest::collection::vec((0..Call::ALL.len(), -200i64..1 << 33, any::<(u64, u32, i16)>()), 0..300)
    ) {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("app.qtrace");
        let mut writer = begin(&directory);
        let mut written = Vec::new();
        for (index, (call, result, (flags, size, fd))) in rows.into_iter().enumerate() {
            let event = Event {
                start: Nanos(index as u64 * 7), duration: Nanos(size.into()), flags, size: Bytes(size.into()),
                outcome: Outcome::from_return_value(result), fd: Fd(fd.into()),
                offset: (size % 2 == 0).then_some(flags as i64),
                ..Event::new(Call::ALL[call])
            };
            writer.event(&event).unwrap();
            written.push(event);
        }
        writer.finish(ENDING, &mut World).unwrap();
        let mut read = events(&Recording::open(&directory).unwrap());
        for event in &mut read {
            (event.target, event.target2, event.file_system) = (None, None, None);
        }
        prop_assert_eq!(read, written);
    }
}
