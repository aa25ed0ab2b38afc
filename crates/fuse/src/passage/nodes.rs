//! The files that the kernel knows, each with an `O_PATH` descriptor of its original, and the open ones.
//!
//! The kernel forgets a file soon after its last use as long as no name is kept. So the tables hold little more than what is open.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use quell_base::lock;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use crate::abi::{self, NodeId};
use crate::original::write_at;
use crate::request::{FileHandle, Write};

/// A file that the kernel knows.
#[derive(Debug)]
pub struct PassedNode<F> {
    pub original: OwnedFd,
    identity: (u64, u64),
    /// The user may write to the directory in which it was found.
    pub is_removable: bool,
    /// Whatever a server has for a file.
    pub data: F,
}

#[derive(Debug)]
struct Known<F> {
    node: Arc<PassedNode<F>>,
    lookups: u64,
    open: u32,
}

/// An open file or directory.
#[derive(Debug)]
pub struct PassedHandle<H> {
    pub file: OwnedFd,
    pub node: NodeId,
    /// The open file of the original appends. It is held while it must stay so.
    appends: Mutex<bool>,
    /// Whatever a server has for an open file.
    pub data: H,
}

/// The files of one connection.
#[derive(Debug)]
pub struct PassedNodes<F, H>(Mutex<Table<F, H>>);

#[derive(Debug)]
struct Table<F, H> {
    known: HashMap<u64, Known<F>>,
    by_identity: HashMap<(u64, u64), u64>,
    last: u64,
    /// Open files by their number; free numbers are used again.
    handles: Vec<Option<Arc<PassedHandle<H>>>>,
    free: Vec<usize>,
}

impl<F, H> PassedNodes<F, H> {
    /// The connection's root.
    ///
    /// **Errors** those of fstat(2).
    pub fn new(original: OwnedFd, data: F) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&original)?;
        let identity = (stat.st_dev, stat.st_ino);
        let root = NodeId::ROOT.0;
        let node = Arc::new(PassedNode { original, identity, is_removable: false, data });
        let known = HashMap::from([(root, Known { node, lookups: 1, open: 0 })]);
        let by_identity = HashMap::from([(identity, root)]);
        Ok(Self(Mutex::new(Table { known, by_identity, last: root, handles: vec![None], free: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Table<F, H>> {
        lock(&self.0)
    }

    /// A file.
    ///
    /// **Errors** `ESTALE` for one that the kernel was told to forget, which it never asks for.
    pub fn get(&self, id: NodeId) -> Result<Arc<PassedNode<F>>, Errno> {
        let table = self.lock();
        table.known.get(&id.0).map(|known| Arc::clone(&known.node)).ok_or(Errno::STALE)
    }

    /// All files.
    pub fn all(&self) -> Vec<Arc<PassedNode<F>>> {
        self.lock().known.values().map(|known| Arc::clone(&known.node)).collect()
    }

    /// Gives the kernel a file: the number that it has already, if it has one.
    pub fn add(
        &self,
        original: OwnedFd,
        stat: &Stat,
        is_removable: bool,
        data: impl FnOnce() -> F,
    ) -> NodeId {
        let identity = (stat.st_dev, stat.st_ino);
        let mut table = self.lock();
        if let Some(&id) = table.by_identity.get(&identity)
            && let Some(known) = table.known.get_mut(&id)
        {
            known.lookups += 1;
            return NodeId(id);
        }
        table.last += 1;
        let id = table.last;
        let node = Arc::new(PassedNode { original, identity, is_removable, data: data() });
        table.known.insert(id, Known { node, lookups: 1, open: 0 });
        table.by_identity.insert(identity, id);
        NodeId(id)
    }

    /// Takes back lookups. Returns the file when none is left, and it is forgotten.
    pub fn forget(&self, id: NodeId, lookups: u64) -> Option<Arc<PassedNode<F>>> {
        let mut table = self.lock();
        let known = table.known.get_mut(&id.0)?;
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 || id == NodeId::ROOT {
            return None;
        }
        // Its descriptor is closed without the lock: that may take time on a network file system.
        let known = table.known.remove(&id.0)?;
        table.by_identity.remove(&known.node.identity);
        Some(known.node)
    }

    /// True for a file that is open.
    pub fn is_open(&self, id: NodeId) -> bool {
        self.lock().known.get(&id.0).is_some_and(|known| known.open > 0)
    }

    /// True for the file of these attributes, if it is open.
    pub fn is_open_file(&self, stat: &Stat) -> bool {
        let table = self.lock();
        let id = table.by_identity.get(&(stat.st_dev, stat.st_ino));
        id.and_then(|id| table.known.get(id)).is_some_and(|known| known.open > 0)
    }

    /// Opens a handle. `data` learns its number.
    pub fn open(&self, node: NodeId, file: OwnedFd, data: impl FnOnce(u64) -> H) -> FileHandle {
        let flags = rustix::fs::fcntl_getfl(&file).unwrap_or(OFlags::empty());
        let appends = Mutex::new(flags.contains(OFlags::APPEND));
        let mut table = self.lock();
        let number = table.free.pop().unwrap_or(table.handles.len());
        let handle = PassedHandle { file, node, appends, data: data(number as u64) };
        if number == table.handles.len() {
            table.handles.push(None);
        }
        table.handles[number] = Some(Arc::new(handle));
        if let Some(known) = table.known.get_mut(&node.0) {
            known.open += 1;
        }
        FileHandle(number as u64)
    }

    /// An open file.
    ///
    /// **Errors** `EBADF` for a number that was not given.
    pub fn handle(&self, handle: FileHandle) -> Result<Arc<PassedHandle<H>>, Errno> {
        let table = self.lock();
        let found = usize::try_from(handle.0).ok().and_then(|number| table.handles.get(number)?.clone());
        found.ok_or(Errno::BADF)
    }

    /// Closes a handle.
    pub fn release(&self, handle: FileHandle) -> Option<Arc<PassedHandle<H>>> {
        let mut table = self.lock();
        let index = usize::try_from(handle.0).ok()?;
        let handle = table.handles.get_mut(index)?.take()?;
        table.free.push(index);
        if let Some(known) = table.known.get_mut(&handle.node.0) {
            known.open = known.open.saturating_sub(1);
        }
        Some(handle)
    }
}

impl<H> PassedHandle<H> {
    /// Writes as the program's open file does now, and not as it was opened: fcntl(2) changes whether it appends. Pages of a
    /// mapping never append.
    ///
    /// **Errors** those of the original.
    pub fn write(&self, write: &Write<'_>) -> Result<usize, Errno> {
        let appends =
            write.open_flags & OFlags::APPEND.bits() != 0 && write.write_flags & abi::WRITE_CACHE == 0;
        let mut state = lock(&self.appends);
        if *state != appends {
            let mut flags = rustix::fs::fcntl_getfl(&self.file)?;
            flags.set(OFlags::APPEND, appends);
            rustix::fs::fcntl_setfl(&self.file, flags)?;
            *state = appends;
        }
        // One append at a time, and no other write meanwhile.
        let _appending = appends.then_some(state);
        write_at(&self.file, write.data, write.offset)
    }
}
