//! The files that are buffered, and how.

use serde::{Deserialize, Serialize};

/// The buffers of files whose names match.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferRule {
    /// A pattern of names below the directory; `None` for all. `*` and `?` stand for bytes of one name, not for `/`.
    pub pattern: Option<Vec<u8>>,
    /// Bytes of a buffer, which begins at a multiple of it. **Range** a power of two, 64 KiB to 64 MiB.
    pub size: u32,
    /// Buffers of a file. **Range** 1 to 1024.
    pub count: u32,
    /// Buffers that are read with the one that is asked for, where a file is read in order.
    pub ahead: u32,
}

impl BufferRule {
    /// True for a path below the directory.
    pub(super) fn matches(&self, path: &[u8]) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| is_match(pattern, path))
    }
}

/// Tells whether a name matches a pattern of `*`, `?` and other bytes.
pub(super) fn is_match(pattern: &[u8], name: &[u8]) -> bool {
    match (pattern.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => {
            let longest = name.iter().position(|&byte| byte == b'/').unwrap_or(name.len());
            (0..=longest).any(|taken| is_match(rest, &name[taken..]))
        }
        (Some((b'?', rest)), Some((byte, left))) => *byte != b'/' && is_match(rest, left),
        (Some((wanted, rest)), Some((byte, left))) => wanted == byte && is_match(rest, left),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names() {
        for (pattern, name, matches) in [
            ("*.dat", "a.dat", true),
            ("*.dat", ".dat", true),
            ("*.dat", "sub/a.dat", false),
            ("*/r?.dat", "sub/r1.dat", true),
            ("r?", "r/", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("", "a", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), name.as_bytes()), matches, "{pattern} {name}");
        }
    }
}
