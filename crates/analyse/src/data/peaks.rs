//! Open files over time: the most at any moment of each interval, in bounded memory, exactly mergeable.
//!
//! Sums and peaks do not commute: two peaks of one interval may lie at different moments. So every interval length from
//! the finest is kept, each with its own exact peaks, and merging adds within one length only:
//!
//! ```text
//! length  2^20 ns  | 3 1 0 4 |  + | 2 2 |  = | 5 3 0 4 |
//!         2^21 ns  | 3   4   |  + | 2   |  = | 5   4   |     not what halving the sum would give, and independent
//!         2^22 ns  | 4       |  + | 2   |  = | 6       |     of the order in which recordings come
//! ```
//!
//! For one recording the peaks are exact. For several each is the sum of the recordings' own peaks in that interval, as if
//! all had begun together and peaked at the same moment: an upper bound.

use quell_trace::Nanos;

/// Intervals at most, at the finest length kept: several times the columns of any chart. All lengths together take at
/// most twice that.
const LONGEST: usize = 1 << 12;
/// The finest interval is 2^20 nanoseconds, about a millisecond.
const FINEST: u32 = 20;

/// A count over time: the most at any moment of each interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peaks {
    /// The first of `lengths` has intervals of `1 << shift` nanoseconds, each next one twice that.
    shift: u32,
    /// Shape: none, or the last one has one interval and all others have more.
    lengths: Vec<Vec<u64>>,
}

impl Peaks {
    /// Adds those of other recordings. Exact, and in any order.
    pub fn merge(&mut self, mut other: Self) {
        if other.lengths.is_empty() {
            return;
        }
        if self.lengths.is_empty() {
            *self = other;
            return;
        }
        let shift = self.shift.max(other.shift);
        self.coarsen_to(shift);
        other.coarsen_to(shift);
        let last =
            |peaks: &Self| peaks.lengths.last().and_then(|length| length.first()).copied().unwrap_or(0);
        let (ours, theirs) = (last(self), last(&other));
        let lengths = self.lengths.len().max(other.lengths.len());
        self.lengths.resize(lengths, vec![ours]);
        other.lengths.resize(lengths, vec![theirs]);
        for (mine, more) in self.lengths.iter_mut().zip(other.lengths) {
            mine.resize(mine.len().max(more.len()), 0);
            mine.iter_mut().zip(more).for_each(|(mine, more)| *mine = mine.saturating_add(more));
        }
    }

    /// Shape: at most `columns`; the length of an interval, and the most that were open in each. Range of `columns`: 1
    /// and more.
    pub fn at_most(&self, columns: usize) -> (Nanos, Vec<u64>) {
        let fits = self.lengths.iter().position(|length| length.len() <= columns.max(1));
        let index = fits.unwrap_or(0);
        let shift = if self.lengths.is_empty() { FINEST } else { self.shift + index as u32 };
        (
            Nanos(1u64.checked_shl(shift).unwrap_or(u64::MAX)),
            self.lengths.get(index).cloned().unwrap_or_default(),
        )
    }

    /// The most at any moment.
    pub fn most(&self) -> u64 {
        self.lengths.last().and_then(|length| length.first()).copied().unwrap_or(0)
    }

    /// Leaves lengths below `1 << shift` out; a count that fits in one interval fits in one of any length.
    fn coarsen_to(&mut self, shift: u32) {
        let drop = (shift.saturating_sub(self.shift) as usize).min(self.lengths.len().saturating_sub(1));
        self.lengths.drain(..drop);
        self.shift = self.shift.max(shift);
    }
}

/// The peaks of one recording being found.
#[derive(Debug)]
pub(super) struct PeakTally {
    shift: u32,
    most: Vec<u64>,
    current: u64,
}

impl Default for PeakTally {
    fn default() -> Self {
        Self { shift: FINEST, most: Vec::new(), current: 0 }
    }
}

impl PeakTally {
    /// One more from `at` on.
    pub(super) fn open(&mut self, at: Nanos) {
        self.reach(at);
        self.current += 1;
        if let Some(last) = self.most.last_mut() {
            *last = self.current.max(*last);
        }
    }

    /// One less from `at` on.
    pub(super) fn close(&mut self, at: Nanos) {
        self.reach(at);
        self.current = self.current.saturating_sub(1);
    }

    pub(super) fn finish(self) -> Peaks {
        let mut lengths = Vec::new();
        if self.most.iter().any(|&most| most > 0) {
            lengths.push(self.most);
        }
        while let Some(finer) = lengths.last().filter(|length| length.len() > 1) {
            let halved = halve(finer);
            lengths.push(halved);
        }
        Peaks { shift: if lengths.is_empty() { 0 } else { self.shift }, lengths }
    }

    /// Intervals up to that of `at`; those between had what was open before. Time that goes back a little, as between
    /// threads, changes the last interval.
    fn reach(&mut self, at: Nanos) {
        while at.0 >> self.shift >= LONGEST as u64 {
            self.most = halve(&self.most);
            self.shift += 1;
        }
        let index = (at.0 >> self.shift) as usize;
        if index >= self.most.len() {
            self.most.resize(index + 1, self.current);
        }
    }
}

fn halve(most: &[u64]) -> Vec<u64> {
    most.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Opens that end: from, until.
    fn peaks(open: &[(u64, u64)]) -> Peaks {
        let mut changes: Vec<(u64, bool)> = open
            .iter()
            .flat_map(|&(from, length)| [(from, true), (from.saturating_add(length), false)])
            .collect();
        changes.sort_unstable_by_key(|&(at, opens)| (at, !opens));
        let mut tally = PeakTally::default();
        for (at, opens) in changes {
            if opens { tally.open(Nanos(at)) } else { tally.close(Nanos(at)) }
        }
        tally.finish()
    }

    const MS: u64 = 1 << FINEST;

    #[test]
    fn what_was_open_for_a_moment_is_seen_and_what_stays_open_lasts() {
        let peaks = peaks(&[(0, 1), (10, 1), (MS * 2, MS * 3)]);
        assert_eq!(peaks.at_most(9), (Nanos(MS), vec![1, 0, 1, 1, 1, 1]));
        assert_eq!(peaks.at_most(4), (Nanos(MS * 2), vec![1, 1, 1]));
        assert_eq!(peaks.most(), 1);
        assert_eq!(Peaks::default().at_most(9).1, Vec::<u64>::new());
    }

    #[test]
    fn a_peak_is_no_sum() {
        let both = [(0, 5), (1, 5), (MS, 5)];
        assert_eq!(peaks(&both).at_most(1), (Nanos(MS * 2), vec![2]));
    }

    #[test]
    fn the_latest_time_there_is_fits() {
        assert_eq!(peaks(&[(u64::MAX, 0)]).most(), 1);
        assert_eq!(peaks(&[(1, u64::MAX)]).most(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn merging_is_associative_and_free_of_order(
            parts in proptest::collection::vec(
                proptest::collection::vec((0u64..1 << 36, 0u64..1 << 34), 0..6), 3),
            short in proptest::collection::vec((0u64..MS * 9, 0u64..MS * 4), 0..6),
        ) {
            let parts: Vec<Peaks> = parts.iter().chain([&short]).map(|open| peaks(open)).collect();
            let merge = |order: &[usize]| {
                let mut all = Peaks::default();
                order.iter().for_each(|&index| all.merge(parts[index].clone()));
                all
            };
            let expected = merge(&[0, 1, 2, 3]);
            for order in [[3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
                prop_assert_eq!(&expected, &merge(&order));
            }
            let (mut left, right) = (merge(&[0, 3]), merge(&[1, 2]));
            left.merge(right);
            prop_assert_eq!(expected.clone(), left);
            // Each length is what the recordings themselves have at it.
            for columns in [1usize, 2, 7, 64] {
                let (interval, most) = expected.at_most(columns);
                prop_assert!(most.len() <= columns.max(1));
                let alone: u64 = parts.iter().map(Peaks::most).sum();
                prop_assert!(most.iter().max().copied().unwrap_or(0) <= alone, "{interval}");
            }
        }
    }
}
