//! The names to ask for, with what a program did with each, in order of first access.

use std::collections::HashMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use quell_image::BlockSet;
use quell_image::erofs::BLOCK_BYTES;

/// Everything that a program asked of its files.
#[derive(Debug, Default)]
pub struct WarmPlan {
    /// Shape: no path twice; absolute.
    pub(crate) names: Vec<PlannedName>,
    index: HashMap<Vec<u8>, usize>,
}

/// One name.
#[derive(Debug, Default)]
pub(crate) struct PlannedName {
    pub(crate) path: PathBuf,
    /// Place of its first access among all accesses.
    pub(crate) at: u64,
    /// `None` where nothing is known.
    pub(crate) expected: Option<Expected>,
    pub(crate) listed: bool,
    /// Its target was read.
    pub(crate) link: bool,
    pub(crate) data: Option<PlannedData>,
}

/// The outcome of looking a name up that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    There,
    Absent,
    /// It came or went, or could not be told.
    Either,
}

/// The part of a file that was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PlannedData {
    /// Place of the first read among all accesses.
    pub(crate) at: u64,
    /// Sorted, apart from each other. `None` for the whole file. **Unit** bytes.
    pub(crate) ranges: Option<Vec<Range<u64>>>,
    /// Size and time of modification that the file had. **Unit** bytes, nanoseconds since 1970.
    pub(crate) version: Option<(u64, i128)>,
}

impl WarmPlan {
    /// The name at `path`, which is first asked for at `at` unless it was before.
    pub(crate) fn name(&mut self, path: &[u8], at: u64) -> &mut PlannedName {
        let next = self.names.len();
        let number = *self.index.entry(path.to_vec()).or_insert(next);
        if number == next {
            let path = PathBuf::from(OsString::from_vec(path.to_vec()));
            self.names.push(PlannedName { path, at, ..PlannedName::default() });
        }
        &mut self.names[number]
    }

    /// True where there is nothing to ask for.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

impl PlannedName {
    /// Takes a recorded outcome in.
    pub(crate) fn expect(&mut self, outcome: Expected) {
        self.expected = match self.expected {
            Some(known) if known != outcome => Some(Expected::Either),
            _ => Some(outcome),
        };
    }
}

impl PlannedData {
    /// The parts that either recording used. Those of two versions mean nothing together.
    pub(crate) fn with(self, other: Self) -> Self {
        let versions = self.version.zip(other.version);
        if versions.is_some_and(|(mine, theirs)| mine != theirs) {
            return Self { at: self.at.min(other.at), ranges: None, version: None };
        }
        let ranges = self.ranges.zip(other.ranges).map(|(mine, theirs)| {
            let mut blocks = BlockSet::default();
            mine.into_iter().chain(theirs).for_each(|range| blocks.insert_bytes(range));
            ranges(&blocks)
        });
        Self { at: self.at.min(other.at), ranges, version: self.version.or(other.version) }
    }
}

/// The runs of `blocks` in bytes, joined where what lies between costs less than one more request.
pub(crate) fn ranges(blocks: &BlockSet) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for run in blocks.runs() {
        let (start, end) = (run.start * BLOCK_BYTES, run.end * BLOCK_BYTES);
        match ranges.last_mut().filter(|last| start - last.end <= GAP) {
            Some(last) => last.end = end,
            None => ranges.push(start..end),
        }
    }
    ranges
}

/// Bytes between two parts that are read along: half of what a kernel's readahead takes at once anyway.
const GAP: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_are_near_are_one() {
        let mut blocks = BlockSet::default();
        [0..1, 2..3, 19..20, 40..41].into_iter().for_each(|run| blocks.insert(run));
        assert_eq!(ranges(&blocks), [0..20 * 4096, 40 * 4096..41 * 4096]);
    }

    #[test]
    fn a_name_that_came_or_went_may_be_either() {
        let mut plan = WarmPlan::default();
        let name = plan.name(b"/a", 3);
        [Expected::Absent; 2].into_iter().for_each(|outcome| name.expect(outcome));
        assert_eq!(name.expected, Some(Expected::Absent));
        name.expect(Expected::There);
        assert_eq!((name.expected, name.at), (Some(Expected::Either), 3));
        assert_eq!(plan.name(b"/a", 9).at, 3);
        assert_eq!(plan.names.len(), 1);
    }
}
