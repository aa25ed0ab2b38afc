//! Tracks the threads that use each memory, and detects the last moment at which a memory can be inspected.
//!
//! Threads of a process share its memory, and so do processes created with `CLONE_VM`, such as a child of `vfork`
//! before it executes. Any thread may end long before its process, the first one too.

use crate::pids::PidMap;
use quell_trace::Pid;
use std::collections::HashMap;

/// A memory. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct MemoryId(u64);

/// The users of every memory.
#[derive(Debug, Default)]
pub(super) struct Memories {
    made: u64,
    /// The number of threads of each process that use it. Shape: no process with none, no memory without a process.
    users: HashMap<MemoryId, PidMap<usize>>,
}

/// The kind of users of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryUsers {
    /// One thread.
    Thread,
    /// Several threads of one process.
    Threads,
    /// Several processes: the memory outlives all but the last of them.
    Processes,
}

/// The state of a memory after a thread left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MemoryLeft {
    /// Other threads use the memory.
    Used,
    /// The thread was the last user, and the memory goes with it.
    Unused,
}

impl Memories {
    /// Registers a thread of a process as a user of a shared memory or of a new one.
    pub(super) fn begin(&mut self, process: Pid, shared: Option<MemoryId>) -> MemoryId {
        let memory = shared.unwrap_or_else(|| {
            self.made += 1;
            MemoryId(self.made)
        });
        *self.users.entry(memory).or_default().entry(process).or_default() += 1;
        memory
    }

    /// Removes a thread from the users of a memory.
    pub(super) fn leave(&mut self, memory: MemoryId, process: Pid) -> MemoryLeft {
        let Some(processes) = self.users.get_mut(&memory) else { return MemoryLeft::Unused };
        if let Some(threads) = processes.get_mut(&process) {
            *threads -= 1;
            if *threads == 0 {
                processes.remove(&process);
            }
        }
        if !processes.is_empty() {
            return MemoryLeft::Used;
        }
        self.users.remove(&memory);
        MemoryLeft::Unused
    }

    /// The kind of users of a memory.
    pub(super) fn users(&self, memory: MemoryId) -> MemoryUsers {
        let Some(processes) = self.users.get(&memory) else { return MemoryUsers::Processes };
        let mut threads = processes.values();
        match (threads.next(), threads.next()) {
            (Some(1), None) => MemoryUsers::Thread,
            (Some(_), None) => MemoryUsers::Threads,
            _ => MemoryUsers::Processes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: Pid = Pid(1);
    const CHILD: Pid = Pid(2);

    #[test]
    fn the_last_thread_takes_the_memory_with_it() {
        let mut memories = Memories::default();
        let memory = memories.begin(PARENT, None);
        memories.begin(PARENT, Some(memory));
        memories.begin(PARENT, Some(memory));
        let left = [0; 3].map(|_| memories.leave(memory, PARENT));
        assert_eq!(left, [MemoryLeft::Used, MemoryLeft::Used, MemoryLeft::Unused]);
        assert!(memories.users.is_empty() && memories.begin(PARENT, None) != memory);
    }

    #[test]
    fn a_child_that_borrows_memory_leaves_it_to_its_parent() {
        let mut memories = Memories::default();
        let memory = memories.begin(PARENT, None);
        assert_eq!(memories.users(memory), MemoryUsers::Thread);
        memories.begin(CHILD, Some(memory));
        assert_eq!(memories.users(memory), MemoryUsers::Processes);
        assert_eq!(memories.leave(memory, CHILD), MemoryLeft::Used);
        memories.begin(PARENT, Some(memory));
        assert_eq!(memories.users(memory), MemoryUsers::Threads);
        assert_eq!([(); 2].map(|()| memories.leave(memory, PARENT)), [MemoryLeft::Used, MemoryLeft::Unused]);
    }
}
