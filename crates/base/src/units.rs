//! Numbers with a meaning: every count, time and identity that crosses a crate boundary has its own type.

use std::fmt;
use std::str::FromStr;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// A time since the recording began, or a length of time. Unit: nanoseconds of the monotonic clock.
    Nanos(u64)
}
number! {
    /// An amount of data. Unit: bytes.
    Bytes(u64)
}
number! {
    /// A process or thread number as the kernel assigned it. The kernel reuses numbers.
    Pid(i32)
}
number! {
    /// A process of a recording. Range: index into its table of processes; never used twice.
    ProcessId(u32)
}
number! {
    /// A thread of a recording. Range: index into its table of threads; never used twice.
    ThreadId(u32)
}
number! {
    /// A rank of a parallel job, from 0.
    RankId(u32)
}
number! {
    /// A node of a parallel job, from 0, as the launcher numbers them.
    NodeId(u32)
}

impl Nanos {
    /// This time in seconds.
    pub fn as_seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The time from `earlier` to this one; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl From<u64> for Bytes {
    fn from(amount: u64) -> Self {
        Self(amount)
    }
}

/// Reads a size as users type it: `500M`, `2G`, `1048576`. Units are powers of 1024.
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
        for text in ["", "G", "-1", "1.5G", "1 G", "10X", "99999999T", "\u{fc}"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }
}
