//! The descriptors that belong to nodes, by number, in memory that outlives the server. All servers and their holder have
//! one table of descriptors, so what is open stays open when a server dies; the next one finds here what it is.
//!
//! A path is not enough: the file may have lost its name, or be one that its maker may write to once only.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex};

use quell_image::Nid;
use rustix::io::Errno;

use super::nodes::{Access, Held, Node};
use crate::fuse::abi::NodeId;
use crate::lock;
use crate::sys::process::adopt;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{Index, Paused, SharedTable};

/// A server's view of the table.
#[derive(Debug)]
pub(crate) struct Descriptors {
    table: Table,
    /// Each node's record.
    places: Mutex<HashMap<u64, Index>>,
    root: Nid,
}

/// Node, number of the descriptor, what it allows.
type Table = SharedTable<3>;

impl Descriptors {
    /// Memory for the table.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn memory() -> Result<Arc<SharedMemory>, Errno> {
        Table::memory(CAPACITY)
    }

    /// The table in `memory`, of an image with this root, and the descriptors that an earlier server left in it.
    pub(crate) fn attach(memory: Arc<SharedMemory>, root: Nid) -> (Self, Vec<(Node, Held)>) {
        let table = Table::attach(memory);
        let mut places = HashMap::new();
        let mut found = Vec::new();
        for index in table.used().collect::<Vec<_>>() {
            let [node, number, access] = [NODE, NUMBER, ACCESS].map(|word| table.get(index, word));
            // A server that died while it replaced a node's record has left two.
            match number_of(number).and_then(adopt) {
                Some(descriptor) if !places.contains_key(&node) => {
                    places.insert(node, index);
                    let held = Held { descriptor, access: decode(access) };
                    found.push((Node::decode(NodeId(node), root), held));
                }
                _ => table.free(index),
            }
        }
        (Self { table, places: Mutex::new(places), root }, found)
    }

    /// The numbers of all descriptors that are kept in `memory`.
    pub(crate) fn numbers(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
        let table = Table::attach(Arc::clone(memory));
        table.used().filter_map(|index| number_of(table.get(index, NUMBER))).collect()
    }

    /// Has `node`'s descriptor outlive this server. What it had before is closed after this, not before.
    pub(crate) fn keep(&self, node: Node, held: &Held) {
        let id = node.encode(self.root).0;
        let number = u64::from(held.descriptor.as_raw_fd().unsigned_abs());
        let mut places = lock(&self.places);
        let Some(place) = self.table.insert([id, number, held.access as u64]) else {
            return;
        };
        if let Some(before) = places.insert(id, place) {
            self.table.free(before);
        }
    }

    /// `node`'s descriptor is of no use any more. It is closed after this, not before.
    pub(crate) fn give_up(&self, node: Node) {
        if let Some(place) = lock(&self.places).remove(&node.encode(self.root).0) {
            self.table.free(place);
        }
    }

    /// Lets nothing be kept or given up until the guard is dropped.
    pub(crate) fn pause(&self) -> Paused<'_> {
        self.table.pause()
    }
}

fn number_of(word: u64) -> Option<RawFd> {
    RawFd::try_from(word).ok()
}

fn decode(access: u64) -> Access {
    let all = [Access::Read, Access::Write, Access::Both];
    all.into_iter().find(|one| *one as u64 == access).unwrap_or(Access::Neither)
}

/// More than a process may have open on most systems.
const CAPACITY: u32 = 1 << 20;

const NODE: usize = 0;
const NUMBER: usize = 1;
const ACCESS: usize = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::IntoRawFd;

    fn held(access: Access) -> Held {
        Held { descriptor: tempfile::tempfile().unwrap().into(), access }
    }

    #[test]
    fn the_next_server_has_what_was_kept_and_not_given_up() {
        let (memory, root) = (Descriptors::memory().unwrap(), Nid::new(36));
        let (before, none) = Descriptors::attach(Arc::clone(&memory), root);
        assert!(none.is_empty());
        let (first, second, third) = (held(Access::Read), held(Access::Both), held(Access::Neither));
        let (one, other) = (Node::Frozen(Nid::new(40)), Node::Found(7));
        before.keep(one, &first);
        before.keep(other, &second);
        before.keep(one, &third);
        before.give_up(other);
        assert_eq!(Descriptors::numbers(&memory), [third.descriptor.as_raw_fd()]);
        let number = third.descriptor.into_raw_fd();
        let (_after, found) = Descriptors::attach(memory, root);
        let found: Vec<_> =
            found.iter().map(|(node, held)| (*node, held.descriptor.as_raw_fd(), held.access)).collect();
        assert_eq!(found, [(one, number, Access::Neither)]);
    }
}
