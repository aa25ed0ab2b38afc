//! Serves one connection: takes requests from the kernel, carries them out on the originals, and tells the recording.

use super::lock_state::{Locks, lock};
use super::nodes::{Node, Nodes};
use super::processes::{self, Met, Processes};
use super::report::Report;
use super::walks::{Asked, NodeKey, OwnedCall, Step, Walks, failed};
use crate::engine::Launched;
use quell_fuse::abi::{self, InitFlags, NodeId};
use quell_fuse::credentials::Identity;
use quell_fuse::device::{Device, Received};
use quell_fuse::namespace::Privilege;
use quell_fuse::original::place_of;
use quell_fuse::reply::Reply;
use quell_fuse::request::{Caller, Operation, Request};
use quell_trace::{Call, Class, Nanos, Pid};
use rustix::io::Errno;
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// The state that all connections of a command share.
#[derive(Debug)]
pub(super) struct Recording {
    began: Instant,
    /// The command runs; what its process asked before is its own preparation.
    is_on: AtomicBool,
    /// `None` when all connections are gone.
    reporter: Mutex<Option<Sender<Report>>>,
    /// Serving threads.
    serving: AtomicUsize,
    sight: Mutex<Sight>,
}

#[derive(Debug)]
struct Sight {
    walks: Walks,
    processes: Processes,
    /// Threads that opened a program to execute it, and have not been seen to run it yet.
    executing: HashMap<Pid, OwnedCall>,
    /// The command, until its first program runs: that execution is reported beforehand.
    awaited: Option<Pid>,
}

impl Sight {
    /// Looks at a thread that asks.
    fn meet(&mut self, thread: Pid, looks_again: bool, news: &mut Vec<Met>) {
        self.processes.meet(thread, looks_again, news);
        let awaited = self.awaited;
        let begins = |met: &Met| awaited.is_some_and(|command| *met == Met::Executed(command));
        if news.iter().any(begins) {
            news.retain(|met| !begins(met));
            self.awaited.take().map(|command| self.executing.remove(&command));
        }
    }
}

impl Recording {
    pub(super) fn new(command: Pid, reporter: Sender<Report>) -> Self {
        let (walks, processes) = (Walks::default(), Processes::new(command));
        Self {
            began: Instant::now(),
            is_on: AtomicBool::new(false),
            reporter: Mutex::new(Some(reporter)),
            serving: AtomicUsize::new(0),
            sight: Mutex::new(Sight { walks, processes, executing: HashMap::new(), awaited: Some(command) }),
        }
    }

    /// The command is about to be executed.
    pub(super) fn begin(&self) {
        lock(&self.sight).processes.begin();
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// All connections are gone.
    pub(super) fn is_over(&self) -> bool {
        self.serving.load(Ordering::Acquire) == 0
    }

    /// Processes that were met and live.
    pub(super) fn living(&self) -> Vec<Pid> {
        lock(&self.sight).processes.living()
    }

    pub(super) fn report(&self, report: Report) {
        if let Some(reporter) = lock(&self.reporter).as_ref() {
            // The observer takes reports until this sender is dropped.
            _ = reporter.send(report);
        }
    }

    /// Takes a request of a thread.
    pub(super) fn see(&self, asked: Asked, step: Step) {
        // The kernel itself asks without a number.
        if asked.thread.0 == 0 || !self.is_on.load(Ordering::Acquire) {
            return;
        }
        self.meet(asked, &step);
        let mut sight = lock(&self.sight);
        let Sight { walks, executing, processes, .. } = &mut *sight;
        // A call ends after the birth of its thread, and births are reported in the order of their times.
        let asked = Asked { thread: processes.known_or_command(asked.thread), end: self.now(), ..asked };
        let step = match (step, executing.entry(asked.thread)) {
            (Step::Executable { node, path }, std::collections::hash_map::Entry::Vacant(vacant)) => {
                vacant.insert(OwnedCall::new(asked, Call::Execve, path.clone()));
                Step::Executable { node, path }
            }
            // The program's interpreter, which the kernel opens after it.
            (Step::Executable { node, path }, _) => {
                Step::Call { node: Some(node), call: OwnedCall::new(asked, Call::Openat, path) }
            }
            (Step::Call { node, call }, _) => {
                let Asked { thread, end, .. } = asked;
                Step::Call { node, call: OwnedCall { thread, end, ..call } }
            }
            (step, _) => step,
        };
        walks.take(asked, step, &mut |call| self.report(Report::Called(call)));
    }

    /// Reports who asks, if that is news.
    fn meet(&self, asked: Asked, step: &Step) {
        let class = match step {
            Step::Call { call, .. } => Some(call.call.class()),
            _ => None,
        };
        let opens = class == Some(Class::Open);
        // A page fault reads, also in the middle of an execution, when half of the addresses are new.
        let is_settled = class != Some(Class::Read);
        let mut news = Vec::new();
        let mut sight = lock(&self.sight);
        let at = self.now();
        let is_executing = sight.executing.contains_key(&asked.thread);
        sight.meet(asked.thread, opens || (is_executing && is_settled), &mut news);
        let has_executed = news.contains(&Met::Executed(asked.thread));
        let refused = (opens && !has_executed).then(|| sight.executing.remove(&asked.thread)).flatten();
        let mut executions = Vec::new();
        for met in news {
            match met {
                Met::Born(thread, place) => self.report(Report::Born(place.birth(thread, at))),
                Met::Executed(process) => executions.push((process, sight.executing.remove(&process))),
            }
        }
        drop(sight);
        if let Some(call) = refused {
            let call = OwnedCall { end: at, ..call };
            self.report(Report::Called(failed(call, quell_trace::Errno(libc::ENOEXEC as u16))));
        }
        // A look at `/proc` may wait for the process's memory, so no lock is held.
        for (process, call) in executions {
            self.report_execution(Asked { thread: process, start: asked.start, end: at }, call);
        }
    }

    fn report_execution(&self, asked: Asked, call: Option<OwnedCall>) {
        let Asked { thread, end, .. } = asked;
        let launched = processes::launched(thread).unwrap_or_else(|| named(call.as_ref()));
        let program = launched.program.clone().unwrap_or_default();
        let call = call.unwrap_or_else(|| OwnedCall::new(asked, Call::Execve, program));
        self.report(Report::Called(OwnedCall { end, ..call }));
        self.report(Report::Executed { thread, at: end, launched });
    }

    /// The kernel forgot a file.
    pub(super) fn forget(&self, node: NodeKey) {
        lock(&self.sight).walks.forget(node);
    }

    /// A serving thread ends. The last one reports what stayed open.
    fn leave(&self) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut sight = lock(&self.sight);
        let Sight { walks, executing, awaited, .. } = &mut *sight;
        walks.finish(&mut |call| self.report(Report::Called(call)));
        let mut executed: Vec<_> =
            executing.drain().filter(|(thread, _)| Some(*thread) != *awaited).collect();
        executed.sort_by_key(|(thread, _)| thread.0);
        for (thread, call) in executed {
            let (at, launched) = (call.end, named(Some(&call)));
            self.report(Report::Called(call));
            self.report(Report::Executed { thread, at, launched });
        }
        lock(&self.reporter).take();
    }
}

/// All that is known of a program that ended before `/proc` was read.
fn named(call: Option<&OwnedCall>) -> Launched {
    let program = call.and_then(|call| call.path.clone());
    let arguments = program.iter().map(quell_base::escape).collect();
    Launched { program, arguments, variables: Vec::new() }
}

/// A thread that serves, until it is dropped: by a panic too.
#[derive(Debug)]
struct Serving(Arc<Recording>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.leave();
    }
}

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
pub(super) struct Service {
    pub(super) shared: Arc<Recording>,
    device: Device,
    number: usize,
    pub(super) nodes: Nodes,
    pub(super) locks: Locks,
    privilege: Privilege,
}

/// Threads that serve a connection.
const THREADS: usize = 6;

impl Service {
    /// Serves a connection until the mount is gone.
    pub(super) fn start(
        shared: &Arc<Recording>,
        number: usize,
        device: OwnedFd,
        (path, original): (PathBuf, OwnedFd),
    ) -> io::Result<Vec<JoinHandle<()>>> {
        let service = Arc::new(Self {
            shared: Arc::clone(shared),
            device: Device::new(device),
            number,
            nodes: Nodes::new(path.into_os_string().into_vec(), original)?,
            locks: Locks::default(),
            privilege: Privilege::of_this_process(),
        });
        let start = |_| {
            let service = Arc::clone(&service);
            shared.serving.fetch_add(1, Ordering::AcqRel);
            let serving = Serving(Arc::clone(shared));
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
    pub(super) fn asked(&self, by: Requester) -> Asked {
        Asked { thread: Pid(by.caller.pid as i32), start: by.start, end: self.shared.now() }
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
    pub(super) fn attributes(&self, node: &Node) -> Result<abi::Attr, Errno> {
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
