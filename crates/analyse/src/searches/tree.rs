//! The paths of a recording as a tree of names: which directory a path is in costs one look into a vector.
//!
//! Texts are as the programs passed them: `a/../b` and `b` are two nodes, because a list is known by its text.

use quell_trace::{Event, PathId, PathTable};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Paths longer than this are no paths: the kernel refuses them. Source: `PATH_MAX`, `limits.h`.
const LONGEST: usize = 4096;

/// A path of the recording, or a directory on the way to one. Range: index into its [`PathNodes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct PathNode(u32);

impl PathNode {
    /// No path at all.
    pub(super) const NONE: Self = Self(u32::MAX);
}

/// A map by node.
pub(super) type NodeMap<V> = HashMap<PathNode, V, BuildHasherDefault<NodeHasher>>;

/// Spreads the bits of one small number; quell numbers the nodes, so no input can make them collide.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NodeHasher(u64);

impl Hasher for NodeHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u32(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// Every path of a recording and every directory on the way.
#[derive(Debug)]
pub(super) struct PathNodes<'a> {
    /// Shape: one entry a node; without slashes at the end, but for the root.
    texts: Vec<&'a [u8]>,
    /// Shape: one entry a node; [`PathNode::NONE`] for the root and for relative names.
    parents: Vec<PathNode>,
    nodes: HashMap<&'a [u8], PathNode>,
    /// Shape: one entry a path.
    of_path: Vec<PathNode>,
}

impl<'a> PathNodes<'a> {
    pub(super) fn new(paths: &'a PathTable) -> Self {
        let mut tree = Self {
            texts: Vec::with_capacity(paths.len()),
            parents: Vec::with_capacity(paths.len()),
            nodes: HashMap::with_capacity(paths.len()),
            of_path: Vec::with_capacity(paths.len()),
        };
        for (_, text) in paths.iter() {
            let node =
                if text.is_empty() || text.len() > LONGEST { PathNode::NONE } else { tree.insert(text) };
            tree.of_path.push(node);
        }
        tree
    }

    fn insert(&mut self, text: &'a [u8]) -> PathNode {
        let mut new = Vec::new();
        let mut above = Some(trimmed(text));
        let mut parent = PathNode::NONE;
        while let Some(text) = above {
            if let Some(&known) = self.nodes.get(text) {
                parent = known;
                break;
            }
            new.push(text);
            above = directory(text);
        }
        for text in new.into_iter().rev() {
            let node = PathNode(self.texts.len() as u32);
            self.texts.push(text);
            self.parents.push(parent);
            self.nodes.insert(text, node);
            parent = node;
        }
        parent
    }

    /// The node of a text, if any path of the recording led there.
    pub(super) fn find(&self, text: &[u8]) -> Option<PathNode> {
        self.nodes.get(trimmed(text)).copied()
    }

    pub(super) fn of_path(&self, path: Option<PathId>) -> PathNode {
        path.and_then(|path| self.of_path.get(path.0 as usize).copied()).unwrap_or(PathNode::NONE)
    }

    /// True for a call with a name; an empty name stands for the descriptor, as `fstat` passes it.
    pub(super) fn is_named(&self, event: &Event) -> bool {
        self.of_path(event.path) != PathNode::NONE
    }

    /// The path of a call: as it was passed when that is absolute, else as it was resolved.
    pub(super) fn asked(&self, event: &Event) -> PathNode {
        let given = self.of_path(event.path);
        if self.is_absolute(given) { given } else { self.of_path(event.target) }
    }

    pub(super) fn is_absolute(&self, node: PathNode) -> bool {
        self.text(node).first() == Some(&b'/')
    }

    /// Empty for no node.
    pub(super) fn text(&self, node: PathNode) -> &'a [u8] {
        self.texts.get(node.0 as usize).copied().unwrap_or_default()
    }

    /// The directory that a name is in.
    pub(super) fn parent(&self, node: PathNode) -> PathNode {
        self.parents.get(node.0 as usize).copied().unwrap_or(PathNode::NONE)
    }

    /// The last component.
    pub(super) fn name(&self, node: PathNode) -> &'a [u8] {
        let text = self.text(node);
        match text.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => &text[slash + 1..],
            None => text,
        }
    }

    /// The rest of a path behind a directory; empty when the path is not below it.
    pub(super) fn below(&self, directory: PathNode, node: PathNode) -> &'a [u8] {
        let rest = self.text(node).strip_prefix(self.text(directory)).unwrap_or_default();
        let slashes = rest.iter().take_while(|&&byte| byte == b'/').count();
        &rest[slashes..]
    }

    /// The node itself, its directory, and so on up to the root.
    pub(super) fn upwards(&self, node: PathNode) -> impl Iterator<Item = PathNode> {
        let next = |node: &PathNode| Some(self.parent(*node)).filter(|node| *node != PathNode::NONE);
        std::iter::successors(Some(node).filter(|node| *node != PathNode::NONE), next)
    }

    /// Every node.
    pub(super) fn nodes(&self) -> impl Iterator<Item = PathNode> + use<'a> {
        (0..self.texts.len() as u32).map(PathNode)
    }
}

/// Without the slashes at its end, but for the root.
pub(super) fn trimmed(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
    &text[..end.min(text.len())]
}

/// The text of the directory that a trimmed text is in.
fn directory(text: &[u8]) -> Option<&[u8]> {
    let slash = text.iter().rposition(|&byte| byte == b'/')?;
    if text == b"/" { None } else { Some(trimmed(&text[..slash.max(1)])) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_found_by_number() {
        let mut paths = PathTable::default();
        let ids =
            ["/a/b/c", "/a/b/", "x", "./x", "/", "", "/a//b/c"].map(|path| paths.intern(path.as_bytes()));
        let tree = PathNodes::new(&paths);
        let node = |index: usize| tree.of_path(Some(ids[index]));
        assert_eq!(tree.parent(node(0)), node(1));
        assert_eq!((tree.text(node(1)), tree.name(node(0))), (&b"/a/b"[..], &b"c"[..]));
        assert_eq!((tree.parent(node(2)), node(5)), (PathNode::NONE, PathNode::NONE));
        assert_eq!(tree.text(tree.parent(node(3))), b".");
        assert_eq!((tree.parent(node(4)), tree.name(node(4))), (PathNode::NONE, &b""[..]));
        assert_eq!(tree.text(tree.parent(node(6))), b"/a//b");
        assert_eq!(tree.below(node(4), node(0)), b"a/b/c");
        assert_eq!(tree.upwards(node(0)).map(|node| tree.text(node).len()).collect::<Vec<_>>(), [6, 4, 2, 1]);
    }

    #[test]
    fn what_is_too_long_for_a_path_is_none() {
        let mut paths = PathTable::default();
        let long = paths.intern(&b"/a".repeat(LONGEST));
        assert_eq!(PathNodes::new(&paths).of_path(Some(long)), PathNode::NONE);
    }
}
