//! The calls that a program makes: whether one succeeds follows from the files that were declared.

use super::{Dynamic, LOADER_CACHE, LOCAL_LIBRARY, Program, Script, Section};
use crate::share::part;
use quell_trace::flags::{O_CLOEXEC, O_DIRECTORY};
use quell_trace::{Bytes, Call, Errno, Event, Fd, Nanos, Outcome};

/// The parts of a library that one call of [`Script::map`] puts in memory, as shares of 16: first part, size, protection.
const PARTS: [(u64, u64, u64); 4] = [(0, 16, 1), (2, 10, 5), (12, 3, 1), (15, 1, 3)];
const MAP_PRIVATE: u64 = 2;
/// The size of a directory's entry in a buffer of `getdents64`. Unit: bytes.
const ENTRY: i64 = 32;

impl Script {
    /// From here on the program computes for so long between its calls, by itself and not as part of the request's time.
    pub(crate) fn section(&mut self, compute: Nanos) {
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
    pub(crate) fn ask(&mut self, call: Call, name: &str) {
        let outcome = self.presence(name);
        let event = self.by_path(call, name, outcome);
        self.push(event);
    }

    /// A call by name with this outcome.
    pub(crate) fn fails(&mut self, call: Call, name: &str, errno: Errno) {
        let event = self.by_path(call, name, Outcome::Failure(errno));
        self.push(event);
    }

    /// Opens a file; `None` where there is none, or none that may be read.
    pub(crate) fn open(&mut self, name: &str) -> Option<i32> {
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
    pub(crate) fn on(&mut self, fd: i32, call: Call, outcome: Outcome) {
        self.push(Event { fd: Fd(fd), outcome, ..Event::new(call) });
    }

    /// Asks for an open file's attributes.
    pub(crate) fn fstat(&mut self, fd: i32) {
        self.on(fd, Call::Fstat, Outcome::Success(0));
    }

    /// Reads from the start of an open file.
    pub(crate) fn read(&mut self, fd: i32, size: u64) {
        let length =
            self.open.get(&fd).and_then(|path| self.files.get(path)).map_or(0, |file| file.content.size());
        let outcome = Outcome::Success(length.min(size) as i64);
        self.push(Event { fd: Fd(fd), size: Bytes(size), outcome, ..Event::new(Call::Read) });
    }

    /// Reads at an open file's end: nothing is left.
    pub(crate) fn read_end(&mut self, fd: i32) {
        let event = Event { fd: Fd(fd), size: Bytes(4096), ..Event::new(Call::Read) };
        self.push(event);
    }

    /// Closes a file.
    pub(crate) fn close(&mut self, fd: i32) {
        self.on(fd, Call::Close, Outcome::Success(0));
        self.open.remove(&fd);
        self.listed.remove(&fd);
    }

    /// Opens a directory.
    pub(crate) fn open_directory(&mut self, name: &str) -> Option<i32> {
        self.open_with(name, O_CLOEXEC | O_DIRECTORY)
    }

    /// Reads from an open directory: all entries at first, then that there are no more.
    pub(crate) fn list(&mut self, fd: i32) {
        let entries = self.open.get(&fd).and_then(|path| self.directories.get(path)).copied().unwrap_or(0);
        let again = self.listed.insert(fd, true).is_some();
        let outcome = Outcome::Success(if again { 0 } else { (entries + 2) * ENTRY });
        let size = Bytes(1 << 15);
        self.push(Event { fd: Fd(fd), size, outcome, ..Event::new(Call::Getdents64) });
    }

    /// Maps an open library's parts, as the dynamic loader does; `touched` percent of it are used.
    pub(crate) fn map(&mut self, fd: i32, touched: u64) {
        let Some(path) = self.open.get(&fd).cloned() else { return };
        let size = self.files.get(&path).map_or(0, |file| file.content.size());
        for (number, (from, parts, protection)) in PARTS.into_iter().enumerate() {
            let offset = part(size, from, 16) & !4095;
            let event = Event {
                fd: Fd(fd),
                outcome: Outcome::Success(0x7f00_0000_0000 + number as i64 * 0x100_0000),
                flags: protection << 32 | MAP_PRIVATE,
                size: Bytes(part(size, parts, 16).max(1)),
                offset: Some(offset as i64),
                ..Event::new(Call::Mmap)
            };
            self.push(event);
        }
        let pages = |size: u64| size.checked_next_multiple_of(4096).unwrap_or(u64::MAX);
        let used = pages(part(size, touched, 100)).min(pages(size));
        if used > 0 {
            self.touched.insert(path, used);
        }
    }

    /// Opens, reads the head of, maps and closes a library; false where it is not.
    pub(crate) fn load(&mut self, name: &str, touched: u64) -> bool {
        let Some(fd) = self.open(name) else { return false };
        self.read(fd, 832);
        self.fstat(fd);
        self.map(fd, touched);
        self.close(fd);
        true
    }

    /// Starts the program: `execve` and the dynamic loader's work for the C library, which lies on the node itself.
    pub(crate) fn execute(&mut self, name: &str, size: u64, needed: &[String], variables: &[(&str, String)]) {
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
    pub(crate) fn load_c_library(&mut self) {
        if let Some(fd) = self.open(LOADER_CACHE) {
            self.close(fd);
        }
        if let Some(fd) = self.open(LOCAL_LIBRARY) {
            self.read(fd, 832);
            self.map(fd, 0);
            self.close(fd);
        }
    }
}
