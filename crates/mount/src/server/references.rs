//! Counts of the kernel's references to each node of the image: lookups that it has not given back, and files that are open
//! without a handle.
//!
//! Exact counts tell when nothing in the kernel leads to a node any more, so that its descriptors can be closed. A server
//! that dies may leave a count too high, which keeps a descriptor for longer; never one too low.
//!
//! ```text
//! word nid: | opens: 24 bits | lookups: 40 bits |
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quell_image::Nid;
use rustix::io::Errno;

use crate::sys::shared::SharedMemory;

/// The counts, one word for each nid: pages come into being for nodes that are used.
#[derive(Debug)]
pub(crate) struct References(Arc<SharedMemory>);

const OPEN: u64 = 1 << 40;
const LOOKUPS: u64 = OPEN - 1;

impl References {
    /// Memory for nodes up to number `last`.
    ///
    /// **Errors** as [`SharedMemory::new`].
    pub(crate) fn memory(last: u64) -> Result<Arc<SharedMemory>, Errno> {
        let bytes = usize::try_from(last).ok().and_then(|last| last.checked_add(1)?.checked_mul(8));
        SharedMemory::new(bytes.ok_or(Errno::NOMEM)?).map(Arc::new)
    }

    /// The counts as an earlier server left them.
    pub(crate) fn attach(memory: Arc<SharedMemory>) -> Self {
        Self(memory)
    }

    /// The kernel was given the node once more.
    pub(crate) fn look_up(&self, nid: Nid) {
        if let Some(word) = self.word(nid) {
            word.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The kernel gives lookups back. Returns whether it refers to the node no more.
    pub(crate) fn forget(&self, nid: Nid, lookups: u64) -> bool {
        let Some(word) = self.word(nid) else { return true };
        let take = |now: u64| Some(now & !LOOKUPS | (now & LOOKUPS).saturating_sub(lookups));
        let before = word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).unwrap_or(0);
        before & LOOKUPS <= lookups
    }

    /// Tells whether the kernel does not refer to the node.
    pub(crate) fn is_unknown(&self, nid: Nid) -> bool {
        self.word(nid).is_none_or(|word| word.load(Ordering::Acquire) & LOOKUPS == 0)
    }

    /// A file was opened without a handle.
    pub(crate) fn open(&self, nid: Nid) {
        if let Some(word) = self.word(nid) {
            word.fetch_add(OPEN, Ordering::AcqRel);
        }
    }

    /// Such a file was closed. Returns whether none is open any more.
    pub(crate) fn close(&self, nid: Nid) -> bool {
        let Some(word) = self.word(nid) else { return true };
        let take = |now: u64| if now >= OPEN { Some(now - OPEN) } else { None };
        word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, take).map_or(true, |before| before < 2 * OPEN)
    }

    /// Tells whether such a file is open.
    pub(crate) fn is_open(&self, nid: Nid) -> bool {
        self.word(nid).is_some_and(|word| word.load(Ordering::Acquire) >= OPEN)
    }

    /// A number that no image of this length has leads nowhere: only a program that is not the kernel sends one.
    fn word(&self, nid: Nid) -> Option<&AtomicU64> {
        let at = usize::try_from(nid.value()).ok()?.checked_mul(8)?;
        (at < self.0.length()).then(|| self.0.word(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookups_and_opens_are_counted_apart() {
        let references = References::attach(References::memory(9).unwrap());
        let nid = Nid::new(9);
        references.look_up(nid);
        references.look_up(nid);
        references.open(nid);
        assert!(!references.forget(nid, 1) && references.is_open(nid));
        assert!(references.forget(nid, 1) && references.close(nid) && !references.is_open(nid));
        assert!(references.forget(nid, 1) && references.close(nid), "what is too much changes nothing");
        references.look_up(Nid::new(u64::MAX));
        assert!(references.forget(Nid::new(u64::MAX), 1));
    }
}
