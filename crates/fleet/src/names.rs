//! The names in a data set that are quell's. Every other name is foreign: it is neither merged nor removed, and no query has it.

use std::ffi::OsStr;

/// True for a file that quell wrote: 32 hexadecimal digits.
pub(crate) fn is_ours(name: &OsStr) -> bool {
    let digits = name.to_str().and_then(|name| name.strip_suffix(".parquet"));
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// True for the hidden name that a file of quell has before it appears. Source: `quell_base::files::OutputFile`.
pub(crate) fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_str().and_then(|name| name.strip_prefix('.')?.strip_suffix(".part"));
    name.is_some_and(|name| name.get(..LENGTH).is_some_and(|file| is_ours(OsStr::new(file))))
}

/// The name of a day's directory, `day=2026-11-24`, if it is one and the day exists.
pub(crate) fn day(name: &OsStr) -> Option<&str> {
    let name = name.to_str()?;
    let day = name.strip_prefix("day=")?;
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    if day.len() != 10 || !day.bytes().enumerate().all(shape) {
        return None;
    }
    let number = |range: std::ops::Range<usize>| day[range].parse::<u32>().ok();
    let (year, month, date) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 => 28 + u32::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&date).then_some(name)
}

/// Bytes of a file's name.
const LENGTH: usize = 32 + ".parquet".len();

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn only_names_that_quell_gives_are_its_own() {
        let file = format!("{}.parquet", "f".repeat(32));
        assert!(is_ours(OsStr::new(&file)) && day(OsStr::new("day=2024-02-29")).is_some());
        assert!(is_unfinished(OsStr::new(&format!(".{file}.7.0.part"))));
        for name in [
            "f.parquet",
            "'.parquet",
            "part-0.parquet",
            &format!("{}'.parquet", "f".repeat(31)),
            ".x.part",
            &format!(".{file}"),
            &"f".repeat(32),
        ] {
            assert!(!is_ours(OsStr::new(name)) && !is_unfinished(OsStr::new(name)), "{name}");
        }
        assert!(!is_ours(OsStr::from_bytes(b"\xff.parquet")));
    }

    #[test]
    fn only_dates_are_days() {
        for name in [
            "day=2023-11-1'",
            "day=2023-11-140",
            "2023-11-14",
            "day=",
            "day=..........",
            "day=20231-1-14",
            "day=2023-02-29",
            "day=2023-13-01",
            "day=2023-11-00",
            "day=9999-99-99",
            "day=__HIVE_DEFAULT_PARTITION__",
        ] {
            assert!(day(OsStr::new(name)).is_none(), "{name}");
        }
    }
}
