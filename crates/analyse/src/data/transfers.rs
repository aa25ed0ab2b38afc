//! Requests of one direction on a file: how many, how large, in which order.

use crate::counts::add_bytes;
use quell_trace::{Bytes, Nanos};

/// The direction of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From files.
    Read,
    /// Into files.
    Write,
}

impl Direction {
    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// Powers of two that a request is counted by, and 0: a call moves less than 2^31 bytes. Source: `read(2)`, notes.
pub const SIZES: usize = 32;

/// Requests by their size. Entry N counts calls that moved 2^(N-1) to 2^N - 1 bytes, entry 0 those that moved none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// Shape: sorted by entry, without zeros. A file meets few sizes, and a trace many files.
    counts: Vec<(u8, u64)>,
}

impl Sizes {
    /// Calls of an entry.
    pub fn get(&self, entry: usize) -> u64 {
        self.iter().find(|(known, _)| *known == entry).map_or(0, |(_, calls)| calls)
    }

    /// Entries that are not zero. Shape: sorted.
    pub fn iter(&self) -> impl Iterator<Item = (usize, u64)> {
        self.counts.iter().map(|&(entry, calls)| (usize::from(entry), calls))
    }

    /// The entry of a request.
    pub fn entry(moved: Bytes) -> usize {
        ((u64::BITS - moved.0.leading_zeros()) as usize).min(SIZES - 1)
    }

    /// Calls that moved something, but less than `limit`, which is rounded up to a power of two.
    pub fn below(&self, limit: Bytes) -> u64 {
        let last = Self::entry(Bytes(limit.0.saturating_sub(1)));
        self.iter().filter(|(entry, _)| (1..=last).contains(entry)).map(|(_, calls)| calls).sum()
    }

    fn add(&mut self, entry: u8, calls: u64) {
        match self.counts.binary_search_by_key(&entry, |(known, _)| *known) {
            Ok(index) => self.counts[index].1 += calls,
            Err(index) => self.counts.insert(index, (entry, calls)),
        }
    }
}

/// Requests of one direction on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transfers {
    /// Calls that succeeded, those included that moved nothing, as at the end of a file.
    pub calls: u64,
    /// Bytes that they moved.
    pub bytes: Bytes,
    /// Calls that moved something and began where the one before on the same open file ended; of the first of an open
    /// file, those that began at its begin, or at a place that is not known.
    pub sequential: u64,
    /// Calls that moved a whole stripe, or several, from the start of one; zero where the layout is not known.
    pub stripe_sized: u64,
    /// Calls that left a gap behind the one before on the same open file.
    pub gaps: u64,
    /// Bytes left out in these gaps.
    pub gap_bytes: Bytes,
    /// Time in the calls, the recorder's work inside.
    pub time: Nanos,
    /// Calls by bytes moved.
    pub sizes: Sizes,
}

impl Transfers {
    /// Calls that moved something.
    pub fn moving(&self) -> u64 {
        self.calls - self.sizes.get(0)
    }

    /// Bytes of a call that moved something, on average; 0 without such a call.
    pub fn average(&self) -> Bytes {
        Bytes(self.bytes.0.checked_div(self.moving()).unwrap_or(0))
    }

    /// Bytes of a gap, on average; 0 without gaps.
    pub fn average_gap(&self) -> Bytes {
        Bytes(self.gap_bytes.0.checked_div(self.gaps).unwrap_or(0))
    }

    /// Bytes a second while in the calls; `None` when they took no time. The recorder's work is in it: a lower bound.
    pub fn bytes_per_second(&self) -> Option<f64> {
        (self.time.0 > 0).then(|| self.bytes.0 as f64 / self.time.as_seconds())
    }

    /// Adds those of other recordings.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        add_bytes(&mut self.bytes, other.bytes);
        self.sequential += other.sequential;
        self.stripe_sized += other.stripe_sized;
        self.gaps += other.gaps;
        add_bytes(&mut self.gap_bytes, other.gap_bytes);
        crate::counts::add_time(&mut self.time, other.time);
        other.sizes.counts.iter().for_each(|&(entry, calls)| self.sizes.add(entry, calls));
    }

    /// Counts a call that moved `moved` bytes to or from `place`.
    pub(super) fn count(&mut self, moved: Bytes, time: Nanos, place: RequestPlace, stripe: Option<Bytes>) {
        self.calls += 1;
        add_bytes(&mut self.bytes, moved);
        crate::counts::add_time(&mut self.time, time);
        self.sizes.add(Sizes::entry(moved) as u8, 1);
        if moved.0 == 0 {
            return;
        }
        match place.order {
            RequestOrder::Sequential => self.sequential += 1,
            RequestOrder::Gap(bytes) => {
                self.gaps += 1;
                add_bytes(&mut self.gap_bytes, bytes);
            }
            RequestOrder::Other => {}
        }
        if let (Some(Bytes(stripe @ 1..)), Some(begin)) = (stripe, place.begin) {
            self.stripe_sized += u64::from(begin.is_multiple_of(stripe) && moved.0.is_multiple_of(stripe));
        }
    }
}

/// The place of a request in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestPlace {
    /// Its begin; `None` when that is not known.
    pub(super) begin: Option<u64>,
    pub(super) order: RequestOrder,
}

/// The place of a request relative to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOrder {
    Sequential,
    Gap(Bytes),
    /// Before it, over it, or unknown.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_powers_of_two() {
        for (moved, entry) in [(0, 0), (1, 1), (2, 2), (3, 2), (4095, 12), (4096, 13), (u64::MAX, SIZES - 1)]
        {
            assert_eq!(Sizes::entry(Bytes(moved)), entry, "{moved}");
        }
        let mut sizes = Sizes::default();
        [0, 1, 512, 4095, 4096, 4097]
            .iter()
            .for_each(|&moved| sizes.add(Sizes::entry(Bytes(moved)) as u8, 1));
        assert_eq!((sizes.below(Bytes(4096)), sizes.get(13), sizes.get(5)), (3, 2, 0));
    }

    #[test]
    fn stripe_sized_requests_begin_at_a_stripe_and_end_at_one() {
        let mut transfers = Transfers::default();
        for (begin, moved) in [(Some(0), 4), (Some(4), 8), (Some(2), 4), (Some(4), 3), (None, 4)] {
            let place = RequestPlace { begin, order: RequestOrder::Other };
            transfers.count(Bytes(moved), Nanos(1), place, Some(Bytes(4)));
        }
        assert_eq!((transfers.stripe_sized, transfers.calls, transfers.average()), (2, 5, Bytes(4)));
    }
}
