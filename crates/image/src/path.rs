//! Absolute paths as bytes: their components, and whether one lies below another. Pure; no file system is asked.

use crate::erofs::NAME_MAX;

/// The components of an absolute path, without empty ones.
pub fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
}

/// `name` in the directory `path`.
pub fn join(path: &[u8], name: &[u8]) -> Vec<u8> {
    let separator: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, separator, name].concat()
}

/// Directory and name of an absolute path. The root is its own directory.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/", &path[1..]),
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"/", path),
    }
}

/// Tells whether `path` is `directory` or lies below it. Both absolute, without a slash at the end but for `/`.
pub fn is_within(path: &[u8], directory: &[u8]) -> bool {
    match path.strip_prefix(directory) {
        Some(rest) => rest.is_empty() || rest[0] == b'/' || directory.ends_with(b"/"),
        None => false,
    }
}

/// Tells whether a directory entry can have this name.
pub fn is_name(name: &[u8]) -> bool {
    let length = 1..=NAME_MAX;
    length.contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, 0 | b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_means_the_same_or_below() {
        for (path, directory, expected) in [
            ("/a", "/a", true),
            ("/a/b", "/a", true),
            ("/ab", "/a", false),
            ("/a", "/", true),
            ("/", "/a", false),
        ] {
            assert_eq!(is_within(path.as_bytes(), directory.as_bytes()), expected, "{path} {directory}");
        }
    }

    #[test]
    fn paths_are_split_and_joined() {
        for (path, parent, name) in [("/a/b", "/a", "b"), ("/a", "/", "a"), ("/", "/", "")] {
            assert_eq!(split(path.as_bytes()), (parent.as_bytes(), name.as_bytes()));
        }
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
    }
}
