//! Python's searches in `sys.path`, as its own path finder makes them. Source: Python, `importlib/_bootstrap_external.py`,
//! `FileFinder.find_spec`; `site.py`.
//!
//! ```text
//! stat ENTRY (once a search; at the first also listed)   stat ENTRY ...   stat ENTRY/NAME/__init__.SUFFIX ...  a hit
//! stat PACKAGE                                                            stat PACKAGE/NAME.SUFFIX ...         a hit
//! ```
//!
//! The finder keeps each entry's listing and probes only names that it holds, so an entry costs one successful `stat` for
//! each import that passes it: those are its probes, and hardly one is a miss. A submodule is looked for in its package,
//! and counts for the entry that the package is in. `sys.path` itself is not in a trace: entries are those of
//! PYTHONPATH, and directories that a finder took up, which shows by three `stat` and a listing in a row. Who imports
//! cannot be seen in system calls, so no file is named.

use super::book::{EntryId, Search, SearchBook};
use super::images::{Image, Images};
use super::model::SearchKind;
use super::records::Records;
use super::tree::{NodeMap, PathNode, PathNodes};
use quell_trace::flags::O_DIRECTORY;
use quell_trace::{Class, Event, ThreadId};

/// Stands for the name of an import that found nothing: no call shows it.
const NOT_FOUND: &[u8] = b"(not found)";
/// So often in a row a new finder asks for its directory before it lists it: the zip importer, the path hook, the finder.
const TAKING_UP: u32 = 3;

/// An entry of `sys.path`.
#[derive(Clone, Copy, Debug)]
struct SysPathEntry {
    node: PathNode,
    id: EntryId,
    /// Its place in `sys.path` as far as it is known.
    rank: u32,
    /// A finder has listed it: from now on each `stat` is a search.
    listed: bool,
    /// It became known behind all others, and nothing has yet shown that it does not stand before them.
    fresh: bool,
}

/// The role of a directory for imports.
#[derive(Clone, Copy, Debug)]
enum ImportRole {
    /// Index into the entries.
    Entry(usize),
    /// A package, and the entry that it is in.
    Package { entry: usize, listed: bool },
}

/// The searches of one interpreter.
#[derive(Clone, Debug)]
pub(super) struct Python<'a> {
    image: Image,
    /// Shape: in the order in which they became known.
    entries: Vec<SysPathEntry>,
    roles: NodeMap<ImportRole>,
    current: Option<CurrentImport<'a>>,
    /// The directory that was asked for last, how often in a row.
    streak: (PathNode, u32),
    /// The `.pth` file being read, and the directories that were asked for meanwhile.
    path_file: PathNode,
    from_path_file: NodeMap<PathNode>,
}

#[derive(Clone, Debug)]
struct CurrentImport<'a> {
    search: Search<'a>,
    thread: ThreadId,
    first: usize,
    last: usize,
    /// The package that a submodule is looked for in.
    package: Option<PathNode>,
    /// It is known to have asked all of `sys.path`.
    whole: bool,
    /// A directory without `__init__`: a package all the same when nothing better comes.
    portion: Option<(usize, PathNode)>,
}

/// The role of a file for an import.
struct Module<'a> {
    /// The entry or package that it is looked for in.
    container: PathNode,
    /// The package's directory, when the file is its `__init__`.
    package: Option<PathNode>,
    /// Its name from the container on.
    stem: &'a [u8],
    compiled: bool,
}

impl<'a> Python<'a> {
    pub(super) fn new(image: Image, records: &mut Records<'_, 'a>) -> Self {
        let mut python = Self {
            image,
            entries: Vec::new(),
            roles: NodeMap::default(),
            current: None,
            streak: (PathNode::NONE, 0),
            path_file: PathNode::NONE,
            from_path_file: NodeMap::default(),
        };
        let value = records.images.variable(image, "PYTHONPATH").unwrap_or_default();
        for element in value.split(':').filter(|element| !element.is_empty()) {
            let node = records.tree.find(element.as_bytes()).filter(|node| records.tree.is_absolute(*node));
            if let Some(node) = node.filter(|node| !python.roles.contains_key(node)) {
                let last = python.entries.len().checked_sub(1);
                python.learn(node, "PYTHONPATH", last, records);
            }
        }
        python
    }

    /// The state that a child inherits: everything but the search that is going on.
    pub(super) fn inherited(&self) -> Self {
        Self { current: None, ..self.clone() }
    }

    /// Looks at a call on a name; says whether it is a probe.
    pub(super) fn add(&mut self, event: &Event, records: &mut Records<'_, 'a>) -> bool {
        if !records.tree.is_named(event) || !matches!(event.call.class(), Class::Open | Class::Stat) {
            return false;
        }
        let node = records.tree.asked(event);
        if node == PathNode::NONE {
            return false;
        }
        if event.call.class() == Class::Open {
            return self.open(event, node, records);
        }
        self.streak = if self.streak.0 == node { (node, self.streak.1.saturating_add(1)) } else { (node, 1) };
        match self.roles.get(&node).copied() {
            Some(ImportRole::Entry(entry)) => self.ask_entry(event, entry, records.book),
            Some(ImportRole::Package { entry, listed }) => {
                self.ask_package(event, node, entry, listed, records.book)
            }
            None => self.ask_name(event, node, records),
        }
    }

    fn open(&mut self, event: &Event, node: PathNode, records: &mut Records<'_, 'a>) -> bool {
        if event.flags & O_DIRECTORY == 0 {
            let is_path_file = event.outcome.is_success() && records.tree.name(node).ends_with(b".pth");
            self.path_file = if is_path_file { node } else { PathNode::NONE };
            return self.ask_name(event, node, records);
        }
        let asked = if self.streak.0 == node { self.streak.1 } else { 0 };
        if !event.outcome.is_success() {
            return false;
        }
        match self.roles.get_mut(&node) {
            Some(ImportRole::Entry(entry)) => {
                let entry = *entry;
                self.entries[entry].listed |= asked > 0;
                self.note(event, entry)
            }
            Some(ImportRole::Package { entry, listed }) => {
                *listed |= asked > 0;
                let entry = *entry;
                self.note(event, entry)
            }
            None if asked >= TAKING_UP => self.take_up(event, node, asked, records),
            None => false,
        }
    }

    /// A finder was made for a directory that was not known.
    fn take_up(&mut self, event: &Event, node: PathNode, asked: u32, records: &mut Records<'_, 'a>) -> bool {
        let above = records.tree.parent(node);
        // A directory in a package is a package without `__init__`.
        if let Some(ImportRole::Package { entry, .. }) = self.roles.get(&above).copied() {
            self.roles.insert(node, ImportRole::Package { entry, listed: true });
            return false;
        }
        let before =
            self.current.as_ref().filter(|current| self.goes_on(current, event) && current.package.is_none());
        let before = before.map(|current| current.last);
        let origin = self.origin(node, records.images, records.tree);
        let entry = self.learn(node, &origin, before, records);
        let rank = self.entries[entry].rank;
        // Entries of `site` follow; those that the program starts with come first.
        let may_lead = ["working directory", "directory of the script", "added by the program"];
        self.entries[entry].fresh = before.is_some()
            && may_lead.contains(&origin.as_str())
            && self.entries.iter().all(|other| other.rank <= rank);
        self.entries[entry].listed = true;
        if before.is_none() {
            self.finish(records.book);
            self.current = Some(CurrentImport::new(event.thread, entry, None));
        }
        if let Some(current) = &mut self.current {
            current.last = entry;
            let rank = self.entries[entry].rank;
            (0..=asked).for_each(|_| current.search.probe(self.entries[entry].id, rank, false));
        }
        true
    }

    /// Adds an entry behind `before`, or before all others.
    fn learn(
        &mut self,
        node: PathNode,
        origin: &str,
        before: Option<usize>,
        records: &mut Records<'_, 'a>,
    ) -> usize {
        let rank = before.map_or(0, |before| self.entries[before].rank + 1);
        self.entries.iter_mut().filter(|entry| entry.rank >= rank).for_each(|entry| entry.rank += 1);
        let id = records.book.entry(SearchKind::Python, origin, records.tree.text(node));
        self.entries.push(SysPathEntry { node, id, rank, listed: false, fresh: false });
        self.roles.insert(node, ImportRole::Entry(self.entries.len() - 1));
        self.entries.len() - 1
    }

    fn goes_on(&self, current: &CurrentImport<'a>, event: &Event) -> bool {
        current.thread == event.thread && !current.search.is_found()
    }

    /// Counts a probe of the search that is going on, if it is there.
    fn note(&mut self, event: &Event, entry: usize) -> bool {
        let SysPathEntry { id, rank, .. } = self.entries[entry];
        match &mut self.current {
            Some(current) if current.thread == event.thread && current.last == entry => {
                current.search.probe(id, rank, event.is_miss());
                true
            }
            _ => false,
        }
    }

    fn ask_entry(&mut self, event: &Event, entry: usize, book: &mut SearchBook<'a>) -> bool {
        self.settle(event, entry, book);
        let SysPathEntry { id, rank, listed, .. } = self.entries[entry];
        let goes_on = self.current.as_ref().is_some_and(|current| {
            let forward = rank > self.entries[current.last].rank || (entry == current.last && !listed);
            self.goes_on(current, event) && current.package.is_none() && forward
        });
        if !goes_on {
            self.finish(book);
            self.current = Some(CurrentImport::new(event.thread, entry, None));
        }
        if let Some(current) = &mut self.current {
            current.last = entry;
            current.search.probe(id, rank, event.is_miss());
        }
        true
    }

    /// An entry that was taken up behind all others when a search had gone through them, and is followed by the first:
    /// it was the start of the next search, and stands before all.
    fn settle(&mut self, event: &Event, next: usize, book: &mut SearchBook<'a>) {
        let fresh = self.current.as_ref().filter(|current| self.entries[current.last].fresh);
        let Some(entry) = fresh.filter(|current| current.thread == event.thread).map(|current| current.last)
        else {
            return;
        };
        let others = self.entries.iter().enumerate().filter(|(other, _)| *other != entry);
        let first = others.filter(|(_, fields)| fields.listed).map(|(_, fields)| fields.rank).min();
        if next == entry || first != Some(self.entries[next].rank) {
            return;
        }
        let from_first = |current: &CurrentImport<'a>| Some(self.entries[current.first].rank) <= first;
        let whole = self.current.as_ref().is_some_and(from_first);
        self.entries[entry].fresh = false;
        self.entries.iter_mut().for_each(|other| other.rank += 1);
        self.entries[entry].rank = 0;
        let mut begun = CurrentImport::new(event.thread, entry, None);
        if let Some(current) = &mut self.current {
            current.search.move_last(&mut begun.search, 0);
            current.whole = whole;
        }
        self.finish(book);
        self.current = Some(begun);
    }

    fn ask_package(
        &mut self,
        event: &Event,
        node: PathNode,
        entry: usize,
        listed: bool,
        book: &mut SearchBook<'a>,
    ) -> bool {
        let goes_on = self
            .current
            .as_ref()
            .is_some_and(|current| self.goes_on(current, event) && current.package == Some(node) && !listed);
        if !goes_on {
            self.finish(book);
            self.current = Some(CurrentImport::new(event.thread, entry, Some(node)));
        }
        self.note(event, entry)
    }

    /// A call on a file or directory that may be what is looked for.
    fn ask_name(&mut self, event: &Event, node: PathNode, records: &mut Records<'_, 'a>) -> bool {
        if self.path_file != PathNode::NONE && event.outcome.is_success() && event.call.class() == Class::Stat
        {
            self.from_path_file.insert(node, self.path_file);
        }
        let Some(current) = &self.current else { return false };
        let walking = self.goes_on(current, event) && current.package.is_none();
        if walking && is_zip(records.tree.name(node)) {
            let entry = self.learn(node, "zip of the standard library", Some(current.last), records);
            return self.ask_entry(event, entry, records.book);
        }
        let entry = current.last;
        let container = current.package.unwrap_or(self.entries[entry].node);
        let Some(module) = Module::of(node, records.tree) else {
            return self.ask_portion(event, node, container, entry, records.tree);
        };
        if module.container != container || current.thread != event.thread {
            return false;
        }
        let name = module.name(self.entries[entry].node, node, records.tree);
        let known = current.search.name;
        if current.search.is_found() && !(module.compiled || known == name) {
            return false;
        }
        self.ask_module(event, node, &module, name, entry, records.tree)
    }

    fn ask_module(
        &mut self,
        event: &Event,
        node: PathNode,
        module: &Module<'a>,
        name: &'a [u8],
        entry: usize,
        tree: &PathNodes<'a>,
    ) -> bool {
        let id = self.entries[entry].id;
        let Some(current) = &mut self.current else { return false };
        if current.search.is_found()
            && module.compiled
            && !current.search.name.ends_with(module.last_part(tree))
        {
            return false;
        }
        if !current.search.is_found() && !module.compiled {
            current.search.name = name;
            if event.outcome.is_success() && event.call.class() == Class::Stat {
                current.search.found(id, tree.text(node));
                if let Some(package) = module.package {
                    let package_role = ImportRole::Package { entry, listed: false };
                    self.roles.entry(package).or_insert(package_role);
                }
            }
        }
        self.note(event, entry)
    }

    /// A directory that has the name that was just looked for as a package.
    fn ask_portion(
        &mut self,
        event: &Event,
        node: PathNode,
        container: PathNode,
        entry: usize,
        tree: &PathNodes<'a>,
    ) -> bool {
        let root = self.entries[entry].node;
        let Some(current) = &mut self.current else { return false };
        let named = !current.search.name.is_empty() && current.search.name == tree.below(root, node);
        if current.search.is_found()
            || !named
            || tree.parent(node) != container
            || !event.outcome.is_success()
        {
            return false;
        }
        current.portion = current.portion.or(Some((entry, node)));
        self.roles.entry(node).or_insert(ImportRole::Package { entry, listed: false });
        self.note(event, entry)
    }

    /// Enters the search that was going on, if it is known to have been one.
    pub(super) fn finish(&mut self, book: &mut SearchBook<'a>) {
        let Some(mut current) = self.current.take() else { return };
        if let Some((entry, _)) = current.portion.filter(|_| !current.search.is_found()) {
            let name = current.search.name;
            current.search.found(self.entries[entry].id, name);
        }
        self.entries[current.last].fresh = false;
        if current.search.name.is_empty() {
            if current.package.is_none() && !current.whole && !self.went_through(&current) {
                return;
            }
            current.search.name = NOT_FOUND;
        }
        book.enter(SearchKind::Python, &current.search);
    }

    /// True where a search that found nothing asked all of `sys.path`: anything less was something else.
    fn went_through(&self, current: &CurrentImport<'a>) -> bool {
        let ranks = || self.entries.iter().filter(|entry| entry.listed).map(|entry| entry.rank);
        let rank = |entry: usize| self.entries[entry].rank;
        ranks().min().is_some_and(|least| rank(current.first) <= least)
            && ranks().max().is_some_and(|most| rank(current.last) >= most)
    }

    /// The origin of a directory in `sys.path`.
    fn origin(&self, node: PathNode, images: &Images<'a>, tree: &PathNodes<'a>) -> String {
        let (name, above) = (tree.name(node), tree.name(tree.parent(node)));
        match name {
            b"lib-dynload" | b"site-packages" | b"dist-packages" => {
                return String::from_utf8_lossy(name).into_owned();
            }
            name if name.starts_with(b"python") && above.starts_with(b"lib") => {
                return "standard library".into();
            }
            _ => {}
        }
        if let Some(file) = self.from_path_file.get(&node).filter(|_| node != images.working_directory(tree))
        {
            return quell_base::escape(tree.text(*file));
        }
        let script = images.arguments(self.image).iter().skip(1).find(|word| !word.starts_with('-'));
        let directory =
            script.and_then(|script| script.rsplit_once('/')).map(|(directory, _)| directory.as_bytes());
        match directory {
            Some(directory) if tree.text(node).ends_with(directory) => "directory of the script".into(),
            _ if node == images.working_directory(tree) => "working directory".into(),
            _ => "added by the program".into(),
        }
    }
}

impl CurrentImport<'_> {
    fn new(thread: ThreadId, entry: usize, package: Option<PathNode>) -> Self {
        Self {
            search: Search::new(b"", None),
            thread,
            first: entry,
            last: entry,
            package,
            whole: false,
            portion: None,
        }
    }
}

impl<'a> Module<'a> {
    /// The role of a file by its name; `None` when no import asks for such a name.
    fn of(node: PathNode, tree: &PathNodes<'a>) -> Option<Self> {
        let name = tree.name(node);
        let mut directory = tree.parent(node);
        let cached = tree.name(directory) == b"__pycache__";
        let stem = match name.strip_suffix(b".py").or_else(|| name.strip_suffix(b".pyc")) {
            Some(stem) if cached => stem.split(|&byte| byte == b'.').next()?,
            Some(stem) => stem,
            None => name.strip_suffix(b".so")?.split(|&byte| byte == b'.').next()?,
        };
        if cached {
            directory = tree.parent(directory);
        }
        let package = (stem == b"__init__").then_some(directory);
        let container = package.map_or(directory, |package| tree.parent(package));
        Some(Self { container, package, stem, compiled: cached })
    }

    /// Its name from the entry on, with slashes.
    fn name(&self, entry: PathNode, node: PathNode, tree: &PathNodes<'a>) -> &'a [u8] {
        match self.package {
            Some(package) => tree.below(entry, package),
            None => {
                let rest = tree.below(entry, node);
                &rest[..rest.len() - (tree.name(node).len() - self.stem.len()).min(rest.len())]
            }
        }
    }

    fn last_part(&self, tree: &PathNodes<'a>) -> &'a [u8] {
        self.package.map_or(self.stem, |package| tree.name(package))
    }
}

/// `python311.zip`, which is in `sys.path` whether or not it is there.
fn is_zip(name: &[u8]) -> bool {
    name.starts_with(b"python") && name.ends_with(b".zip")
}
