//! Recordings that did the same, together.

use quell_analyse::{Fold, Summary};
use schemars::JsonSchema;
use serde::Serialize;

/// Recordings whose metadata operations are the same, numbers in paths and memory file systems aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FoldRow {
    /// The ranks as `0-511,513`; the names of recordings without a rank.
    pub ranks: String,
    /// The number of recordings.
    pub recordings: u64,
    /// Metadata operations of each: the fewest.
    pub metadata_operations: u64,
    /// Metadata operations of each: the most.
    pub metadata_operations_at_most: u64,
    /// Misses of each: the fewest.
    pub missed: u64,
    /// At least so many operations are here and not in the first row, or the other way round; null for another command.
    pub apart: Option<u64>,
    /// Misses of each: the most.
    #[serde(skip)]
    pub missed_at_most: u64,
}

/// Shape: sorted by recordings, most first.
pub(super) fn folds(summary: &Summary) -> Vec<FoldRow> {
    let row = |fold: Fold<'_>| FoldRow {
        ranks: fold.label(),
        recordings: fold.members.len() as u64,
        metadata_operations: fold.metadata_operations.0,
        metadata_operations_at_most: fold.metadata_operations.1,
        missed: fold.missed.0,
        apart: fold.apart,
        missed_at_most: fold.missed.1,
    };
    summary.folds().into_iter().map(row).collect()
}
