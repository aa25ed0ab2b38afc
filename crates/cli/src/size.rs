//! Sizes as people type them: `500M`, `2G`, `1048576`.

use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WANTED: &str = "a size is a number of bytes, or one with K, M, G or T behind it";
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
            "" | "B" => 0,
            "K" | "KB" | "KIB" => 10,
            "M" | "MB" | "MIB" => 20,
            "G" | "GB" | "GIB" => 30,
            "T" | "TB" | "TIB" => 40,
            _ => return Err(WANTED),
        };
        let number: u64 = digits.parse().map_err(|_| WANTED)?;
        number.checked_mul(1 << shift).map(Self).ok_or("that many bytes do not exist")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_of_1024() {
        for (text, bytes) in
            [("0", 0), ("17", 17), ("2k", 2048), ("500M", 500 << 20), ("1GiB", 1 << 30), ("3T", 3 << 40)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "G", "-1", "1.5G", "1 G", "10X", "99999999T", "ü"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
