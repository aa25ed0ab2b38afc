//! Serves one connection: takes requests from the kernel, carries them out on the originals, and tells the collector.

use super::collector::{Collector, Serving};
use super::lock_state::Locks;
use super::nodes::{ServedNode, ServedNodes};
use super::walks::{NodeKey, RequestOrigin};
use quell_fuse::abi::{self, InitFlags, NodeId};
use quell_fuse::credentials::Identity;
use quell_fuse::device::{Device, Received};
use quell_fuse::namespace::Privilege;
use quell_fuse::original::place_of;
use quell_fuse::reply::Reply;
use quell_fuse::request::{Caller, Operation, Request};
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
    pub(super) locks: Locks,
    privilege: Privilege,
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
            nodes: ServedNodes::new(path.into_os_string().into_vec(), original)?,
            locks: Locks::default(),
            privilege: Privilege::of_this_process(),
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
        loop {
            match self.device.receive(&mut buffer) {
                Ok(Received::Request(bytes)) => self.take(&buffer[..bytes], &mut scratch),
                Ok(Received::Again) => {}
                // An error that fuse(4) does not know: nothing can be answered any more.
                Ok(Received::Ended) | Err(_) => return,
            }
        }
    }

    fn take(self: &Arc<Self>, bytes: &[u8], scratch: &mut Vec<u8>) {
        match Request::parse(bytes) {
            Ok(request) => {
                let reply = Reply::new(&self.device, request.unique);
                match request.operation {
                    Operation::Init { .. } => init(&request.operation, reply),
                    Operation::Lock { .. } | Operation::GetLock { .. } | Operation::Interrupt { .. } => {
                        self.lock_operation(&request, reply);
                    }
                    _ => self.answer(&request, reply, scratch),
                }
            }
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    Reply::new(&self.device, unique).error(Errno::INVAL);
                }
            }
        }
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn key(&self, node: NodeId) -> NodeKey {
        NodeKey(self.number, node.0)
    }

    /// The thread that asks, whose request ends now.
    pub(super) fn asked(&self, by: Requester) -> RequestOrigin {
        RequestOrigin { thread: Pid(by.caller.pid as i32), start: by.start, end: self.shared.now() }
    }

    /// Carries out an action with the rights of the process that asked. For a user, the recorder has the same.
    pub(super) fn act_as<T>(
        &self,
        caller: Caller,
        action: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        if self.privilege == Privilege::User || (caller.uid, caller.gid) == (0, 0) {
            return action();
        }
        Identity::of_caller(caller.uid, caller.gid, caller.pid).assume(action)?
    }

    /// Attributes for the kernel. In a user's namespace it refuses every write to an inode of unmapped owners, so such
    /// an inode is shown as the user's own where the user may write to it or remove it.
    pub(super) fn attributes(&self, node: &ServedNode) -> Result<abi::Attr, Errno> {
        let mut attr = abi::attr_of(&rustix::fs::fstat(&node.original)?);
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if self.privilege == Privilege::Administrator || (attr.uid, attr.gid) == (uid, gid) {
            return Ok(attr);
        }
        if attr.uid == uid || node.is_removable || may_write(&node.original, attr.mode) {
            (attr.uid, attr.gid) = (uid, gid);
        }
        Ok(attr)
    }

    /// True where the user may write to another user's directory or file.
    pub(super) fn is_removable_from(&self, directory: &OwnedFd) -> bool {
        self.privilege == Privilege::User
            && rustix::fs::fstat(directory).is_ok_and(|stat| {
                stat.st_uid == rustix::process::geteuid().as_raw() || may_write(directory, stat.st_mode)
            })
    }
}

/// True where the user may write to another user's file. The bits of a group bound an access control list, too.
fn may_write(original: &OwnedFd, mode: u32) -> bool {
    mode & 0o022 != 0 && rustix::fs::access(place_of(original), rustix::fs::Access::WRITE_OK).is_ok()
}

/// Settles what both sides can do.
fn init(operation: &Operation<'_>, reply: Reply<'_>) {
    let &Operation::Init { major, minor, max_readahead, flags, flags2 } = operation else { return };
    if major != abi::MAJOR || minor < abi::OLDEST_MINOR {
        return reply.error(Errno::PROTO);
    }
    // Never WRITEBACK_CACHE, CACHE_SYMLINKS or READDIRPLUS: each operation is to show.
    let wanted = InitFlags::ASYNC_READ
        | InitFlags::ATOMIC_O_TRUNC
        | InitFlags::POSIX_LOCKS
        | InitFlags::FLOCK_LOCKS
        | InitFlags::DONT_MASK
        | InitFlags::BIG_WRITES
        | InitFlags::AUTO_INVAL_DATA
        | InitFlags::PARALLEL_DIROPS
        | InitFlags::MAX_PAGES
        | InitFlags::INIT_EXT;
    let flags = InitFlags::from_bits_truncate(flags) & wanted;
    let flags2 = flags2 & abi::INIT2_DIRECT_IO_ALLOW_MMAP;
    reply.bytes(&abi::encode_init(minor.min(abi::MINOR), max_readahead, flags, flags2));
}
