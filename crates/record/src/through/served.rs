//! Facts that the recorder knows of a file beside those of every server of originals: names and descriptors, as the trace has them.

use quell_base::lock;
use quell_fuse::passage::{PassedHandle, PassedNode, PassedNodes};
use quell_fuse::request::FileHandle;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// The files of one connection.
pub(super) type ServedNodes = PassedNodes<ServedFile, ServedHandle>;
/// A file that the kernel knows.
pub(super) type ServedNode = PassedNode<ServedFile>;
/// An open file.
pub(super) type OpenServed = PassedHandle<ServedHandle>;

/// The name by which a file was found last.
#[derive(Debug)]
pub(super) struct ServedFile(Mutex<Vec<u8>>);

impl ServedFile {
    pub(super) fn new(path: Vec<u8>) -> Self {
        Self(Mutex::new(path))
    }

    pub(super) fn path(&self) -> Vec<u8> {
        lock(&self.0).clone()
    }

    /// It was found by another name.
    pub(super) fn found(&self, path: Vec<u8>) {
        *lock(&self.0) = path;
    }

    /// Follows a rename.
    pub(super) fn renamed(&self, from: &[u8], to: &[u8]) {
        let mut path = lock(&self.0);
        let rest = path.strip_prefix(from).filter(|rest| rest.first().is_none_or(|&byte| byte == b'/'));
        if let Some(new) = rest.map(|rest| [to, rest].concat()) {
            *path = new;
        }
    }
}

/// An open file, as the trace has it.
#[derive(Debug)]
pub(super) struct ServedHandle {
    pub(super) path: Vec<u8>,
    /// The thread that opened it.
    pub(super) thread: i32,
    /// Its descriptor in the trace.
    pub(super) fd: i32,
    is_closed: AtomicBool,
}

impl ServedHandle {
    pub(super) fn new(path: Vec<u8>, thread: i32, handle: u64) -> Self {
        let fd = i32::try_from(FIRST_DESCRIPTOR + handle).unwrap_or(i32::MAX);
        Self { path, thread, fd, is_closed: AtomicBool::new(false) }
    }

    /// True for the first close of it.
    pub(super) fn closes(&self) -> bool {
        !self.is_closed.swap(true, Ordering::Relaxed)
    }
}

/// The first number of a descriptor in the trace: inherited ones are smaller.
const FIRST_DESCRIPTOR: u64 = 1 << 16;

/// The descriptor that a handle has in the trace; 0 for none.
pub(super) fn descriptor(nodes: &ServedNodes, handle: FileHandle) -> i64 {
    nodes.handle(handle).map_or(0, |handle| handle.data.fd.into())
}

/// `directory` and a name in it.
pub(super) fn joined(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let slash = if directory.ends_with(b"/") { &b""[..] } else { b"/" };
    [directory, slash, name].concat()
}
