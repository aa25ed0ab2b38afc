//! The paths of a trace as a tree of names, with the use of each.

use std::collections::BTreeMap;

use quell_image::path::{components, join, split};
use quell_trace::ServedBy;

use crate::extents::UsedExtent;

/// The use of one path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PathUse {
    /// A call asked for it by name and found it.
    pub(crate) touched: bool,
    /// A call asked for it by name and did not find it.
    pub(crate) missed: bool,
    /// It was listed, or opened as a directory.
    pub(crate) entered: bool,
    /// The event that first read, mapped or executed its content, by number.
    pub(crate) read: Option<u64>,
    /// The used part of its content.
    pub(crate) extent: UsedExtent,
    /// Metadata operations that a server had to answer for it.
    pub(crate) operations: u64,
}

/// A name, its use, and the names below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PathTree {
    pub(crate) children: BTreeMap<Box<[u8]>, PathTree>,
    pub(crate) seen: PathUse,
    /// The reason why the directory stays the original, if it does.
    pub(crate) live: Option<String>,
    /// Type of the file system mounted here, if there is one.
    pub(crate) mounted: Option<String>,
    /// Number of requested paths below that an image does not list: see [`crate::requests`].
    pub(crate) unlisted: u64,
}

impl PathTree {
    /// This node alone, without its number of operations.
    pub(crate) fn without_children(&self) -> Self {
        let seen = PathUse { operations: 0, ..self.seen.clone() };
        Self {
            children: BTreeMap::new(),
            seen,
            live: self.live.clone(),
            mounted: self.mounted.clone(),
            ..*self
        }
    }

    /// The use of `path`, to be added to.
    pub(crate) fn seen(&mut self, path: &[u8]) -> &mut PathUse {
        &mut self.grow(path).seen
    }

    /// Notes that a file system of type `kind` is mounted at `path`.
    pub(crate) fn mount(&mut self, path: &[u8], kind: &str) {
        self.grow(path).mounted = Some(kind.into());
    }

    /// Makes the directory at `path` live. The first reason is kept.
    pub(crate) fn live_itself(&mut self, path: &[u8], reason: &str) {
        self.grow(path).live.get_or_insert_with(|| reason.into());
    }

    /// Makes the directory of `path` live, because of an event on the path.
    pub(crate) fn live_parent(&mut self, path: &[u8], how: &str) {
        let (parent, name) = split(path);
        let reason = format!("`{}` {how}", name.escape_ascii());
        self.grow(parent).live.get_or_insert(reason);
    }

    /// Makes the smallest directory that holds both paths live, so that the first can be renamed to the second: two live
    /// directories would be two mounts, and nothing is renamed or linked across mounts. All directories between it and the
    /// paths are live too, so that none of them becomes a root.
    pub(crate) fn live_together(&mut self, a: &[u8], b: &[u8], how: &str) {
        let (parent, name) = split(a);
        let (way, other): (Vec<_>, Vec<_>) = (components(parent).collect(), components(split(b).0).collect());
        let shared = way.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let reason = format!("`{}` {how}", name.escape_ascii());
        for way in [way, other] {
            let mut node = self.grow(&way[..shared].join(&b'/'));
            node.live.get_or_insert_with(|| reason.clone());
            for name in &way[shared..] {
                node = node.grow(name);
                node.live.get_or_insert_with(|| reason.clone());
            }
        }
    }

    /// The live directories, sorted, with the reason.
    pub(crate) fn live(&self) -> Vec<(Vec<u8>, String)> {
        let mut found = Vec::new();
        self.visit(b"/", &mut |path, node| {
            found.extend(node.live.as_ref().map(|reason| (path.to_vec(), reason.clone())));
        });
        found
    }

    /// The node at `path`, if anything is known of it.
    pub(crate) fn find(&self, path: &[u8]) -> Option<&Self> {
        components(path).try_fold(self, |node, name| node.children.get(name))
    }

    /// Type of the file system that `path` lies on.
    pub(crate) fn file_system(&self, path: &[u8]) -> Option<&str> {
        let mut node = self;
        let mut found = node.mounted.as_deref();
        for name in components(path) {
            let Some(child) = node.children.get(name) else { break };
            node = child;
            found = node.mounted.as_deref().or(found);
        }
        found
    }

    /// The mount points of network file systems, sorted.
    pub(crate) fn network_mounts(&self) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        self.visit(b"/", &mut |path, node| {
            if node.mounted.as_deref().is_some_and(|kind| ServedBy::of_type(kind) == ServedBy::Network) {
                found.push(path.to_vec());
            }
        });
        found
    }

    /// Calls `each` for this node, which lies at `path`, and every one below it, sorted.
    pub(crate) fn visit<'a>(&'a self, path: &[u8], each: &mut dyn FnMut(&[u8], &'a Self)) {
        each(path, self);
        for (name, child) in &self.children {
            child.visit(&join(path, name), each);
        }
    }

    /// Tells whether a call asked for this path or one below it.
    pub(crate) fn is_used(&self) -> bool {
        let seen = &self.seen;
        seen.touched || seen.missed || seen.entered || self.is_used_below()
    }

    /// Tells whether a call asked for a path below this one.
    pub(crate) fn is_used_below(&self) -> bool {
        self.unlisted > 0 || self.children.values().any(Self::is_used)
    }

    /// Number of paths that were asked for, this one and all below.
    pub(crate) fn count_asked(&self) -> u64 {
        let own = u64::from(self.seen.touched || self.seen.missed);
        own + self.unlisted + self.children.values().map(Self::count_asked).sum::<u64>()
    }

    /// Tells whether the recordings found nothing in this directory but directories that they went on through. Names that they
    /// looked for in vain on the way, such as `node_modules` in each parent, do not count: each is a fact of its own.
    pub(crate) fn is_passage(&self) -> bool {
        !self.seen.entered && self.children.values().all(|child| !child.seen.touched || child.is_used_below())
    }

    /// Number of names in this directory that a call asked for.
    pub(crate) fn count_names(&self) -> usize {
        self.children.values().filter(|child| child.is_used()).count()
    }

    /// The node at `path`, made if there is none.
    pub(crate) fn grow(&mut self, path: &[u8]) -> &mut Self {
        components(path).fold(self, |node, name| {
            if !node.children.contains_key(name) {
                node.children.insert(name.into(), Self::default());
            }
            node.children.entry(name.into()).or_default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_where_they_grew() {
        let mut recorded = PathTree::default();
        recorded.seen(b"/a/b").touched = true;
        recorded.live_parent(b"/a/c/out", "was written");
        recorded.mount(b"/a", "nfs4");
        assert!(recorded.find(b"/a/b").unwrap().seen.touched);
        assert_eq!(recorded.find(b"/a/c").unwrap().live.as_deref(), Some("`out` was written"));
        assert_eq!(recorded.find(b"/a/d"), None);
        assert_eq!(recorded.file_system(b"/a/d/e"), Some("nfs4"));
        assert_eq!(recorded.network_mounts(), [b"/a"]);
        assert!(recorded.is_used());
    }

    #[test]
    fn what_is_renamed_makes_all_that_lies_between_live() {
        let all: [(&str, &str, &[&str]); 3] = [
            ("/l/t/u/x", "/l/o/y", &["/l", "/l/o", "/l/t", "/l/t/u"]),
            ("/l/t/x", "/l/t/y", &["/l/t"]),
            ("/a", "/b/c", &["/", "/b"]),
        ];
        for (a, b, live) in all {
            let mut recorded = PathTree::default();
            recorded.live_together(a.as_bytes(), b.as_bytes(), "was renamed");
            let found: Vec<_> =
                recorded.live().into_iter().map(|(path, _)| String::from_utf8(path).unwrap()).collect();
            assert_eq!(found, live, "{a} {b}");
        }
    }
}
