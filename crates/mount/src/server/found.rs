//! What only the original has: a number for each, as long as the kernel knows it.
//!
//! The kernel knows nodes by these numbers, so the table is written down in a log for the next server. The counts of
//! lookups are changed in place. A node that found no room in the log is unknown to the next server, which says
//! `ESTALE`: the kernel then walks the path again.

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
    last: u64,
    nodes: HashMap<u64, Found>,
    numbers: HashMap<OriginalKey, u64>,
    log: Log,
}

impl FoundNodes {
    /// The table that is written down in `memory`.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let log = Log::attach(memory);
        let mut table = Table { last: 0, nodes: HashMap::new(), numbers: HashMap::new(), log };
        let records: Vec<(Place, OldRecord)> = table.log.records().collect();
        for (place, record) in records {
            table.replay(place, record);
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
        table.last += 1;
        let number = table.last;
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

    /// Everything that is held, in the order of numbers.
    pub(crate) fn all_held(&self) -> Vec<(Node, Arc<Held>)> {
        let table = lock(&self.0);
        let mut held: Vec<(u64, Arc<Held>)> =
            table.nodes.iter().filter_map(|(number, node)| Some((*number, node.held.clone()?))).collect();
        held.sort_unstable_by_key(|(number, _)| *number);
        held.into_iter().map(|(number, held)| (Node::Found(number), held)).collect()
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
        if table.log.append(&Record { kind: RENAME, words: &words, text: &text }).is_none() {
            table.rewrite();
        }
    }
}

impl Table {
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
        node.place = self.log.append(&node_record(&words, &node.path));
        if node.place.is_none() {
            self.rewrite();
        }
    }

    /// Writes everything down anew, without what is gone.
    fn rewrite(&mut self) {
        let mut nodes: Vec<(&u64, &mut Found)> = self.nodes.iter_mut().collect();
        nodes.sort_unstable_by_key(|(number, _)| **number);
        let words: Vec<[u64; WORDS]> = nodes.iter().map(|(number, node)| node.words(**number)).collect();
        let last = [self.last];
        let records = words.iter().zip(&nodes).map(|(words, (_, node))| node_record(words, &node.path));
        let records = std::iter::once(Record { kind: LAST, words: &last[..], text: &[][..] }).chain(records);
        let Some(places) = self.log.rewrite(records) else {
            return self.log.note_loss();
        };
        for ((_, node), place) in nodes.into_iter().zip(&places[1..]) {
            node.place = Some(*place);
        }
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
            (LAST, _) => self.last = self.last.max(record.words.first().copied().unwrap_or(0)),
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
