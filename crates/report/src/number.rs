//! Numbers as people read them: grouped, with units, without false precision.

use quell_trace::{Bytes, Nanos};

/// Stands between the parts of one number, so that no line is broken there; [`crate::text`] makes it a space. No
/// text holds it, because control characters are escaped.
pub(crate) const GLUE: char = '\u{1}';

/// Joins the parts of one number, and a number with its unit.
fn unbroken(text: &str) -> String {
    text.replace(' ', "\u{1}")
}

/// See [`quell_base::number::grouped`].
pub(crate) fn grouped(number: u64) -> String {
    unbroken(&quell_base::number::grouped(number))
}

/// See [`quell_base::number::rounded`].
pub(crate) fn rounded(number: u64) -> String {
    unbroken(&quell_base::number::rounded(number))
}

/// [`grouped`], and nothing for zero: as strace shows errors.
pub(crate) fn grouped_or_blank(number: u64) -> String {
    if number == 0 { String::new() } else { grouped(number) }
}

/// A number with what it counts, as `1 path` or `2 paths`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {}", grouped(number), quell_base::number::noun_for(number, what))
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

/// The factor between two counts, in words.
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

/// See [`quell_base::number::duration`].
pub(crate) fn duration(time: Nanos) -> String {
    unbroken(&quell_base::number::duration(time))
}

/// A length of time that is given in seconds.
pub(crate) fn seconds(seconds: f64) -> String {
    duration(nanos(seconds))
}

/// A time of which only the size means anything.
pub(crate) fn rough(value: f64) -> String {
    let (value, unit) = match value {
        value if value < 90.0 => (value, "s"),
        value if value < 5400.0 => (value / 60.0, "min"),
        value if value < 172_800.0 => (value / 3600.0, "h"),
        value => (value / 86_400.0, "days"),
    };
    match value {
        value if value < 9.95 => format!("{value:.1}{GLUE}{unit}"),
        value => format!("{}{GLUE}{unit}", grouped(value.round() as u64)),
    }
}

/// The time behind a number of seconds: what [`Nanos::as_seconds`] made of it comes back exactly.
pub(crate) fn nanos(seconds: f64) -> Nanos {
    Nanos((seconds * 1e9).round() as u64)
}

/// See [`quell_base::number::size`].
pub(crate) fn bytes(amount: Bytes) -> String {
    unbroken(&quell_base::number::size(amount))
}

/// Operations a second, rounded: beyond three digits it is noise.
pub(crate) fn rate(per_second: f64) -> String {
    let scale = 10f64.powi((per_second.max(1.0).log10().floor() as i32 - 2).max(0));
    grouped(((per_second / scale).round() * scale) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: String) -> String {
        text.replace(GLUE, " ")
    }

    #[test]
    fn no_line_breaks_inside_a_number() {
        let texts =
            [grouped(12_345), rounded(2_674_000), duration(Nanos(214_400_000)), bytes(Bytes(97 << 30))];
        assert_eq!(texts.map(plain), ["12 345", "2.67 million", "214 ms", "97.0 GiB"]);
        assert!(!grouped(12_345).contains(' ') && !bytes(Bytes(1)).contains(' '));
    }

    #[test]
    fn a_rough_time_is_not_further_off_than_its_last_digit() {
        for (seconds, expected) in [
            (0.0, "0.0 s"),
            (88.4, "88 s"),
            (100.2, "1.7 min"),
            (123.1, "2.1 min"),
            (597.1, "10 min"),
            (7300.0, "2.0 h"),
            (172_800.0, "2.0 days"),
            (6.7e14, "7 754 629 630 days"),
        ] {
            assert_eq!(plain(rough(seconds)), expected);
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
    fn rates_keep_three_digits() {
        assert_eq!(plain(rate(68_571.4)), "68 600");
        assert_eq!(plain(rate(0.4)), "0");
    }
}
