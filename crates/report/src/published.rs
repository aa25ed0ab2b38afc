//! Published figures and predictions as words, the same on a terminal and on the page of the documentation.

use crate::number::{GLUE, grouped, seconds};
use quell_predict::Spread;
use quell_predict::published::{Published, PublishedRow, RowUnit, RowUse, RowVerdict};

/// A number with its unit.
pub(crate) fn number(value: f64, unit: RowUnit) -> String {
    match unit {
        RowUnit::Seconds => seconds(value),
        RowUnit::Times => format!("{value:.1}{GLUE}x"),
        RowUnit::Count if value.fract() != 0.0 && value < 100.0 => format!("{value:.1}"),
        RowUnit::Count => grouped(value.round() as u64),
        RowUnit::PerSecond => format!("{}/s", grouped(value.round() as u64)),
        RowUnit::Bytes => format!("{}{GLUE}B", grouped(value.round() as u64)),
        RowUnit::Percent => format!("{value:+.0}{GLUE}%"),
    }
}

/// What was published, with both ends where there are two.
pub(crate) fn published(published: &Published, unit: RowUnit) -> String {
    if published.low == published.high {
        return number(published.low, unit);
    }
    let (low, high) = (number(published.low, unit), number(published.high, unit));
    // One unit for both, where it is the same. Counts have none, and spaces between their digits.
    let split = |text: &str| match unit {
        RowUnit::Count => None,
        RowUnit::PerSecond => text.strip_suffix("/s").map(|number| (number.to_owned(), "/s".to_owned())),
        _ => text.rsplit_once(GLUE).map(|(number, unit)| (number.to_owned(), unit.to_owned())),
    };
    match (split(&low), split(&high)) {
        (Some((first, a)), Some((_, b))) if a == b => format!("{first}-{high}"),
        _ => format!("{low}-{high}"),
    }
}

/// The range, where there is one.
pub(crate) fn range(spread: &Spread, unit: RowUnit) -> String {
    if spread.p10 == spread.p90 {
        return String::new();
    }
    published(&Published::between(spread.p10, spread.p90, ""), unit)
}

/// By how much the median is off the middle.
pub(crate) fn error(row: &PublishedRow) -> String {
    let factor = row.factor();
    match factor {
        _ if row.log_error().is_none() => String::new(),
        factor if factor >= 2.0 => format!("x{GLUE}{factor:.1}"),
        factor if factor <= 0.5 => format!("/{GLUE}{:.1}", 1.0 / factor),
        factor if (factor - 1.0).abs() < 0.0005 => format!("0{GLUE}%"),
        factor if (factor - 1.0).abs() < 0.01 => format!("{:+.1}{GLUE}%", (factor - 1.0) * 100.0),
        factor => format!("{:+.0}{GLUE}%", (factor - 1.0) * 100.0),
    }
}

/// The uses in the order in which they are shown: what proves most first.
pub(crate) const ORDER: [RowUse; 6] = [
    RowUse::Validation,
    RowUse::Derived,
    RowUse::Bound,
    RowUse::Arithmetic,
    RowUse::Calibration,
    RowUse::PostHoc,
];

/// What came of a use, in a line.
pub(crate) fn outcome(rows: &[PublishedRow], used: RowUse) -> String {
    let count = |verdict| rows.iter().filter(|row| row.used == used && row.verdict() == verdict).count();
    let (holds, misses, fitted) =
        (count(RowVerdict::Holds), count(RowVerdict::Misses), count(RowVerdict::Fitted));
    match (holds + misses, fitted) {
        (0, fitted) => format!("{fitted}, not judged"),
        (all, _) if misses == 0 => format!("{holds} of {all} hold"),
        (all, _) => {
            let missed = rows.iter().filter(|row| row.used == used && row.verdict() == RowVerdict::Misses);
            let names: Vec<&str> = missed.map(|row| row.name).collect();
            format!("{holds} of {all} hold; misses: {}", names.join(", "))
        }
    }
}
