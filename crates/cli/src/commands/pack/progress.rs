//! The progress of packing.

use crate::progress::Progress;
use quell_pack::PackProgress;

/// Draws one step.
pub(super) fn show(line: &mut Progress, progress: PackProgress) {
    match progress {
        PackProgress::Listing { directories, entries } => {
            line.show(|| format!("listing: {directories} directories, {entries} entries"));
        }
        PackProgress::Writing(written) => line.show_part("writing", written.done, written.total),
    }
}
