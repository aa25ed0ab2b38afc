//! A list of directories in the order of search.

use super::book::EntryId;
use super::tree::{PathNode, PathNodes, trimmed};
use std::sync::Arc;

/// An entry of a list that some path of the recording leads to; what no path leads to was never probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListPlace {
    pub(super) node: PathNode,
    pub(super) entry: EntryId,
    /// Its place in its list, from 0.
    pub(super) position: u32,
}

/// Shape: in the order of search.
pub(super) type SearchOrder = Arc<[ListPlace]>;

/// The list that a variable holds, its elements separated by one of `separators`; `entry` gives each its number.
/// An empty element is the working directory.
pub(super) fn parse(
    value: &str,
    separators: &[char],
    tree: &PathNodes<'_>,
    mut entry: impl FnMut(&[u8]) -> EntryId,
) -> SearchOrder {
    let mut places: Vec<ListPlace> = Vec::new();
    for (position, element) in value.split(separators).enumerate() {
        let text = if element.is_empty() { "." } else { element };
        let Some(node) = tree.find(text.as_bytes()) else { continue };
        // An entry that stands there again is asked again by some searches, and costs what it costs at its first place.
        let first = places.iter().find(|place| place.node == node).map(|place| (place.entry, place.position));
        let (entry, position) = first.unwrap_or_else(|| (entry(trimmed(text.as_bytes())), position as u32));
        places.push(ListPlace { node, entry, position });
    }
    places.into()
}

/// A path with `.`, `..` and repeated slashes worked out by its text alone.
pub(super) fn plain(path: &[u8]) -> Vec<u8> {
    let absolute = path.first() == Some(&b'/');
    let mut parts: Vec<&[u8]> = Vec::new();
    for part in path.split(|&byte| byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." if absolute || parts.last().is_some_and(|last| *last != b"..") => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    let joined = parts.join(&b'/');
    match (absolute, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn dots_are_worked_out() {
        for (given, expected) in [
            ("/a/../b", "/b"),
            ("/a/b/../../c.libs/", "/c.libs"),
            ("/../a//b", "/a/b"),
            ("./a", "a"),
            ("../../a", "../../a"),
            (".", "."),
            ("/", "/"),
        ] {
            assert_eq!(plain(given.as_bytes()), expected.as_bytes(), "{given}");
        }
    }
}
