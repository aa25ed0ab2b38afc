//! Numbers formatted for people: grouped, with units, without false precision.
//!
//! One space stands between groups of digits, and between a number and its unit.

use crate::units::{Bytes, Nanos};

/// `12345` as `12 345`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// [`grouped`] below a million; above, three significant digits: `2.67 million`.
pub fn rounded(number: u64) -> String {
    const SCALES: [(u64, &str); 3] =
        [(1_000_000_000_000, "trillion"), (1_000_000_000, "billion"), (1_000_000, "million")];
    match SCALES.iter().find(|(scale, _)| number >= *scale) {
        Some((scale, word)) => format!("{} {word}", three_digits(number as f64 / *scale as f64)),
        None => grouped(number),
    }
}

/// A number with its noun: `1 file`, `12 345 files`, `2 directories`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {}", grouped(number), noun_for(number, noun))
}

/// A noun, in the plural unless there is 1: `file`, `files`, `directories`, `processes`.
pub fn noun_for(number: u64, noun: &str) -> String {
    match (number, noun.strip_suffix("ry")) {
        (1, _) => noun.to_owned(),
        (_, Some(stem)) => format!("{stem}ries"),
        (_, None) if noun.ends_with("ss") => format!("{noun}es"),
        (_, None) => format!("{noun}s"),
    }
}

/// A time with three significant digits: `214 ms`, `1 234 s`, `2.78 h`.
pub fn duration(time: Nanos) -> String {
    let seconds = time.as_seconds();
    let (value, unit) = match time.0 {
        0 => return "0 s".into(),
        nanos @ 1..1_000 => return format!("{nanos} ns"),
        1_000..1_000_000 => (seconds * 1e6, "us"),
        1_000_000..1_000_000_000 => (seconds * 1e3, "ms"),
        1_000_000_000..10_000_000_000_000 => (seconds, "s"),
        10_000_000_000_000..172_800_000_000_000 => (seconds / 3600.0, "h"),
        _ => (seconds / 86_400.0, "days"),
    };
    format!("{} {unit}", three_digits(value))
}

/// An amount of data with three significant digits: `97.0 GiB`.
pub fn size(amount: impl Into<Bytes>) -> String {
    let Bytes(amount) = amount.into();
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // 1000 KiB is shown as 0.98 MiB, so that three digits are enough.
    let scaled = |power: usize| amount as f64 / 1024f64.powi(power as i32);
    let power = (0..UNITS.len()).find(|&power| scaled(power) < 999.5).unwrap_or(UNITS.len() - 1);
    let digits = if power == 0 { amount.to_string() } else { three_digits(scaled(power)) };
    format!("{digits} {}", UNITS[power])
}

/// Three significant digits below 1000, and a whole number from there: `9.99`, `99.9`, `999`, `1 234`.
pub fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => grouped(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped_by_three_from_the_right() {
        for (number, expected) in [(0, "0"), (999, "999"), (12_345, "12 345"), (1_000_000, "1 000 000")] {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn large_numbers_have_words() {
        for (number, expected) in [
            (999_999, "999 999"),
            (1_000_000, "1.00 million"),
            (2_674_000, "2.67 million"),
            (182_000_000_000, "182 billion"),
            (u64::MAX, "18 446 744 trillion"),
        ] {
            assert_eq!(rounded(number), expected);
        }
    }

    #[test]
    fn nouns_have_their_plural() {
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(12_345, "file"), "12 345 files");
        assert_eq!(counted(2, "directory"), "2 directories");
        assert_eq!(counted(0, "process"), "0 processes");
    }

    #[test]
    fn units_keep_three_digits() {
        for (time, expected) in [
            (0, "0 s"),
            (7, "7 ns"),
            (1_500, "1.50 us"),
            (214_400_000, "214 ms"),
            (3_600_000_000_000, "3 600 s"),
            (12_600_000_000_000, "3.50 h"),
            (345_600_000_000_000, "4.00 days"),
        ] {
            assert_eq!(duration(Nanos(time)), expected);
        }
        for (amount, expected) in [
            (0, "0 B"),
            (80, "80 B"),
            (999, "999 B"),
            (1023, "1.00 KiB"),
            (1 << 20, "1.00 MiB"),
            (97 << 30, "97.0 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(size(amount), expected);
        }
    }
}
