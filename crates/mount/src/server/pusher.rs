//! Gives the kernel what the image holds of a file that it holds in part, before it asks.
//!
//! What is held is what the recorded run touched, so most of it will be wanted, and read-ahead, which would be the
//! kernel's way to get it, meets what is not held (see `parts`). A store takes a fraction of a READ, and what is in the
//! kernel's cache is neither asked for nor read ahead.
//!
//! The moment is the first OPEN: the kernel knows the inode, has no page of it, and the program waits. So when it reads,
//! everything is there.
//!
//! A store waits for the lock of a page, which the kernel holds from a READ to its answer. So only some of the threads
//! that answer may store, before a file can have been read; all else is a thread's own.
//!
//! A store replaces what a program wrote through a mapping, of which the server is not told. So what a process here could write to is
//! pushed before its first open is answered and never again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError};

use quell_image::{FilePart as Part, Nid};
use rustix::io::Errno;

use super::Server;
use super::nodes::Node;
use crate::fuse::request::Read;
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
struct Push {
    nid: Nid,
    range: Range<u64>,
}

impl Pushes {
    /// What is held in a stretch, some time.
    pub(crate) fn rest(&self, nid: Nid, range: Range<u64>) {
        lock(&self.queue).rest.push_back(Push { nid, range });
        self.filled.notify_one();
    }

    /// What is held in a window, before everything else.
    fn window(&self, nid: Nid, range: Range<u64>) {
        lock(&self.queue).urgent.push_back(Push { nid, range });
        self.filled.notify_one();
    }

    /// Waits for something to push. Of a long stretch only the beginning is taken, so that no file waits for another
    /// that is large.
    fn take(&self) -> Push {
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

/// Bytes that are pushed before a file's first OPEN is answered. Most libraries are pushed whole; a program does
/// not wait for gigabytes of which it may want the last. The rest follows.
const FIRST: usize = 16 << 20;

/// The same where nothing may follow.
const ONLY: usize = 64 << 20;

/// Bytes of one store, in which the kernel copies without a pause.
const STORE: usize = 256 << 10;

impl Server {
    /// Pushes what is held from the start of the file, to a limit. Returns where to go on.
    pub(super) fn push_beginning(&self, nid: Nid, part: &Part<'_>) -> u64 {
        let mut left = if self.is_steady(nid) { FIRST } else { ONLY };
        for run in part.runs() {
            let piece = &run.bytes[..run.bytes.len().min(left)];
            // Whatever is the reason that it cannot be stored: what is not pushed is asked for.
            if self.store(nid, run.offset, piece).is_err() {
                return part.size();
            }
            left -= piece.len();
            if left == 0 {
                return run.offset + piece.len() as u64;
            }
        }
        part.size()
    }

    /// Has the kernel given what is held of a READ that was refused, soon, if no process here could have written there.
    pub(crate) fn push_window(&self, nid: Nid, read: &Read) {
        if self.is_steady(nid) {
            self.parts.pushes.window(nid, read.range());
        }
    }

    /// Stores what is held of a stretch, in whole pages: where the kernel keeps several as one, a store that ends
    /// within the last of them would say that it has all of them.
    fn push_stretch(&self, push: &Push) -> Result<(), Errno> {
        let runs = self.part(push.nid).map(|part| part.runs_in(push.range.clone()));
        runs.into_iter().flatten().try_for_each(|run| {
            let whole = run.bytes.len() - run.bytes.len() % rustix::param::page_size();
            self.store(push.nid, run.offset, &run.bytes[..whole])
        })
    }

    /// Stores content of the image.
    ///
    /// **Errors** `ENOENT` when the kernel has dropped the inode, `ENODEV` when the mount is gone, `ECANCELED` when
    /// the file was written to, and what fetching the image gave.
    fn store(&self, nid: Nid, mut offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let node = Node::Frozen(nid).encode(self.root);
        for piece in bytes.chunks(STORE) {
            if self.is_altered(nid) {
                return Err(Errno::CANCELED);
            }
            self.memory.ensure(piece)?;
            self.device.store(node, offset, piece)?;
            if self.is_altered(nid) {
                // A program wrote to the file meanwhile: what was stored may lie over it.
                self.device.forget_inode(node)?;
                return Err(Errno::CANCELED);
            }
            self.counters.pushed(piece.len() as u64);
            offset += piece.len() as u64;
        }
        Ok(())
    }
}

/// The work of the pusher's thread. Ends with the mount.
pub(crate) fn push_queued(server: &Server) {
    loop {
        let push = server.parts.pushes.take();
        if server.push_stretch(&push) == Err(Errno::NODEV) {
            return;
        }
    }
}

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
