//! The server as its threads share it: takes requests from the kernel, and those that a dead server left.
//!
//! [`super::routing`] chooses the tier that answers.

use std::sync::{Arc, Mutex, MutexGuard};

use rustix::io::Errno;

use super::bindings::Bindings;
use super::frozen::FrozenTier;
use super::handover::{HandoverFact, HandoverMemory};
use super::holding::Holding;
use super::live::LiveTier;
use super::lock_table::{Arriving, Leaving};
use super::node::Node;
use super::notifier::Notifier;
use super::packed::Packed;
use super::slots::{Death, Slot, SlotNotes, clear_left, short_request_left_in};
use super::takeover::Takeover;
use crate::counters::{Counters, RequestKind, TakeoverEvent};
use crate::fuse::abi::{self, InitFlags};
use crate::fuse::device::{Device, Received};
use crate::fuse::init;
use crate::fuse::reply::Reply;
use crate::fuse::request::{Operation, Request};
use crate::lock;
use crate::sys::shared::SharedMemory;

/// Everything that the threads of one server share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) device: Arc<Device>,
    /// Held by the thread that waits for the kernel.
    turn: Mutex<()>,
    pub(crate) packed: Arc<Packed>,
    pub(crate) bindings: Arc<Bindings>,
    pub(crate) frozen: Arc<FrozenTier>,
    pub(crate) live: Arc<LiveTier>,
    takeover: Arc<Takeover>,
    pub(crate) counters: Arc<Counters>,
    handover: HandoverMemory,
}

/// The right to wait for the kernel.
type Turn<'t> = MutexGuard<'t, ()>;

impl Server {
    /// A server that continues where an earlier one stopped.
    pub(crate) fn new(holding: &Holding, notifier: Notifier, death: Option<Death>) -> Self {
        let handover = holding.handover.clone();
        let (image, memory) = (Arc::clone(&holding.image), Arc::clone(&holding.memory));
        let packed = Arc::new(Packed::new(image, memory, holding.owner, Arc::clone(&holding.staleness)));
        let counters = Arc::new(Counters::attach(&handover.counters));
        let device = Arc::clone(&holding.device);
        let bindings =
            Bindings::attach(&handover, Arc::clone(&packed), &counters, Arc::clone(&device), notifier);
        let bindings = Arc::new(bindings);
        let frozen = FrozenTier::attach(&handover, Arc::clone(&bindings), Arc::clone(&counters), death);
        let frozen = Arc::new(frozen);
        let takeover = Arc::new(Takeover::after(death, holding.made.clone()));
        let live =
            LiveTier::attach(&handover, Arc::clone(&bindings), Arc::clone(&frozen), Arc::clone(&takeover));
        Self {
            device,
            turn: Mutex::new(()),
            packed,
            bindings,
            frozen,
            live: Arc::new(live),
            takeover,
            counters,
            handover,
        }
    }

    /// Lets no descriptor that a record names come or go until the guards are dropped.
    pub(crate) fn pause_records(&self) -> impl Sized + '_ {
        (self.bindings.nodes.pause(), self.bindings.handles.pause(), self.live.locks.pause())
    }

    /// Answers requests until the mount is gone. Several threads do so at once, each with a slot of its own, in which
    /// an earlier server may have left a request.
    ///
    /// Only one of them, which has the turn, waits for the kernel, and it keeps the turn while the image has the
    /// answer: it stays on its core with warm caches, which is worth more than a second thread. Before anything that
    /// may take long it passes the turn on.
    pub(crate) fn serve(&self, mut slot: Slot) {
        self.live.umasks.separate();
        let mut scratch = Vec::new();
        if slot.is_occupied() {
            let (marks, buffer) = slot.parts();
            self.answer_again(buffer, marks, &mut scratch);
            slot.clear();
        }
        let mut kept = None;
        loop {
            let turn = kept.take().unwrap_or_else(|| lock(&self.turn));
            slot.bring_in();
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
        marks: SlotNotes<'_>,
        turn: Turn<'t>,
        scratch: &mut Vec<u8>,
    ) -> Option<Turn<'t>> {
        match Request::parse(bytes) {
            Ok(request) => {
                self.count(&request.operation);
                let _arriving = self.expect(&request);
                let reply = Reply::new(&self.device, request.unique);
                if !self.is_sound() {
                    refuse(&request, reply);
                } else if let Some(reply) = self.answer_at_once(&request, reply) {
                    let _leaving = self.expect_release(&request);
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
    fn answer_again(&self, bytes: &[u8], marks: SlotNotes<'_>, scratch: &mut Vec<u8>) {
        let Ok(request) = Request::parse(bytes) else {
            return;
        };
        if let Operation::Interrupt { unique } = request.operation {
            // Before it may keep the request waiting that it is about.
            return self.live.interrupt(unique);
        }
        let (_arriving, _leaving) = (self.expect(&request), self.expect_release(&request));
        let reply = Reply::new(&self.device, request.unique);
        let attempt = marks.of(request.unique);
        let _alone = self.takeover.try_alone(attempt);
        if self.takeover.is_given_up(attempt) {
            self.counters.lost(TakeoverEvent::Abandoned);
            return reply.error(Errno::IO);
        }
        if !self.is_sound() {
            refuse(&request, reply);
        } else if let Some(reply) = self.answer_at_once(&request, reply) {
            self.answer(&request, reply, attempt, scratch);
        }
    }

    /// Notes a request that an earlier server left in a slot, before any thread reads another one. Takes one away that is answered
    /// by another record.
    pub(crate) fn expect_left(&self, slot: &SharedMemory) {
        let Some(bytes) = short_request_left_in(slot) else { return };
        let Ok(request) = Request::parse(&bytes) else { return };
        let (locks, node) = (&self.live.locks, Node::decode(request.node, self.packed.root));
        match request.operation {
            Operation::Release { handle, owner } => {
                locks.expect_release_left(request.unique, node, handle, owner);
            }
            Operation::Lock { waits: true, .. } if !locks.expect_left(request.unique) => clear_left(slot),
            _ => {}
        }
    }

    /// Notes a request that may come to wait, until that is known.
    fn expect(&self, request: &Request<'_>) -> Option<Arriving<'_>> {
        match request.operation {
            Operation::Lock { waits: true, .. } => Some(self.live.locks.expect(request.unique)),
            _ => None,
        }
    }

    /// Notes that a file is being closed, until it is.
    fn expect_release(&self, request: &Request<'_>) -> Option<Leaving<'_>> {
        let node = Node::decode(request.node, self.packed.root);
        match request.operation {
            Operation::Release { handle, owner } => {
                Some(self.live.locks.expect_release(request.unique, node, handle, owner))
            }
            _ => None,
        }
    }

    /// Tells whether the image's file is unchanged since it was opened.
    fn is_sound(&self) -> bool {
        let sound = self.packed.memory.is_sound(|| quell_image::check::is_intact(&self.packed.image));
        if !sound {
            self.counters.lost(TakeoverEvent::Image);
        }
        sound
    }

    fn count(&self, operation: &Operation<'_>) {
        if let Some(kind) = RequestKind::of(operation) {
            self.counters.asked(kind);
        }
    }

    /// Settles what both sides can do. Source: `process_init_reply` in the kernel's `fs/fuse/inode.c`.
    pub(crate) fn init(&self, operation: &Operation<'_>, reply: Reply<'_>) {
        // The kernel judges by access control lists where ranks may run as other users; for a single user we judge.
        let acl =
            if self.packed.viewer.acts_for_others() { InitFlags::POSIX_ACL } else { InitFlags::empty() };
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
        if let Operation::Init { flags2, .. } = operation
            && flags2 & abi::INIT2_HAS_EXPIRE_ONLY != 0
        {
            self.handover.settle(HandoverFact::CanExpire);
        }
        init::settle(operation, reply, wanted, abi::MAX_WRITE);
    }

    /// Tells whether a name can be made stale without being dropped.
    pub(crate) fn can_expire(&self) -> bool {
        self.handover.is_settled(HandoverFact::CanExpire)
    }
}

/// Refuses a request because the image was changed: no answer would be reliable, not even the path of the original.
fn refuse(request: &Request<'_>, reply: Reply<'_>) {
    match request.operation {
        Operation::ForgetOne { .. } | Operation::BatchForget { .. } | Operation::Interrupt { .. } => {
            reply.none();
        }
        _ => reply.error(Errno::IO),
    }
}
