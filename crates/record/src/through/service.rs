//! Serves one connection: takes requests from the kernel, carries them out on the originals, and tells the collector.

use super::collector::{Collector, Serving};
use super::served::{ServedFile, ServedHandle, ServedNode, ServedNodes};
use super::walks::{NodeKey, RequestOrigin};
use quell_fuse::abi::{self, NodeId};
use quell_fuse::device::Device;
use quell_fuse::init;
use quell_fuse::passage::locks::{self, LockServer, PassedLocks};
use quell_fuse::passage::{INIT_FLAGS, Rights};
use quell_fuse::request::{Caller, Operation};
use quell_fuse::serving::answer_requests;
use quell_trace::{Nanos, Pid};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The program that asked, and when.
#[derive(Clone, Copy)]
pub(super) struct Requester {
    pub(super) caller: Caller,
    pub(super) start: Nanos,
}

impl Requester {
    /// The same request as one of another thread, with the same rights.
    pub(super) fn as_thread(self, thread: i32) -> Self {
        Self { caller: Caller { pid: thread as u32, ..self.caller }, ..self }
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct MountService {
    pub(super) shared: Arc<Collector>,
    device: Device,
    number: usize,
    pub(super) nodes: ServedNodes,
    pub(super) locks: PassedLocks,
    pub(super) rights: Rights,
}

/// Threads that serve a connection.
const THREADS: usize = 6;

impl MountService {
    /// Serves a connection until the mount is gone.
    pub(super) fn start(
        shared: &Arc<Collector>,
        number: usize,
        device: OwnedFd,
        (path, original): (PathBuf, OwnedFd),
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let service = Arc::new(Self {
            shared: Arc::clone(shared),
            device: Device::new(device),
            number,
            nodes: ServedNodes::new(original, ServedFile::new(path.into_os_string().into_vec()))?,
            locks: PassedLocks::default(),
            rights: Rights::of_this_process(),
        });
        let start = |_| {
            let service = Arc::clone(&service);
            let serving = Serving::begin(shared);
            std::thread::Builder::new().name("record-mount".to_owned()).spawn(move || {
                let _serving = serving;
                service.serve();
            })
        };
        (0..THREADS).map(start).collect()
    }

    fn serve(self: &Arc<Self>) {
        // Each thread applies the mask of the process that asks.
        _ = quell_fuse::unshare_umask();
        let mut buffer = vec![0; abi::REQUEST_BUFFER];
        let mut scratch = Vec::new();
        answer_requests(&self.device, &mut buffer, |request, reply| match request.operation {
            // Never WRITEBACK_CACHE, CACHE_SYMLINKS or READDIRPLUS: each operation is to show.
            Operation::Init { .. } => {
                init::settle(&request.operation, reply, INIT_FLAGS, abi::MAX_WRITE);
            }
            Operation::Lock { .. } | Operation::GetLock { .. } | Operation::Interrupt { .. } => {
                self.note_locks(request);
                locks::answer(self, request, reply);
            }
            _ => self.answer(request, reply, &mut scratch),
        });
    }

    pub(super) fn key(&self, node: NodeId) -> NodeKey {
        NodeKey(self.number, node.0)
    }

    /// The thread that asks, whose request ends now.
    pub(super) fn asked(&self, by: Requester) -> RequestOrigin {
        RequestOrigin { thread: Pid(by.caller.pid as i32), start: by.start, end: self.shared.now() }
    }

    /// Carries out an action with the rights of the process that asked.
    pub(super) fn act_as<T>(
        &self,
        caller: Caller,
        action: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.rights.act_as(caller, action)
    }

    /// Attributes for the kernel.
    pub(super) fn attributes(&self, node: &ServedNode) -> Result<abi::Attr, Errno> {
        let stat = rustix::fs::fstat(&node.original)?;
        Ok(self.rights.attributes(&node.original, &stat, node.is_removable))
    }
}

impl LockServer for MountService {
    type File = ServedFile;
    type Open = ServedHandle;

    fn device(&self) -> &Device {
        &self.device
    }

    fn nodes(&self) -> &ServedNodes {
        &self.nodes
    }

    fn locks(&self) -> &PassedLocks {
        &self.locks
    }
}
