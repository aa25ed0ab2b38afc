//! Sets of a file's blocks, as runs: the parts that a recording used or an image holds.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::erofs::BLOCK_BYTES;

/// A set of blocks of 4 KiB, by their numbers in the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlockSet {
    /// First block and end of each run; no two runs meet.
    runs: BTreeMap<u64, u64>,
}

impl BlockSet {
    /// Adds every block that has one of `bytes`.
    pub fn insert_bytes(&mut self, bytes: Range<u64>) {
        if bytes.start < bytes.end {
            self.insert(bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES));
        }
    }

    /// Adds the blocks of `run`.
    pub fn insert(&mut self, run: Range<u64>) {
        if run.start >= run.end {
            return;
        }
        let (mut start, mut end) = (run.start, run.end);
        while let Some((&first, &last)) =
            self.runs.range(..=end).next_back().filter(|(_, last)| **last >= start)
        {
            self.runs.remove(&first);
            (start, end) = (start.min(first), end.max(last));
        }
        self.runs.insert(start, end);
    }

    /// Takes the blocks of `run` out.
    pub fn remove(&mut self, run: Range<u64>) {
        while let Some((&first, &last)) =
            self.runs.range(..run.end).next_back().filter(|(_, last)| **last > run.start)
        {
            self.runs.remove(&first);
            if last > run.end {
                self.runs.insert(run.end, last);
            }
            if first < run.start {
                self.runs.insert(first, run.start);
            }
        }
    }

    /// Tells whether every block of `run` is in it.
    pub fn contains(&self, run: Range<u64>) -> bool {
        run.is_empty() || self.runs.range(..=run.start).next_back().is_some_and(|(_, last)| *last >= run.end)
    }

    /// Tells whether every block that has one of `bytes` is in it.
    pub fn contains_bytes(&self, bytes: Range<u64>) -> bool {
        bytes.is_empty() || self.contains(bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES))
    }

    /// Adds the blocks of `other`.
    pub fn union(&mut self, other: &Self) {
        other.runs().for_each(|run| self.insert(run));
    }

    /// The runs in order; no two meet.
    pub fn runs(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.runs.iter().map(|(&start, &end)| start..end)
    }

    /// Number of blocks.
    pub fn len(&self) -> u64 {
        self.runs().map(|run| run.end - run.start).sum()
    }

    /// Tells whether there is no block.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Adds each block that is alone between two runs, or between a run and the end of a file of `limit` blocks.
    pub fn fill_single_gaps(&mut self, limit: u64) {
        let ends: Vec<u64> = self.runs.values().copied().collect();
        let is_gap = |end: &u64| *end + 1 == limit || self.runs.contains_key(&(end + 1));
        let gaps: Vec<u64> = ends.into_iter().filter(|end| *end < limit && is_gap(end)).collect();
        gaps.into_iter().for_each(|block| self.insert(block..block + 1));
    }

    /// The same in groups of `blocks` blocks, each taken whole, of a file that has `limit` blocks.
    #[must_use]
    pub(crate) fn grouped(&self, blocks: u64, limit: u64) -> Self {
        let mut grouped = Self::default();
        for run in self.runs() {
            let end = run.end.div_ceil(blocks).saturating_mul(blocks).min(limit);
            grouped.insert(run.start / blocks * blocks..end);
        }
        grouped
    }

    /// Bytes that the blocks have in a file of `size` bytes.
    pub(crate) fn bytes_of(&self, size: u64) -> u64 {
        let clipped = |block: u64| block.saturating_mul(BLOCK_BYTES).min(size);
        self.runs().map(|run| clipped(run.end) - clipped(run.start)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set(runs: &[(u64, u64)]) -> BlockSet {
        let mut set = BlockSet::default();
        runs.iter().for_each(|&(start, end)| set.insert(start..end));
        set
    }

    /// First block and end of each run.
    fn runs(set: &BlockSet) -> Vec<(u64, u64)> {
        set.runs().map(|run| (run.start, run.end)).collect()
    }

    #[test]
    fn runs_that_meet_are_one() {
        assert_eq!(runs(&set(&[(4, 6), (0, 2), (2, 4)])), [(0, 6)]);
        assert_eq!(runs(&set(&[(0, 2), (8, 9), (3, 4), (1, 8)])), [(0, 9)]);
        assert_eq!(runs(&set(&[(0, 2), (3, 4)])), [(0, 2), (3, 4)]);
        assert!(set(&[(3, 3)]).is_empty());
    }

    #[test]
    fn bytes_take_the_blocks_they_lie_in() {
        let mut set = BlockSet::default();
        set.insert_bytes(4095..4097);
        set.insert_bytes(9000..9000);
        assert_eq!(runs(&set), [(0, 2)]);
        assert!(set.contains_bytes(1..8192) && set.contains_bytes(9000..9000));
        assert!(!set.contains_bytes(1..8193));
        assert_eq!((set.bytes_of(1 << 20), set.bytes_of(5000), set.bytes_of(7)), (8192, 5000, 7));
    }

    #[test]
    fn gaps_of_one_block_are_filled() {
        let mut gaps = set(&[(0, 2), (3, 5), (7, 8), (9, 12)]);
        gaps.fill_single_gaps(13);
        assert_eq!(runs(&gaps), [(0, 5), (7, 13)]);
        let mut longer = set(&[(0, 1), (3, 4)]);
        longer.fill_single_gaps(6);
        assert_eq!(runs(&longer), [(0, 1), (3, 4)]);
    }

    #[test]
    fn groups_are_taken_whole_and_end_with_the_file() {
        assert_eq!(runs(&set(&[(1, 2), (9, 10)]).grouped(4, 11)), [(0, 4), (8, 11)]);
        assert!(set(&[(20, 21)]).grouped(4, 11).is_empty());
    }

    proptest! {
        #[test]
        fn a_set_holds_what_was_put_in(runs in prop::collection::vec((0_u64..60, 0_u64..9), 0..20)) {
            let mut expected = std::collections::BTreeSet::new();
            let mut set = BlockSet::default();
            for (start, length) in runs {
                expected.extend(start..start + length);
                set.insert(start..start + length);
            }
            prop_assert_eq!(set.runs().flatten().collect::<Vec<_>>(), expected.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.len(), expected.len() as u64);
            let runs: Vec<_> = set.runs().collect();
            prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
            for run in (0..70).flat_map(|start| (0..6).map(move |length| start..start + length)) {
                prop_assert_eq!(set.contains(run.clone()), run.clone().all(|block| expected.contains(&block)));
                let mut rest = set.clone();
                rest.remove(run.clone());
                let left = expected.iter().copied().filter(|block| !run.contains(block));
                prop_assert!(rest.runs().flatten().eq(left));
            }
        }
    }
}
