//! Spans of time as people type them: `90s`, `10m`, `2h`, `1d`, or a number of seconds.

use std::fmt;
use std::str::FromStr;

/// A number of seconds, at most a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(pub u64);

/// The most that is accepted.
const DAY: u64 = 24 * 3600;

impl FromStr for Seconds {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = seconds(text)?;
        if seconds <= DAY { Ok(Self(seconds)) } else { Err("a day is the longest") }
    }
}

fn seconds(text: &str) -> Result<u64, &'static str> {
    const WANTED: &str = "a time is a number of seconds, or one with s, m, h or d behind it";
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => DAY,
        _ => return Err(WANTED),
    };
    digits.parse::<u64>().map_err(|_| WANTED)?.checked_mul(unit).ok_or(WANTED)
}

/// A number of seconds, as long as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Days(pub u64);

impl FromStr for Days {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        seconds(text).map(Self)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(3600, "hour"), (60, "minute")];
        let whole = units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit));
        let (unit, name) = whole.unwrap_or((1, "second"));
        let number = self.0 / unit;
        write!(formatter, "{number} {name}{}", if number == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, seconds, said) in [
            ("0", 0, "0 seconds"),
            ("90", 90, "90 seconds"),
            ("60s", 60, "1 minute"),
            ("10m", 600, "10 minutes"),
            ("2h", 7200, "2 hours"),
            ("1d", DAY, "24 hours"),
        ] {
            assert_eq!(text.parse(), Ok(Seconds(seconds)));
            assert_eq!(Seconds(seconds).to_string(), said);
        }
        for text in ["", "m", "-1", "1.5h", "2d", "1 h", "99999999999999999999", "10M"] {
            assert!(text.parse::<Seconds>().is_err(), "{text}");
        }
    }
}
