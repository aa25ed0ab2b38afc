//! Numbers, amounts and shell words in the sentences of findings.

use quell_base::Bytes;
pub(super) use quell_base::number::{counted as count, grouped as number, size as bytes};
pub(super) use quell_base::shell::{command, quoted};

/// An amount as `lfs` takes it: `1m`, `32m`.
pub(super) fn lfs_size(amount: Bytes) -> String {
    format!("{}m", amount.0.div_ceil(1 << 20).max(1))
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
    fn lfs_takes_whole_mebibytes() {
        assert_eq!(lfs_size(Bytes(1 << 25)), "32m");
        assert_eq!(lfs_size(Bytes(1)), "1m");
    }

    #[test]
    fn a_path_is_within_its_directory_and_not_within_a_namesake() {
        assert!(is_within(b"/a/b", b"/a") && is_within(b"/a", b"/a") && is_within(b"/a", b"/"));
        assert!(!is_within(b"/ab", b"/a"));
        assert_eq!((directory(b"/a"), directory(b"/a/b"), last(b"/a/b")), (&b"/"[..], &b"/a"[..], &b"b"[..]));
    }
}
