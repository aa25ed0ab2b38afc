//! What unforeseen writes did to frozen nodes, here and written down for the next server.
//!
//! As long as there is nothing, one atomic load says so.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use quell_image::Nid;

use super::found::{moved, two_paths};
use super::log::{Log, OldRecord, Record};
use super::nodes::Held;
use crate::sys::shared::SharedMemory;

/// What unforeseen writes did to a frozen node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alteration {
    /// A directory whose names come from the original from now on.
    pub(crate) live: bool,
    /// A file or link whose attributes and content come from the original from now on.
    pub(crate) rewritten: bool,
    /// The node is no longer where the image has it: renamed, or without a name.
    pub(crate) displaced: bool,
    /// The node has lost its name; programs may still have it open.
    pub(crate) nameless: bool,
    /// The kernel was told to forget what it knew of the live directory.
    pub(crate) told: bool,
    pub(crate) held: Option<Arc<Held>>,
}

impl Alteration {
    fn bits(&self) -> u64 {
        [self.live, self.rewritten, self.displaced, self.nameless, self.told]
            .into_iter()
            .enumerate()
            .map(|(bit, set)| u64::from(set) << bit)
            .sum()
    }

    fn from_bits(bits: u64) -> Self {
        let [live, rewritten, displaced, nameless, told] = std::array::from_fn(|bit| bits >> bit & 1 == 1);
        Self { live, rewritten, displaced, nameless, told, held: None }
    }
}

/// What unforeseen writes did to all frozen nodes.
#[derive(Debug)]
pub(crate) struct Alterations {
    any: AtomicBool,
    table: RwLock<Table>,
}

#[derive(Debug)]
struct Table {
    nodes: HashMap<Nid, Alteration>,
    /// Renames of frozen nodes, in their order.
    moves: Vec<(PathBuf, PathBuf)>,
    log: Log,
}

impl Alterations {
    /// What is written down in `memory`.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        let log = Log::attach(memory);
        let mut table = Table { nodes: HashMap::new(), moves: Vec::new(), log };
        let records: Vec<OldRecord> = table.log.records().map(|(_, record)| record).collect();
        records.iter().for_each(|record| table.replay(record));
        Self { any: AtomicBool::new(!records.is_empty()), table: RwLock::new(table) }
    }

    /// What happened to `nid`; `None` if it is as the image says.
    pub(crate) fn of(&self, nid: Nid) -> Option<Alteration> {
        if !self.any() {
            return None;
        }
        self.read().nodes.get(&nid).cloned()
    }

    /// Whether anything was altered at all.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Notes a change of `nid`, and returns what was known before.
    pub(crate) fn note(&self, nid: Nid, change: impl FnOnce(&mut Alteration)) -> Alteration {
        let mut table = self.write();
        let alteration = table.nodes.entry(nid).or_default();
        let before = alteration.clone();
        change(alteration);
        let bits = alteration.bits();
        if bits != before.bits() {
            table.write_down(&Record { kind: NODE, words: &[nid.value(), bits], text: &[] });
        }
        self.any.store(true, Ordering::Release);
        before
    }

    /// Notes that `nid` was renamed, once.
    pub(crate) fn displace(&self, nid: Nid, from: &Path, to: &Path) {
        let mut table = self.write();
        let alteration = table.nodes.entry(nid).or_default();
        if std::mem::replace(&mut alteration.displaced, true) {
            return;
        }
        let words = [from.as_os_str().len() as u64, nid.value(), alteration.bits()];
        table.moves.push((from.to_owned(), to.to_owned()));
        let text = [from.as_os_str().as_bytes(), to.as_os_str().as_bytes()].concat();
        table.write_down(&Record { kind: MOVE, words: &words, text: &text });
        self.any.store(true, Ordering::Release);
    }

    /// Gives up the node's descriptor if its path leads to it too. Whether there is none now.
    pub(crate) fn release(&self, nid: Nid) -> bool {
        match self.write().nodes.get_mut(&nid) {
            Some(alteration) if alteration.nameless => false,
            Some(alteration) => {
                alteration.held = None;
                true
            }
            None => true,
        }
    }

    /// Where an original lies that the image has at `path`.
    pub(crate) fn resolve(&self, path: Vec<u8>) -> PathBuf {
        let path = PathBuf::from(OsString::from_vec(path));
        if !self.any() {
            return path;
        }
        self.read().moves.iter().fold(path, |path, (from, to)| moved(&path, from, to).unwrap_or(path))
    }

    /// Live directories that the kernel may not have been told about. Shape: sorted.
    pub(crate) fn untold(&self) -> Vec<Nid> {
        let table = self.read();
        let untold = table.nodes.iter().filter(|(_, altered)| altered.live && !altered.told);
        let mut untold: Vec<Nid> = untold.map(|(nid, _)| *nid).collect();
        untold.sort_unstable();
        untold
    }

    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Writes down what has just been noted here. Without room a later server could serve what is not true any more: it
    /// is told that it must not.
    fn write_down(&mut self, record: &Record<&[u64], &[u8]>) {
        if self.log.append(record).is_some() || !self.log.is_whole() {
            return;
        }
        if !self.rewrite() {
            self.log.note_loss();
        }
    }

    /// Writes everything down anew, each node once; false if there is no room for it.
    fn rewrite(&mut self) -> bool {
        let path = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
        let moves = self
            .moves
            .iter()
            .map(|(from, to)| (from.as_os_str().len() as u64, [path(from), path(to)].concat()));
        let moves: Vec<(u64, Vec<u8>)> = moves.collect();
        let nodes = self.nodes.iter().map(|(nid, altered)| [nid.value(), altered.bits()]);
        let mut nodes: Vec<[u64; 2]> = nodes.collect();
        nodes.sort_unstable();
        let moves = moves.iter().map(|(first, text)| Record {
            kind: MOVE,
            words: std::slice::from_ref(first),
            text: &text[..],
        });
        let nodes = nodes.iter().map(|words| Record { kind: NODE, words: &words[..], text: &[][..] });
        self.log.rewrite(moves.chain(nodes)).is_some()
    }

    /// Does again what a record says.
    fn replay(&mut self, record: &OldRecord) {
        match (record.kind, &record.words[..]) {
            (NODE, [nid, bits]) => {
                self.nodes.insert(Nid::new(*nid), Alteration::from_bits(*bits));
            }
            (MOVE, [_, nid, bits]) => {
                self.nodes.insert(Nid::new(*nid), Alteration::from_bits(*bits));
                self.moves.extend(two_paths(record));
            }
            // One of a log that was rewritten: its node has a record of its own.
            (MOVE, [_]) => self.moves.extend(two_paths(record)),
            _ => {}
        }
    }
}

/// Kinds of records.
const NODE: u8 = 1;
const MOVE: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_server_knows_what_was_altered() {
        let memory = Arc::new(SharedMemory::new(1 << 16).unwrap());
        let alterations = Alterations::attach(Arc::clone(&memory));
        assert!(!alterations.any());
        alterations.displace(Nid::new(1), Path::new("/env/a"), Path::new("/env/z"));
        alterations.displace(Nid::new(1), Path::new("/env/z"), Path::new("/env/again"));
        alterations.displace(Nid::new(4), Path::new("/env/z/x"), Path::new("/env/y"));
        alterations.note(Nid::new(2), |alteration| alteration.live = true);
        alterations.note(Nid::new(3), |alteration| alteration.live = true);
        alterations.note(Nid::new(3), |alteration| alteration.told = true);
        for alterations in [alterations, Alterations::attach(memory)] {
            assert_eq!(alterations.resolve(b"/env/a/x/1".to_vec()), Path::new("/env/y/1"));
            assert_eq!(alterations.resolve(b"/env/b".to_vec()), Path::new("/env/b"));
            assert!(alterations.of(Nid::new(1)).is_some_and(|altered| altered.displaced && !altered.live));
            assert_eq!(alterations.untold(), [Nid::new(2)]);
        }
    }
    /// Notes that replace each other never fill the log; different ones do, and then the next server is told.
    #[test]
    fn a_full_log_is_rewritten_before_anything_is_lost() {
        let memory = Arc::new(SharedMemory::new(1 << 14).unwrap());
        let alterations = Alterations::attach(Arc::clone(&memory));
        alterations.displace(Nid::new(1), Path::new("/env/a"), Path::new("/env/z"));
        alterations.displace(Nid::new(4), Path::new("/env/z/x"), Path::new("/env/y"));
        for round in 0..2000 {
            alterations.note(Nid::new(2), |alteration| alteration.live = true);
            alterations.note(Nid::new(2), |alteration| alteration.told = round % 2 == 0);
        }
        assert!(Log::attach(Arc::clone(&memory)).is_whole());
        let next = Alterations::attach(Arc::clone(&memory));
        assert_eq!(next.resolve(b"/env/a/x/1".to_vec()), Path::new("/env/y/1"));
        assert!(next.of(Nid::new(4)).is_some_and(|altered| altered.displaced && !altered.live));
        assert_eq!(next.untold(), [Nid::new(2)]);
        for nid in 5..2000 {
            next.note(Nid::new(nid), |alteration| alteration.rewritten = true);
        }
        assert!(!Log::attach(memory).is_whole());
    }
}
