//! Published figures and predictions as words, the same on a terminal and on the page of the documentation.

use crate::number::{GLUE, grouped, seconds};
use crate::view::{Range, ValidationRow};
use quell_predict::published::RowUnit;

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

/// A published figure, with both ends where there are two.
pub(crate) fn published(row: &ValidationRow) -> String {
    between(row.published.low, row.published.high, row.unit_of)
}

fn between(low: f64, high: f64, unit: RowUnit) -> String {
    if low == high {
        return number(low, unit);
    }
    let (low, high) = (number(low, unit), number(high, unit));
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

/// The range of a prediction, where there is one.
pub(crate) fn range(row: &ValidationRow) -> String {
    let Range { p10, p90, .. } = row.predicted;
    if p10 == p90 { String::new() } else { between(p10, p90, row.unit_of) }
}

/// The error of the median against the middle.
pub(crate) fn error(row: &ValidationRow) -> String {
    match row.factor {
        None => String::new(),
        Some(factor) if factor >= 2.0 => format!("x{GLUE}{factor:.1}"),
        Some(factor) if factor <= 0.5 => format!("/{GLUE}{:.1}", 1.0 / factor),
        Some(factor) if (factor - 1.0).abs() < 0.0005 => format!("0{GLUE}%"),
        Some(factor) if (factor - 1.0).abs() < 0.01 => format!("{:+.1}{GLUE}%", (factor - 1.0) * 100.0),
        Some(factor) => format!("{:+.0}{GLUE}%", (factor - 1.0) * 100.0),
    }
}
