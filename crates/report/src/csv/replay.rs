//! The table of `quell replay --csv`.

use super::{CsvCell, CsvColumn, columns, table};
use crate::view::{ReplayClass, ReplayView};

/// One row a class of calls.
pub fn replay(replay: &ReplayView) -> String {
    let columns = columns!(row: ReplayClass; class, operations, errors, p10_us = row.microseconds.p10,
        p50_us = row.microseconds.p50, p90_us = row.microseconds.p90, p99_us = row.microseconds.p99,
        max_us = row.microseconds.max);
    table(columns, &replay.classes)
}
