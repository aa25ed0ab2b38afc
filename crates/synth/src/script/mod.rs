//! A program being made up: the files that there are, the calls that it makes, and from both the trace.

mod calls;
mod trace;

use quell_trace::{Event, PathTable};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A file of the shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ShapeFile {
    pub(super) content: ShapeContent,
    /// True if its owner may read it.
    pub(super) readable: bool,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShapeContent {
    /// Bytes that follow from the file's name, by their number.
    Bytes(u64),
    /// This text.
    Text(String),
}

impl ShapeContent {
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Bytes(size) => *size,
            Self::Text(text) => text.len() as u64,
        }
    }
}

/// The dynamic section of a program or library.
#[derive(Clone, Debug, Default)]
pub(super) struct Dynamic {
    pub(super) is_program: bool,
    pub(super) needed: Vec<String>,
}

const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
const LOADER_CACHE: &str = "/etc/ld.so.cache";
const LOCAL_LIBRARY: &str = "/lib/x86_64-linux-gnu/libc.so.6";
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
    files: BTreeMap<String, ShapeFile>,
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
        script.file(LOADER_CACHE, 40_000);
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
        self.declare(name, ShapeFile { content: ShapeContent::Bytes(size), readable: true });
    }

    /// Declares a file with this text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.declare(name, ShapeFile { content: ShapeContent::Text(text.to_owned()), readable: true });
    }

    /// Declares a file that may not be read.
    pub(super) fn secret(&mut self, name: &str, text: &str) {
        self.declare(name, ShapeFile { content: ShapeContent::Text(text.to_owned()), readable: false });
    }

    /// Declares an ELF file: the libraries that it needs are written to the trace.
    pub(super) fn elf(&mut self, name: &str, size: u64, dynamic: Dynamic) {
        self.file(name, size);
        self.dynamic.insert(self.at(name), dynamic);
    }

    /// Declares an empty directory.
    pub(super) fn directory(&mut self, name: &str) {
        let path = self.at(name);
        self.enter(&path);
    }

    fn declare(&mut self, name: &str, file: ShapeFile) {
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
    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Option<&ShapeFile>)> {
        let below = |path: &'_ str| {
            path.starts_with(&self.root) && path.as_bytes().get(self.root.len()) == Some(&b'/')
        };
        let cut = self.root.len() + 1;
        let directories =
            self.directories.keys().filter(move |path| below(path)).map(move |path| (&path[cut..], None));
        let files = self.files.iter().filter(move |(path, _)| below(path));
        directories.chain(files.map(move |(path, file)| (&path[cut..], Some(file))))
    }

    /// Files below the root, and their bytes; `u64::MAX` of them for more than that counts.
    pub(super) fn size(&self) -> (u64, u64) {
        let files = self.files().filter_map(|(_, file)| file);
        files.fold((0, 0), |(count, bytes), file| (count + 1, file.content.size().saturating_add(bytes)))
    }
}
