//! Tracks the threads that use each memory, and detects the last moment at which a memory can be inspected.
//!
//! Threads of a process share its memory, and so do processes created with `CLONE_VM`, such as a child of `vfork`
//! before it executes. Any thread may end long before its process, the first one too.

use crate::pids::PidMap;
use quell_trace::Pid;
use std::collections::HashMap;

/// A memory. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memory(u64);

/// The users of every memory.
#[derive(Debug, Default)]
pub(super) struct Memories {
    made: u64,
    /// The number of threads of each process that use it. Shape: no process with none, no memory without a process.
    users: HashMap<Memory, PidMap<usize>>,
}

/// The kind of users of a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// One thread.
    Thread,
    /// Several threads of one process.
    Threads,
    /// Several processes: the memory outlives all but the last of them.
    Processes,
}

/// The state of a memory after a thread left it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// Other threads use the memory.
    Used,
    /// The thread was the last user, and the memory goes with it.
    Unused,
}

impl Memories {
    /// Registers a thread of a process as a user of a shared memory or of a new one.
    pub(super) fn begin(&mut self, process: Pid, shared: Option<Memory>) -> Memory {
        let memory = shared.unwrap_or_else(|| {
            self.made += 1;
            Memory(self.made)
        });
        *self.users.entry(memory).or_default().entry(process).or_default() += 1;
        memory
    }

    /// Removes a thread from the users of a memory.
    pub(super) fn leave(&mut self, memory: Memory, process: Pid) -> Left {
        let Some(processes) = self.users.get_mut(&memory) else { return Left::Unused };
        if let Some(threads) = processes.get_mut(&process) {
            *threads -= 1;
            if *threads == 0 {
                processes.remove(&process);
            }
        }
        if !processes.is_empty() {
            return Left::Used;
        }
        self.users.remove(&memory);
        Left::Unused
    }

    /// The kind of users of a memory.
    pub(super) fn users(&self, memory: Memory) -> Users {
        let Some(processes) = self.users.get(&memory) else { return Users::Processes };
        let mut threads = processes.values();
        match (threads.next(), threads.next()) {
            (Some(1), None) => Users::Thread,
            (Some(_), None) => Users::Threads,
            _ => Users::Processes,
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
        assert_eq!(left, [Left::Used, Left::Used, Left::Unused]);
        assert!(memories.users.is_empty() && memories.begin(PARENT, None) != memory);
    }

    #[test]
    fn a_child_that_borrows_memory_leaves_it_to_its_parent() {
        let mut memories = Memories::default();
        let memory = memories.begin(PARENT, None);
        assert_eq!(memories.users(memory), Users::Thread);
        memories.begin(CHILD, Some(memory));
        assert_eq!(memories.users(memory), Users::Processes);
        assert_eq!(memories.leave(memory, CHILD), Left::Used);
        memories.begin(PARENT, Some(memory));
        assert_eq!(memories.users(memory), Users::Threads);
        assert_eq!([(); 2].map(|()| memories.leave(memory, PARENT)), [Left::Used, Left::Unused]);
    }
}
