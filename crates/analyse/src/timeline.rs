//! Times at which operations began, in bounded memory: a histogram that doubles its interval when time grows.

use quell_trace::Nanos;

/// Intervals at most. A longer recording has longer intervals: 68 seconds fit at the finest.
const LONGEST: usize = 1 << 16;
/// The finest interval is 2^20 nanoseconds, about a millisecond: a start-up is tens of them at least.
const FINEST: u32 = 20;

/// Operations by the time at which they began. Merging is exact and in any order, because the interval depends
/// only on the latest time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeline {
    /// An interval is `1 << shift` nanoseconds.
    shift: u32,
    /// Shape: one entry an interval, the last one not zero.
    counts: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self { shift: FINEST, counts: Vec::new() }
    }
}

impl Timeline {
    /// Counts an operation that began at `at`.
    pub fn add(&mut self, at: Nanos) {
        while at.0 >> self.shift >= LONGEST as u64 {
            self.halve();
        }
        let index = (at.0 >> self.shift) as usize;
        if index >= self.counts.len() {
            self.counts.resize(index + 1, 0);
        }
        self.counts[index] += 1;
    }

    /// Adds the counts of another one, both from their own begin.
    pub fn merge(&mut self, mut other: Self) {
        while self.shift < other.shift {
            self.halve();
        }
        while other.shift < self.shift {
            other.halve();
        }
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// The end of the first interval by which `share` of all operations had begun, with how many those are.
    /// `None` when there are none. Range of `share`: 0 to 1.
    pub fn reached(&self, share: f64) -> Option<(Nanos, u64)> {
        let wanted = self.counts.iter().sum::<u64>() as f64 * share;
        let mut begun = 0;
        self.counts.iter().enumerate().find_map(|(index, count)| {
            begun += count;
            (begun > 0 && begun as f64 >= wanted).then(|| (self.end_of(index), begun))
        })
    }

    /// The same in at most `columns` intervals. Range of `columns`: 1 and more.
    pub fn at_most(mut self, columns: usize) -> Self {
        while self.counts.len() > columns.max(1) {
            self.halve();
        }
        self
    }

    /// The same at the interval of `other`, which is not finer.
    pub fn at_interval(mut self, other: &Self) -> Self {
        while self.shift < other.shift {
            self.halve();
        }
        self
    }

    /// Length of an interval.
    pub fn interval(&self) -> Nanos {
        Nanos(1 << self.shift)
    }

    /// Operations that began in each interval. Shape: the last one is not zero.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    fn end_of(&self, index: usize) -> Nanos {
        Nanos((index as u64 + 1).checked_shl(self.shift).unwrap_or(u64::MAX))
    }

    fn halve(&mut self) {
        self.counts = self.counts.chunks(2).map(|pair| pair.iter().sum()).collect();
        self.shift += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timeline(times: &[u64]) -> Timeline {
        let mut timeline = Timeline::default();
        times.iter().for_each(|&time| timeline.add(Nanos(time)));
        timeline
    }

    #[test]
    fn the_end_of_the_interval_that_reaches_a_share_is_found() {
        let second = 1_000_000_000;
        let times: Vec<u64> = (0..95).map(|n| n * 1_000_000).chain((0..5).map(|n| n * second)).collect();
        let (end, begun) = timeline(&times).reached(0.95).expect("operations");
        assert!((92_000_000..96_000_000).contains(&end.0), "{end}");
        assert!((95..=100).contains(&begun));
        assert_eq!(timeline(&[]).reached(0.95), None);
        assert_eq!(timeline(&[u64::MAX]).reached(1.0).map(|(_, begun)| begun), Some(1));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merging_equals_adding(a in proptest::collection::vec(any::<u64>(), 0..20),
                                 b in proptest::collection::vec(0u64..1 << 40, 0..20)) {
            let mut merged = timeline(&a);
            merged.merge(timeline(&b));
            let mut other_way = timeline(&b);
            other_way.merge(timeline(&a));
            prop_assert_eq!(&merged, &other_way);
            prop_assert_eq!(merged, timeline(&[a, b].concat()));
        }
    }
}
