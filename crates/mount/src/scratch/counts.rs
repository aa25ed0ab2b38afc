//! Counts of a scratch directory: what the kernel asked, and what of it the real directory was asked.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::AtomicRequests;
use crate::fuse::request::Operation;
use crate::stats::{RequestStats, ScratchOriginalStats};

/// Requests, by kind.
#[derive(Debug, Default)]
pub(super) struct RequestCounts {
    requests: AtomicRequests,
    read: AtomicU64,
    written: AtomicU64,
}

impl RequestCounts {
    pub(super) fn asked(&self, operation: &Operation<'_>) {
        self.requests.asked(operation);
    }

    /// Bytes were answered.
    pub(super) fn read(&self, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> RequestStats {
        self.requests.stats()
    }

    /// Bytes read and written.
    pub(super) fn bytes(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.written.load(Ordering::Relaxed))
    }
}

/// A kind of operation in the real directory.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    Lookup,
    Stat,
    Open,
    List,
    Read,
}

/// Operations in the real directory, by kind.
#[derive(Debug, Default)]
pub(super) struct OriginalCounts([AtomicU64; 5]);

impl OriginalCounts {
    pub(super) fn asked(&self, what: Asked) {
        self.0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> ScratchOriginalStats {
        let [lookup, stat, open, readdir, read] =
            std::array::from_fn(|kind| self.0[kind].load(Ordering::Relaxed));
        ScratchOriginalStats { lookup, stat, open, readdir, read }
    }
}
