//! Computing between operations, as a program does it: afterwards the processor's caches hold the program's data and not
//! what the kernel and the client's daemon need for a request.

use super::phase::now;
use rustix::time::ClockId;

/// The memory that computing goes over: more than a core's own caches hold.
const MEMORY: usize = 2 << 20;
/// The part of it between two looks at the clock. Some 10 us.
const PIECE: usize = 16 << 10;

/// One thread's memory and place in it.
#[derive(Debug)]
pub(super) struct Computing {
    memory: Vec<u64>,
    next: usize,
}

impl Computing {
    /// Nothing is taken for what will not compute.
    pub(super) fn new(microseconds: u64) -> Self {
        let words = if microseconds == 0 { 0 } else { MEMORY / size_of::<u64>() };
        Self { memory: vec![1; words], next: 0 }
    }

    /// Computes for so long, in processor time of this thread; returns what it took. Unit of the result: nanoseconds.
    pub(super) fn run(&mut self, microseconds: u64) -> u64 {
        if microseconds == 0 || self.memory.is_empty() {
            return 0;
        }
        let began = now(ClockId::ThreadCPUTime);
        loop {
            self.piece();
            let took = now(ClockId::ThreadCPUTime).saturating_sub(began);
            if took >= microseconds.saturating_mul(1000) {
                return took;
            }
        }
    }

    /// Every word depends on the one before, so that nothing of it can be left out.
    fn piece(&mut self) {
        let end = self.next + PIECE / size_of::<u64>();
        let mut last = 0x9e37_79b9_u64;
        for word in &mut self.memory[self.next..end] {
            *word = word.rotate_left(7) ^ last.wrapping_mul(0x2545_f491_4f6c_dd1d);
            last = *word;
        }
        self.next = if end == self.memory.len() { 0 } else { end };
    }
}
