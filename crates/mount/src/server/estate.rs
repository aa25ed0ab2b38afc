//! Everything that one server leaves to the next: memory that the holder and all servers of a namespace share.
//!
//! Nothing is written here while the image has the answer, but for a name that is told to be absent and the counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_image::Nid;
use rustix::io::Errno;

use super::THREADS;
use super::handles::HandleRecords;
use super::lessons::Lessons;
use super::locks::LockRecords;
use super::nodes::NodeRecords;
use super::references::References;
use super::slots::slot_memory;
use crate::counters::CountersMemory;
use crate::sys::process::SingleThreaded;
use crate::sys::shared::SharedMemory;

/// The memory. Its pages come into being as they are used.
#[derive(Debug, Clone)]
pub(crate) struct Estate {
    pub(crate) counters: CountersMemory,
    pub(crate) nodes: Arc<SharedMemory>,
    pub(crate) references: Arc<SharedMemory>,
    pub(crate) handles: Arc<SharedMemory>,
    pub(crate) owners: Arc<SharedMemory>,
    pub(crate) waiting: Arc<SharedMemory>,
    pub(crate) absences: Arc<SharedMemory>,
    /// One for each thread that answers.
    pub(crate) slots: Vec<Arc<SharedMemory>>,
    /// What is learned, if anybody wants to.
    lessons: Arc<SharedMemory>,
    facts: Arc<SharedMemory>,
}

/// A fact that is settled once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// INIT was answered, and the kernel can make a name stale without dropping it.
    CanExpire = 0,
    /// The last process of the namespace is gone and the statistics are written.
    Finished = 1,
    /// What the originals are asked is written down.
    Learning = 2,
}

impl Estate {
    /// With nothing in it, for an image whose last node is `last`.
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
            slots: (0..THREADS).map(|_| slot_memory()).collect::<Result<_, _>>()?,
            lessons: new(LESSONS_BYTES)?,
            facts: new(24)?,
        })
    }

    /// Settles a fact.
    pub(crate) fn settle(&self, fact: Fact) {
        self.fact(fact).store(1, Ordering::Release);
    }

    /// Whether a fact is settled.
    pub(crate) fn is_settled(&self, fact: Fact) -> bool {
        self.fact(fact).load(Ordering::Acquire) != 0
    }

    /// What is learned; nothing where nobody wants to.
    pub(crate) fn lessons(&self) -> Lessons {
        match self.is_settled(Fact::Learning) {
            true => Lessons::attach(Arc::clone(&self.lessons)),
            false => Lessons::none(),
        }
    }

    /// In a process that was forked by one of several threads: the slots are nobody's.
    pub(crate) fn forsake(&self, alone: &SingleThreaded) {
        self.slots.iter().for_each(|slot| slot.forsake(alone));
    }

    fn fact(&self, fact: Fact) -> &AtomicU64 {
        self.facts.word(8 * fact as usize)
    }
}

/// Nodes that are not as the image has them. Each takes a descriptor, of which the system allows fewer.
const NODES: u32 = 2 << 20;

/// Files and directories that are open at a time.
const HANDLES: u32 = 1 << 20;

/// Owners of locks, and locks that wait.
const LOCKS: u32 = 1 << 16;

/// About 100 000 paths, which is what a file of them may hold; one half of a log is not used.
const LESSONS_BYTES: usize = 32 << 20;

/// About 500 000 absent names; beyond them the kernel is told for a second only. A start of Python tells about a
/// thousand; the bound keeps a program that probes random names from filling the memory.
const ABSENCES_BYTES: usize = 64 << 20;
