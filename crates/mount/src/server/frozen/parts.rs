//! Gives the kernel the held stretches of a file before it asks for them.
//!
//! The image holds the stretches that the recorded run touched, so most of them will be wanted. The kernel would get them by
//! read-ahead, which meets stretches that are not held (see [`super::part_table`]). A store takes a fraction of a READ, and
//! pages in the kernel's cache are neither asked for nor read ahead.
//!
//! This happens at the first OPEN: the kernel knows the inode and has no page of it, and the program waits. When it reads,
//! all held pages are there.
//!
//! A store waits for the lock of a page, which the kernel holds from a READ to its answer. So only some of the answering
//! threads may store, and only before the file can have been read. All other stores are the work of one separate thread.
//!
//! A store replaces bytes that a program wrote through a mapping, of which the server is not told. So a file that
//! a process here could write to is pushed before its first open is answered and never again.

use std::os::fd::OwnedFd;

use quell_image::{FilePart as Part, Nid, Timestamp};
use rustix::io::Errno;

use super::FrozenTier;
use super::part_table::PartVerdict;
use super::pushes::Push;
use crate::fuse::request::Read;
use crate::server::node::Node;

/// Bytes that are pushed before a file's first OPEN is answered. Most libraries are pushed whole; a program does
/// not wait for gigabytes of which it may want the last. The rest follows.
const FIRST: usize = 16 << 20;

/// The same where nothing may follow.
const ONLY: usize = 64 << 20;

/// Bytes of one store, in which the kernel copies without a pause.
const STORE: usize = 256 << 10;

impl FrozenTier {
    /// Tells whether no process here could write to the file.
    pub(crate) fn is_steady(&self, nid: Nid) -> bool {
        self.attr(nid).is_ok_and(|attr| !self.packed.viewer.could_write(&attr))
    }

    /// The kernel has dropped the inode of a file, or of an earlier one of the same number.
    pub(crate) fn forget_part(&self, nid: Nid) {
        if self.packed.part(nid).is_some() && self.is_steady(nid) {
            self.parts.forget(nid);
        }
    }

    /// Tells whether a file is held in part, and still to be pushed.
    pub(crate) fn is_due(&self, nid: Nid) -> bool {
        self.packed.part(nid).is_some() && self.parts.is_due(nid)
    }

    /// Pushes the held pages of a file that is held in part, or their beginning if they are many. Returns when the kernel has
    /// them.
    pub(crate) fn push_first(&self, nid: Nid) {
        let Some(part) = self.packed.part(nid).filter(|_| self.parts.begin(nid, self.is_steady(nid))) else {
            return;
        };
        let end = self.push_beginning(nid, &part);
        self.parts.end(nid);
        if end < part.size() && self.is_steady(nid) {
            self.parts.pushes.rest(nid, end..part.size());
        }
    }

    /// Pushes held pages from the start of the file, to a limit. Returns the offset of the rest.
    pub(crate) fn push_beginning(&self, nid: Nid, part: &Part<'_>) -> u64 {
        let mut left = if self.is_steady(nid) { FIRST } else { ONLY };
        for run in part.runs() {
            let piece = &run.bytes[..run.bytes.len().min(left)];
            // A store may fail for any reason: the kernel asks for the pages that were not pushed.
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

    /// Queues the held pages of a READ that was refused, if no process here could have written to them.
    pub(crate) fn push_window(&self, nid: Nid, read: &Read) {
        if self.is_steady(nid) {
            self.parts.pushes.window(nid, read.range());
        }
    }

    /// Stores the held bytes of a stretch, in whole pages: where the kernel keeps several as one, a store that ends
    /// within the last of them would say that it has all of them.
    fn push_stretch(&self, push: &Push) -> Result<(), Errno> {
        let runs = self.packed.part(push.nid).map(|part| part.runs_in(push.range.clone()));
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
        let node = Node::Frozen(nid).encode(self.packed.root);
        for piece in bytes.chunks(STORE) {
            if self.bindings.is_altered(nid) {
                return Err(Errno::CANCELED);
            }
            let held = self.packed.memory.hold(piece)?;
            self.bindings.device.store(node, offset, &held)?;
            held.give_to_kernel();
            if self.bindings.is_altered(nid) {
                // A program wrote to the file meanwhile: the store may have replaced its bytes.
                self.bindings.device.forget_inode(node)?;
                return Err(Errno::CANCELED);
            }
            self.counters.pushed(piece.len() as u64);
            offset += piece.len() as u64;
        }
        Ok(())
    }

    /// Notes that a READ is about to be answered.
    pub(crate) fn note_read(&self, nid: Nid, read: &Read) {
        let Some(part) = self.packed.part(nid) else { return };
        if self.parts.note_read(nid, read) && self.is_steady(nid) {
            self.parts.pushes.rest(nid, 0..part.size());
        }
    }

    /// Tells whether a READ that is not held whole is to be refused.
    pub(crate) fn is_needless(&self, nid: Nid, read: &Read) -> bool {
        self.packed
            .part(nid)
            .is_some_and(|part| self.parts.judge(nid, read, part.size()) == PartVerdict::Refuse)
    }

    /// Refuses to mix held bytes of a file with an original that has changed. If only the original's times or inode differ, it
    /// is compared with the held bytes, once a version.
    pub(crate) fn verify_part(&self, node: Node, original: &OwnedFd) -> Result<(), Errno> {
        let Node::Frozen(nid) = node else { return Ok(()) };
        let Some(part) = self.packed.part(nid).filter(|_| !self.bindings.is_altered(nid)) else {
            return Ok(());
        };
        let packed = self.packed.attributes(nid)?;
        let now = self.bindings.originals.stat(original)?;
        let time = |time: Timestamp| (time.seconds, u64::from(time.nanoseconds));
        let version = (now.st_ino, (now.st_ctime, now.st_ctime_nsec), (now.st_mtime, now.st_mtime_nsec));
        if now.st_size.cast_unsigned() != packed.size {
            return Err(Errno::IO);
        }
        if version == (packed.inode, time(packed.ctime), time(packed.mtime)) {
            return Ok(());
        }
        let same = match self.parts.compared(nid).filter(|(compared, _)| *compared == version) {
            Some((_, same)) => same,
            None => self.is_same_there(&part, original)?,
        };
        self.parts.note_compared(nid, version, same);
        if same { Ok(()) } else { Err(Errno::IO) }
    }

    /// Tells whether the original still has the bytes that the image holds.
    fn is_same_there(&self, part: &Part<'_>, original: &OwnedFd) -> Result<bool, Errno> {
        let mut buffer = vec![0; COMPARED];
        for run in part.runs() {
            for (number, held) in run.bytes.chunks(COMPARED).enumerate() {
                let held = self.packed.memory.hold(held)?;
                let there = &mut buffer[..held.len()];
                let read =
                    self.bindings.originals.read(original, there, run.offset + (number * COMPARED) as u64)?;
                if there[..read] != *held {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// Bytes of an original that are compared at once.
const COMPARED: usize = 1 << 20;

/// The work of the thread that pushes. Ends with the mount.
pub(crate) fn push_queued(tier: &FrozenTier) {
    loop {
        let push = tier.parts.pushes.take();
        if tier.push_stretch(&push) == Err(Errno::NODEV) {
            return;
        }
    }
}
