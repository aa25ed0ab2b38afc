//! What only the original has: a number for each, as long as the kernel knows it.
//!
//! The kernel knows nodes by these numbers, so the table is written down in a log for the next server. The counts of
//! lookups are changed in place. A node that found no room in the log, or whose new path found none, is unknown to the
//! next server, which says `ESTALE`: the kernel then walks the path again.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use super::log::{Log, NewRecord, OldRecord, Place, Record};
use super::nodes::{Held, Node};
use crate::lock;
use crate::sys::shared::SharedMemory;

/// What tells one original from another: device and inode number.
pub(crate) type OriginalKey = (u64, u64);

/// Something that only the original has.
#[derive(Debug, Clone)]
struct Found {
    path: PathBuf,
    key: OriginalKey,
    /// Lookups that the kernel has not given back.
    lookups: u64,
    /// It has lost its name; programs may still have it open.
    nameless: bool,
    rights: Rights,
    held: Option<Arc<Held>>,
    /// Where it is written down.
    place: Option<Place>,
}

/// What the user may do with something that only the original has, beside what its attributes say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rights {
    /// Make and remove names in it.
    pub(crate) write_below: bool,
    /// Make and remove names in the directory that it lies in.
    pub(crate) write_beside: bool,
}

impl Rights {
    fn to_word(self) -> u64 {
        u64::from(self.write_below) | u64::from(self.write_beside) << 1
    }

    fn from_word(word: u64) -> Self {
        Self { write_below: word & 1 != 0, write_beside: word & 2 != 0 }
    }
}

/// The table of found nodes.
#[derive(Debug)]
pub(crate) struct FoundNodes(Mutex<Table>);

#[derive(Debug)]
struct Table {
    /// The last number that was given out. Also the next server never gives one out again, whether or not its node was
    /// written down: the kernel may still know it.
    last: u64,
    /// Where that is written down.
    last_place: Option<Place>,
    nodes: HashMap<u64, Found>,
    numbers: HashMap<OriginalKey, u64>,
    log: Log,
    /// How many nodes there were when they found no room even in a new log.
    crowd: Option<usize>,
}

impl FoundNodes {
    /// The table that is written down in `memory`.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let log = Log::attach(memory);
        let mut table = Table {
            last: 0,
            last_place: None,
            nodes: HashMap::new(),
            numbers: HashMap::new(),
            log,
            crowd: None,
        };
        let records: Vec<(Place, OldRecord)> = table.log.records().collect();
        for (place, record) in records {
            table.replay(place, record);
        }
        if table.last_place.is_none() {
            table.last_place = table.log.append(&Record { kind: LAST, words: &[table.last], text: &[] });
        }
        table.nodes.retain(|_, node| node.lookups > 0);
        table.numbers = table
            .nodes
            .iter()
            .filter(|(_, node)| !node.nameless)
            .map(|(number, node)| (node.key, *number))
            .collect();
        Self(Mutex::new(table))
    }

    /// The number of the original `key`, which was found at `path`; counts one lookup.
    pub(crate) fn intern(&self, key: OriginalKey, path: PathBuf, rights: Rights) -> Node {
        let mut table = lock(&self.0);
        if let Some(number) = table.numbers.get(&key).copied()
            && table.nodes.contains_key(&number)
        {
            table.count(number, |lookups| lookups + 1);
            table.place_at(number, path, rights);
            return Node::Found(number);
        }
        let number = table.next_number();
        table.numbers.insert(key, number);
        let node = Found { path, key, lookups: 1, nameless: false, rights, held: None, place: None };
        table.nodes.insert(number, node);
        table.write_down(number);
        Node::Found(number)
    }

    /// One more lookup of a node that has a number.
    pub(crate) fn count_lookup(&self, number: u64) {
        lock(&self.0).count(number, |lookups| lookups + 1);
    }

    /// The kernel gives back lookups; after the last one the node is gone. Returns what it held then.
    pub(crate) fn forget(&self, number: u64, lookups: u64) -> Option<Arc<Held>> {
        let mut table = lock(&self.0);
        if table.count(number, |before| before.saturating_sub(lookups)) != Some(0) {
            return None;
        }
        let node = table.nodes.remove(&number)?;
        if table.numbers.get(&node.key) == Some(&number) {
            table.numbers.remove(&node.key);
        }
        node.held
    }

    /// Where the node's original lies.
    pub(crate) fn path(&self, number: u64) -> Option<PathBuf> {
        lock(&self.0).nodes.get(&number).map(|node| node.path.clone())
    }

    /// What the user may do around it; nothing if the node is not known.
    pub(crate) fn rights(&self, number: u64) -> Rights {
        lock(&self.0).nodes.get(&number).map(|node| node.rights).unwrap_or_default()
    }

    /// The number of an original that is known.
    pub(crate) fn number(&self, key: OriginalKey) -> Option<u64> {
        lock(&self.0).numbers.get(&key).copied()
    }

    pub(crate) fn held(&self, number: u64) -> Option<Arc<Held>> {
        lock(&self.0).nodes.get(&number)?.held.clone()
    }

    /// Gives the node a descriptor. Whether it is there.
    pub(crate) fn hold(&self, number: u64, held: Arc<Held>) -> bool {
        lock(&self.0).nodes.get_mut(&number).is_some_and(|node| {
            node.held = Some(held);
            true
        })
    }

    /// Gives up the node's descriptor if its path leads to it too. Whether there is none now.
    pub(crate) fn release(&self, number: u64) -> bool {
        let mut table = lock(&self.0);
        let Some(node) = table.nodes.get_mut(&number).filter(|node| !node.nameless) else {
            return !table.nodes.contains_key(&number);
        };
        node.held = None;
        true
    }

    /// The original's last name is gone: its device and inode number may be given to another file.
    pub(crate) fn detach(&self, number: u64) {
        let mut table = lock(&self.0);
        let Some(node) = table.nodes.get_mut(&number) else {
            return;
        };
        node.nameless = true;
        let (key, place) = (node.key, node.place);
        if table.numbers.get(&key) == Some(&number) {
            table.numbers.remove(&key);
        }
        if let Some(place) = place {
            table.log.word(place, NAMELESS).store(1, Ordering::Release);
        }
    }

    /// Something was renamed; everything at or below it moves along.
    pub(crate) fn rename(&self, from: &Path, to: &Path) {
        let mut table = lock(&self.0);
        if !table.move_along(from, to) {
            return;
        }
        let text = [from.as_os_str().as_bytes(), to.as_os_str().as_bytes()].concat();
        let words = [from.as_os_str().len() as u64];
        if table.log.append(&Record { kind: RENAME, words: &words, text: &text }).is_none()
            && !table.make_room()
        {
            table.disown_below(to);
        }
    }
}

impl Table {
    fn next_number(&mut self) -> u64 {
        self.last += 1;
        if let Some(place) = self.last_place {
            self.log.word(place, 0).store(self.last, Ordering::Release);
        }
        self.last
    }

    /// Changes a node's count of lookups, here and where it is written down.
    fn count(&mut self, number: u64, change: impl FnOnce(u64) -> u64) -> Option<u64> {
        let node = self.nodes.get_mut(&number)?;
        node.lookups = change(node.lookups);
        if let Some(place) = node.place {
            self.log.word(place, LOOKUPS).store(node.lookups, Ordering::Release);
        }
        Some(node.lookups)
    }

    /// The node was found at another path, or at the same.
    fn place_at(&mut self, number: u64, path: PathBuf, rights: Rights) {
        let changed = |node: &&mut Found| node.path != path || node.rights != rights;
        let Some(node) = self.nodes.get_mut(&number).filter(changed) else {
            return;
        };
        (node.path, node.rights) = (path, rights);
        self.write_down(number);
    }

    /// Writes a node down, in place of an earlier record of it.
    fn write_down(&mut self, number: u64) {
        let Some(node) = self.nodes.get_mut(&number) else {
            return;
        };
        let words = node.words(number);
        if let Some(place) = self.log.append(&node_record(&words, &node.path)) {
            node.place = Some(place);
        } else if !self.make_room() {
            self.disown(number);
        }
    }

    /// Writes everything down anew; false if there is no room for it. A table that was too large is tried again when it
    /// is a good deal smaller: whoever walks a large tree would wait for one such failure after the other.
    fn make_room(&mut self) -> bool {
        if self.crowd.is_some_and(|crowd| self.nodes.len() > crowd / 4 * 3) {
            return false;
        }
        let written = self.rewrite().is_some();
        self.crowd = (!written).then_some(self.nodes.len());
        written
    }

    /// Writes everything down anew, without what is gone. `None`, with nothing changed, if there is no room.
    fn rewrite(&mut self) -> Option<()> {
        let mut nodes: Vec<(&u64, &mut Found)> = self.nodes.iter_mut().collect();
        nodes.sort_unstable_by_key(|(number, _)| **number);
        let words: Vec<[u64; WORDS]> = nodes.iter().map(|(number, node)| node.words(**number)).collect();
        let last = [self.last];
        let records = words.iter().zip(&nodes).map(|(words, (_, node))| node_record(words, &node.path));
        let records = std::iter::once(Record { kind: LAST, words: &last[..], text: &[][..] }).chain(records);
        let places = self.log.rewrite(records)?;
        self.last_place = places.first().copied();
        for ((_, node), place) in nodes.into_iter().zip(&places[1..]) {
            node.place = Some(*place);
        }
        Some(())
    }

    /// What is written down of a node does not hold any more, and what holds finds no room: the next server must not
    /// know it.
    fn disown(&mut self, number: u64) {
        if let Some(place) = self.nodes.get_mut(&number).and_then(|node| node.place.take()) {
            self.log.word(place, LOOKUPS).store(0, Ordering::Release);
        }
    }

    /// The same for everything at or below `path`.
    fn disown_below(&mut self, path: &Path) {
        let below = self.nodes.iter().filter(|(_, node)| node.path.starts_with(path));
        let below: Vec<u64> = below.map(|(number, _)| *number).collect();
        below.into_iter().for_each(|number| self.disown(number));
    }

    fn move_along(&mut self, from: &Path, to: &Path) -> bool {
        let mut any = false;
        for node in self.nodes.values_mut() {
            if let Some(moved) = moved(&node.path, from, to) {
                node.path = moved;
                any = true;
            }
        }
        any
    }

    /// Does again what a record says.
    fn replay(&mut self, place: Place, record: OldRecord) {
        match (record.kind, &record.words[..]) {
            (NODE, &[number, device, inode, lookups, nameless, rights]) => {
                self.last = self.last.max(number);
                let node = Found {
                    path: OsString::from_vec(record.text).into(),
                    key: (device, inode),
                    lookups,
                    nameless: nameless != 0,
                    rights: Rights::from_word(rights),
                    held: None,
                    place: Some(place),
                };
                self.nodes.insert(number, node);
            }
            (LAST, &[last]) => {
                self.last = self.last.max(last);
                self.last_place = Some(place);
            }
            (RENAME, _) => {
                if let Some((from, to)) = two_paths(&record) {
                    self.move_along(&from, &to);
                }
            }
            _ => {}
        }
    }
}

impl Found {
    /// What is written down of it beside its path.
    fn words(&self, number: u64) -> [u64; WORDS] {
        let (device, inode) = self.key;
        [number, device, inode, self.lookups, self.nameless.into(), self.rights.to_word()]
    }
}

fn node_record<'a>(words: &'a [u64; WORDS], path: &'a Path) -> NewRecord<'a> {
    Record { kind: NODE, words, text: path.as_os_str().as_bytes() }
}

/// The paths of a record that has two, the length of the first one in its first word.
pub(crate) fn two_paths(record: &OldRecord) -> Option<(PathBuf, PathBuf)> {
    let first = usize::try_from(*record.words.first()?).ok()?;
    let (from, to) = record.text.split_at_checked(first)?;
    let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
    Some((path(from), path(to)))
}

/// Where `path` lies after `from` became `to`; `None` if it is not concerned.
pub(crate) fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(from).ok()?;
    Some(if below.as_os_str().is_empty() { to.to_owned() } else { to.join(below) })
}

/// Kinds of records.
const NODE: u8 = 1;
const RENAME: u8 = 2;
const LAST: u8 = 3;

/// Words of a node's record.
const WORDS: usize = 6;

/// Those that change in place.
const LOOKUPS: usize = 3;
const NAMELESS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> Arc<SharedMemory> {
        Arc::new(SharedMemory::new(1 << 16).unwrap())
    }

    #[test]
    fn a_found_node_lives_as_long_as_its_lookups() {
        let nodes = FoundNodes::attach(memory());
        let first = nodes.intern((1, 2), "/env/a".into(), Rights::default());
        assert_eq!(nodes.intern((1, 2), "/env/b".into(), Rights::default()), first);
        let Node::Found(number) = first else { panic!("frozen") };
        assert_eq!(nodes.path(number).unwrap(), Path::new("/env/b"));
        nodes.forget(number, 1);
        assert!(nodes.path(number).is_some());
        nodes.forget(number, 1);
        assert!(nodes.path(number).is_none());
        assert_ne!(nodes.intern((1, 2), "/env/a".into(), Rights::default()), first);
    }

    #[test]
    fn renames_carry_everything_below_along() {
        let nodes = FoundNodes::attach(memory());
        let Node::Found(number) = nodes.intern((1, 2), "/env/a/b/c".into(), Rights::default()) else {
            panic!("frozen")
        };
        nodes.rename(Path::new("/env/a"), Path::new("/env/z"));
        nodes.rename(Path::new("/env/zz"), Path::new("/env/y"));
        assert_eq!(nodes.path(number).unwrap(), Path::new("/env/z/b/c"));
    }

    /// More nodes than the log has room for: few attempts to make some, the next server never has a wrong path, and
    /// when most are gone it knows all that are left.
    #[test]
    fn a_table_that_outgrows_its_log_is_written_down_again_when_it_has_shrunk() {
        const MANY: u64 = 2000;
        let memory = memory();
        let nodes = FoundNodes::attach(Arc::clone(&memory));
        let path = |inode: u64| PathBuf::from(format!("/env/original/{inode}"));
        let intern = |inode| match nodes.intern((1, inode), path(inode), Rights::default()) {
            Node::Found(number) => number,
            Node::Frozen(_) => panic!("frozen"),
        };
        let numbers: Vec<u64> = (0..MANY).map(intern).collect();
        let crowd = lock(&nodes.0).crowd.unwrap();
        assert!(crowd < 1000, "it was tried {crowd} nodes late");
        nodes.rename(Path::new("/env/original/7"), Path::new("/env/moved"));
        nodes.intern((1, 8), "/env/elsewhere".into(), Rights::default());
        assert_eq!(lock(&nodes.0).crowd, Some(crowd), "it was tried again");
        let next = FoundNodes::attach(Arc::clone(&memory));
        assert_eq!(lock(&next.0).last, *numbers.last().unwrap(), "a number is given out twice");
        for (inode, number) in (0..).zip(&numbers) {
            let known = next.path(*number);
            assert_eq!(known.is_some(), (inode as usize) < crowd - 1 && !(7..9).contains(&inode), "{inode}");
            assert!(known.is_none_or(|known| known == path(inode)));
        }
        numbers[100..].iter().for_each(|number| drop(nodes.forget(*number, 1)));
        intern(MANY);
        assert_eq!(lock(&nodes.0).crowd, None);
        let next = FoundNodes::attach(memory);
        assert!(numbers[..100].iter().all(|number| next.path(*number) == nodes.path(*number)));
        assert_eq!(next.path(numbers[7]).unwrap(), Path::new("/env/moved"));
    }

    /// Every server in turn has the same table, also after the log was full many times.
    #[test]
    fn the_next_server_knows_the_same_nodes() {
        let memory = memory();
        let mut expected = Vec::new();
        for server in 0..20_u64 {
            let nodes = FoundNodes::attach(Arc::clone(&memory));
            for (number, key, path) in &expected {
                assert_eq!(nodes.path(*number).as_ref(), Some(path), "server {server}");
                assert_eq!(nodes.number(*key), Some(*number));
            }
            for inode in 0..200 {
                let path = PathBuf::from(format!("/env/{server}/{inode}"));
                let Node::Found(number) = nodes.intern((server, inode), path, Rights::default()) else {
                    panic!("frozen")
                };
                nodes.intern((server, inode), format!("/env/other/{inode}").into(), Rights::default());
                assert!(expected.iter().all(|(known, ..)| *known != number));
                if inode == 7 {
                    expected.push((number, (server, inode), format!("/env/moved-{server}/7").into()));
                } else {
                    nodes.forget(number, 2);
                }
            }
            nodes.rename(Path::new("/env/other"), Path::new(&format!("/env/moved-{server}")));
        }
        let nodes = FoundNodes::attach(Arc::clone(&memory));
        nodes.detach(expected[0].0);
        nodes.forget(expected[1].0, 2);
        let nodes = FoundNodes::attach(memory);
        assert!(nodes.path(expected[0].0).is_some() && nodes.number(expected[0].1).is_none());
        assert!(nodes.path(expected[1].0).is_none());
    }
}
