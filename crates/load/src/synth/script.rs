//! A program being made up: the files that there are, the calls that it makes, and from both the trace.

use super::{Request, SynthError};
use quell_trace::context::NamespaceChange;
use quell_trace::flags::{O_CLOEXEC, O_DIRECTORY};
use quell_trace::resolve::{Answer, Links};
use quell_trace::writer::{Ending, Finish, OpenedFile};
use quell_trace::{
    Bytes, Call, ElfFile, Errno, Event, Execution, Exit, Extent, Fd, Mount, Nanos, Outcome, PathId,
    PathTable, Pid, Process, ProcessId, Stripe, Thread, ThreadId, Writer,
};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// What is known of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) content: Content,
    /// Whether its owner may read it.
    pub(super) readable: bool,
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// So many bytes that follow from the file's name.
    Bytes(u64),
    /// This text.
    Text(String),
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Bytes(size) => *size,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// How a program or library asks for others.
#[derive(Clone, Debug, Default)]
pub(super) struct Dynamic {
    pub(super) is_program: bool,
    pub(super) needed: Vec<String>,
}

/// Where one call of [`Script::map`] puts a library's parts in memory, as shares of 16: first part, size, protection.
const PARTS: [(u64, u64, u64); 4] = [(0, 16, 1), (2, 10, 5), (12, 3, 1), (15, 1, 3)];
const MAP_PRIVATE: u64 = 2;
/// How long a call takes where nobody else has to answer. Bounds of a prediction do not depend on it.
const CALL: u64 = 1_000;
/// What a directory's entry takes of a buffer of `getdents64`. Unit: bytes.
const ENTRY: i64 = 32;
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const LOCAL_LIBRARY: &str = "/lib/x86_64-linux-gnu/libc.so.6";
const FILE_MODE: u32 = 0o100_644;
/// `st_mtime` of every file: 2012-01-01. Unit: seconds.
pub(super) const MODIFIED: u64 = 1_325_376_000;

/// The program that is executed.
#[derive(Debug)]
struct Program {
    path: String,
    variables: Vec<(String, String)>,
}

#[derive(Debug)]
struct Section {
    from: usize,
    /// Time computed in it, if it has its own.
    compute: Option<u64>,
}

/// The program.
#[derive(Debug)]
pub(super) struct Script {
    root: String,
    files: BTreeMap<String, File>,
    /// Every directory that holds something, with how many entries.
    directories: BTreeMap<String, i64>,
    paths: PathTable,
    events: Vec<Event>,
    sections: Vec<Section>,
    /// Open files by descriptor.
    open: HashMap<i32, String>,
    /// Descriptors of which the end was read.
    listed: HashMap<i32, bool>,
    program: Option<Program>,
    dynamic: BTreeMap<String, Dynamic>,
    touched: BTreeMap<String, u64>,
}

impl Script {
    pub(super) fn new(root: &Path) -> Self {
        let mut script = Self {
            root: root.to_string_lossy().into_owned(),
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            paths: PathTable::default(),
            events: Vec::new(),
            sections: vec![Section { from: 0, compute: None }],
            open: HashMap::new(),
            listed: HashMap::new(),
            program: None,
            dynamic: BTreeMap::new(),
            touched: BTreeMap::new(),
        };
        script.file(LOADER, 200_000);
        script.file(LOCAL_LIBRARY, 1_900_000);
        script.file("/etc/ld.so.cache", 40_000);
        script
    }

    /// The absolute path of a name: those with a slash in front lie on the node itself, others below the root.
    pub(super) fn at(&self, name: &str) -> String {
        match name.starts_with('/') {
            true => name.to_owned(),
            false => format!("{}/{name}", self.root),
        }
    }

    /// Declares a file of so many bytes.
    pub(super) fn file(&mut self, name: &str, size: u64) {
        self.declare(name, File { content: Content::Bytes(size), readable: true });
    }

    /// Declares a file with this text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.declare(name, File { content: Content::Text(text.to_owned()), readable: true });
    }

    /// Declares a file that nobody may read.
    pub(super) fn secret(&mut self, name: &str, text: &str) {
        self.declare(name, File { content: Content::Text(text.to_owned()), readable: false });
    }

    /// Declares an ELF file: what it needs is kept for those who read the trace.
    pub(super) fn elf(&mut self, name: &str, size: u64, dynamic: Dynamic) {
        self.file(name, size);
        self.dynamic.insert(self.at(name), dynamic);
    }

    /// Declares an empty directory.
    pub(super) fn directory(&mut self, name: &str) {
        let path = self.at(name);
        self.enter(&path);
    }

    fn declare(&mut self, name: &str, file: File) {
        let path = self.at(name);
        if let Some((parent, _)) = path.rsplit_once('/') {
            self.enter(parent);
            *self.directories.entry(parent.to_owned()).or_default() += 1;
        }
        self.files.insert(path, file);
    }

    fn enter(&mut self, directory: &str) {
        let mut path = directory;
        while !path.is_empty() && !self.directories.contains_key(path) {
            self.directories.insert(path.to_owned(), 0);
            let Some((parent, _)) = path.rsplit_once('/') else { break };
            *self.directories.entry(parent.to_owned()).or_default() += 1;
            path = parent;
        }
    }

    /// Files and directories below the root, by their names there. Shape: sorted; `None` for a directory.
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Option<&File>)> {
        let below = |path: &'_ str| {
            path.starts_with(&self.root) && path.as_bytes().get(self.root.len()) == Some(&b'/')
        };
        let cut = self.root.len() + 1;
        let directories =
            self.directories.keys().filter(move |path| below(path)).map(move |path| (&path[cut..], None));
        let files = self.files.iter().filter(move |(path, _)| below(path));
        directories.chain(files.map(move |(path, file)| (&path[cut..], Some(file))))
    }

    /// Files below the root, and their bytes.
    pub(super) fn size(&self) -> (u64, u64) {
        let files = self.files().filter_map(|(_, file)| file);
        files.fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.content.size()))
    }

    /// From here on the program computes for so long between its calls, by itself and not as part of the request's time.
    pub(super) fn section(&mut self, compute: Nanos) {
        self.sections.push(Section { from: self.events.len(), compute: Some(compute.0) });
    }

    fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    fn by_path(&mut self, call: Call, name: &str, outcome: Outcome) -> Event {
        let path = self.at(name);
        let path = self.paths.intern(path.as_bytes());
        let fd = match call {
            Call::Openat | Call::Newfstatat | Call::Execveat => Fd::WORKING_DIRECTORY,
            _ => Fd::NONE,
        };
        Event { path: Some(path), fd, outcome, ..Event::new(call) }
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.directories.contains_key(path)
    }

    fn presence(&self, name: &str) -> Outcome {
        match self.exists(&self.at(name)) {
            true => Outcome::Success(0),
            false => Outcome::Failure(Errno::ENOENT),
        }
    }

    /// A call by name that succeeds where the name exists: `stat`, `access`, `newfstatat`.
    pub(super) fn ask(&mut self, call: Call, name: &str) {
        let outcome = self.presence(name);
        let event = self.by_path(call, name, outcome);
        self.push(event);
    }

    /// A call by name with this outcome.
    pub(super) fn fails(&mut self, call: Call, name: &str, errno: Errno) {
        let event = self.by_path(call, name, Outcome::Failure(errno));
        self.push(event);
    }

    /// Opens a file; `None` where there is none, or none that may be read.
    pub(super) fn open(&mut self, name: &str) -> Option<i32> {
        self.open_with(name, O_CLOEXEC)
    }

    fn open_with(&mut self, name: &str, flags: u64) -> Option<i32> {
        let path = self.at(name);
        let readable = self.files.get(&path).is_none_or(|file| file.readable);
        let outcome = match (self.exists(&path), readable) {
            (true, true) => Outcome::Success(self.free_descriptor().into()),
            (true, false) => Outcome::Failure(Errno::EACCES),
            (false, _) => Outcome::Failure(Errno::ENOENT),
        };
        let event = self.by_path(Call::Openat, name, outcome);
        self.push(Event { flags, ..event });
        let Outcome::Success(fd) = outcome else { return None };
        self.open.insert(fd as i32, path);
        Some(fd as i32)
    }

    fn free_descriptor(&self) -> i32 {
        (3..).find(|fd| !self.open.contains_key(fd)).expect("few files are open")
    }

    /// A call on an open file.
    pub(super) fn on(&mut self, fd: i32, call: Call, outcome: Outcome) {
        self.push(Event { fd: Fd(fd), outcome, ..Event::new(call) });
    }

    /// Asks for an open file's attributes.
    pub(super) fn fstat(&mut self, fd: i32) {
        self.on(fd, Call::Fstat, Outcome::Success(0));
    }

    /// Reads from the begin of an open file.
    pub(super) fn read(&mut self, fd: i32, size: u64) {
        let length =
            self.open.get(&fd).and_then(|path| self.files.get(path)).map_or(0, |file| file.content.size());
        let outcome = Outcome::Success(length.min(size) as i64);
        self.push(Event { fd: Fd(fd), size: Bytes(size), outcome, ..Event::new(Call::Read) });
    }

    /// Reads at an open file's end: nothing is left.
    pub(super) fn read_end(&mut self, fd: i32) {
        let event = Event { fd: Fd(fd), size: Bytes(4096), ..Event::new(Call::Read) };
        self.push(event);
    }

    /// Closes a file.
    pub(super) fn close(&mut self, fd: i32) {
        self.on(fd, Call::Close, Outcome::Success(0));
        self.open.remove(&fd);
        self.listed.remove(&fd);
    }

    /// Opens a directory.
    pub(super) fn open_directory(&mut self, name: &str) -> Option<i32> {
        self.open_with(name, O_CLOEXEC | O_DIRECTORY)
    }

    /// Reads from an open directory: all entries at first, then that there are no more.
    pub(super) fn list(&mut self, fd: i32) {
        let entries = self.open.get(&fd).and_then(|path| self.directories.get(path)).copied().unwrap_or(0);
        let again = self.listed.insert(fd, true).is_some();
        let outcome = Outcome::Success(if again { 0 } else { (entries + 2) * ENTRY });
        let size = Bytes(1 << 15);
        self.push(Event { fd: Fd(fd), size, outcome, ..Event::new(Call::Getdents64) });
    }

    /// Maps an open library's parts, as the dynamic loader does; `touched` percent of it are used.
    pub(super) fn map(&mut self, fd: i32, touched: u64) {
        let Some(path) = self.open.get(&fd).cloned() else { return };
        let size = self.files.get(&path).map_or(0, |file| file.content.size());
        for (number, (from, parts, protection)) in PARTS.into_iter().enumerate() {
            let offset = (size * from / 16) & !4095;
            let event = Event {
                fd: Fd(fd),
                outcome: Outcome::Success(0x7f00_0000_0000 + number as i64 * 0x100_0000),
                flags: protection << 32 | MAP_PRIVATE,
                size: Bytes((size * parts / 16).max(1)),
                offset: Some(offset as i64),
                ..Event::new(Call::Mmap)
            };
            self.push(event);
        }
        let used = (size * touched / 100).next_multiple_of(4096).min(size.next_multiple_of(4096));
        if used > 0 {
            self.touched.insert(path, used);
        }
    }

    /// Opens, reads the head of, maps and closes a library; false where it is not.
    pub(super) fn load(&mut self, name: &str, touched: u64) -> bool {
        let Some(fd) = self.open(name) else { return false };
        self.read(fd, 832);
        self.fstat(fd);
        self.map(fd, touched);
        self.close(fd);
        true
    }

    /// Starts the program: `execve` and the dynamic loader's work for the C library, which lies on the node itself.
    pub(super) fn execute(&mut self, name: &str, size: u64, needed: &[String], variables: &[(&str, String)]) {
        let program = self.at(name);
        let needed = ["libc.so.6".to_owned()].iter().chain(needed).cloned().collect();
        self.elf(name, size, Dynamic { is_program: true, needed });
        let event = self.by_path(Call::Execve, name, Outcome::Success(0));
        self.push(event);
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        self.program = Some(Program { path: program, variables });
        self.dynamic.insert(LOCAL_LIBRARY.to_owned(), Dynamic::default());
    }

    /// The loader maps the C library of the node: two calls by name, four on its descriptor.
    pub(super) fn load_c_library(&mut self) {
        if let Some(fd) = self.open("/etc/ld.so.cache") {
            self.close(fd);
        }
        if let Some(fd) = self.open(LOCAL_LIBRARY) {
            self.read(fd, 832);
            self.map(fd, 0);
            self.close(fd);
        }
    }

    /// Writes the trace. Returns the number of calls.
    pub(super) fn write(self, request: &Request) -> Result<u64, SynthError> {
        let mut writer = Writer::create(&request.trace, request.header.clone())?;
        let directory = request.trace.clone();
        let calls = self.events.len() as u64;
        self.write_into(&mut writer, request)
            .and_then(|took| self.finish(writer, took))
            .inspect_err(|_| _ = std::fs::remove_dir_all(directory))?;
        Ok(calls)
    }

    fn finish(&self, writer: Writer, took: Nanos) -> Result<(), SynthError> {
        let ending = Ending {
            exit: Some(Exit::Status(0)),
            took: Some(took),
            lost: 0,
            notes: vec!["made by `quell synth`, not recorded".to_owned()],
        };
        writer.finish(ending, &mut Made { dynamic: &self.dynamic })?;
        Ok(())
    }

    /// Returns when the program ended.
    fn write_into(&self, writer: &mut Writer, request: &Request) -> Result<Nanos, SynthError> {
        for (_, path) in self.paths.iter() {
            writer.path(path)?;
        }
        self.write_context(writer, request)?;
        let mut clock = 0;
        let mut identified = std::collections::HashSet::new();
        let mut open: HashMap<i32, PathId> = HashMap::new();
        for (section, gap) in self.timed(request.compute.0) {
            for (number, event) in section.iter().enumerate() {
                clock += gap;
                let event = Event { start: Nanos(clock), duration: Nanos(CALL), ..*event };
                clock += CALL;
                writer.event(&event)?;
                if let (Call::Openat, Outcome::Success(fd), Some(path)) =
                    (event.call, event.outcome, event.path)
                    && open.insert(fd as i32, path) != Some(path)
                    && identified.insert(path)
                {
                    self.identify(writer, path)?;
                }
                if number == 0 && event.call == Call::Execve {
                    self.write_execution(writer, &event)?;
                }
            }
            if section.is_empty() {
                clock += gap;
            }
        }
        for (path, size) in &self.touched {
            let path = writer.path(path.as_bytes())?;
            writer.touched(ProcessId(0), path, &[Extent { offset: 0, size: *size }])?;
        }
        writer.looked(ProcessId(0))?;
        writer.ended(ProcessId(0), Nanos(clock), Some(Exit::Status(0)))?;
        Ok(Nanos(clock))
    }

    /// Each section's calls, and the time computed before each of them; the whole of it where there is no call.
    fn timed(&self, compute: u64) -> Vec<(&[Event], u64)> {
        let ends = self.sections.iter().skip(1).map(|next| next.from).chain([self.events.len()]);
        let sections: Vec<_> = self.sections.iter().zip(ends).collect();
        let shared: usize = sections
            .iter()
            .filter(|(section, _)| section.compute.is_none())
            .map(|(s, end)| end - s.from)
            .sum();
        let timed = sections.into_iter().map(|(section, end)| {
            let events = &self.events[section.from..end];
            let gap = match section.compute {
                Some(own) => own / (events.len().max(1) as u64),
                None => compute / (shared.max(1) as u64),
            };
            (events, gap)
        });
        timed.collect()
    }

    fn write_context(&self, writer: &mut Writer, request: &Request) -> Result<(), SynthError> {
        let mount = |mount_point: &str, kind: &str, device: u64| Mount {
            namespace: 1,
            mount_point: mount_point.to_owned(),
            root: "/".to_owned(),
            kind: kind.to_owned(),
            source: "synthetic".to_owned(),
            device,
            options: "rw".to_owned(),
        };
        writer.mounts(vec![mount("/", "ext4", 1), mount(&self.root, &request.kind, 2)])?;
        let process = Process { pid: Pid(1), parent: None, start: Nanos(0), end: None, exit: None };
        let process = writer.process(process)?;
        writer.thread(Thread {
            tid: Pid(1),
            process,
            parent: None,
            start: Nanos(0),
            shares_files: false,
            shares_directory: false,
        })?;
        writer.namespace(NamespaceChange { process, at: Nanos(0), namespace: 1 })?;
        let directory = writer.path(b"/")?;
        writer.working_directory(directory)?;
        Ok(())
    }

    fn write_execution(&self, writer: &mut Writer, event: &Event) -> Result<(), SynthError> {
        let Some(Program { path, variables }) = &self.program else { return Ok(()) };
        let program = Some(writer.path(path.as_bytes())?);
        let (process, thread, at) = (ProcessId(0), ThreadId(0), event.end());
        let execution = Execution { process, thread, at, program, arguments: vec![path.clone()] };
        Ok(writer.execution(execution, variables.clone())?)
    }

    fn identify(&self, writer: &mut Writer, path: PathId) -> Result<(), SynthError> {
        let name = String::from_utf8_lossy(self.paths.bytes(path)).into_owned();
        let Some(file) = self.files.get(&name) else { return Ok(()) };
        let device = if name.starts_with(&self.root) { 2 } else { 1 };
        let (inode, size) = (u64::from(path.0) + 100, file.content.size());
        let modified = MODIFIED as i64 * 1_000_000_000;
        Ok(writer.identity(&OpenedFile { device, inode, mode: FILE_MODE, size, modified })?)
    }
}

/// Answers what a recorder would ask of the node.
struct Made<'a> {
    dynamic: &'a BTreeMap<String, Dynamic>,
}

impl Links for Made<'_> {
    fn link(&mut self, _: &[u8]) -> Answer {
        Answer::NoLink
    }
}

impl Finish for Made<'_> {
    fn elf(&mut self, id: PathId, path: &[u8]) -> Option<ElfFile> {
        let path = std::str::from_utf8(path).ok()?;
        let Dynamic { is_program, needed } = self.dynamic.get(path)?.clone();
        let name = path.rsplit('/').next().map(str::to_owned);
        let interpreter = is_program.then(|| LOADER.to_owned());
        let soname = name.filter(|_| !is_program);
        Some(ElfFile { path: id, interpreter, soname, needed, rpath: None, runpath: None })
    }

    fn stripe(&mut self, _: PathId, _: &[u8]) -> Option<Stripe> {
        None
    }
}
