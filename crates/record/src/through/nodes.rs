//! The files that the kernel knows, each with an `O_PATH` descriptor of its original, and the open ones.
//!
//! The kernel forgets a file soon after its last use, because no answer is kept. So the tables hold little more than
//! what is open.

use quell_base::lock;
use quell_fuse::abi::{self, NodeId};
use quell_fuse::original::write_at;
use quell_fuse::request::Write;
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A file that the kernel knows.
#[derive(Debug)]
pub(super) struct ServedNode {
    pub(super) original: OwnedFd,
    identity: (u64, u64),
    /// The user may write to the directory in which it was found.
    pub(super) is_removable: bool,
}

#[derive(Debug)]
struct Known {
    node: Arc<ServedNode>,
    /// The name by which it was found last.
    path: Vec<u8>,
    lookups: u64,
    open: u32,
}

/// An open file or directory.
#[derive(Debug)]
pub(super) struct ServedHandle {
    pub(super) file: OwnedFd,
    pub(super) node: NodeId,
    pub(super) path: Vec<u8>,
    /// The thread that opened it.
    pub(super) thread: i32,
    /// Its descriptor in the trace.
    pub(super) fd: i32,
    is_closed: AtomicBool,
    /// The open file of the original appends. It is held while it must stay so.
    appends: Mutex<bool>,
}

/// The files of one connection.
#[derive(Debug)]
pub(super) struct ServedNodes(Mutex<Table>);

#[derive(Debug)]
struct Table {
    known: HashMap<u64, Known>,
    by_identity: HashMap<(u64, u64), u64>,
    last: u64,
    /// Open files by their number; free numbers are used again.
    handles: Vec<Option<Arc<ServedHandle>>>,
    free: Vec<usize>,
}

/// The first number of a descriptor in the trace: inherited ones are smaller.
const FIRST_DESCRIPTOR: usize = 1 << 16;

impl ServedNodes {
    pub(super) fn new(path: Vec<u8>, original: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&original)?;
        let identity = (stat.st_dev, stat.st_ino);
        let root = NodeId::ROOT.0;
        let node = Arc::new(ServedNode { original, identity, is_removable: false });
        let known = HashMap::from([(root, Known { node, path, lookups: 1, open: 0 })]);
        let by_identity = HashMap::from([(identity, root)]);
        Ok(Self(Mutex::new(Table { known, by_identity, last: root, handles: vec![None], free: Vec::new() })))
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        lock(&self.0)
    }

    /// A file and the name by which it was found last.
    ///
    /// **Errors** `ESTALE` for one that the kernel was told to forget, which it never asks for.
    pub(super) fn get(&self, id: NodeId) -> Result<(Arc<ServedNode>, Vec<u8>), Errno> {
        let table = self.lock();
        let known = table.known.get(&id.0).ok_or(Errno::STALE)?;
        Ok((Arc::clone(&known.node), known.path.clone()))
    }

    /// Gives the kernel a file under a name: the number that it has already, if it has one.
    pub(super) fn add(&self, path: Vec<u8>, original: OwnedFd, stat: &Stat, is_removable: bool) -> NodeId {
        let identity = (stat.st_dev, stat.st_ino);
        let mut table = self.lock();
        if let Some(&id) = table.by_identity.get(&identity)
            && let Some(known) = table.known.get_mut(&id)
        {
            known.lookups += 1;
            known.path = path;
            return NodeId(id);
        }
        table.last += 1;
        let id = table.last;
        let node = Arc::new(ServedNode { original, identity, is_removable });
        table.known.insert(id, Known { node, path, lookups: 1, open: 0 });
        table.by_identity.insert(identity, id);
        NodeId(id)
    }

    /// Takes back lookups. True when none is left, and the file is forgotten.
    pub(super) fn forget(&self, id: NodeId, lookups: u64) -> bool {
        let mut table = self.lock();
        let Some(known) = table.known.get_mut(&id.0) else { return false };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups > 0 || id == NodeId::ROOT {
            return false;
        }
        let forgotten = table.known.remove(&id.0);
        if let Some(known) = &forgotten {
            table.by_identity.remove(&known.node.identity);
        }
        // Its descriptor is closed without the lock: that may take time on a network file system.
        drop(table);
        forgotten.is_some()
    }

    /// Follows a rename in the names of files.
    pub(super) fn renamed(&self, from: &[u8], to: &[u8]) {
        for known in self.lock().known.values_mut() {
            let rest =
                known.path.strip_prefix(from).filter(|rest| rest.first().is_none_or(|&byte| byte == b'/'));
            if let Some(path) = rest.map(|rest| [to, rest].concat()) {
                known.path = path;
            }
        }
    }

    /// True for a file that is open.
    pub(super) fn is_open(&self, id: NodeId) -> bool {
        self.lock().known.get(&id.0).is_some_and(|known| known.open > 0)
    }

    /// Opens a handle and returns its number.
    pub(super) fn open(&self, node: NodeId, file: OwnedFd, path: Vec<u8>, thread: i32) -> u64 {
        let mut table = self.lock();
        let number = table.free.pop().unwrap_or(table.handles.len());
        let fd = i32::try_from(FIRST_DESCRIPTOR + number).unwrap_or(i32::MAX);
        let flags = rustix::fs::fcntl_getfl(&file).unwrap_or(OFlags::empty());
        let appends = Mutex::new(flags.contains(OFlags::APPEND));
        let handle =
            ServedHandle { file, node, path, thread, fd, is_closed: AtomicBool::new(false), appends };
        if number == table.handles.len() {
            table.handles.push(None);
        }
        table.handles[number] = Some(Arc::new(handle));
        if let Some(known) = table.known.get_mut(&node.0) {
            known.open += 1;
        }
        number as u64
    }

    /// **Errors** `EBADF` for a number that was not given.
    pub(super) fn handle(&self, number: u64) -> Result<Arc<ServedHandle>, Errno> {
        let table = self.lock();
        let handle = usize::try_from(number).ok().and_then(|number| table.handles.get(number)?.clone());
        handle.ok_or(Errno::BADF)
    }

    /// Closes a handle.
    pub(super) fn release(&self, number: u64) -> Option<Arc<ServedHandle>> {
        let mut table = self.lock();
        let index = usize::try_from(number).ok()?;
        let handle = table.handles.get_mut(index)?.take()?;
        table.free.push(index);
        if let Some(known) = table.known.get_mut(&handle.node.0) {
            known.open = known.open.saturating_sub(1);
        }
        Some(handle)
    }
}

impl ServedHandle {
    /// Writes as the program's open file does now, and not as it was opened: fcntl(2) changes whether it appends. Pages of a
    /// mapping never append.
    pub(super) fn write(&self, write: &Write<'_>) -> Result<usize, Errno> {
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

    /// True for the first close of it.
    pub(super) fn closes(&self) -> bool {
        !self.is_closed.swap(true, Ordering::Relaxed)
    }
}

/// `directory` and a name in it.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash = if directory.ends_with(b"/") { &b""[..] } else { b"/" };
    [directory, slash, name].concat()
}
