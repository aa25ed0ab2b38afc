//! Durations of calls, in bounded memory: a histogram whose intervals grow with the time, eight for each power of two.

use crate::counts::add_time;
use quell_trace::Nanos;

/// Intervals for each power of two: a quantile is then off by a sixteenth at most, which is less than the recorder's
/// own work changes it.
const EACH: usize = 8;
const EACH_BITS: u32 = EACH.ilog2();
/// Intervals at most: the last one takes everything from 2^40 nanoseconds, 18 minutes, up.
const MOST: usize = interval(1 << 40) + 1;

/// Calls by the time that they took, those that did not return left out. The recorder's work is inside: upper bounds.
/// Merging is exact and in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    /// Shape: one entry an interval, at most [`MOST`], the last one not zero.
    counts: Vec<u64>,
    time: Nanos,
    /// The shortest and the longest.
    range: Option<(Nanos, Nanos)>,
}

/// The times of a call in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    /// Calls that returned.
    pub calls: u64,
    /// Their time by their number.
    pub mean: Nanos,
    /// Half of them took at most so long. Within a sixteenth.
    pub p50: Nanos,
    /// 99 of 100 of them took at most so long. Within a sixteenth.
    pub p99: Nanos,
}

impl Durations {
    /// Counts a call that took `time`.
    pub fn add(&mut self, time: Nanos) {
        let interval = interval(time.0).min(MOST - 1);
        if interval >= self.counts.len() {
            self.counts.resize(interval + 1, 0);
        }
        self.counts[interval] += 1;
        self.widen(Some((time, time)));
        add_time(&mut self.time, time);
    }

    /// Adds the calls of other recordings.
    pub fn merge(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(count, more)| *count += more);
        self.widen(other.range);
        add_time(&mut self.time, other.time);
    }

    fn widen(&mut self, other: Option<(Nanos, Nanos)>) {
        self.range = match (self.range, other) {
            (Some(mine), Some(other)) => Some((mine.0.min(other.0), mine.1.max(other.1))),
            (known, None) | (None, known) => known,
        };
    }

    /// The times in three numbers; `None` when no call returned.
    pub fn latency(&self) -> Option<Latency> {
        let calls: u64 = self.counts.iter().sum();
        let mean = Nanos(self.time.0.checked_div(calls)?);
        Some(Latency { calls, mean, p50: self.reached(calls.div_ceil(2)), p99: self.reached(rank_99(calls)) })
    }

    /// The middle of the interval in which the call of this rank is, but not beyond what any call took. Range of
    /// `rank`: 1 to the number of calls.
    fn reached(&self, rank: u64) -> Nanos {
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        let (shortest, longest) = self.range.unwrap_or_default();
        found.map_or(Nanos(0), middle).clamp(shortest, longest)
    }
}

/// 99 of 100, rounded up.
fn rank_99(calls: u64) -> u64 {
    calls - calls / 100
}

/// The interval of a time: its power of two and the three bits below the highest.
const fn interval(time: u64) -> usize {
    if time < EACH as u64 {
        return time as usize;
    }
    let below = time.ilog2() - EACH_BITS;
    ((below as usize + 1) << EACH_BITS) + (time >> below) as usize - EACH
}

fn middle(interval: usize) -> Nanos {
    if interval < EACH {
        return Nanos(interval as u64);
    }
    let below = (interval >> EACH_BITS) as u32 - 1;
    let first = ((interval % EACH + EACH) as u64) << below;
    Nanos(first + (1 << below) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn durations(times: &[u64]) -> Durations {
        let mut durations = Durations::default();
        times.iter().for_each(|&time| durations.add(Nanos(time)));
        durations
    }

    #[test]
    fn a_slow_call_among_many_moves_the_mean_and_not_the_median() {
        let mut times = vec![1000; 99];
        let alike = durations(&times).latency().expect("calls");
        assert_eq!((alike.p50, alike.p99), (Nanos(1000), Nanos(1000)));
        times.push(1_000_000_000);
        let latency = durations(&times).latency().expect("calls");
        assert_eq!((latency.calls, latency.mean), (100, Nanos(10_000_990)));
        assert!((875..=1125).contains(&latency.p50.0), "{latency:?}");
        assert_eq!(latency.p50, latency.p99);
        times.push(1_000_000_000);
        assert!(durations(&times).latency().expect("calls").p99.0 > 800_000_000);
        assert_eq!(durations(&[]).latency(), None);
    }

    #[test]
    fn intervals_follow_each_other_without_gaps_and_hold_their_middle() {
        for time in (1..1 << 14).chain((14..40).map(|power| 1 << power)) {
            let found = interval(time);
            assert!(found - interval(time - 1) <= 1, "{time}");
            assert_eq!(interval(middle(found).0), found, "{time}");
            assert!(middle(found).0.abs_diff(time) * 16 <= time, "{time}: {}", middle(found));
        }
        assert_eq!(durations(&[u64::MAX, u64::MAX]).counts.len(), MOST);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merging_equals_adding(a in proptest::collection::vec(any::<u64>(), 0..20),
                                 b in proptest::collection::vec(0u64..1 << 30, 0..20)) {
            let mut merged = durations(&a);
            merged.merge(&durations(&b));
            let mut other_way = durations(&b);
            other_way.merge(&durations(&a));
            prop_assert_eq!(&merged, &other_way);
            prop_assert_eq!(merged, durations(&[a, b].concat()));
        }
    }
}
