//! The parts of mapped files that a process touched: pages whose content a run needs although no call reads them.
//!
//! A recorder inspects a process's memory before the process ends and reports with [`crate::Writer::touched`]. A
//! process may be inspected several times, and several mappings may show one page. This module joins the reports into
//! one set of extents for each process and file.

use crate::{PathId, ProcessId};
use std::collections::{BTreeMap, HashSet};

/// A part of a file that a process touched through a mapping: it was in the process's memory, as in the file or as the
/// process's changed copy. Pages that the kernel mapped around a touched page count too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Touched {
    /// The process.
    pub process: ProcessId,
    /// The file: absolute, links followed, as `/proc/PID/maps` names it.
    pub path: PathId,
    /// Offset of the part. Unit: bytes, a multiple of the recorded machine's page size.
    pub offset: u64,
    /// Its length. Unit: bytes, a multiple of the page size, so that it may reach beyond the file's end. Range: 1 and up;
    /// offset and size together are below 2^63.
    pub size: u64,
}

impl Touched {
    /// End of the part. Unit: bytes.
    pub fn end(&self) -> u64 {
        self.offset + self.size
    }
}

/// A part of a file. Unit of both: bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// Offset of its begin.
    pub offset: u64,
    /// Its length.
    pub size: u64,
}

impl Extent {
    /// The end of the extent; `None` for an invalid one, because a file ends before 2^63.
    pub(crate) fn checked_end(self) -> Option<u64> {
        let end = self.offset.checked_add(self.size)?;
        (self.size > 0 && i64::try_from(end).is_ok()).then_some(end)
    }
}

/// Sorts extents and joins those that overlap or touch. Invalid extents are dropped.
pub fn merge(extents: &mut Vec<Extent>) {
    extents.retain(|extent| extent.checked_end().is_some());
    extents.sort_unstable();
    extents.dedup_by(|next, kept| {
        let joins = next.offset <= kept.offset + kept.size;
        if joins {
            kept.size = kept.size.max(next.offset + next.size - kept.offset);
        }
        joins
    });
}

/// The reports on each process, in any order.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    files: BTreeMap<(ProcessId, PathId), Vec<Extent>>,
    /// Processes that were reported completely.
    looked: HashSet<ProcessId>,
}

impl Collected {
    pub(crate) fn add(&mut self, process: ProcessId, path: PathId, extents: &[Extent]) {
        self.files.entry((process, path)).or_default().extend(extents);
    }

    pub(crate) fn looked(&mut self, process: ProcessId) {
        self.looked.insert(process);
    }

    /// The rows. Shape: sorted; rows of one process and file do not touch each other. `None` when no process was
    /// inspected. A process that was not inspected to its end has no rows, because an incomplete set would pass for a
    /// complete one.
    pub(crate) fn into_rows(self) -> Option<Vec<Touched>> {
        let Self { files, looked } = self;
        if looked.is_empty() {
            return None;
        }
        let known = files.into_iter().filter(|((process, _), _)| looked.contains(process));
        let rows = known.flat_map(|((process, path), mut extents)| {
            merge(&mut extents);
            extents.into_iter().map(move |Extent { offset, size }| Touched { process, path, offset, size })
        });
        Some(rows.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|&(offset, size)| Extent { offset, size }).collect()
    }

    #[test]
    fn extents_that_meet_become_one() {
        for (given, expected) in [
            (&[(8, 4), (0, 4)][..], &[(0, 4), (8, 4)][..]),
            (&[(4, 4), (0, 4)], &[(0, 8)]),
            (&[(0, 12), (4, 4), (8, 8)], &[(0, 16)]),
            (&[(0, 0), (4, 4)], &[(4, 4)]),
            (&[(u64::MAX, 4), (i64::MAX as u64, 1), (0, u64::MAX)], &[]),
        ] {
            let mut merged = extents(given);
            merge(&mut merged);
            assert_eq!(merged, extents(expected), "{given:?}");
        }
    }

    #[test]
    fn a_process_that_was_not_looked_at_to_its_end_has_no_rows() {
        let (whole, half) = (ProcessId(0), ProcessId(1));
        let mut collected = Collected::default();
        collected.add(half, PathId(0), &extents(&[(0, 4)]));
        collected.add(whole, PathId(7), &extents(&[(4, 4)]));
        collected.looked(whole);
        let row = Touched { process: whole, path: PathId(7), offset: 4, size: 4 };
        assert_eq!(collected.into_rows(), Some(vec![row]));
    }

    #[test]
    fn without_a_look_nothing_is_known() {
        let mut collected = Collected::default();
        assert_eq!(Collected::default().into_rows(), None);
        collected.add(ProcessId(0), PathId(0), &extents(&[(0, 4)]));
        assert_eq!(collected.into_rows(), None);
    }

    proptest! {
        #[test]
        fn merging_keeps_every_byte_and_leaves_gaps(
            given in proptest::collection::vec((0_u64..64, 1_u64..8), 0..20)
        ) {
            let covered = |list: &[Extent]| {
                let bytes = list.iter().flat_map(|extent| extent.offset..extent.offset + extent.size);
                bytes.collect::<std::collections::BTreeSet<_>>()
            };
            let before = extents(&given);
            let mut merged = before.clone();
            merge(&mut merged);
            prop_assert_eq!(covered(&before), covered(&merged));
            prop_assert!(merged.is_sorted());
            prop_assert!(merged.windows(2).all(|pair| pair[0].offset + pair[0].size < pair[1].offset));
        }
    }
}
