//! Sets of bytes.

use std::ops::Range;

/// Ranges of bytes. **Shape** sorted; none touches another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ranges(Vec<Range<usize>>);

impl Ranges {
    pub(super) fn insert(&mut self, new: Range<usize>) {
        if new.is_empty() {
            return;
        }
        let first = self.0.partition_point(|range| range.end < new.start);
        let last = self.0.partition_point(|range| range.start <= new.end);
        let met = &self.0[first..last];
        let start = met.first().map_or(new.start, |range| range.start.min(new.start));
        let end = met.last().map_or(new.end, |range| range.end.max(new.end));
        self.0.splice(first..last, std::iter::once(start..end));
    }

    pub(super) fn covers(&self, wanted: &Range<usize>) -> bool {
        let place = self.0.partition_point(|range| range.end < wanted.end);
        wanted.is_empty() || self.0.get(place).is_some_and(|range| range.start <= wanted.start)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().cloned()
    }

    /// From the first byte to the last one.
    pub(super) fn hull(&self) -> Range<usize> {
        self.0.first().map_or(0, |range| range.start)..self.0.last().map_or(0, |range| range.end)
    }

    /// The parts of `within` that are not in the set.
    pub(super) fn gaps(&self, within: Range<usize>) -> Vec<Range<usize>> {
        let mut at = within.start;
        let mut gaps = Vec::new();
        for range in self.0.iter().filter(|range| range.end > within.start && range.start < within.end) {
            if range.start > at {
                gaps.push(at..range.start);
            }
            at = at.max(range.end);
        }
        if at < within.end {
            gaps.push(at..within.end);
        }
        gaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_the_bytes_that_were_inserted() {
        let mut seed = 7_u64;
        let mut next = |below: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..200 {
            let (mut ranges, mut bytes) = (Ranges::default(), [false; 40]);
            for _ in 0..next(12) {
                let (start, length) = (next(30), next(10));
                ranges.insert(start..start + length);
                bytes[start..start + length].fill(true);
            }
            let within = next(20)..20 + next(20);
            assert_eq!(ranges.covers(&within), bytes[within.clone()].iter().all(|&byte| byte), "{ranges:?}");
            let gaps: Vec<usize> = ranges.gaps(within.clone()).into_iter().flatten().collect();
            let absent: Vec<usize> = within.filter(|&byte| !bytes[byte]).collect();
            assert_eq!(gaps, absent, "{ranges:?}");
            assert!(ranges.0.windows(2).all(|pair| pair[0].end < pair[1].start), "{ranges:?}");
        }
    }
}
