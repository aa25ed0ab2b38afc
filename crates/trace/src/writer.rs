//! Writes a recording: first a spool that survives the recorder's death, then the Parquet files.

use crate::context::{InheritedFd, NamespaceChange};
use crate::path::LONGEST_TARGET;
use crate::resolve::{Links, NoFileSystem, Resolver};
use crate::store::create;
use crate::store::events::{self, EventWriter};
use crate::store::spool::{SeenFile, SeenPlace, SpoolNote, SpoolReader, SpoolRecord, SpoolWriter};
use crate::store::sums::Sums;
use crate::store::tables;
use crate::touched::{Collected, Extent};
use crate::{
    Completeness, Context, ElfFile, Ended, Event, Execution, Exit, FileIdentity, Header, Import, Mount,
    Nanos, PathId, PathTable, Process, ProcessId, Stripe, Thread, ThreadId, TraceError,
};
use quell_base::files::Folder;
use quell_counters::ClientCounters;
use std::path::Path;

/// A recording being written.
///
/// All input reaches the spool in order. [`Writer::finish`] turns the spool into Parquet files. If a killed recorder
/// never calls it, [`crate::Recording::open`] reads the spool.
#[derive(Debug)]
pub struct Writer {
    /// Held open, so that writes never follow a later change of the directory's name.
    folder: Folder,
    header: Header,
    spool: SpoolWriter,
    paths: PathTable,
    processes: u32,
    threads: u32,
    events: u64,
}

/// Facts that the recorder collects at the end, from file systems that only it may access.
pub trait Finish: Links {
    /// The dynamic section of an executable or library; `None` when it is not ELF or cannot be read.
    fn elf(&mut self, id: PathId, path: &[u8]) -> Option<ElfFile>;
    /// The striping of a file; `None` where the file system does not report it.
    fn stripe(&mut self, id: PathId, path: &[u8]) -> Option<Stripe>;
}

impl Finish for NoFileSystem {
    fn elf(&mut self, _: PathId, _: &[u8]) -> Option<ElfFile> {
        None
    }

    fn stripe(&mut self, _: PathId, _: &[u8]) -> Option<Stripe> {
        None
    }
}

/// The end of the recording.
#[derive(Clone, Debug)]
pub struct Ending {
    /// The event that ended the recording; `None` where it is not known.
    pub ended: Option<Ended>,
    /// The end of the command; `None` when its observer ended first.
    pub exit: Option<Exit>,
    /// The duration; `None` when it was not measured.
    pub took: Option<Nanos>,
    /// Events that happened and are not recorded.
    pub lost: u64,
    /// The reasons for lost events, and other remarks that readers need; one sentence each.
    pub notes: Vec<String>,
    /// Counters of clients, where they were read.
    pub client_counters: Option<ClientCounters>,
}

/// True while a [`Writer`], on a node with which the file system shares locks, writes this trace.
pub fn is_being_written(directory: &Path) -> bool {
    let spool = std::fs::File::open(directory.join("spool"));
    spool.is_ok_and(|spool| matches!(spool.try_lock_shared(), Err(std::fs::TryLockError::WouldBlock)))
}

impl Writer {
    /// Creates the directory (mode 0700) with a header that says `partial`, and an empty spool.
    ///
    /// # Errors
    /// [`TraceError::Exists`] when the name exists already; [`TraceError::Io`] when it cannot be written.
    pub fn create(directory: &Path, header: Header) -> Result<Self, TraceError> {
        let folder = Folder::create(directory).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => TraceError::Exists { path: directory.to_owned() },
            _ => TraceError::io("create", directory)(error),
        })?;
        let begin = || {
            write_header(&folder, &header, &Sums::default())?;
            let spool = create(&folder, "spool")?;
            // A file system without locks loses only the answer of `is_being_written`.
            _ = spool.0.try_lock();
            SpoolWriter::create(spool)
        };
        let spool = match begin() {
            Ok(spool) => spool,
            Err(error) => {
                // The first error tells more than a failed removal.
                _ = folder.discard();
                return Err(error);
            }
        };
        Ok(Self { folder, header, spool, paths: PathTable::default(), processes: 0, threads: 0, events: 0 })
    }

    /// The number of a path as the program passed it. A path longer than [`LONGEST_TARGET`] is cut
    /// there.
    ///
    /// # Errors
    /// [`TraceError::Io`] as for all appends: usually a full disk.
    pub fn path(&mut self, bytes: &[u8]) -> Result<PathId, TraceError> {
        let bytes = &bytes[..bytes.len().min(LONGEST_TARGET)];
        let known = self.paths.len();
        let id = self.paths.intern(bytes);
        if id.0 as usize == known {
            self.spool.path(bytes)?;
        }
        Ok(id)
    }

    /// Appends a call that ended.
    pub fn event(&mut self, event: &Event) -> Result<(), TraceError> {
        self.events += 1;
        self.spool.event(event)
    }

    /// Appends the identity of the file that the last appended event opened.
    pub fn identity(&mut self, file: &OpenedFile) -> Result<(), TraceError> {
        let &OpenedFile { device, inode, mode, size, modified } = file;
        self.spool.note(&SpoolNote::Identity { device, inode, mode, size, modified })
    }

    /// Appends a process; the first is the command itself.
    pub fn process(&mut self, process: Process) -> Result<ProcessId, TraceError> {
        self.spool.note(&SpoolNote::Process(process))?;
        self.processes += 1;
        Ok(ProcessId(self.processes - 1))
    }

    /// Appends a thread, also the first of each process.
    pub fn thread(&mut self, thread: Thread) -> Result<ThreadId, TraceError> {
        self.spool.note(&SpoolNote::Thread(thread))?;
        self.threads += 1;
        Ok(ThreadId(self.threads - 1))
    }

    /// Records the end of a process.
    pub fn ended(&mut self, process: ProcessId, at: Nanos, exit: Option<Exit>) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Ended { process, at, exit })?;
        self.spool.flush()
    }

    /// Appends a successful `execve` with the program's search variables.
    pub fn execution(
        &mut self,
        execution: Execution,
        variables: Vec<(String, String)>,
    ) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Execution(execution, variables))
    }

    /// Appends the mounts of a namespace, in the order of mountinfo.
    pub fn mounts(&mut self, mounts: Vec<Mount>) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Mounts(mounts))
    }

    /// Records that a process sees another mount namespace from now on.
    pub fn namespace(&mut self, change: NamespaceChange) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Namespace(change))
    }

    /// Records the directory in which the command was started.
    pub fn working_directory(&mut self, path: PathId) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::WorkingDirectory(path))
    }

    /// Appends a descriptor that the command inherited.
    pub fn inherited(&mut self, fd: InheritedFd) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Inherited(fd))
    }

    /// Records the file that an observer saw at the call of the event appended next. It overrides the replayed state. `path` is
    /// `None` for a file without a path.
    pub fn seen(
        &mut self,
        thread: ThreadId,
        place: SeenPlace,
        path: Option<PathId>,
    ) -> Result<(), TraceError> {
        self.spool.seen(SeenFile { thread, place, path })
    }

    /// Appends touched parts of a mapped file. Parts may be repeated. They count only once [`Writer::looked`] marks the
    /// process as complete.
    pub fn touched(
        &mut self,
        process: ProcessId,
        path: PathId,
        extents: &[Extent],
    ) -> Result<(), TraceError> {
        self.spool.touched(process, path, extents)
    }

    /// Marks the touched parts of a process as complete for the mappings that it had at its end.
    pub fn looked(&mut self, process: ProcessId) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Looked(process))
    }

    /// Appends an import that begins.
    pub fn importing(&mut self, import: Import) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Importing(import))
    }

    /// Ends the innermost import of a thread, which loaded the file `origin`.
    pub fn imported(
        &mut self,
        thread: ThreadId,
        at: Nanos,
        origin: Option<String>,
    ) -> Result<(), TraceError> {
        self.spool.note(&SpoolNote::Imported { thread, at, origin })
    }

    /// The number of events appended so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Ends the recording: resolves every path, writes the Parquet files and the final header, removes the spool.
    /// On failure the spool stays, and the trace can be read as a partial one.
    pub fn finish(mut self, ending: Ending, ask: &mut dyn Finish) -> Result<Header, TraceError> {
        self.spool.flush()?;
        let folder = &self.folder;
        let spool = || {
            let path = folder.path_of("spool");
            let file = folder.open_file("spool").map_err(TraceError::io("open", &path))?;
            SpoolReader::of(file, &path)
        };
        let mut loaded = load_context(spool()?, Damage::Fails)?;
        let mut resolver = Resolver::new(&loaded.context);
        let mut events = EventWriter::create(create(folder, events::NAME)?)?;
        let mut files = Files::default();
        let mut touched = Collected::default();
        for_each(spool()?, Damage::Fails, &mut PathTable::default(), |record| {
            match record {
                SpoolRecord::Event(mut event) => {
                    resolver.resolve(&mut loaded.paths, ask, &mut event);
                    files.seen(&event, resolver.sees(event.thread));
                    events.write(&event)?;
                }
                SpoolRecord::Note(SpoolNote::Looked(process)) => touched.looked(process),
                SpoolRecord::Note(note) => files.note(&note),
                SpoolRecord::Touched(process, path, extents) => touched.add(process, path, &extents),
                SpoolRecord::Seen(seen) => resolver.see(seen),
            }
            Ok(())
        })?;
        events.finish()?;
        let links = resolver.into_links(&mut loaded.paths);
        loaded.context.links = links;
        loaded.context.files = files.identities;
        for path in files.loaded {
            loaded.context.elf_files.extend(ask.elf(path, loaded.paths.bytes(path)));
        }
        for file in &loaded.context.files {
            loaded.context.stripes.extend(ask.stripe(file.path, loaded.paths.bytes(file.path)));
        }
        tables::write(folder, &loaded.paths, &loaded.context)?;
        self.header.completeness = Completeness::Complete;
        self.header.ended = ending.ended;
        self.header.exit = ending.exit;
        self.header.seconds = ending.took.map(Nanos::as_seconds);
        self.header.recorder.events = self.events;
        self.header.recorder.lost = ending.lost;
        self.header.recorder.notes = ending.notes;
        self.header.client_counters = ending.client_counters;
        let touched = touched.into_rows();
        if let Some(touched) = &touched {
            tables::write_touched(folder, touched)?;
        }
        let known = touched.map(|_| tables::TOUCHED);
        let imports = (!loaded.context.imports.is_empty()).then_some(tables::IMPORTS);
        let names: Vec<&str> = tables::names().chain([events::NAME]).chain(known).chain(imports).collect();
        write_header(folder, &self.header, &Sums::of(folder, &names)?)?;
        folder.remove("spool").map_err(TraceError::io("remove", &folder.path_of("spool")))?;
        Ok(self.header)
    }
}

/// The `fstat` result of a file at its first successful open.
#[derive(Clone, Copy, Debug)]
pub struct OpenedFile {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// `st_mode`.
    pub mode: u32,
    /// `st_size`. Unit: bytes.
    pub size: u64,
    /// `st_mtim` in nanoseconds since 1970.
    pub modified: i64,
}

/// Collects files with an identity and files loaded as code, during the pass over the events.
#[derive(Debug, Default)]
struct Files {
    last: Option<PathId>,
    known: std::collections::HashSet<PathId>,
    identities: Vec<FileIdentity>,
    loaded: std::collections::BTreeSet<PathId>,
}

/// `PROT_EXEC` in the protection half of an `mmap` event's flags.
const MAPPED_FOR_EXECUTION: u64 = 4 << 32;

impl Files {
    /// Takes an event. A file that is not `visible` may be another one where the recorder looks.
    fn seen(&mut self, event: &Event, visible: bool) {
        use crate::{Call, Class};
        self.last = event.target;
        let loads = match event.call {
            Call::Mmap => event.flags & MAPPED_FOR_EXECUTION != 0,
            call => call.class() == Class::Exec,
        };
        if loads && visible && event.outcome.is_success() {
            self.loaded.extend(event.target);
        }
    }

    fn note(&mut self, note: &SpoolNote) {
        if let (&SpoolNote::Identity { device, inode, mode, size, modified }, Some(path)) = (note, self.last)
            && self.known.insert(path)
        {
            self.identities.push(FileIdentity { path, device, inode, mode, size, modified });
        }
    }
}

/// Paths and context of a spool. Its events are read in a separate pass, so that memory does not grow with their
/// number.
#[derive(Debug, Default)]
pub(crate) struct LoadedSpool {
    pub(crate) paths: PathTable,
    pub(crate) context: Context,
}

pub(crate) fn load_context(spool: SpoolReader, damage: Damage) -> Result<LoadedSpool, TraceError> {
    let mut loaded = LoadedSpool::default();
    let mut paths = PathTable::default();
    for_each(spool, damage, &mut paths, |record| {
        if let SpoolRecord::Note(note) = record {
            apply(note, &mut loaded.context);
        }
        Ok(())
    })?;
    loaded.paths = paths;
    Ok(loaded)
}

/// The handling of damage in a spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Report an error: the recorder that wrote the spool reads it.
    Fails,
    /// Stop reading: a machine that crashed may have left a hole or zeros in place of the last records.
    Ends,
}

pub(crate) fn for_each(
    mut spool: SpoolReader,
    damage: Damage,
    paths: &mut PathTable,
    mut each: impl FnMut(SpoolRecord) -> Result<(), TraceError>,
) -> Result<(), TraceError> {
    loop {
        match spool.next(paths) {
            Ok(Some(record)) => each(record)?,
            Ok(None) => return Ok(()),
            Err(TraceError::Damaged { .. }) if damage == Damage::Ends => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

fn apply(note: SpoolNote, context: &mut Context) {
    match note {
        SpoolNote::Process(process) => context.processes.push(process),
        SpoolNote::Thread(thread) => context.threads.push(thread),
        SpoolNote::Ended { process, at, exit } => {
            if let Some(process) = context.processes.get_mut(process.0 as usize) {
                (process.end, process.exit) = (Some(at), exit);
            }
        }
        SpoolNote::Execution(execution, variables) => {
            let number = context.executions.len() as u32;
            // A new program knows nothing of the imports of the former.
            let (thread, at) = (execution.thread, execution.at);
            while end_import(context, thread, at, None) {}
            context.executions.push(execution);
            let variables = variables.into_iter();
            context.variables.extend(variables.map(|(name, value)| crate::Variable {
                execution: number,
                name,
                value,
            }));
        }
        SpoolNote::Mounts(mounts) => context.mounts.extend(mounts),
        SpoolNote::Namespace(change) => context.namespaces.push(change),
        SpoolNote::WorkingDirectory(path) => context.working_directory = Some(path),
        SpoolNote::Inherited(fd) => context.inherited.push(fd),
        SpoolNote::Importing(import) => context.imports.push(import),
        SpoolNote::Imported { thread, at, origin } => _ = end_import(context, thread, at, origin),
        SpoolNote::Identity { .. } | SpoolNote::Looked(_) => {}
    }
}

/// Ends the innermost import of a thread; false where it has none.
fn end_import(context: &mut Context, thread: ThreadId, at: Nanos, origin: Option<String>) -> bool {
    let mut imports = context.imports.iter_mut().rev();
    let Some(import) = imports.find(|import| import.thread == thread && import.end.is_none()) else {
        return false;
    };
    (import.end, import.origin) = (Some(at), origin);
    true
}

/// `header.json` as written.
#[derive(serde::Serialize)]
struct Stored<'a> {
    #[serde(flatten)]
    header: &'a Header,
    files: &'a Sums,
}

/// Writes the header under another name and renames it, so that a reader never sees a partial header.
fn write_header(folder: &Folder, header: &Header, files: &Sums) -> Result<(), TraceError> {
    const ASIDE: &str = "header.json.new";
    let path = folder.path_of("header.json");
    let mut json = serde_json::to_string_pretty(&Stored { header, files })
        .map_err(|error| TraceError::damaged(&path, error))?;
    json.push('\n');
    let write = || -> std::io::Result<()> {
        std::io::Write::write_all(&mut folder.create_file(ASIDE)?, json.as_bytes())?;
        folder.rename(ASIDE, "header.json")
    };
    write().map_err(TraceError::io("write", &path))
}
