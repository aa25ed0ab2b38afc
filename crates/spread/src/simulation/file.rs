//! The file server: one request after the other, all nodes together.

use super::job::SimulatedJob;
use crate::sources::READERS;

/// Unit: ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileServer {
    /// Unit: bytes a ns.
    rate: f64,
    latency: u64,
    free: u64,
}

impl FileServer {
    pub(super) fn new(job: &SimulatedJob) -> Self {
        Self { rate: job.file_rate / 1e9, latency: job.file_latency.as_nanos() as u64, free: 0 }
    }

    /// An open or a lookup: there and back.
    pub(super) fn round_trip(&self) -> u64 {
        2 * self.latency
    }

    /// A node with a link of `link` reads so many bytes. Returns the time at which it has them.
    pub(super) fn read(&mut self, now: u64, bytes: f64, (link, readers): (f64, &mut Readers)) -> u64 {
        let begins = self.free.max(now + self.latency);
        self.free = begins + (bytes / self.rate) as u64;
        // A node's link carries what it reads, one part after the other.
        readers.link_free = self.free.max(begins.max(readers.link_free) + (bytes / link) as u64);
        readers.link_free + self.latency
    }
}

/// Reads of a node that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Readers {
    busy: usize,
    link_free: u64,
}

impl Readers {
    pub(super) fn are_all_busy(self) -> bool {
        self.busy == READERS
    }

    pub(super) fn begin(&mut self) {
        self.busy += 1;
    }

    pub(super) fn end(&mut self) {
        self.busy -= 1;
    }
}
