//! Open files and directories: each has its own descriptor of the original, as the program has of the mount.
//!
//! Files that the image answers for need none and have no handle; see [`super::references`]. Records lie in memory that
//! outlives the server.
//!
//! ```text
//! record: | node | descriptor + 1 | flags of the open call | request that opened it | unused ... |
//! ```

use std::collections::HashMap;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

use quell_image::Nid;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::node::Node;
use crate::fuse::abi::NodeId;
use crate::fuse::request::{FileHandle, Unique};
use crate::lock;
use crate::sys::process::adopt;
use crate::sys::shared::SharedMemory;
use crate::sys::table::{SharedTable, TableIndex, name_of, named_by};

/// Records in shared memory.
pub(crate) type HandleRecords = SharedTable<7>;

/// An open file or directory.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) node: Node,
    index: TableIndex,
    /// `None` for a directory that the image lists.
    file: Mutex<Option<Arc<OwnedFd>>>,
    pub(crate) flags: OFlags,
    unique: u64,
    /// Held by the one operation that uses the descriptor's position.
    pub(crate) position: Mutex<Positioned>,
}

/// The descriptor as it is between operations.
#[derive(Debug)]
pub(crate) struct Positioned {
    /// True when it appends.
    pub(crate) appends: bool,
}

impl Positioned {
    fn of(flags: OFlags) -> Self {
        Self { appends: flags.contains(OFlags::APPEND) }
    }
}

/// All that is open.
#[derive(Debug)]
pub(crate) struct Handles {
    records: HandleRecords,
    root: Nid,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    handles: HashMap<FileHandle, Arc<Handle>>,
    /// The number of a node's handles.
    of_nodes: HashMap<Node, u32>,
}

const NODE: usize = 0;
const DESCRIPTOR: usize = 1;
const FLAGS: usize = 2;
const UNIQUE: usize = 3;

impl Handles {
    /// The files that an earlier server left open in `memory`.
    pub(crate) fn attach(memory: Arc<SharedMemory>, root: Nid) -> Self {
        let records = HandleRecords::attach(memory);
        let handles = Self { root, open: Mutex::default(), records };
        let indexes: Vec<TableIndex> = handles.records.used().collect();
        for index in indexes {
            handles.restore(index);
        }
        handles
    }

    /// Opens a handle. `file` is `None` for a directory that the image lists.
    ///
    /// **Errors** `ENFILE` where there is no room for another one.
    pub(crate) fn open(
        &self,
        node: Node,
        file: Option<OwnedFd>,
        flags: OFlags,
        unique: Unique,
    ) -> Result<FileHandle, Errno> {
        let words =
            [node.encode(self.root).0, name_of(file.as_ref()), flags.bits().into(), unique.0, 0, 0, 0];
        let mut open = lock(&self.open);
        let index = self.records.insert(words).ok_or(Errno::NFILE)?;
        let handle = self.number(index).ok_or(Errno::NFILE)?;
        open.add(
            handle,
            Handle {
                node,
                index,
                file: Mutex::new(file.map(Arc::new)),
                flags,
                unique: unique.0,
                position: Mutex::new(Positioned::of(flags)),
            },
        );
        Ok(handle)
    }

    /// The open file of a number.
    ///
    /// **Errors** `EBADF` for a number that none has.
    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<Handle>, Errno> {
        lock(&self.open).handles.get(&handle).cloned().ok_or(Errno::BADF)
    }

    /// The handle that an earlier server opened for a request that it may not have answered.
    pub(crate) fn opened_by(&self, unique: Unique) -> Option<(FileHandle, Arc<Handle>)> {
        let open = lock(&self.open);
        let mut handles = open.handles.iter();
        handles
            .find(|(_, handle)| handle.unique == unique.0)
            .map(|(number, handle)| (*number, Arc::clone(handle)))
    }

    /// Closes a handle. The descriptor is closed when the last thread that uses it is done.
    pub(crate) fn release(&self, handle: FileHandle) -> Option<Arc<Handle>> {
        let mut open = lock(&self.open);
        let released = open.handles.remove(&handle)?;
        if let Some(count) = open.of_nodes.get_mut(&released.node) {
            *count -= 1;
            if *count == 0 {
                open.of_nodes.remove(&released.node);
            }
        }
        self.records.free(released.index);
        Some(released)
    }

    /// Tells whether a node is open by a handle.
    pub(crate) fn is_open(&self, node: Node) -> bool {
        lock(&self.open).of_nodes.contains_key(&node)
    }

    /// Tells whether a node is open by a handle that has no descriptor.
    pub(crate) fn has_without_file(&self, node: Node) -> bool {
        let open = lock(&self.open);
        open.of_nodes.contains_key(&node)
            && open.handles.values().any(|handle| handle.node == node && handle.file().is_none())
    }

    /// Gives a directory's handle a descriptor of its own: the image does not list it any more.
    pub(crate) fn give_file(&self, handle: &Handle, file: OwnedFd) -> Arc<OwnedFd> {
        let file = Arc::new(file);
        let _not_paused = lock(&self.open);
        let mut kept = lock(&handle.file);
        self.records.set(handle.index, DESCRIPTOR, name_of(Some(&*file)));
        *kept = Some(Arc::clone(&file));
        file
    }

    /// Lets no record, and no descriptor that one names, come or go until the guard is dropped.
    pub(crate) fn pause(&self) -> impl Sized + '_ {
        lock(&self.open)
    }

    /// The number for the kernel, which is never zero.
    fn number(&self, index: TableIndex) -> Option<FileHandle> {
        let generation = self.records.generation(index)?;
        Some(FileHandle((generation << 32 | u64::from(index.0)) + 1))
    }

    fn restore(&self, index: TableIndex) {
        let word = |number| self.records.get(index, number);
        let Some(number) = self.number(index) else { return };
        let file = named_by(word(DESCRIPTOR)).and_then(adopt);
        let flags = OFlags::from_bits_retain(u32::try_from(word(FLAGS)).unwrap_or(0));
        let now = file.as_ref().and_then(|file| rustix::fs::fcntl_getfl(file).ok());
        lock(&self.open).add(
            number,
            Handle {
                node: Node::decode(NodeId(word(NODE)), self.root),
                index,
                file: Mutex::new(file.map(Arc::new)),
                flags,
                unique: word(UNIQUE),
                position: Mutex::new(Positioned::of(now.unwrap_or(flags))),
            },
        );
    }
}

impl Open {
    fn add(&mut self, number: FileHandle, handle: Handle) {
        *self.of_nodes.entry(handle.node).or_default() += 1;
        self.handles.insert(number, Arc::new(handle));
    }
}

impl Handle {
    /// The descriptor of the original.
    pub(crate) fn file(&self) -> Option<Arc<OwnedFd>> {
        lock(&self.file).clone()
    }

    /// Tells whether the program may read by it.
    pub(crate) fn reads(&self) -> bool {
        self.flags & OFlags::ACCMODE != OFlags::WRONLY
    }

    /// Tells whether the program may write by it.
    pub(crate) fn writes(&self) -> bool {
        self.flags & OFlags::ACCMODE != OFlags::RDONLY
    }
}

/// The numbers of all descriptors that the records in `memory` name.
pub(crate) fn descriptors(memory: &Arc<SharedMemory>) -> Vec<RawFd> {
    let records = HandleRecords::attach(Arc::clone(memory));
    records.used().filter_map(|index| named_by(records.get(index, DESCRIPTOR))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_server_has_the_same_files_open() {
        let memory = HandleRecords::memory(10).unwrap();
        let root = Nid::new(1);
        let handles = Handles::attach(Arc::clone(&memory), root);
        let file = tempfile::tempfile().unwrap().into();
        let node = Node::Found(3);
        let number = handles.open(node, Some(file), OFlags::RDWR, Unique(6)).unwrap();
        let other = handles.open(node, None, OFlags::RDONLY, Unique(8)).unwrap();
        assert!(handles.release(other).is_some() && handles.release(other).is_none());
        // A server that is killed closes nothing.
        std::mem::forget(handles);
        let next = Handles::attach(memory, root);
        assert!(next.get(other).is_err());
        let handle = next.get(number).unwrap();
        assert!(handle.reads() && handle.writes() && handle.node == node && next.is_open(node));
        assert_eq!(next.opened_by(Unique(6)).map(|(number, _)| number), Some(number));
        rustix::io::pwrite(handle.file().unwrap(), b"x", 0).unwrap();
        next.release(number);
        assert!(!next.is_open(node));
        assert_ne!(next.open(node, None, OFlags::RDONLY, Unique(9)), Ok(number));
    }
}
