//! Until when the dynamic loader works: it is done when all that program and libraries name as needed is mapped.

use quell_trace::flags::{O_ACCMODE, O_CREAT, O_DIRECTORY};
use quell_trace::loaded::is_library;
use quell_trace::{Call, Class, Context, Event, PathId, PathTable};
use std::collections::HashMap;

/// The needs of programs and libraries, by their ELF headers. Names are numbered, so that programs are cheap to follow.
#[derive(Debug, Default)]
pub(super) struct Libraries {
    files: HashMap<PathId, Library>,
    names: HashMap<Box<[u8]>, u32>,
}

#[derive(Debug)]
struct Library {
    interpreter: Option<u32>,
    soname: Option<u32>,
    needed: Vec<u32>,
}

/// A program before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Linkage {
    Dynamic,
    Static,
    Unknown,
}

impl Libraries {
    pub(super) fn new(context: &Context) -> Self {
        let mut libraries = Self::default();
        for file in &context.elf_files {
            let interpreter = file.interpreter.as_deref().map(|path| libraries.name(last(path.as_bytes())));
            let soname = file.soname.as_deref().map(|name| libraries.name(name.as_bytes()));
            let needed = file.needed.iter().map(|name| libraries.name(last(name.as_bytes()))).collect();
            libraries.files.insert(file.path, Library { interpreter, soname, needed });
        }
        libraries
    }

    pub(super) fn linkage(&self, program: Option<PathId>) -> Linkage {
        match program.and_then(|program| self.files.get(&program)) {
            None => Linkage::Unknown,
            Some(library) if library.interpreter.is_some() => Linkage::Dynamic,
            Some(_) => Linkage::Static,
        }
    }

    fn name(&mut self, name: &[u8]) -> u32 {
        let next = self.names.len() as u32;
        *self.names.entry(name.into()).or_insert(next)
    }
}

/// The library's name that was last not found. The loader asks for its directory next, to skip the directory from then on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AbsentLibrary(pub(super) Option<PathId>);

impl AbsentLibrary {
    /// `/a/lib/tls` after `/a/lib/tls/libx.so` was not found.
    pub(super) fn lies_below(self, event: &Event, paths: &PathTable) -> bool {
        let absent = self.0.map(|absent| paths.bytes(absent)).unwrap_or_default();
        event.path.is_some_and(|path| absent.starts_with(paths.bytes(path)))
    }
}

/// A program that is being loaded.
#[derive(Debug, Default)]
pub(super) struct Loading {
    /// One entry for each needed name: true once it has been mapped.
    names: HashMap<u32, bool>,
    missing: usize,
    /// The file that is open, and its name as it was asked for.
    current: Option<(PathId, Option<u32>)>,
    absent: AbsentLibrary,
    /// Something was mapped.
    pub(super) has_loaded: bool,
}

impl Loading {
    /// The loader's work for a program.
    pub(super) fn new(libraries: &Libraries, program: Option<PathId>) -> Self {
        let mut loading = Self::default();
        if let Some(library) = program.and_then(|program| libraries.files.get(&program)) {
            // The loader is there already; the C library names it as needed.
            library.interpreter.into_iter().for_each(|name| loading.has(name));
            library.needed.iter().for_each(|&name| loading.needs(name));
        }
        loading
    }

    /// True for an event of the loader. From the first that is not, none is.
    pub(super) fn takes(&mut self, event: &Event, paths: &PathTable, libraries: &Libraries) -> bool {
        let about_current = event.path.is_none()
            && event.target.is_some()
            && event.target == self.current.map(|(path, _)| path);
        if self.is_done() && !about_current {
            return false;
        }
        match event.call.class() {
            Class::Open => self.opens(event, paths, libraries),
            Class::Access => names_loader(paths, event.path),
            Class::Stat if event.path.is_some() => self.absent.lies_below(event, paths),
            Class::ReadLink => event.path.is_some_and(|path| paths.bytes(path) == b"/proc/self/exe"),
            Class::Map if about_current => {
                self.map(libraries, paths);
                true
            }
            Class::Stat | Class::Read | Class::Seek => about_current,
            Class::Descriptor if event.call == Call::Close => {
                self.current = self.current.filter(|_| !about_current);
                about_current
            }
            _ => false,
        }
    }

    fn is_done(&self) -> bool {
        self.missing == 0 && self.names.len() > 1
    }

    fn opens(&mut self, event: &Event, paths: &PathTable, libraries: &Libraries) -> bool {
        let Some(path) = event.path.filter(|_| event.flags & (O_ACCMODE | O_CREAT | O_DIRECTORY) == 0) else {
            return false;
        };
        let name = last(paths.bytes(path));
        if !is_library(name) && !names_loader(paths, Some(path)) {
            return false;
        }
        match event.target.filter(|_| event.outcome.is_success()) {
            Some(target) => self.current = Some((target, libraries.names.get(name).copied())),
            None => self.absent = AbsentLibrary(Some(path)),
        }
        true
    }

    fn map(&mut self, libraries: &Libraries, paths: &PathTable) {
        let Some((path, asked)) = self.current else { return };
        self.has_loaded = true;
        asked.into_iter().for_each(|name| self.has(name));
        if let Some(&name) = libraries.names.get(last(paths.bytes(path))) {
            self.has(name);
        }
        if let Some(library) = libraries.files.get(&path) {
            library.soname.into_iter().for_each(|name| self.has(name));
            library.needed.iter().for_each(|&name| self.needs(name));
        }
    }

    fn needs(&mut self, name: u32) {
        self.names.entry(name).or_insert_with(|| {
            self.missing += 1;
            false
        });
    }

    fn has(&mut self, name: u32) {
        if self.names.insert(name, true) == Some(false) {
            self.missing -= 1;
        }
    }
}

fn names_loader(paths: &PathTable, path: Option<PathId>) -> bool {
    let name = path.map(|path| last(paths.bytes(path))).unwrap_or_default();
    LOADER_FILES.iter().any(|prefix| name.starts_with(prefix))
}

fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// `ld.so.cache`, `ld.so.preload`, `ld.so.nohwcap`; musl's `ld-musl-x86_64.path`. Source: `ld.so(8)`.
const LOADER_FILES: [&[u8]; 2] = [b"ld.so.", b"ld-musl-"];
