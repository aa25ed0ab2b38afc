//! The pages of a file that are there, as runs: neither time nor memory depends on the size that a file claims.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of pages. Shape: from the start of each run to its end; runs neither overlap nor touch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Windows(BTreeMap<u32, u32>);

impl Windows {
    /// The first run of a range that is not there.
    pub(crate) fn first_missing(&self, range: Range<u32>) -> Option<Range<u32>> {
        let before = self.0.range(..=range.start).next_back().map_or(0, |(_, end)| *end);
        let begin = range.start.max(before);
        let next = self.0.range(begin..).next().map_or(range.end, |(next, _)| *next);
        (begin < range.end).then(|| begin..next.min(range.end))
    }

    /// The length of the run that ends before a page.
    pub(super) fn run_before(&self, page: u32) -> u32 {
        self.0.range(..page).next_back().filter(|(_, end)| **end >= page).map_or(0, |(begin, _)| page - begin)
    }

    /// The pages around one that is not there, up to those that are.
    pub(super) fn gap(&self, page: u32) -> Range<u32> {
        let begin = self.0.range(..=page).next_back().map_or(0, |(_, end)| *end);
        let end = self.0.range(page..).next().map_or(u32::MAX, |(next, _)| *next);
        begin..end
    }

    /// Adds a range, and returns how many of it were not there.
    pub(crate) fn add(&mut self, range: Range<u32>) -> u32 {
        let mut added = 0;
        while let Some(missing) = self.first_missing(range.clone()) {
            added += missing.end - missing.start;
            self.fill(missing);
        }
        added
    }

    /// Adds a run of which nothing is there, joined with those that it touches.
    fn fill(&mut self, run: Range<u32>) {
        let end = self.0.remove(&run.end).unwrap_or(run.end);
        match self.0.range_mut(..run.start).next_back().filter(|(_, last)| **last == run.start) {
            Some((_, last)) => *last = end,
            None => drop(self.0.insert(run.start, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_file_of_any_size_is_one_run() {
        let mut windows = Windows::default();
        assert_eq!(windows.add(7..u32::MAX), u32::MAX - 7);
        assert_eq!(windows.add(0..u32::MAX), 7);
        assert_eq!(windows.0.len(), 1);
        assert_eq!(windows.first_missing(3..u32::MAX), None);
    }

    proptest! {
        #[test]
        fn it_is_a_set(ranges in proptest::collection::vec((0u32..40, 0u32..12), 0..30), asked in (0u32..50, 0u32..20)) {
            let (mut windows, mut set) = (Windows::default(), BTreeSet::new());
            for (begin, length) in ranges {
                let range = begin..begin + length;
                let new = range.clone().filter(|window| set.insert(*window)).count();
                prop_assert_eq!(windows.add(range) as usize, new);
            }
            let mut runs = windows.0.iter().zip(windows.0.iter().skip(1));
            prop_assert!(runs.all(|((_, end), (begin, _))| end < begin));
            let mut range = asked.0..asked.0 + asked.1;
            let first = range.find(|window| !set.contains(window));
            let run = windows.first_missing(asked.0..asked.0 + asked.1);
            prop_assert_eq!(run.clone().map(|run| run.start), first);
            if let Some(run) = run {
                prop_assert!(run.clone().all(|window| !set.contains(&window)));
                prop_assert!(run.end == asked.0 + asked.1 || set.contains(&run.end));
            }
        }
    }
}
