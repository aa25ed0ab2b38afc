//! Shared by the fuzz targets: patches of a sound file, and a directory in memory to write them to.
//!
//! A byte-wise fuzzer never guesses a magic number, a length and a checksum at once. So an input is either the whole
//! content of a file or a list of patches of a sound one.

use std::path::PathBuf;

/// The content of a file that an input means.
///
/// ```text
/// 0 | bytes                                  the bytes
/// other | (offset u24, value u8)*            the sound file with these bytes replaced; an offset counts modulo its length
/// 255 | length u24 | (offset u24, value u8)* the same, cut to this length
/// ```
pub fn content(sound: &[u8], input: &[u8]) -> Vec<u8> {
    let Some((&mode, rest)) = input.split_first() else { return Vec::new() };
    if mode == 0 {
        return rest.to_vec();
    }
    let mut bytes = sound.to_vec();
    let mut rest = rest;
    if mode == 255
        && let Some((length, patches)) = rest.split_first_chunk::<3>()
    {
        bytes.truncate(number(length) % (sound.len() + 1));
        rest = patches;
    }
    let length = bytes.len();
    for patch in rest.chunks_exact(4).filter(|_| length > 0) {
        bytes[number(&[patch[0], patch[1], patch[2]]) % length] = patch[3];
    }
    bytes
}

fn number(bytes: &[u8; 3]) -> usize {
    usize::from(bytes[0]) | usize::from(bytes[1]) << 8 | usize::from(bytes[2]) << 16
}

/// A directory in memory for this process alone, without anything in it. The script that runs the targets removes it.
pub fn scratch(target: &str) -> PathBuf {
    let base = std::env::var_os("QUELL_FUZZ_SCRATCH").map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = base.join(format!("quell-fuzz-{target}-{}", std::process::id()));
    _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).expect("a directory that can be written");
    directory
}

/// A small trace of every kind of row.
pub mod sound {
    use quell_trace::context::{InheritedFd, NamespaceChange};
    use quell_trace::resolve::{LinkAnswer, Links};
    use quell_trace::writer::{Ending, Finish, OpenedFile};
    use quell_trace::{
        Call, Completeness, ElfFile, Event, Execution, Exit, Extent, Fd, Header, Mount, Nanos, Outcome, PathId, Pid,
        Process, ProcessId, Stripe, SeenPlace, Thread, ThreadId, TraceError, Writer,
    };
    use std::path::Path;

    /// Writes it, and finishes it or leaves its spool.
    ///
    /// # Errors
    /// As of the writer.
    pub fn trace(directory: &Path, completeness: Completeness) -> Result<(), TraceError> {
        let mut writer = Writer::create(directory, header())?;
        let (process, thread) = (ProcessId(0), ThreadId(0));
        let work = writer.path(b"/work")?;
        writer.process(Process { pid: Pid(7), parent: None, start: Nanos(0), end: None, exit: None })?;
        let first =
            Thread { tid: Pid(7), process, parent: None, start: Nanos(0), shares_files: false, shares_directory: false };
        writer.thread(first)?;
        writer.working_directory(work)?;
        writer.inherited(InheritedFd { fd: 0, path: None })?;
        writer.mounts(vec![mount()])?;
        writer.namespace(NamespaceChange { process, at: Nanos(0), namespace: 1 })?;
        let program = writer.path(b"/bin/\xff")?;
        let arguments = vec!["a".into(), "b".into()];
        let execution = Execution { process, thread, at: Nanos(5), program: Some(program), arguments };
        writer.execution(execution, vec![("PATH".into(), "/bin".into())])?;
        for step in 0..12_u64 {
            let path = writer.path(format!("f{step}").as_bytes())?;
            let calls = [Call::Openat, Call::Mmap, Call::Close];
            let call = calls[step as usize % calls.len()];
            let base = Event::new(call);
            let opens = call == Call::Openat;
            let event = Event {
                start: Nanos(10 * step + 10),
                duration: Nanos(3),
                outcome: Outcome::from_return_value(if opens { 3 } else { -2 }),
                fd: if opens { Fd::WORKING_DIRECTORY } else { Fd(3) },
                path: opens.then_some(path),
                ..base
            };
            writer.seen(thread, SeenPlace::WorkingDirectory, Some(work))?;
            writer.event(&event)?;
            if opens {
                writer.identity(&OpenedFile { device: 1, inode: 2, mode: 0o100_644, size: 3, modified: 4 })?;
            }
        }
        let library = writer.path(b"/lib/l.so")?;
        writer.touched(process, library, &[Extent { offset: 8192, size: 4096 }, Extent { offset: 0, size: 4096 }])?;
        writer.touched(process, work, &[Extent { offset: 4096, size: 4096 }])?;
        writer.looked(process)?;
        writer.ended(process, Nanos(200), Some(Exit::Status(0)))?;
        if completeness == Completeness::Complete {
            let ending = Ending { exit: Some(Exit::Status(0)), took: Some(Nanos(200)), ended: None, lost: 0, notes: vec!["n".into()], client_counters: None };
            writer.finish(ending, &mut Answers)?;
        }
        Ok(())
    }

    fn mount() -> Mount {
        Mount {
            namespace: 1,
            mount_point: "/".into(),
            root: "/".into(),
            kind: "ext4".into(),
            source: "d".into(),
            device: 1,
            options: "rw".into(),
        }
    }

    fn header() -> Header {
        Header {
            working_directory: "/work".into(),
            host: "h".into(),
            kernel: "k".into(),
            ..Header::begun("ptrace", "0", vec!["a".into()])
        }
    }

    /// One link on the way, and one loaded file with everything.
    struct Answers;

    impl Links for Answers {
        fn link(&mut self, path: &[u8]) -> LinkAnswer {
            if path == b"/work" { LinkAnswer::Link(b"/real".to_vec()) } else { LinkAnswer::NoLink }
        }
    }

    impl Finish for Answers {
        fn elf(&mut self, path: PathId, _: &[u8]) -> Option<ElfFile> {
            let text = || Some("x".to_owned());
            let needed = vec!["libc.so.6".into()];
            Some(ElfFile { path, interpreter: text(), soname: text(), needed, rpath: text(), runpath: text() })
        }

        fn stripe(&mut self, path: PathId, _: &[u8]) -> Option<Stripe> {
            Some(Stripe { path, count: 4, size: 1 << 20 })
        }
    }
}
