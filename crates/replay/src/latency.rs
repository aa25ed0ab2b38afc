//! Times of calls, counted in buckets that are 1/32 of a power of two wide, so that a percentile is right to 2 %.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// A distribution of times. Merging is exact, and in any order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LatencyHistogram {
    /// Shape: by bucket; only those that have a count.
    buckets: BTreeMap<u16, u64>,
    count: u64,
    /// Unit: nanoseconds.
    most: u64,
}

/// Buckets of each power of two, as a power of two. Not part of a format; more of them make percentiles finer.
const FINE: u32 = 5;

impl LatencyHistogram {
    /// Counts one time.
    pub fn add(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        *self.buckets.entry(bucket(nanos)).or_default() += 1;
        self.count += 1;
        self.most = self.most.max(nanos);
    }

    /// Adds another distribution.
    pub fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += count;
        }
        self.count += other.count;
        self.most = self.most.max(other.most);
    }

    /// The time that this share of all does not exceed; zero without any. Unit: microseconds. Range of `share`: 0 to 1.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = (self.count as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in &self.buckets {
            seen += count;
            if seen >= wanted {
                return middle(*bucket).min(self.most as f64) / 1e3;
            }
        }
        0.0
    }

    /// The longest. Unit: microseconds.
    pub fn longest(&self) -> f64 {
        self.most as f64 / 1e3
    }

    /// The number of times.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// The first buckets hold one number each; from then on each power of two has `2^FINE`.
fn bucket(nanos: u64) -> u16 {
    let power = nanos.max(1).ilog2();
    match power.checked_sub(FINE) {
        None | Some(0) => nanos as u16,
        Some(shift) => ((shift << FINE) + (nanos >> shift) as u32) as u16,
    }
}

/// The middle of a bucket. Unit: nanoseconds.
fn middle(bucket: u16) -> f64 {
    let bucket = u64::from(bucket);
    match (bucket >> FINE).checked_sub(1) {
        None | Some(0) => bucket as f64,
        Some(shift) => {
            let first = (bucket - (shift << FINE)) << shift.min(63);
            first as f64 + ((1_u64 << shift.min(63)) - 1) as f64 / 2.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_as_wide_as_a_percentile_may_be_wrong() {
        for nanos in [0, 1, 31, 32, 63, 64, 65, 1000, 123_456, 98_765_432, 1 << 40] {
            let found = middle(bucket(nanos));
            assert!((found - nanos as f64).abs() <= nanos as f64 / 50.0, "{nanos}: {found}");
        }
        assert!((0..1 << 14).is_sorted_by_key(bucket));
    }

    #[test]
    fn percentiles_are_those_of_all_that_was_merged() {
        let of = |times: std::ops::RangeInclusive<u64>| {
            let mut latency = LatencyHistogram::default();
            times.for_each(|micros| latency.add(Duration::from_micros(micros)));
            latency
        };
        let mut merged = of(1..=400);
        merged.merge(&of(401..=1000));
        assert_eq!(merged, of(1..=1000));
        for (share, expected) in [(0.1, 100.0), (0.5, 500.0), (0.99, 990.0)] {
            assert!(
                (merged.quantile(share) / expected - 1.0).abs() < 0.02,
                "{share}: {}",
                merged.quantile(share)
            );
        }
        assert_eq!((merged.longest(), merged.count()), (1000.0, 1000));
        assert_eq!(LatencyHistogram::default().quantile(0.5), 0.0);
    }
}
