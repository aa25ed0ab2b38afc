//! A node: one mount, and the thread that reads what its kernel asks.

use crate::held::{HeldAnswer, HeldAnswers};
use crate::queues::Servers;
use crate::settings::{Lifetimes, Settings};
use crate::tree::{ServedTree, is_directory};
use crate::{SleeperError, place};
use quell_fuse::abi::{self, EntryReply, InitFlags, NodeId, OpenFlags, OpenReply, Validity};
use quell_fuse::device::{Device, Received};
use quell_fuse::request::{Operation, Request, Unique};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Requests that a node sent, by kind.
const COUNTED: [&str; 8] =
    ["lookup", "getattr", "open", "open_directory", "readdir", "readlink", "statfs", "read"];

/// A mounted node. It is unmounted when this is dropped.
#[derive(Debug)]
pub(crate) struct NodeMount {
    path: PathBuf,
    counts: Arc<[AtomicU64; COUNTED.len()]>,
}

/// The thread of a node.
struct NodeService {
    node: usize,
    lives: Lifetimes,
    device: Arc<Device>,
    tree: Arc<ServedTree>,
    servers: Arc<Servers>,
    held: Arc<HeldAnswers>,
    counts: Arc<[AtomicU64; COUNTED.len()]>,
}

impl NodeMount {
    /// Mounts the node and serves it.
    ///
    /// # Errors
    /// The mount point, or `/dev/fuse`.
    pub(crate) fn start(
        node: usize,
        settings: &Settings,
        tree: &Arc<ServedTree>,
        servers: &Arc<Servers>,
        held: &Arc<HeldAnswers>,
    ) -> Result<Self, SleeperError> {
        let path = settings.mounts.join(node.to_string());
        let failed = |source: std::io::Error| place(&path, source);
        std::fs::create_dir_all(&path).map_err(failed)?;
        let device = openat(CWD, "/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
            .map_err(|errno| place("/dev/fuse".as_ref(), errno.into()))?;
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions",
            device.as_raw_fd()
        );
        let options = CString::new(options).unwrap_or_default();
        // Nothing changes, the time of the last access neither: reading spoils no attributes.
        let flags = MountFlags::RDONLY | MountFlags::NOATIME | MountFlags::NOSUID | MountFlags::NODEV;
        mount("quell-sleeper", &path, "fuse.quell-sleeper", flags, options.as_c_str())
            .map_err(|errno| failed(errno.into()))?;
        let mounted = Self { path: path.clone(), counts: Arc::default() };
        let service = NodeService {
            node,
            lives: settings.lives,
            device: Arc::new(Device::new(device)),
            tree: Arc::clone(tree),
            servers: Arc::clone(servers),
            held: Arc::clone(held),
            counts: Arc::clone(&mounted.counts),
        };
        std::thread::Builder::new()
            .name(format!("node-{node}"))
            .spawn(move || service.serve())
            .map_err(failed)?;
        Ok(mounted)
    }

    /// Requests by kind, as a JSON object.
    pub(crate) fn counted(&self) -> String {
        let counts = COUNTED.iter().zip(self.counts.iter());
        let each = counts.map(|(name, count)| format!("\"{name}\": {}", count.load(Ordering::Relaxed)));
        format!("{{{}}}", each.collect::<Vec<_>>().join(", "))
    }
}

impl Drop for NodeMount {
    fn drop(&mut self) {
        // A mount that is still used goes with its last user.
        _ = unmount(&self.path, UnmountFlags::DETACH);
    }
}

/// The server that an answer comes from.
enum AnsweredBy {
    /// The node itself.
    Itself,
    /// The metadata server; the kind of request.
    Metadata(&'static str),
    /// The data server.
    Data,
}

impl NodeService {
    fn serve(&self) {
        let mut buffer = vec![0; abi::REQUEST_BUFFER];
        loop {
            match self.device.receive(&mut buffer) {
                Ok(Received::Request(bytes)) => match Request::parse(&buffer[..bytes]) {
                    Ok(request) => self.take(&request),
                    Err(malformed) => {
                        malformed.unique.into_iter().for_each(|unique| self.send(unique, Err(Errno::INVAL)));
                    }
                },
                Ok(Received::Again) => {}
                Ok(Received::Ended) | Err(_) => return,
            }
        }
    }

    fn take(&self, request: &Request<'_>) {
        let (by, outcome) = match request.operation {
            Operation::BatchForget { .. } | Operation::ForgetOne { .. } | Operation::Interrupt { .. } => {
                return;
            }
            _ => self.answer(request),
        };
        let at = match by {
            AnsweredBy::Itself => return self.send(request.unique, outcome),
            AnsweredBy::Metadata(kind) => {
                self.count(kind);
                self.servers.metadata(self.node)
            }
            AnsweredBy::Data => {
                self.count("read");
                self.servers.data(self.node, outcome.as_ref().map_or(0, Vec::len))
            }
        };
        let device = Arc::clone(&self.device);
        self.held.add(HeldAnswer { at, device, unique: request.unique, outcome });
    }

    fn answer(&self, request: &Request<'_>) -> (AnsweredBy, Result<Vec<u8>, Errno>) {
        let node = request.node;
        let opened = |flags| Ok(OpenReply { handle: 0, flags }.encode().to_vec());
        match request.operation {
            Operation::Init { minor, max_readahead, flags, .. } => {
                let wanted = InitFlags::ASYNC_READ | InitFlags::PARALLEL_DIROPS | InitFlags::CACHE_SYMLINKS;
                let flags = InitFlags::from_bits_truncate(flags) & wanted;
                let answer = abi::encode_init(minor.min(abi::MINOR), max_readahead, flags, 0, abi::MAX_WRITE);
                (AnsweredBy::Itself, Ok(answer.to_vec()))
            }
            Operation::Lookup { name } => (AnsweredBy::Metadata("lookup"), self.look_up(node, name)),
            Operation::GetAttributes { .. } => {
                let attr = self.tree.attributes(node);
                let answer = attr.map(|attr| abi::encode_attr(&attr, self.attributes_last()).to_vec());
                (AnsweredBy::Metadata("getattr"), answer)
            }
            Operation::Open { directory: true, .. } => {
                (AnsweredBy::Metadata("open_directory"), opened(OpenFlags::empty()))
            }
            Operation::Open { .. } => (AnsweredBy::Metadata("open"), opened(OpenFlags::KEEP_CACHE)),
            // The first answer brings all names; the kernel asks for the others, and for the end, by the page.
            Operation::ListDirectory { offset, size, .. } => {
                let by = if offset == 0 { AnsweredBy::Metadata("readdir") } else { AnsweredBy::Itself };
                (by, self.tree.list(node, offset, size))
            }
            Operation::ReadLink => (AnsweredBy::Metadata("readlink"), self.tree.link(node)),
            Operation::Read(read) => (AnsweredBy::Data, self.tree.data(node, read.offset, read.size)),
            Operation::FileSystem => {
                let answer = rustix::fs::statvfs("/").map(|stat| abi::encode_statfs(&stat).to_vec());
                (AnsweredBy::Metadata("statfs"), answer)
            }
            Operation::Release { .. } | Operation::Destroy => (AnsweredBy::Itself, Ok(Vec::new())),
            _ => (AnsweredBy::Itself, Err(Errno::NOSYS)),
        }
    }

    fn look_up(&self, directory: NodeId, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let Some(node) = self.tree.look_up(directory, name)? else {
            return Ok(EntryReply::absent(Validity::Seconds(self.lives.absence)).encode().to_vec());
        };
        let attr = self.tree.attributes(node)?;
        let seconds = if is_directory(&attr) { self.lives.directory } else { self.lives.name };
        let name_valid = Validity::Seconds(seconds);
        Ok(EntryReply { node: Some(node), name_valid, attr_valid: self.attributes_last(), attr }
            .encode()
            .to_vec())
    }

    fn attributes_last(&self) -> Validity {
        Validity::Seconds(self.lives.attributes)
    }

    fn send(&self, unique: Unique, outcome: Result<Vec<u8>, Errno>) {
        HeldAnswer { at: Instant::now(), device: Arc::clone(&self.device), unique, outcome }.send();
    }

    fn count(&self, kind: &str) {
        let place = COUNTED.iter().position(|counted| *counted == kind);
        place.into_iter().for_each(|place| _ = self.counts[place].fetch_add(1, Ordering::Relaxed));
    }
}
