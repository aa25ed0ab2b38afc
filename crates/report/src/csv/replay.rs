//! The table of `quell replay --csv`.

use super::{Column, table};
use crate::view::{ReplayClass, ReplayView};

/// One row a class of calls.
pub fn replay(replay: &ReplayView) -> String {
    let columns: [Column<&ReplayClass>; 8] = [
        ("class", |row| row.class.clone()),
        ("operations", |row| row.operations.to_string()),
        ("errors", |row| row.errors.to_string()),
        ("p10_us", |row| row.microseconds.p10.to_string()),
        ("p50_us", |row| row.microseconds.p50.to_string()),
        ("p90_us", |row| row.microseconds.p90.to_string()),
        ("p99_us", |row| row.microseconds.p99.to_string()),
        ("max_us", |row| row.microseconds.max.to_string()),
    ];
    table(&columns, &replay.classes)
}
