//! Searches that no rule knows: the same names asked for in one directory after the other, always in the same order.
//!
//! ```text
//! calls that no rule explains -> Table: path -> calls, misses, time of the first
//!    variables, arguments of the program and those that started it -> lists that are said somewhere
//!    names that were asked for in several directories              -> lists that are not
//! ```
//!
//! A list counts when its names were asked for in its order and mostly missed. Programs that ran with the same arguments
//! and variables are one. Memory grows with distinct paths of distinct programs. What a known search explains is left out.

use super::arguments;
use super::images::{Image, Images};
use super::list::plain;
use super::model::{
    EntryCounts, EntryKey, ListEntry, ListFacts, ListSource, SearchKind, Searches, WantedCounts, WantedKey,
};
use super::tree::{NodeMap, PathNode, PathNodes};
use quell_trace::flags::AT_SYMLINK_NOFOLLOW;
use quell_trace::{Call, Class, Event, PathId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A program that missed fewer names searched nothing.
const FEWEST_MISSES: u32 = 10;
/// A list that is said nowhere has at least so many entries, and so many names were looked for in them. Fewer, and a walk that
/// asks each directory for the same few names (`.gitignore`) looks like a search.
const FEWEST_ENTRIES: usize = 3;
const FEWEST_NAMES: u64 = 5;
/// Two directories follow each other in an undeclared list when so many names were looked for in both.
const FEWEST_SHARED: u32 = 3;
/// Nine of ten steps from one directory to the next go the same way.
const IN_ORDER: u64 = 10;
/// A program adds less than one part in so many to a list that it hands on.
const ADDED: u64 = 10;
/// No program has more lists.
const MOST_LISTS: usize = 8;
/// Files named as those that may hold the list.
const READ_BEFORE: usize = 3;
/// A program and those that started it, as far as they are looked at.
const GENERATIONS: usize = 16;

/// Variables whose searches other rules explain. What they leave is something else.
const EXPLAINED: &[&str] = &[
    "PATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "PYTHONPATH",
    "PERL5LIB",
    "PERLLIB",
    "R_LIBS",
    "R_LIBS_USER",
    "R_LIBS_SITE",
    "JULIA_LOAD_PATH",
    "JULIA_DEPOT_PATH",
    "MODULEPATH",
];

/// The calls of all programs of a recording that no rule explains.
#[derive(Debug, Default)]
pub(super) struct Unnamed<'a> {
    of_image: HashMap<Option<Image>, usize>,
    of_configuration: HashMap<Configuration<'a>, usize>,
    tables: Vec<Table>,
}

/// Programs that are equal in this search the same lists.
type Configuration<'a> = (Option<PathId>, Vec<&'a str>, Vec<(&'a str, &'a str)>);

#[derive(Debug)]
struct Table {
    image: Option<Image>,
    asked: NodeMap<Asked>,
    clock: u32,
    missed: u32,
}

/// A path that was asked for.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The order of first calls.
    first: u32,
    operations: u32,
    missed: u32,
    /// Calls that ask whether it is a link, as those do that work out a real path component by component.
    /// Shape: `readlink`, then attributes.
    as_link: [u32; 2],
    /// A call by this name succeeded.
    found: bool,
    opened: bool,
    resolved: PathNode,
}

impl<'a> Unnamed<'a> {
    /// Notes a call of a program. What a rule explains is noted only as a file that was read.
    pub(super) fn add(
        &mut self,
        event: &Event,
        image: Option<Image>,
        is_explained: bool,
        images: &Images<'a>,
        tree: &PathNodes<'a>,
    ) {
        let is_named = tree.is_named(event);
        let resolved = tree.of_path(event.target);
        let node = if is_named { tree.asked(event) } else { resolved };
        let opened = is_named && event.call.class() == Class::Open && event.outcome.is_success();
        if !tree.is_absolute(node) || (is_explained && !opened) {
            return;
        }
        let table = match self.of_image.get(&image) {
            Some(&table) => table,
            None => self.enter(image, images),
        };
        let table = &mut self.tables[table];
        table.clock = table.clock.saturating_add(1);
        let new = Asked {
            first: table.clock,
            operations: 0,
            missed: 0,
            as_link: [0; 2],
            found: false,
            opened,
            resolved,
        };
        let asked = table.asked.entry(node).or_insert(new);
        asked.opened |= opened;
        if !is_explained {
            let missed = u32::from(event.is_miss());
            asked.operations = asked.operations.saturating_add(1);
            asked.missed = asked.missed.saturating_add(missed);
            if let Some(way) = asks_for_link(event) {
                asked.as_link[way] = asked.as_link[way].saturating_add(1);
            }
            asked.found |= is_named && event.outcome.is_success();
            table.missed = table.missed.saturating_add(missed);
        }
    }

    fn enter(&mut self, image: Option<Image>, images: &Images<'a>) -> usize {
        let configuration = image.map_or((None, Vec::new(), Vec::new()), |image| {
            let arguments = arguments::elements(images.arguments(image));
            let arguments = arguments.iter().filter(|element| is_repeated(&element.option, &arguments));
            let arguments = arguments.map(|element| element.text).collect();
            let variables = images.variables(image).iter();
            let variables = variables.map(|known| (known.name.as_str(), known.value.as_str())).collect();
            (images.program(image), arguments, variables)
        });
        let tables = &mut self.tables;
        let table = *self.of_configuration.entry(configuration).or_insert_with(|| {
            tables.push(Table { image, asked: NodeMap::default(), clock: 0, missed: 0 });
            tables.len() - 1
        });
        self.of_image.insert(image, table);
        table
    }

    /// Enters every list that was found.
    pub(super) fn finish(self, images: &Images<'a>, tree: &PathNodes<'a>, searches: &mut Searches) {
        for mut table in self.tables.into_iter().filter(|table| table.missed >= FEWEST_MISSES) {
            for _ in 0..MOST_LISTS {
                let found = said(&table, images, tree).or_else(|| not_said(&table, images, tree));
                let Some((list, origin, says)) = found else { break };
                list.enter(origin, says, &table, images, tree, searches);
                table.asked.retain(|node, _| list.entry_of(*node, tree).is_none());
            }
        }
    }
}

/// The way in which a call asks whether its name is a link. Range: index into [`Asked::as_link`].
fn asks_for_link(event: &Event) -> Option<usize> {
    match event.call {
        Call::Lstat => Some(1),
        Call::Newfstatat | Call::Statx => (event.flags & AT_SYMLINK_NOFOLLOW != 0).then_some(1),
        call => (call.class() == Class::ReadLink).then_some(0),
    }
}

fn is_repeated(option: &str, elements: &[arguments::Element<'_>]) -> bool {
    elements.iter().filter(|other| other.option == option).count() > 1
}

/// The list that explains most misses. Programs hand lists on and add to them: it is said where the outermost of them has it.
fn said(table: &Table, images: &Images<'_>, tree: &PathNodes<'_>) -> Option<(List, String, ListSource)> {
    let lists = sources(table.image, images, tree).into_iter().filter_map(|source| {
        let list = List::of(source.elements, table, tree).filter(|list| list.names > 0)?;
        Some((list, source.origin, source.says))
    });
    let lists: Vec<_> = lists.collect();
    let most = lists.iter().map(|(list, _, _)| list.missed).max()?;
    lists
        .into_iter()
        .rfind(|(list, _, _)| list.missed.saturating_mul(ADDED) >= most.saturating_mul(ADDED - 1))
}

/// A place that names directories in an order.
struct Source {
    origin: String,
    says: ListSource,
    elements: Vec<PathNode>,
}

/// The lists that the program's variables and arguments hold, and those of the programs that started it: these last.
fn sources(image: Option<Image>, images: &Images<'_>, tree: &PathNodes<'_>) -> Vec<Source> {
    let mut sources = Vec::new();
    let generations = std::iter::successors(image, |image| images.before(*image)).take(GENERATIONS);
    for image in generations {
        let mut options: BTreeMap<String, Vec<PathNode>> = BTreeMap::new();
        let command = images.arguments(image);
        for element in arguments::elements(command) {
            if let Some(node) = find(element.text, images, tree) {
                options.entry(element.option).or_default().push(node);
            }
        }
        let program = program_name(Some(image), images);
        sources.extend(options.into_iter().map(|(option, elements)| Source {
            origin: format!("{} of {program}", option.trim_end_matches('=')),
            says: ListSource::Arguments { option, command: command.to_vec() },
            elements,
        }));
        let variables = images.variables(image).iter();
        for variable in variables.filter(|variable| !EXPLAINED.contains(&variable.name.as_str())) {
            let texts = variable.value.split(separators(&variable.value));
            let elements = texts.filter_map(|text| find(text, images, tree)).collect();
            let (name, value) = (variable.name.clone(), variable.value.clone());
            sources.push(Source {
                origin: name.clone(),
                says: ListSource::Variable { name, value },
                elements,
            });
        }
    }
    sources.retain(|source| source.elements.len() > 1);
    sources
}

/// The separators of a variable's elements: spaces where it has no other.
pub(crate) fn separators(value: &str) -> &'static [char] {
    if value.contains([':', ';']) { &[':', ';'] } else { &[' '] }
}

/// The directory that an element names: from the working directory on, patterns up to their `?`.
fn find(text: &str, images: &Images<'_>, tree: &PathNodes<'_>) -> Option<PathNode> {
    let text = text.split('?').next().filter(|text| !text.is_empty())?.as_bytes();
    let given = tree.find(text).filter(|node| tree.is_absolute(*node));
    given.or_else(|| {
        let start = tree.text(images.working_directory(tree));
        let whole = if text.starts_with(b"/") { text.to_vec() } else { [start, b"/", text].concat() };
        tree.find(&plain(&whole)).filter(|node| tree.is_absolute(*node))
    })
}

fn program_name(image: Option<Image>, images: &Images<'_>) -> String {
    let first = image.and_then(|image| images.arguments(image).first());
    match first.map(|word| word.rsplit('/').next().unwrap_or(word)) {
        Some(word) if !word.is_empty() => word.to_owned(),
        _ => "the program".to_owned(),
    }
}

/// The list of directories that most names were looked for in.
fn not_said(table: &Table, images: &Images<'_>, tree: &PathNodes<'_>) -> Option<(List, String, ListSource)> {
    let clusters = clusters(table, tree);
    let lists = clusters.into_iter().filter_map(|directories| List::of(directories, table, tree));
    let lists = lists.filter(|list| list.touched >= FEWEST_ENTRIES && list.names >= FEWEST_NAMES);
    let list = lists.max_by_key(|list| list.missed)?;
    let mut read: Vec<_> = table
        .asked
        .iter()
        .filter(|(node, asked)| {
            asked.opened
                && asked.first < list.first
                && list.entry_of(**node, tree).is_none()
                && is_text(**node, tree)
        })
        .collect();
    read.sort_unstable_by_key(|(_, asked)| Reverse(asked.first));
    let read_before = read.iter().take(READ_BEFORE).map(|(node, _)| tree.text(**node).into()).collect();
    let first = quell_base::escape(tree.text(list.elements[0]));
    let origin = format!("list of {} from {first} on", program_name(table.image, images));
    Some((list, origin, ListSource::Unknown { read_before }))
}

/// True for a file that may say a list: no library, and nothing that the kernel makes up.
fn is_text(node: PathNode, tree: &PathNodes<'_>) -> bool {
    let (text, name) = (tree.text(node), tree.name(node));
    let is_library = name.windows(3).any(|part| part == b".so");
    let is_system =
        [&b"/proc/"[..], b"/sys/", b"/dev/", b"/etc/ld.so"].iter().any(|root| text.starts_with(root));
    !is_library && !is_system && name.contains(&b'.')
}

/// Directories that follow each other in the searches of at least so many names. Shape: each in order of their first calls.
fn clusters(table: &Table, tree: &PathNodes<'_>) -> Vec<Vec<PathNode>> {
    let mut names: HashMap<&[u8], Vec<(u32, PathNode, bool)>> = HashMap::new();
    for (node, asked) in table.asked.iter().filter(|(_, asked)| asked.operations > 0) {
        let parent = tree.parent(*node);
        if parent != PathNode::NONE {
            names.entry(tree.name(*node)).or_default().push((asked.first, parent, asked.missed > 0));
        }
    }
    let mut steps: HashMap<(PathNode, PathNode), u32> = HashMap::new();
    for asked in names.values_mut().filter(|asked| asked.len() >= FEWEST_ENTRIES) {
        asked.sort_unstable();
        let pairs = asked.windows(2).filter(|pair| pair[0].2);
        pairs.for_each(|pair| *steps.entry((pair[0].1, pair[1].1)).or_default() += 1);
    }
    let mut groups = Groups::default();
    steps.iter().filter(|(_, names)| **names >= FEWEST_SHARED).for_each(|((a, b), _)| groups.join(*a, *b));
    groups.raise(tree);
    let mut first: NodeMap<u32> = NodeMap::default();
    for (node, asked) in &table.asked {
        let parent = tree.parent(*node);
        let earliest = first.entry(parent).or_insert(asked.first);
        *earliest = asked.first.min(*earliest);
    }
    let mut clusters = groups.members();
    for cluster in &mut clusters {
        cluster.sort_unstable_by_key(|node| (first.get(node).copied(), *node));
    }
    clusters.sort_unstable();
    clusters
}

/// Directories that belong together.
#[derive(Debug, Default)]
struct Groups {
    parents: NodeMap<PathNode>,
}

impl Groups {
    fn root(&mut self, node: PathNode) -> PathNode {
        let mut root = *self.parents.entry(node).or_insert(node);
        while let Some(above) = self.parents.get(&root).copied().filter(|above| *above != root) {
            root = above;
        }
        self.parents.insert(node, root);
        root
    }

    fn join(&mut self, a: PathNode, b: PathNode) {
        let (a, b) = (self.root(a), self.root(b));
        self.parents.insert(a.max(b), a.min(b));
    }

    fn members(&mut self) -> Vec<Vec<PathNode>> {
        let mut members: BTreeMap<PathNode, Vec<PathNode>> = BTreeMap::new();
        let nodes: Vec<PathNode> = self.parents.keys().copied().collect();
        for node in nodes {
            members.entry(self.root(node)).or_default().push(node);
        }
        members.into_values().collect()
    }

    /// Names with slashes are looked for in the subdirectories of entries: such a group is part of the entries' own.
    fn raise(&mut self, tree: &PathNodes<'_>) {
        let groups = self.members();
        for group in &groups {
            let above: HashSet<PathNode> = group.iter().map(|node| tree.parent(*node)).collect();
            let is_raised = above.len() == group.len()
                && above.iter().filter(|node| self.parents.contains_key(node)).count() * 2 > above.len();
            if is_raised {
                group.iter().for_each(|node| _ = self.parents.remove(node));
            }
        }
        // The group of a remaining node is written anew: a root may have been raised.
        for group in groups {
            let stay: Vec<PathNode> =
                group.into_iter().filter(|node| self.parents.contains_key(node)).collect();
            stay.iter().for_each(|node| _ = self.parents.insert(*node, *node));
            stay.windows(2).for_each(|pair| self.join(pair[0], pair[1]));
        }
    }
}

/// A list with the calls in its entries.
struct List {
    /// Shape: in the order of the search.
    elements: Vec<PathNode>,
    positions: NodeMap<usize>,
    /// Entries in which such a name was looked for.
    touched: usize,
    /// Names that were looked for in several entries.
    names: u64,
    /// Misses of these names.
    missed: u64,
    /// The first call on such a name.
    first: u32,
}

impl List {
    /// `None` where names were not looked for in the order of the directories, or mostly found.
    fn of(mut elements: Vec<PathNode>, table: &Table, tree: &PathNodes<'_>) -> Option<Self> {
        let mut known = HashSet::new();
        elements.retain(|node| known.insert(*node));
        let positions = elements.iter().enumerate().map(|(position, node)| (*node, position)).collect();
        let mut list = Self { elements, positions, touched: 0, names: 0, missed: 0, first: u32::MAX };
        let (mut forwards, mut steps, mut operations) = (0, 0, 0);
        let mut touched = HashSet::new();
        for asked in list.names(table, tree).values().filter(|asked| asked.len() > 1) {
            let missed: u64 = asked.iter().map(|(_, _, asked)| u64::from(asked.missed)).sum();
            if missed == 0 {
                continue;
            }
            list.names += 1;
            list.missed += missed;
            operations += asked.iter().map(|(_, _, asked)| u64::from(asked.operations)).sum::<u64>();
            list.first = list.first.min(asked[0].2.first);
            touched.extend(asked.iter().map(|(position, _, _)| *position));
            steps += asked.len() as u64 - 1;
            forwards += asked.windows(2).filter(|pair| pair[0].0 < pair[1].0).count() as u64;
        }
        list.touched = touched.len();
        if forwards * 2 < steps {
            list.elements.reverse();
            list.positions =
                list.elements.iter().enumerate().map(|(position, node)| (*node, position)).collect();
            forwards = steps - forwards;
        }
        let in_order = (steps - forwards) * IN_ORDER <= steps;
        (list.touched > 1 && in_order && list.missed * 2 >= operations).then_some(list)
    }

    /// The entry that a path is or lies in.
    fn entry_of(&self, node: PathNode, tree: &PathNodes<'_>) -> Option<usize> {
        tree.upwards(node).find_map(|node| self.positions.get(&node).copied())
    }

    /// The calls by name from the entry on, which is empty for the entry itself. Shape: position, path and calls, in the
    /// order of the first calls.
    fn names<'t>(
        &self,
        table: &Table,
        tree: &PathNodes<'t>,
    ) -> BTreeMap<&'t [u8], Vec<(usize, PathNode, Asked)>> {
        let mut names: BTreeMap<&[u8], Vec<(usize, PathNode, Asked)>> = BTreeMap::new();
        for (node, asked) in table.asked.iter().filter(|(_, asked)| asked.operations > 0) {
            if let Some(position) = self.entry_of(*node, tree) {
                // `DIRECTORY/.` is the directory.
                let name = Some(tree.below(self.elements[position], *node)).filter(|name| *name != b".");
                let name = name.unwrap_or_default();
                names.entry(name).or_default().push((position, *node, *asked));
            }
        }
        names.values_mut().for_each(|asked| asked.sort_unstable_by_key(|(_, _, asked)| asked.first));
        names
    }

    /// For each entry, how often each directory above was asked whether it is a link when the entry was: all entries below a
    /// directory together never more often than the directory was.
    fn walked(&self, table: &Table, tree: &PathNodes<'_>) -> Vec<u64> {
        let mut walked = vec![0; self.elements.len()];
        for way in 0..2 {
            let asked =
                |node: PathNode| table.asked.get(&node).map_or(0, |asked| u64::from(asked.as_link[way]));
            let above =
                |entry: PathNode| tree.upwards(tree.parent(entry)).filter(|node| tree.text(*node) != b"/");
            let mut below: NodeMap<u64> = NodeMap::default();
            // The deepest come first: a call on a deep entry also asks for those above it.
            let mut order: Vec<usize> = (0..self.elements.len()).collect();
            order.sort_by_key(|position| Reverse(above(self.elements[*position]).count()));
            let mut own = vec![0; self.elements.len()];
            for position in order {
                let entry = self.elements[position];
                own[position] = asked(entry).saturating_sub(below.get(&entry).copied().unwrap_or(0));
                above(entry).for_each(|node| *below.entry(node).or_default() += own[position]);
            }
            for (position, entry) in self.elements.iter().enumerate() {
                let is_walked = above(*entry).all(|node| asked(node) >= below[&node]);
                walked[position] += if is_walked { own[position] } else { 0 };
            }
        }
        walked
    }

    /// Adds the list, with its entries and the names that were looked for, to `searches`.
    fn enter(
        &self,
        origin: String,
        source: ListSource,
        table: &Table,
        images: &Images<'_>,
        tree: &PathNodes<'_>,
        searches: &mut Searches,
    ) {
        let mut rows: Vec<ListRow> =
            self.elements.iter().map(|node| ListRow::of_directory(tree.text(*node))).collect();
        let names = self.names(table, tree);
        let hits = Hits::of(&names);
        for (name, calls) in &names {
            let wanted = count_name(name, calls, &hits, tree, &mut rows);
            let name = if name.is_empty() { &b"(the directory itself)"[..] } else { *name };
            let key = WantedKey { kind: SearchKind::Other, name: name.into(), asked_by: None };
            searches.wanted.entry(key).or_default().add(wanted);
        }
        for (row, walked) in rows.iter_mut().zip(self.walked(table, tree)) {
            row.entry.walked = walked;
        }
        let mut entries = BTreeMap::new();
        for (position, (node, row)) in self.elements.iter().zip(rows).enumerate() {
            if row.counts.searches == 0 {
                continue;
            }
            let directory: Box<[u8]> = tree.text(*node).into();
            let key =
                EntryKey { kind: SearchKind::Other, origin: origin.clone(), directory: directory.clone() };
            let unplaced = EntryCounts { position: u32::MAX, ..EntryCounts::default() };
            let counts = EntryCounts { position: position as u32, ..row.counts };
            searches.entries.entry(key).or_insert(unplaced).add(counts);
            entries.insert(directory, row.entry);
        }
        let facts = ListFacts { asked_by: [program_name(table.image, images)].into(), source, entries };
        match searches.lists.get_mut(&origin) {
            Some(list) => list.add(facts),
            None => _ = searches.lists.insert(origin, facts),
        }
    }
}

/// An entry of a list while its calls are counted.
struct ListRow {
    counts: EntryCounts,
    entry: ListEntry,
}

impl ListRow {
    fn of_directory(path: &[u8]) -> Self {
        let entry = ListEntry { resolved: path.into(), spare: 0, walked: 0 };
        Self { counts: EntryCounts::default(), entry }
    }
}

/// The entries in which searches ended, by the stem of what was found: a search for `m` may ask for `m.js`, `m.json` and `m.node` in
/// each entry.
struct Hits<'t>(HashMap<&'t [u8], Vec<usize>>);

impl<'t> Hits<'t> {
    /// Shape of `names`: by name, as [`count_name`] takes them.
    fn of(names: &BTreeMap<&'t [u8], Vec<(usize, PathNode, Asked)>>) -> Self {
        let mut hits = HashMap::<_, Vec<usize>>::new();
        for (name, calls) in names.iter().filter(|(name, _)| !name.is_empty()) {
            let found = calls.iter().filter(|(_, _, asked)| asked.found).map(|(row, ..)| *row);
            hits.entry(stem(name)).or_default().extend(found);
        }
        Self(hits)
    }

    /// True if the search for a name that was found nowhere ended in an entry in which it was not asked for: another name with its
    /// stem comes first.
    fn come_before(&self, name: &[u8], calls: &[(usize, PathNode, Asked)]) -> bool {
        let ends = self.0.get(stem(name)).map_or(&[][..], Vec::as_slice);
        !ends.is_empty() && !ends.iter().any(|end| calls.iter().any(|(row, ..)| row == end))
    }
}

/// The name up to its first dot.
fn stem(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == b'.').next().unwrap_or(name)
}

/// Counts the calls on one name in the rows of the entries in which it was looked for; `name` is empty for the entries
/// themselves. Shape of `calls`: row, path and calls, in the order of the first calls.
fn count_name(
    name: &[u8],
    calls: &[(usize, PathNode, Asked)],
    hits: &Hits<'_>,
    tree: &PathNodes<'_>,
    rows: &mut [ListRow],
) -> WantedCounts {
    let itself = name.is_empty();
    let is_found = !itself && calls.iter().any(|(_, _, asked)| asked.found);
    let is_preceded = !itself && !is_found && hits.come_before(name, calls);
    let mut wanted = WantedCounts { searches: 1, ..WantedCounts::default() };
    for (index, (position, node, asked)) in calls.iter().enumerate() {
        let row = &mut rows[*position];
        let (probes, missed) = (u64::from(asked.operations), u64::from(asked.missed));
        let hit = asked.found && !itself;
        row.counts.add(EntryCounts { position: 0, searches: 1, probes, missed, hits: hit.into() });
        // In one directory, a name would be asked for where it was found, or once in vain, unless the search ends before.
        if !(if is_found { asked.found } else { index == 0 && !is_preceded }) {
            row.entry.spare += probes;
        }
        if let Some([directory @ .., b'/']) = tree.text(asked.resolved).strip_suffix(name).filter(|_| !itself)
        {
            row.entry.resolved = directory.into();
        }
        wanted.probes += probes;
        wanted.missed += missed;
        if hit && wanted.found.is_none() {
            wanted.found = Some(tree.text(*node).into());
        }
    }
    wanted
}
