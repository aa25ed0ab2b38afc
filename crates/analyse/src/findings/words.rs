//! Numbers, amounts and shell words in the sentences of findings.

use quell_trace::Bytes;
use quell_trace::path::escape;

/// `12345` as `12 345`.
pub(super) fn number(number: u64) -> String {
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

/// A number with what it counts: `1 file`, `2 files`. Plurals in `y` become `ies`.
pub(super) fn count(amount: u64, what: &str) -> String {
    match (amount, what.strip_suffix("ry")) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{} {stem}ries", number(amount)),
        (_, None) => format!("{} {what}s", number(amount)),
    }
}

/// An amount of data with three digits that count.
pub(super) fn bytes(amount: Bytes) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..UNITS.len()).find(|&power| amount.0 as f64 / 1024f64.powi(power as i32) < 999.5);
    let power = power.unwrap_or(UNITS.len() - 1);
    let value = amount.0 as f64 / 1024f64.powi(power as i32);
    match power {
        0 => format!("{} B", amount.0),
        _ if value < 9.995 => format!("{value:.2} {}", UNITS[power]),
        _ if value < 99.95 => format!("{value:.1} {}", UNITS[power]),
        _ => format!("{} {}", number(value.round() as u64), UNITS[power]),
    }
}

/// An amount as `lfs` takes it: `1m`, `32m`.
pub(super) fn lfs_size(amount: Bytes) -> String {
    format!("{}m", amount.0.div_ceil(1 << 20).max(1))
}

/// Bytes as a word for a shell. What is not printable text is written as `$'\xNN'`, which bash, zsh and ksh read.
pub(super) fn quoted(bytes: &[u8]) -> String {
    let text = escape(bytes);
    if text.as_bytes() != bytes {
        let byte = |&byte: &u8| match byte {
            b'\'' | b'\\' => format!("\\{}", byte as char),
            b' '..=b'~' => char::from(byte).to_string(),
            _ => format!("\\x{byte:02x}"),
        };
        return format!("$'{}'", bytes.iter().map(byte).collect::<String>());
    }
    let plain = |character: char| character.is_alphanumeric() || "/._-+,=:@%".contains(character);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// A command as it could be typed again.
pub(super) fn command(arguments: &[String]) -> String {
    arguments.iter().map(|argument| quoted(argument.as_bytes())).collect::<Vec<_>>().join(" ")
}

/// The last component of a path or of a program's name.
pub(super) fn last(path: &[u8]) -> &[u8] {
    path.rsplit(|&byte| byte == b'/').next().unwrap_or(path)
}

/// The directory of a path.
pub(super) fn directory(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => &path[..slash.max(1)],
        None => b"",
    }
}

/// True where `path` is `directory` or lies below it.
pub(super) fn is_within(path: &[u8], directory: &[u8]) -> bool {
    let directory = directory.strip_suffix(b"/").unwrap_or(directory);
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_so_that_a_shell_reads_the_same_bytes() {
        for (bytes, expected) in [
            (&b"/a/b.c"[..], "/a/b.c"),
            (b"a b", "'a b'"),
            (b"it's", r"'it'\''s'"),
            (b"", "''"),
            (b"/a\xff'\n", r"$'/a\xff\'\x0a'"),
            (b"$(rm)", "'$(rm)'"),
        ] {
            assert_eq!(quoted(bytes), expected);
        }
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(count(1, "file"), "1 file");
        assert_eq!(count(12_345, "file"), "12 345 files");
        assert_eq!(count(2, "directory"), "2 directories");
        assert_eq!(bytes(Bytes(97 << 30)), "97.0 GiB");
        assert_eq!(bytes(Bytes(80)), "80 B");
        assert_eq!(lfs_size(Bytes(1 << 25)), "32m");
    }

    #[test]
    fn a_path_is_within_its_directory_and_not_within_a_namesake() {
        assert!(is_within(b"/a/b", b"/a") && is_within(b"/a", b"/a") && is_within(b"/a", b"/"));
        assert!(!is_within(b"/ab", b"/a"));
        assert_eq!((directory(b"/a"), directory(b"/a/b"), last(b"/a/b")), (&b"/"[..], &b"/a"[..], &b"b"[..]));
    }
}
