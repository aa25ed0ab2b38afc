//! Stretches of files that are to be given to the kernel before it asks for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use quell_image::Nid;

use crate::lock;

/// Stretches to push while no open waits for them, in an order that suits programs that wait for a READ.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    urgent: VecDeque<Push>,
    rest: VecDeque<Push>,
}

/// A stretch of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) nid: Nid,
    pub(crate) range: Range<u64>,
}

impl Pushes {
    /// Queues the held pages of a stretch.
    pub(crate) fn rest(&self, nid: Nid, range: Range<u64>) {
        lock(&self.queue).rest.push_back(Push { nid, range });
        self.filled.notify_one();
    }

    /// Queues the held pages of a window before everything else.
    pub(crate) fn window(&self, nid: Nid, range: Range<u64>) {
        lock(&self.queue).urgent.push_back(Push { nid, range });
        self.filled.notify_one();
    }

    /// Waits for something to push. Of a long stretch only the beginning is taken, so that no file waits for another
    /// that is large.
    pub(crate) fn take(&self) -> Push {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(push) = queue.next() {
                return push;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Queue {
    fn next(&mut self) -> Option<Push> {
        if let Some(push) = self.urgent.pop_front() {
            return Some(push);
        }
        let Push { nid, range } = self.rest.pop_front()?;
        let end = range.end.min(range.start.saturating_add(TURN));
        if end < range.end {
            self.rest.push_back(Push { nid, range: end..range.end });
        }
        Some(Push { nid, range: range.start..end })
    }
}

/// Bytes of a file that are pushed before it is the next one's turn: a few milliseconds' work.
const TURN: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_go_first_and_large_files_take_turns() {
        let pushes = Pushes::default();
        let (large, small) = (Nid::new(1), Nid::new(2));
        pushes.rest(large, 0..2 * TURN + 1);
        pushes.rest(small, 0..9);
        pushes.window(large, 5..6);
        let taken: Vec<_> = (0..5).map(|_| pushes.take()).map(|push| (push.nid, push.range)).collect();
        let expected = [
            (large, 5..6),
            (large, 0..TURN),
            (small, 0..9),
            (large, TURN..2 * TURN),
            (large, 2 * TURN..2 * TURN + 1),
        ];
        assert_eq!(taken, expected);
        assert!(lock(&pushes.queue).next().is_none());
    }
}
