//! The server: answers the kernel's requests, from the image where it can, from the original where it must.
//!
//! ```text
//! request --> frozen tier (image, for ever) --> original (by descriptor, counted, for a second)
//!         \-> change: the original, which from then on answers for the directory and the file
//! ```
//!
//! One [`Server`] is shared by a few threads that all read the same device. [`Server::answer`] decides what each request
//! means; the frozen tier is in [`frozen`] and [`parts`]. Everything else is passed through to the original as it is:
//! [`binding`] finds it, [`nodes`] and [`handles`] keep its descriptors, [`lookup`], [`files`], [`locks`], [`attributes`] and
//! [`changes`] carry out what is asked of it.

mod absences;
pub(crate) mod acl;
mod answering;
mod appends;
mod attributes;
mod binding;
mod builder;
mod changes;
mod estate;
mod evidence;
mod files;
mod frozen;
mod handles;
mod holder;
mod inodes;
mod lessons;
mod lifeline;
mod lists;
mod lock_files;
mod locks;
pub(crate) mod log;
mod lookup;
pub(crate) mod nodes;
mod notifier;
mod originals;
mod parts;
mod patience;
pub(crate) mod permissions;
mod pusher;
pub(crate) mod ranks;
mod readers;
mod references;
pub(crate) mod roll;
mod slots;
pub(crate) mod start;
mod umasks;
mod xattrs;

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use quell_image::{Beyond, Image, Nid};
use rustix::io::Errno;

use crate::counters::{Asked, Counters, Loss};
use crate::fuse::abi::{self, InitFlags, Opened, Validity};
use crate::fuse::device::{Device, Received};
use crate::fuse::reply::Reply;
use crate::fuse::request::{FileHandle, Operation, Request};
use crate::lock;
use crate::memory::{Memory, Shared};
use crate::namespace::Privilege;
use absences::ToldAbsences;
use binding::{Devices, Identities};
use changes::{completed, reply_with};
use estate::{Estate, Fact};
use evidence::MadeFiles;
use files::opened_as;
use frozen::{Answer, Patience};
use handles::Handles;
use holder::Holding;
use inodes::InodeNumbers;
use lists::Lists;
use locks::Locks;
use nodes::{Node, NodeMarks, Nodes};
use notifier::{Forget, Notifier};
use originals::Originals;
use parts::Parts;
use permissions::Viewer;
use readers::Readers;
use references::References;
use slots::{Attempt, Before, Death, Marks, Slot};
use umasks::Umasks;

/// Everything that the threads of one server share.
#[derive(Debug)]
pub(crate) struct Server {
    device: Arc<Device>,
    /// Held by the thread that waits for the kernel.
    turn: Mutex<()>,
    /// Held while a request is answered again that an earlier server died of, perhaps.
    suspicion: Mutex<()>,
    /// How the server before this one died.
    death: Option<Death>,
    /// Files that it and earlier ones had made.
    made: MadeFiles,
    image: Arc<Image<Shared>>,
    memory: Arc<Memory>,
    root: Nid,
    /// What there is for what the image does not hold.
    beyond: Beyond,
    /// Directories on the way to the roots, and live ones: they are only walked through while the mount is built, and
    /// covered by other mounts then.
    passed_through: HashSet<Nid>,
    /// The covered directories, none below another.
    roots: HashSet<Nid>,
    inode_numbers: InodeNumbers,
    viewer: Viewer,
    /// Who packed the image could read what it holds, and is the user.
    packed_by_viewer: bool,
    lists: Lists,
    umasks: Umasks,
    originals: Originals,
    counters: Arc<Counters>,
    nodes: Nodes,
    handles: Handles,
    locks: Locks,
    readers: Readers,
    devices: Devices,
    identities: Identities,
    told_absences: ToldAbsences,
    parts: Parts,
    notifier: Notifier,
    estate: Estate,
}

/// Threads that answer. What the image knows is answered by whichever has the turn; this bounds the operations on the
/// original that are in flight at once.
const THREADS: usize = 8;

/// The right to wait for the kernel.
type Turn<'t> = MutexGuard<'t, ()>;

impl Server {
    /// A server for what is held, which goes on where an earlier one stopped.
    fn new(holding: &Holding, notifier: Notifier, death: Option<Death>) -> Self {
        let (image, estate) = (Arc::clone(&holding.image), holding.estate.clone());
        let beyond = image.index().beyond();
        let device_of = |nid| image.attributes(nid).map_or(0, |attributes| attributes.device);
        let first = image.index().roots().next().map_or(0, |root| device_of(root.nid));
        let counters = Arc::new(Counters::attach(&estate.counters));
        let references = References::attach(Arc::clone(&estate.references));
        let nodes = Nodes::attach(Arc::clone(&estate.nodes), references);
        let is_told = |nid| nodes.is_marked(nid, NodeMarks::TOLD);
        let told_absences = ToldAbsences::attach(Arc::clone(&estate.absences), is_told);
        for directory in nodes.untold() {
            notifier.forget(Forget::Directory(directory));
        }
        let devices = Devices::default();
        for (nid, (device, _)) in nodes.tied() {
            devices.agree(device_of(nid), device);
        }
        let root = image.root();
        let server = Self {
            device: Arc::clone(&holding.device),
            turn: Mutex::new(()),
            suspicion: Mutex::new(()),
            death,
            made: holding.made.clone(),
            root,
            beyond,
            passed_through: passed_through(&image),
            roots: image.index().roots().map(|root| root.nid).collect(),
            inode_numbers: InodeNumbers::new(first),
            viewer: Viewer::of_this_process(Privilege::of_this_process()),
            packed_by_viewer: holding.owner == rustix::process::geteuid(),
            lists: Lists::default(),
            umasks: Umasks::default(),
            originals: Originals::new(beyond, Arc::clone(&counters), estate.lessons()),
            counters,
            nodes,
            handles: Handles::attach(Arc::clone(&estate.handles), root),
            locks: Locks::attach(Arc::clone(&estate.owners), Arc::clone(&estate.waiting), root),
            readers: Readers::default(),
            devices,
            identities: Identities::default(),
            told_absences,
            parts: Parts::new(death),
            notifier,
            estate,
            image,
            memory: Arc::clone(&holding.memory),
        };
        server.tie_roots();
        server
    }

    /// Lets no descriptor that a record names come or go until the guards are dropped.
    fn pause_records(&self) -> impl Sized + '_ {
        (self.nodes.pause(), self.handles.pause(), self.locks.pause())
    }

    /// Ties the roots to what is at their paths now, so that nothing that is put there later is taken for them.
    fn tie_roots(&self) {
        if self.beyond == Beyond::Originals {
            for root in self.roots.iter().filter(|root| self.nodes.original(Node::Frozen(**root)).is_none()) {
                // A root that cannot be opened now is asked for again when it is needed, and says why then.
                let _asked_again = self.open_root(*root);
            }
        }
    }

    /// Answers requests until the mount is gone. Several threads do so at once, each with a slot of its own, in which
    /// an earlier server may have left a request.
    ///
    /// Only one of them, which has the turn, waits for the kernel, and it keeps the turn while the image has the
    /// answer: it stays on its core with warm caches, which is worth more than a second thread. Before anything that
    /// may take long it passes the turn on.
    fn serve(&self, mut slot: Slot) {
        self.umasks.separate();
        let mut scratch = Vec::new();
        if slot.is_occupied() {
            let (marks, buffer) = slot.parts();
            self.answer_again(buffer, marks, &mut scratch);
            slot.clear();
        }
        let mut kept = None;
        loop {
            let turn = kept.take().unwrap_or_else(|| lock(&self.turn));
            let (marks, buffer) = slot.parts();
            match self.device.receive(buffer) {
                Ok(Received::Request(bytes)) => {
                    kept = self.take(&buffer[..bytes], marks, turn, &mut scratch);
                    slot.clear();
                }
                Ok(Received::Again) => kept = Some(turn),
                // An error that fuse(4) does not know: nothing can be answered any more, as if the mount were gone.
                Ok(Received::Ended) | Err(_) => return,
            }
        }
    }

    /// Answers one request; returns the turn if it was kept.
    fn take<'t>(
        &self,
        bytes: &[u8],
        marks: Marks<'_>,
        turn: Turn<'t>,
        scratch: &mut Vec<u8>,
    ) -> Option<Turn<'t>> {
        match Request::parse(bytes) {
            Ok(request) => {
                self.count(&request.operation);
                self.expect(&request);
                let reply = Reply::new(&self.device, request.unique);
                if !self.is_sound() {
                    refuse(&request, reply);
                } else if let Some(reply) = self.answer_at_once(&request, reply) {
                    let _leaving = matches!(request.operation, Operation::Release { .. })
                        .then(|| self.locks.expect_release(Node::decode(request.node, self.root)));
                    drop(turn);
                    self.answer(&request, reply, marks.of(request.unique), scratch);
                    return None;
                }
            }
            Err(malformed) => {
                if let Some(unique) = malformed.unique {
                    Reply::new(&self.device, unique).error(Errno::INVAL);
                }
            }
        }
        Some(turn)
    }

    /// Answers a request that an earlier server had taken, and perhaps answered. If servers died of it again and
    /// again, it is given up; those that may be the cause are tried one at a time, so that only that one is.
    fn answer_again(&self, bytes: &[u8], marks: Marks<'_>, scratch: &mut Vec<u8>) {
        let Ok(request) = Request::parse(bytes) else {
            return;
        };
        self.expect(&request);
        let reply = Reply::new(&self.device, request.unique);
        let attempt = marks.of(request.unique);
        let death = self.death.unwrap_or(Death::Killed);
        let _alone = attempt.is_suspect().then(|| lock(&self.suspicion));
        if attempt.note_death(death) {
            self.counters.lost(Loss::Abandoned);
            return reply.error(Errno::IO);
        }
        if !self.is_sound() {
            refuse(&request, reply);
        } else if let Some(reply) = self.answer_at_once(&request, reply) {
            self.answer(&request, reply, attempt, scratch);
        }
    }

    /// Notes a request that may come to wait.
    fn expect(&self, request: &Request<'_>) {
        if let Operation::Lock { waits: true, .. } = request.operation {
            self.locks.expect(request.unique);
        }
    }

    /// Whether the image's file is what it was when it was opened.
    fn is_sound(&self) -> bool {
        let sound = self.memory.is_sound(|| quell_image::check::is_intact(&self.image));
        if !sound {
            self.counters.lost(Loss::Image);
        }
        sound
    }

    /// Answers what the image knows or what needs no knowledge; gives the reply back if it takes more than that.
    fn answer_at_once<'d>(&self, request: &Request<'_>, reply: Reply<'d>) -> Option<Reply<'d>> {
        match (&request.operation, Node::decode(request.node, self.root)) {
            // Python asks whether a file is a terminal each time it opens one.
            (Operation::Ioctl, _) => reply.error(Errno::NOTTY),
            (Operation::Lookup { name }, Node::Frozen(nid)) if !self.is_live(nid) => {
                match self.frozen_lookup(nid, name, Patience::None) {
                    Ok(Answer::Known(entry)) => reply.entry(&entry),
                    Ok(Answer::AskOriginal) => return Some(reply),
                    Err(errno) => reply.error(errno),
                }
            }
            (Operation::GetAttributes { .. }, Node::Frozen(nid))
                if self.is_frozen(nid) && !self.awaits_list(nid) =>
            {
                match self.frozen_attr(nid) {
                    Ok(attr) => reply.attr(&attr, Validity::Forever),
                    Err(errno) => reply.error(errno),
                }
            }
            (Operation::GetXattr { name, size }, Node::Frozen(nid)) if self.has_frozen_xattrs(nid) => {
                let value = self.frozen_xattr(nid, name).and_then(|value| value.ok_or(Errno::NODATA));
                xattrs::reply_xattr(value, *size, reply);
            }
            (Operation::Open { flags, directory: false }, Node::Frozen(nid)) if !self.is_due(nid) => {
                match self.open_frozen(nid, *flags) {
                    Some(opened) => reply.bytes(&opened.encode()),
                    None => return Some(reply),
                }
            }
            (Operation::Release { handle: FileHandle(0), owner: None }, Node::Frozen(nid)) => {
                reply.done();
                if self.nodes.references().close(nid) {
                    self.locks.drop_handle(Node::Frozen(nid), FileHandle(0));
                }
            }
            (Operation::Read(read), Node::Frozen(nid)) if !self.is_altered(nid) => {
                match self.present_content(nid, read) {
                    Some(held) => {
                        self.counters.answered(held.len() as u64);
                        self.note_read(nid, read);
                        reply.bytes(held);
                    }
                    None => return Some(reply),
                }
            }
            _ => return Some(reply),
        }
        None
    }

    /// Decides what a request means, and answers it. `scratch` is memory that a thread reuses.
    fn answer(&self, request: &Request<'_>, reply: Reply<'_>, attempt: Attempt<'_>, scratch: &mut Vec<u8>) {
        let node = Node::decode(request.node, self.root);
        let (caller, unique) = (request.caller, request.unique);
        match request.operation {
            Operation::Lookup { name } => {
                reply_with(self.lookup(node, name), reply, |entry, reply| reply.entry(&entry));
            }
            Operation::GetAttributes { handle } => {
                let attributes = self.attributes(node, handle);
                reply_with(attributes, reply, |(attr, valid), reply| reply.attr(&attr, valid));
            }
            Operation::Open { flags, directory } => {
                let opened = match attempt.before() {
                    // The program may have gone on: the file must not be cut again.
                    Before::Complete(outcome) => {
                        outcome.and_then(|()| self.opened_before(node, flags, request))
                    }
                    _ if directory => self.open_directory_handle(node, caller, unique),
                    _ => self.open(node, flags, caller, unique),
                };
                let opened = completed(opened, attempt);
                reply_with(opened, reply, |opened, reply| reply.bytes(&opened.encode()));
            }
            Operation::Release { handle, owner } => {
                // At most once: a file that was closed twice would be taken for one that is not open.
                if attempt.before() == Before::Nothing {
                    attempt.begin();
                    self.release(node, handle, owner);
                }
                reply.done();
            }
            Operation::Flush { handle, owner } => {
                // Not again once the program may have gone on, and may have set other locks.
                let outcome = match attempt.before() {
                    Before::Complete(outcome) => outcome,
                    _ => completed(self.flush(node, handle, owner), attempt),
                };
                reply_with(outcome, reply, |(), reply| reply.done());
            }
            Operation::Read(read) => self.read(node, &read, reply, scratch),
            Operation::ListDirectory { handle, offset, size, plus } => {
                let listing = self.list(node, handle, offset, size, plus);
                reply_with(listing, reply, |listing, reply| reply.bytes(listing.bytes()));
            }
            Operation::ReadLink => self.read_link(node, reply),
            Operation::Ioctl => reply.error(Errno::NOTTY),
            Operation::ForgetOne { lookups } => {
                reply.none();
                self.forget_all([(request.node, lookups)].into_iter(), attempt);
            }
            Operation::BatchForget { nodes } => {
                reply.none();
                self.forget_all(nodes.iter(), attempt);
            }
            Operation::FileSystem => self.file_system(node, reply),
            Operation::GetXattr { name, size } => self.get_xattr(node, name, size, reply),
            Operation::ListXattr { size } => self.list_xattr(node, size, reply),
            Operation::Lock { lock, waits } => self.lock(node, lock, request, waits, attempt, reply),
            Operation::GetLock { lock } => self.conflicting_lock(node, lock, caller, reply),
            Operation::Init { major, minor, max_readahead, flags, flags2 } => {
                self.init(&Offer { major, minor, max_readahead, flags, flags2 }, reply);
            }
            Operation::Interrupt { unique } => {
                reply.none();
                self.interrupt(unique);
            }
            Operation::Destroy => reply.done(),
            Operation::Other => reply.error(Errno::NOSYS),
            _ => self.change(request, node, attempt, reply),
        }
    }

    /// What OPEN and OPENDIR give once more.
    fn opened_before(&self, node: Node, flags: u32, request: &Request<'_>) -> Result<Opened, Errno> {
        match self.handles.opened_by(request.unique) {
            Some((handle, open)) if open.node == node => Ok(opened_as(handle, open.flags)),
            _ => self.open(node, flags & !changes::CREATION_ONLY, request.caller, request.unique),
        }
    }

    fn count(&self, operation: &Operation<'_>) {
        self.counters.asked(match operation {
            Operation::Lookup { .. } => Asked::Lookup,
            Operation::GetAttributes { .. } => Asked::GetAttributes,
            Operation::Open { .. } => Asked::Open,
            Operation::ListDirectory { .. } => Asked::ListDirectory,
            Operation::Read(_) => Asked::Read,
            Operation::Write(_) => Asked::Write,
            Operation::ForgetOne { .. }
            | Operation::BatchForget { .. }
            | Operation::Interrupt { .. }
            | Operation::Release { .. } => return,
            _ => Asked::Other,
        });
    }

    /// Settles what both sides can do. Source: `process_init_reply` in the kernel's `fs/fuse/inode.c`.
    fn init(&self, offer: &Offer, reply: Reply<'_>) {
        if offer.major != abi::MAJOR || offer.minor < abi::OLDEST_MINOR {
            return reply.error(Errno::PROTO);
        }
        // The kernel judges by access control lists where ranks may run as other users; for a single user we judge.
        let acl = if self.viewer.acts_for_others() { InitFlags::POSIX_ACL } else { InitFlags::empty() };
        // Never WRITEBACK_CACHE: what others write would be overwritten.
        let wanted = InitFlags::ASYNC_READ
            | InitFlags::ATOMIC_O_TRUNC
            | InitFlags::POSIX_LOCKS
            | InitFlags::DONT_MASK
            | InitFlags::BIG_WRITES
            | InitFlags::FLOCK_LOCKS
            | InitFlags::AUTO_INVAL_DATA
            | InitFlags::DO_READDIRPLUS
            | InitFlags::READDIRPLUS_AUTO
            | InitFlags::PARALLEL_DIROPS
            | InitFlags::MAX_PAGES
            | InitFlags::CACHE_SYMLINKS
            | InitFlags::INIT_EXT
            | acl;
        let flags = InitFlags::from_bits_truncate(offer.flags) & wanted;
        if offer.flags2 & abi::INIT2_HAS_EXPIRE_ONLY != 0 {
            self.estate.settle(Fact::CanExpire);
        }
        let flags2 = offer.flags2 & abi::INIT2_DIRECT_IO_ALLOW_MMAP;
        reply.bytes(&abi::encode_init(offer.minor.min(abi::MINOR), offer.max_readahead, flags, flags2));
    }

    /// Whether a name can be made stale without being dropped.
    fn can_expire(&self) -> bool {
        self.estate.is_settled(Fact::CanExpire)
    }
}

/// The image is not what it was: nothing can be said that would be sure to be right, not even which original is meant.
fn refuse(request: &Request<'_>, reply: Reply<'_>) {
    match request.operation {
        Operation::ForgetOne { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
            reply.none();
        }
        _ => reply.error(Errno::IO),
    }
}

/// What the kernel offers in INIT.
#[derive(Debug)]
struct Offer {
    major: u32,
    minor: u32,
    max_readahead: u32,
    flags: u32,
    flags2: u32,
}

/// The directories from the image's root to each covered root, without the latter, and the live ones.
fn passed_through(image: &Image<Shared>) -> HashSet<Nid> {
    let mut passed = HashSet::from([image.root()]);
    for root in image.index().roots() {
        let mut nid = root.nid;
        while let Ok(parent) = image.parent(nid)
            && parent != nid
        {
            nid = parent;
            passed.insert(nid);
        }
    }
    for root in image.index().roots() {
        passed.remove(&root.nid);
    }
    passed.extend(image.index().live_directories().map(|live| live.nid));
    passed
}
