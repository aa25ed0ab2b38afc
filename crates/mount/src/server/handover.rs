//! Everything that one server leaves to the next: memory that the holder and all servers of a namespace share.
//!
//! Nothing is written here while the image has the answer, but for a name that is told to be absent and the counts.

use std::os::fd::RawFd;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_image::Nid;
use rustix::io::Errno;

use super::handles::{self, HandleRecords};
use super::lessons::Lessons;
use super::lock_table::{self, LockRecords};
use super::node_table::{self, NodeRecords};
use super::references::References;
use super::slots::slot_memory;
use crate::counters::CountersMemory;
use crate::namespace::Namespaces;
use crate::sys::process::{SingleThreaded, adopt};
use crate::sys::shared::SharedMemory;
use crate::sys::tenure::Tenure;

/// The memory. Its pages come into being as they are used.
#[derive(Debug, Clone)]
pub(crate) struct HandoverMemory {
    pub(crate) counters: CountersMemory,
    pub(crate) nodes: Arc<SharedMemory>,
    pub(crate) references: Arc<SharedMemory>,
    pub(crate) handles: Arc<SharedMemory>,
    pub(crate) owners: Arc<SharedMemory>,
    pub(crate) waiting: Arc<SharedMemory>,
    pub(crate) absences: Arc<SharedMemory>,
    /// One for each thread that answers.
    pub(crate) slots: Vec<Arc<SharedMemory>>,
    /// The places of the threads that have them, and last that of the thread that starts those.
    pub(crate) tenures: Vec<Tenure>,
    /// The place of the thread that grants locks: one that it is about to take must not come after its wait was ended.
    pub(crate) granting: Tenure,
    /// The place of the thread that frees memory of the image.
    pub(crate) dismissing: Tenure,
    /// Lessons, if a rank asked for them.
    lessons: Arc<SharedMemory>,
    /// The ranks that came.
    pub(crate) ranks: Arc<SharedMemory>,
    facts: Arc<SharedMemory>,
}

/// A fact that is settled once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandoverFact {
    /// INIT was answered, and the kernel can make a name stale without dropping it.
    CanExpire = 0,
    /// The last process of the namespace is gone and the statistics are written.
    Finished = 1,
    /// Questions to the originals are written down.
    Learning = 2,
    /// Ranks can come in.
    Opened = 3,
    /// No rank comes in any more.
    Closed = 4,
}

/// A number that is written down for the next holder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    MountNamespace = 5,
    UserNamespace = 6,
}

impl HandoverMemory {
    /// Empty memory for an image whose last node is `last`.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn new(last: Nid) -> Result<Self, Errno> {
        let new = |bytes| SharedMemory::new(bytes).map(Arc::new);
        Ok(Self {
            counters: CountersMemory::new()?,
            nodes: NodeRecords::memory(NODES)?,
            references: References::memory(last.value())?,
            handles: HandleRecords::memory(HANDLES)?,
            owners: LockRecords::memory(LOCKS)?,
            waiting: LockRecords::memory(LOCKS)?,
            absences: new(ABSENCES_BYTES)?,
            granting: Tenure::new()?,
            dismissing: Tenure::new()?,
            tenures: (0..=THREADS).map(|_| Tenure::new()).collect::<Result<_, _>>()?,
            slots: (0..THREADS).map(|_| slot_memory()).collect::<Result<_, _>>()?,
            lessons: new(LESSONS_BYTES)?,
            ranks: new(RANKS_BYTES)?,
            facts: new(64)?,
        })
    }

    /// The numbers of all descriptors that records name: those of nodes, of open files, and of owners of locks.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let numbers = node_table::descriptors(&self.nodes).into_iter();
        numbers
            .chain(handles::descriptors(&self.handles))
            .chain(lock_table::descriptors(&self.owners))
            .collect()
    }

    /// Settles a fact.
    pub(crate) fn settle(&self, fact: HandoverFact) {
        self.fact(fact).store(1, Ordering::Release);
    }

    /// Tells whether a fact is settled.
    pub(crate) fn is_settled(&self, fact: HandoverFact) -> bool {
        self.fact(fact).load(Ordering::Acquire) != 0
    }

    /// The log of lessons. It is kept only if the rank that started this node's server asked for lessons.
    pub(crate) fn lessons(&self) -> Lessons {
        match self.is_settled(HandoverFact::Learning) {
            true => Lessons::attach(Arc::clone(&self.lessons)),
            false => Lessons::none(),
        }
    }

    /// In a process that was forked by one of several threads: no thread has the slots.
    pub(crate) fn release_slots(&self, alone: &SingleThreaded) {
        self.slots.iter().for_each(|slot| slot.forsake(alone));
    }

    /// Ranks can come in, to these.
    pub(crate) fn note_opened(&self, namespaces: &Namespaces) {
        let note = |number, descriptor: Option<&OwnedFd>| {
            // No namespace has number 0, which is a standard stream.
            let value = descriptor.map_or(0, |descriptor| u64::from(descriptor.as_raw_fd().unsigned_abs()));
            self.number(number).store(value, Ordering::Release);
        };
        note(Number::MountNamespace, Some(&namespaces.mount));
        note(Number::UserNamespace, namespaces.user.as_ref());
        self.settle(HandoverFact::Opened);
    }

    /// The namespaces that ranks came into, for the process that they passed to with all descriptors.
    pub(crate) fn namespaces(&self) -> Option<Namespaces> {
        let adopted = |number| match self.number(number).load(Ordering::Acquire) {
            0 => None,
            number => adopt(i32::try_from(number).ok()?),
        };
        Some(Namespaces { mount: adopted(Number::MountNamespace)?, user: adopted(Number::UserNamespace) })
    }

    /// Tells whether all threads of earlier servers are dead that open and close descriptors, or write here.
    pub(crate) fn are_earlier_threads_dead(&self) -> bool {
        self.tenures.iter().chain([&self.granting, &self.dismissing]).all(Tenure::is_free)
    }

    /// Waits until all threads of earlier servers are dead that may have left something half done here. The calling
    /// thread is the one that starts the threads of this server.
    pub(crate) fn wait_for_earlier_threads(&self) {
        self.tenures.iter().chain([&self.granting, &self.dismissing]).for_each(Tenure::wait);
        self.tenures.last().into_iter().for_each(Tenure::take);
    }

    fn number(&self, number: Number) -> &AtomicU64 {
        self.facts.word(8 * number as usize)
    }

    fn fact(&self, fact: HandoverFact) -> &AtomicU64 {
        self.facts.word(8 * fact as usize)
    }
}

/// Threads that answer. The thread that has the turn answers from the image; this bounds the operations on the
/// original that are in flight at once.
pub(crate) const THREADS: usize = 8;

/// Nodes that are not as the image has them. Each takes a descriptor, of which the system allows fewer.
const NODES: u32 = 2 << 20;

/// Files and directories that are open at a time.
const HANDLES: u32 = 1 << 20;

/// Owners of locks, and locks that wait.
const LOCKS: u32 = 1 << 16;

/// About 100 000 paths, as many as a file of lessons may hold; one half of a log is unused.
const LESSONS_BYTES: usize = 32 << 20;

/// About 2000 ranks that have a file for their statistics; when it is full, older records of the same ranks are dropped.
const RANKS_BYTES: usize = 4 << 20;

/// About 500 000 absent names; beyond them the kernel is told for a second only. A start of Python tells about a
/// thousand; the bound keeps a program that probes random names from filling the memory.
const ABSENCES_BYTES: usize = 64 << 20;
