//! Which threads use which memory: tells when a memory is about to lose its last user, and can be seen for the last time.
//!
//! Threads of a process share its memory, and so do processes made with `CLONE_VM`, such as a child of `vfork` before it
//! executes. A thread may leave long before its process ends, also the first one.

use crate::pids::PidMap;
use quell_trace::Pid;
use std::collections::HashMap;

/// A memory. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Memory(u64);

/// The users of every memory.
#[derive(Debug, Default)]
pub(super) struct Memories {
    made: u64,
    /// How many threads of each process use it. Shape: no process with none, no memory without a process.
    users: HashMap<Memory, PidMap<usize>>,
}

/// Who uses a memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    /// One thread.
    Thread,
    /// Several threads of one process.
    Threads,
    /// Several processes: it outlives each of them but one.
    Processes,
}

/// What is left of a memory when a thread leaves it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// It has other users.
    Used,
    /// It was the last: the memory goes with it.
    Unused,
}

impl Memories {
    /// A thread of a process begins to use the memory that it shares, or a new one.
    pub(super) fn begin(&mut self, process: Pid, shared: Option<Memory>) -> Memory {
        let memory = shared.unwrap_or_else(|| {
            self.made += 1;
            Memory(self.made)
        });
        *self.users.entry(memory).or_default().entry(process).or_default() += 1;
        memory
    }

    /// A thread that used a memory does not any more.
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

    /// Who uses a memory.
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
