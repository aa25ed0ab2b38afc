//! The dynamic loader's searches: RPATH, LD_LIBRARY_PATH, RUNPATH, cache, default directories.
//!
//! The loader looks for each NEEDED name of each object in turn, so the objects that are loaded tell who asked for a
//! name, and the object that asked tells the list. A probe counts when it stands in that list, at or behind the place
//! of the probe before. Source: `ld.so(8)`; glibc, `elf/dl-load.c`, `_dl_map_object` and `open_path`.

use super::book::{EntryId, Search, SearchBook};
use super::images::{Image, Images};
use super::list::{self, ListPlace, SearchOrder};
use super::model::SearchKind;
use super::records::Records;
use super::tree::{PathNode, PathNodes};
use quell_trace::{Class, ElfFile, Event};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The cache of the loader, written by `ldconfig`.
const CACHE: &[u8] = b"/etc/ld.so.cache";

/// Directories that are searched without being named, on the systems that are known. Source: `ld.so(8)`; Debian's
/// multiarch directories.
const DEFAULTS: &[&str] = &[
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// Values of `$LIB`: each loader has one built in.
const LIB: &[&str] = &["lib64", "lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib32"];
/// Values of `$PLATFORM`.
const PLATFORM: &[&str] = &["x86_64", "haswell", "xeon_phi", "aarch64"];

/// Subdirectories that the loader appends to every entry, by the processor. Source: `ld.so(8)`, "Hardware
/// capabilities".
const CAPABILITIES: &[&[u8]] =
    &[b"tls", b"x86_64", b"haswell", b"avx512_1", b"xeon_phi", b"aarch64", b"atomics"];
/// So many of them at most are appended at once (`tls/haswell/avx512_1/x86_64`).
const DEEPEST: usize = 4;

/// `open`'s access mode. Source: `open(2)`.
const ACCESS_MODE: u64 = 3;

/// The facts that do not change during a recording.
#[derive(Debug)]
pub(super) struct Loaders<'a> {
    /// Names that some object has in NEEDED.
    needed: HashSet<&'a [u8]>,
    /// Lists by the text of LD_LIBRARY_PATH and the program's directory.
    library_paths: HashMap<(&'a str, PathNode), SearchOrder>,
    /// RPATH and RUNPATH of an object that was loaded from a directory.
    run_paths: HashMap<(usize, PathNode), SearchOrder>,
    defaults: Option<SearchOrder>,
    cache: PathNode,
}

impl<'a> Loaders<'a> {
    pub(super) fn new(tree: &PathNodes<'a>, images: &Images<'a>) -> Self {
        let needed = images.elf_files().iter().flat_map(|file| &file.needed);
        Self {
            needed: needed.map(|name| name.as_bytes()).collect(),
            library_paths: HashMap::new(),
            run_paths: HashMap::new(),
            defaults: None,
            cache: tree.find(CACHE).unwrap_or(PathNode::NONE),
        }
    }

    fn is_library(&self, name: &[u8]) -> bool {
        let mut parts = name.windows(3).enumerate().filter(|(_, part)| part == b".so");
        parts.any(|(at, _)| matches!(name.get(at + 3), None | Some(b'.'))) || self.needed.contains(name)
    }

    fn library_path(
        &mut self,
        value: &'a str,
        origin: PathNode,
        tree: &PathNodes<'a>,
        book: &mut SearchBook<'a>,
    ) -> SearchOrder {
        let list = self.library_paths.entry((value, origin)).or_insert_with(|| {
            places(value, &[':', ';'], origin, tree, |directory| {
                book.entry(SearchKind::Loader, "LD_LIBRARY_PATH", directory)
            })
        });
        Arc::clone(list)
    }

    fn run_path(
        &mut self,
        (index, file): (usize, &'a ElfFile),
        origin: PathNode,
        records: &mut Records<'_, 'a>,
    ) -> SearchOrder {
        let list = self.run_paths.entry((index, origin)).or_insert_with(|| {
            let (value, name) = match (&file.runpath, &file.rpath) {
                (Some(value), _) => (value, "RUNPATH"),
                (None, Some(value)) => (value, "RPATH"),
                (None, None) => return Arc::default(),
            };
            let words = format!(
                "{name} of {}",
                quell_base::escape(records.tree.text(records.tree.of_path(Some(file.path))))
            );
            places(value, &[':'], origin, records.tree, |directory| {
                records.book.entry(SearchKind::Loader, &words, directory)
            })
        });
        Arc::clone(list)
    }

    fn defaults(&mut self, tree: &PathNodes<'a>, book: &mut SearchBook<'a>) -> SearchOrder {
        let list = self.defaults.get_or_insert_with(|| {
            list::parse(&DEFAULTS.join(":"), &[':'], tree, |directory| {
                book.entry(SearchKind::Loader, "default directories", directory)
            })
        });
        Arc::clone(list)
    }
}

/// A list with the loader's tokens expanded. Each entry is known under every text that it may have.
fn places(
    value: &str,
    separators: &[char],
    origin: PathNode,
    tree: &PathNodes<'_>,
    mut entry: impl FnMut(&[u8]) -> EntryId,
) -> SearchOrder {
    let mut places = Vec::new();
    for (position, element) in value.split(separators).enumerate() {
        for text in expansions(element, tree.text(origin)) {
            if let Some(node) = tree.find(&text) {
                places.push(ListPlace { node, entry: entry(&list::plain(&text)), position: position as u32 });
            }
        }
    }
    places.into()
}

fn expansions(element: &str, origin: &[u8]) -> Vec<Vec<u8>> {
    if element.is_empty() {
        return vec![b".".to_vec()];
    }
    let mut texts = vec![element.as_bytes().to_vec()];
    let one = [origin];
    let several = |words: &[&'static str]| words.iter().map(|word| word.as_bytes()).collect::<Vec<_>>();
    for (token, values) in [("ORIGIN", one.to_vec()), ("LIB", several(LIB)), ("PLATFORM", several(PLATFORM))]
    {
        for token in [format!("${{{token}}}"), format!("${token}")] {
            let expand =
                |text: &Vec<u8>| values.iter().map(|value| replaced(text, token.as_bytes(), value)).collect();
            if texts.iter().any(|text| text.windows(token.len()).any(|part| part == token.as_bytes())) {
                texts = texts.iter().flat_map(|text| -> Vec<Vec<u8>> { expand(text) }).collect();
            }
        }
    }
    texts
}

fn replaced(text: &[u8], token: &[u8], value: &[u8]) -> Vec<u8> {
    let mut result = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.windows(token.len()).position(|part| part == token) {
        result.extend_from_slice(&rest[..at]);
        result.extend_from_slice(value);
        rest = &rest[at + token.len()..];
    }
    result.extend_from_slice(rest);
    result
}

/// An object that is loaded.
#[derive(Clone, Copy, Debug)]
struct Object {
    /// Index for [`Images::elf`].
    elf: usize,
    /// The directory that it was loaded from, by the text that was passed.
    origin: PathNode,
    /// The object that asked for it.
    loader: Option<u16>,
    /// The libraries that one call to `dlopen` loads are a group; the program's is 0.
    group: u16,
}

/// The loader of one program.
#[derive(Clone, Debug)]
pub(super) struct Loader<'a> {
    objects: Vec<Object>,
    library_path: SearchOrder,
    defaults: SearchOrder,
    /// The entry of the cache.
    cache: Option<EntryId>,
    /// Opened before any probe of the search that it belongs to.
    cache_opened: Option<bool>,
    current: Option<CurrentLoad<'a>>,
}

/// A search that is not known to have ended.
#[derive(Clone, Debug)]
struct CurrentLoad<'a> {
    search: Search<'a>,
    asker: Option<u16>,
    /// Shape: in the order of search.
    lists: Vec<SearchOrder>,
    /// The position of the probe before: list, and place in it.
    at: (usize, usize),
    /// The directory of the probe before, which the loader asks for when the probe failed.
    directory: PathNode,
    place: Option<(EntryId, u32)>,
}

impl<'a> Loader<'a> {
    /// The loader of a program that was just executed; `None` for a static program.
    pub(super) fn new(
        image: Image,
        loaders: &mut Loaders<'a>,
        records: &mut Records<'_, 'a>,
    ) -> Option<Self> {
        let program = records.images.program(image);
        let index = records.images.elf_of(program)?;
        records.images.elf(index)?.interpreter.as_ref()?;
        let origin = records.tree.parent(records.tree.of_path(program));
        let library_path =
            records.images.variable(image, "LD_LIBRARY_PATH").filter(|value| !value.is_empty());
        let library_path = library_path.map_or_else(SearchOrder::default, |value| {
            loaders.library_path(value, origin, records.tree, records.book)
        });
        Some(Self {
            objects: vec![Object { elf: index, origin, loader: None, group: 0 }],
            library_path,
            defaults: loaders.defaults(records.tree, records.book),
            cache: None,
            cache_opened: None,
            current: None,
        })
    }

    /// The state that a child inherits: everything but the search that is going on.
    pub(super) fn inherited(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            library_path: Arc::clone(&self.library_path),
            defaults: Arc::clone(&self.defaults),
            cache: self.cache,
            cache_opened: None,
            current: None,
        }
    }

    /// Looks at a call that opens or asks for attributes by name; says whether it is a probe.
    pub(super) fn add(
        &mut self,
        event: &Event,
        loaders: &mut Loaders<'a>,
        records: &mut Records<'_, 'a>,
    ) -> bool {
        let node = records.tree.of_path(event.path);
        match event.call.class() {
            Class::Stat => self.directory(event, node),
            Class::Open if node == loaders.cache => self.open_cache(event, records.book),
            Class::Open if event.flags & ACCESS_MODE == 0 && loaders.is_library(records.tree.name(node)) => {
                self.open(event, node, loaders, records)
            }
            _ => false,
        }
    }

    /// The loader asks for the directory when the first open in it failed.
    fn directory(&mut self, event: &Event, node: PathNode) -> bool {
        let Some(current) = &mut self.current else { return false };
        let Some((entry, position)) =
            current.place.filter(|_| node != PathNode::NONE && node == current.directory)
        else {
            return false;
        };
        current.search.probe(entry, position, event.is_miss());
        current.directory = PathNode::NONE;
        true
    }

    fn open_cache(&mut self, event: &Event, book: &mut SearchBook<'a>) -> bool {
        let entry = *self.cache.get_or_insert_with(|| book.entry(SearchKind::Loader, "ld.so.cache", CACHE));
        let reached = self.current.as_ref().filter(|current| !current.search.is_found());
        let reached = reached.and_then(|current| current.search.last());
        match &mut self.current {
            // A search opens the cache once: after that, or before any probe, it is the next one's.
            Some(current) if reached.is_some_and(|last| last != entry && !is_in(&self.defaults, last)) => {
                current.search.probe(entry, 0, event.is_miss());
                current.directory = PathNode::NONE;
            }
            _ => self.cache_opened = Some(event.is_miss()),
        }
        true
    }

    fn open(
        &mut self,
        event: &Event,
        node: PathNode,
        loaders: &mut Loaders<'a>,
        records: &mut Records<'_, 'a>,
    ) -> bool {
        let name = records.tree.name(node);
        if self
            .current
            .as_ref()
            .is_none_or(|current| current.search.name != name || current.search.is_found())
        {
            self.finish(records.book);
            self.current = Some(self.begin(name, loaders, records));
        }
        let placed = self.place(node, event, records);
        let loaded = event.outcome.is_success().then(|| records.images.elf_of(event.target)).flatten();
        let Some(current) = &mut self.current else { return false };
        let found = match placed {
            Some((entry, position)) => {
                current.search.probe(entry, position, event.is_miss());
                current.directory = records.tree.parent(node);
                current.place = placed;
                if event.outcome.is_success() {
                    current.search.found(entry, records.tree.text(records.tree.of_path(event.target)));
                }
                true
            }
            None => false,
        };
        if let Some(elf) = loaded {
            let asker = current.asker;
            self.load(elf, records.tree.parent(node), asker);
        }
        if !found && event.outcome.is_success() {
            self.finish(records.book);
        }
        found
    }

    fn load(&mut self, elf: usize, origin: PathNode, asker: Option<u16>) {
        let group = match asker.and_then(|asker| self.objects.get(usize::from(asker))) {
            Some(asker) => asker.group,
            None => self.objects.last().map_or(0, |last| last.group.saturating_add(1)),
        };
        if self.objects.len() < usize::from(u16::MAX) {
            self.objects.push(Object { elf, origin, loader: asker, group });
        }
    }

    /// A search for `name`: who asked for it, and in which lists it is looked for.
    fn begin(
        &mut self,
        name: &'a [u8],
        loaders: &mut Loaders<'a>,
        records: &mut Records<'_, 'a>,
    ) -> CurrentLoad<'a> {
        let asker = self.asker(name, records.images);
        let lists = self.lists(asker, loaders, records);
        let file = asker.and_then(|asker| records.images.elf(self.objects[usize::from(asker)].elf));
        let asked_by = file.map(|file| records.tree.text(records.tree.of_path(Some(file.path))));
        let search = Search::new(name, asked_by);
        CurrentLoad { search, asker, lists, at: (0, 0), directory: PathNode::NONE, place: None }
    }

    /// The first object of the latest group that has the name in NEEDED. Earlier groups have all that they need.
    fn asker(&self, name: &[u8], images: &Images<'a>) -> Option<u16> {
        let needs = |object: &Object| {
            let file = images.elf(object.elf);
            file.is_some_and(|file| file.needed.iter().any(|needed| needed.as_bytes() == name))
        };
        let asking = self.objects.iter().enumerate().filter(|(_, object)| needs(object));
        let (index, _) = asking.min_by_key(|(index, object)| (std::cmp::Reverse(object.group), *index))?;
        Some(index as u16)
    }

    fn lists(
        &self,
        asker: Option<u16>,
        loaders: &mut Loaders<'a>,
        records: &mut Records<'_, 'a>,
    ) -> Vec<SearchOrder> {
        let object = |index: u16| self.objects.get(usize::from(index)).copied();
        let images = records.images;
        let mut run_path = |object: Object, of_run_path: bool| {
            let file = images.elf(object.elf).filter(|file| file.runpath.is_some() == of_run_path)?;
            Some(loaders.run_path((object.elf, file), object.origin, records))
        };
        let mut lists = Vec::new();
        let mut run_paths = Vec::new();
        match asker.and_then(object) {
            Some(asking) => {
                if images.elf(asking.elf).is_some_and(|file| file.runpath.is_none()) {
                    let chain = std::iter::successors(Some(asking), |above| object(above.loader?));
                    lists.extend(chain.filter_map(|object| run_path(object, false)));
                    // An unknown object called `dlopen`; the loader looks into the program's RPATH
                    // for every caller.
                    lists.extend(self.objects.first().and_then(|program| run_path(*program, false)));
                }
                run_paths.extend(run_path(asking, true));
            }
            // `dlopen` of a bare name looks into the RUNPATH of the object that called it, whichever that is.
            None => {
                lists.extend(self.objects.iter().filter_map(|object| run_path(*object, false)));
                run_paths.extend(self.objects.iter().filter_map(|object| run_path(*object, true)));
            }
        }
        lists.push(Arc::clone(&self.library_path));
        lists.extend(run_paths);
        lists.retain(|list| !list.is_empty());
        lists
    }

    /// The entry that a probe is of, if it stands where the search may go next.
    fn place(
        &mut self,
        node: PathNode,
        event: &Event,
        records: &mut Records<'_, 'a>,
    ) -> Option<(EntryId, u32)> {
        let current = self.current.as_mut()?;
        let directory = records.tree.parent(node);
        let (bases, count) = bases(directory, records.tree);
        let bases = &bases[..count];
        for base in bases.iter().rev() {
            let lists = current.lists.iter().enumerate().skip(current.at.0);
            for (index, list) in lists {
                let from = if index == current.at.0 { current.at.1 } else { 0 };
                let found = list.iter().enumerate().skip(from).find(|(_, place)| place.node == *base);
                if let Some((at, place)) = found {
                    current.at = (index, at);
                    self.cache_opened = None;
                    return Some((place.entry, place.position));
                }
            }
        }
        let default =
            bases.iter().rev().find_map(|base| self.defaults.iter().find(|place| place.node == *base));
        let known = current.asker.is_some() || self.cache_opened.is_some() || self.searched_cache();
        if !known {
            return None;
        }
        // The cache names the file itself; the default directories are tried when it does not know the name.
        match default {
            Some(place) if event.is_miss() || self.tried_default(place.entry) => {
                let found = (place.entry, place.position);
                self.begin_with_cache(records.book);
                Some(found)
            }
            _ => {
                self.begin_with_cache(records.book);
                let entry = self
                    .cache
                    .get_or_insert_with(|| records.book.entry(SearchKind::Loader, "ld.so.cache", CACHE));
                Some((*entry, 0))
            }
        }
    }

    fn searched_cache(&self) -> bool {
        let last = self.current.as_ref().and_then(|current| current.search.last());
        self.cache.is_some() && (last == self.cache || last.is_some_and(|last| self.is_default(last)))
    }

    fn tried_default(&self, entry: EntryId) -> bool {
        let last = self.current.as_ref().and_then(|current| current.search.last());
        last.is_some_and(|last| last == entry || self.is_default(last))
    }

    fn is_default(&self, entry: EntryId) -> bool {
        is_in(&self.defaults, entry)
    }

    /// The cache that was opened before the first probe belongs to this search.
    fn begin_with_cache(&mut self, book: &mut SearchBook<'a>) {
        let Some(missed) = self.cache_opened.take() else { return };
        let entry = *self.cache.get_or_insert_with(|| book.entry(SearchKind::Loader, "ld.so.cache", CACHE));
        if let Some(current) = &mut self.current {
            current.search.probe(entry, 0, missed);
        }
    }

    /// Enters the search that was going on.
    pub(super) fn finish(&mut self, book: &mut SearchBook<'a>) {
        if let Some(current) = self.current.take().filter(|current| current.search.last().is_some()) {
            book.enter(SearchKind::Loader, &current.search);
        }
    }
}

fn is_in(list: &SearchOrder, entry: EntryId) -> bool {
    list.iter().any(|place| place.entry == entry)
}

/// The directory, and what is left of it without each of the subdirectories that the loader appends; and how many.
fn bases(directory: PathNode, tree: &PathNodes<'_>) -> ([PathNode; DEEPEST + 1], usize) {
    let mut bases = [directory; DEEPEST + 1];
    let mut count = 1;
    if tree.name(tree.parent(directory)) == b"glibc-hwcaps" {
        bases[1] = tree.parent(tree.parent(directory));
        return (bases, 2);
    }
    while count <= DEEPEST && CAPABILITIES.contains(&tree.name(bases[count - 1])) {
        bases[count] = tree.parent(bases[count - 1]);
        count += 1;
    }
    (bases, count)
}
