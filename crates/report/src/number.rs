//! Numbers as people read them: grouped, with units, without false precision.

use quell_trace::{Bytes, Nanos};

/// Stands between the parts of one number, so that no line is broken there; [`crate::text`] makes it a space. No
/// text holds it, because control characters are escaped.
pub(crate) const GLUE: char = '\u{1}';

/// `12345` as `12 345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(GLUE);
        }
        text.push(digit);
    }
    text
}

/// [`grouped`] below a million; above, three digits that count: `2.67 million`.
pub(crate) fn rounded(number: u64) -> String {
    const SCALES: [(u64, &str); 3] =
        [(1_000_000_000_000, "trillion"), (1_000_000_000, "billion"), (1_000_000, "million")];
    match SCALES.iter().find(|(scale, _)| number >= *scale) {
        Some((scale, word)) => format!("{}{GLUE}{word}", three_digits(number as f64 / *scale as f64)),
        None => grouped(number),
    }
}

/// [`grouped`], and nothing for zero: as strace shows errors.
pub(crate) fn grouped_or_blank(number: u64) -> String {
    if number == 0 { String::new() } else { grouped(number) }
}

/// A number with what it counts, as `1 path` or `2 paths`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(number))
}

/// A count as such; anything else with one decimal.
pub(crate) fn decimal(value: f64) -> String {
    if value.fract() == 0.0 { grouped(value as u64) } else { format!("{value:.1}") }
}

/// Cores that a node has for its processes: less than their number where they slow each other down.
pub(crate) fn cores(cores: f64) -> String {
    let plural = if cores == 1.0 { "" } else { "s" };
    format!("{} core{plural}", decimal(cores))
}

/// A figure of a profile in its own unit: a count as such, anything else with three decimals.
pub(crate) fn figure(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 { grouped(value as u64) } else { format!("{value:.3}") }
}

/// The difference with its sign.
pub(crate) fn difference(from: u64, to: u64) -> String {
    match to.cmp(&from) {
        std::cmp::Ordering::Less => format!("-{}", grouped(from - to)),
        std::cmp::Ordering::Equal => "0".into(),
        std::cmp::Ordering::Greater => format!("+{}", grouped(to - from)),
    }
}

/// How many times fewer or more.
pub(crate) fn ratio(from: u64, to: u64) -> String {
    match (from, to) {
        _ if from == to => "same".into(),
        (_, 0) => "none left".into(),
        (0, _) => "new".into(),
        _ if from.abs_diff(to).saturating_mul(NEARLY) < from => "nearly the same".into(),
        _ if to < from => format!("{} times fewer", times(from, to)),
        _ => format!("{} times more", times(to, from)),
    }
}

/// One part of so many is no difference worth a ratio: it would read `1.0 times`.
const NEARLY: u64 = 20;

fn times(large: u64, small: u64) -> String {
    let times = large as f64 / small as f64;
    if times < 10.0 { format!("{times:.1}") } else { grouped(times.round() as u64) }
}

/// A share of the whole. What is there is never `0 %`, and what is not all is never `100 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    match share.round() as u64 {
        0 if part > 0 => format!("<1{GLUE}%"),
        100.. if part < whole => format!(">99{GLUE}%"),
        rounded => format!("{rounded}{GLUE}%"),
    }
}

/// A time with three digits that count.
pub(crate) fn duration(time: Nanos) -> String {
    let seconds = time.as_seconds();
    let (value, unit) = match time.0 {
        0..1_000 => (time.0 as f64, "ns"),
        1_000..1_000_000 => (seconds * 1e6, "us"),
        1_000_000..1_000_000_000 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    format!("{}{GLUE}{unit}", three_digits(value))
}

/// A length of time that is given in seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    duration(nanos(seconds))
}

/// The time behind a number of seconds: what [`Nanos::as_seconds`] made of it comes back exactly.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

/// An amount of data with three digits that count.
pub(crate) fn bytes(amount: Bytes) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // 1000 KiB is shown as 0.98 MiB, so that three digits are enough.
    let power = (0..UNITS.len()).find(|&power| amount.0 as f64 / 1024f64.powi(power as i32) < 999.5);
    let power = power.unwrap_or(UNITS.len() - 1);
    let value = amount.0 as f64 / 1024f64.powi(power as i32);
    let digits = if power == 0 { amount.0.to_string() } else { three_digits(value) };
    format!("{digits}{GLUE}{}", UNITS[power])
}

/// Operations a second, rounded: beyond three digits it is noise.
pub(crate) fn rate(per_second: f64) -> String {
    let scale = 10f64.powi((per_second.max(1.0).log10().floor() as i32 - 2).max(0));
    grouped(((per_second / scale).round() * scale) as u64)
}

fn three_digits(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2}"),
        value if value < 99.95 => format!("{value:.1}"),
        value => grouped(value.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(GLUE, " ")
    }

    #[test]
    fn numbers_are_grouped_by_three_from_the_right() {
        for (number, expected) in [(0, "0"), (999, "999"), (12_345, "12 345"), (1_000_000, "1 000 000")] {
            assert_eq!(plain(grouped(number)), expected);
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
            assert_eq!(plain(rounded(number)), expected);
        }
    }

    #[test]
    fn ratios_say_what_a_reader_asks() {
        for (from, to, expected) in [
            (9120, 10, "912 times fewer"),
            (3, 2, "1.5 times fewer"),
            (10, 25_000, "2 500 times more"),
            (7, 0, "none left"),
            (0, 7, "new"),
            (0, 0, "same"),
            (185, 184, "nearly the same"),
        ] {
            assert_eq!(plain(ratio(from, to)), expected);
        }
    }

    #[test]
    fn a_part_is_neither_nothing_nor_all() {
        for (part, whole, expected) in
            [(0, 0, "0 %"), (0, 9, "0 %"), (1, 9000, "<1 %"), (8999, 9000, ">99 %"), (1, 3, "33 %")]
        {
            assert_eq!(plain(percent(part, whole)), expected);
        }
    }

    #[test]
    fn units_keep_three_digits() {
        for (time, expected) in
            [(0, "0.00 ns"), (1_500, "1.50 us"), (214_400_000, "214 ms"), (3_600_000_000_000, "3 600 s")]
        {
            assert_eq!(plain(duration(Nanos(time))), expected);
        }
        for (amount, expected) in
            [(0, "0 B"), (999, "999 B"), (1023, "1.00 KiB"), (1 << 20, "1.00 MiB"), (u64::MAX, "16.0 EiB")]
        {
            assert_eq!(plain(bytes(Bytes(amount))), expected);
        }
        assert_eq!(plain(rate(68_571.4)), "68 600");
        assert_eq!(plain(rate(0.4)), "0");
    }
}
