//! The names of a recording on the shared file system, and the walk of a path over them.

use quell_trace::{Context, MountId, PathTable, ServedBy};
use std::borrow::Borrow;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// A name on the tree. Range: index into the names of a [`super::StartScript`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

/// The choice of the shared file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Roots {
    /// All that a network file system served, by the trace.
    Served,
    /// All below these directories, whatever served it when it was recorded.
    Below {
        /// Absolute.
        directories: Vec<Vec<u8>>,
        /// Names between each of them and the mount point, on the file system that is predicted.
        depth: u32,
    },
}

/// The names that paths led over.
#[derive(Debug)]
pub(super) struct WorkloadTree<'a> {
    mounts: Vec<(Vec<u8>, bool)>,
    network: HashSet<MountId>,
    /// Names above each top. Shape: first the mount point, empty where the top is that itself.
    above: u32,
    links: HashMap<&'a [u8], Vec<u8>>,
    ids: HashMap<SharedPath, NameId>,
    pub(super) names: Vec<TreeName>,
}

/// A path: the beginning of a longer one, so that the names on the way to a file share the bytes of its path.
#[derive(Clone, Debug)]
pub(super) struct SharedPath {
    whole: Rc<[u8]>,
    end: usize,
}

impl SharedPath {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.whole[..self.end]
    }
}

impl Borrow<[u8]> for SharedPath {
    fn borrow(&self) -> &[u8] {
        self.bytes()
    }
}

impl PartialEq for SharedPath {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for SharedPath {}

impl Hash for SharedPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bytes().hash(state);
    }
}

/// A name.
#[derive(Clone, Debug)]
pub(super) struct TreeName {
    /// Absolute.
    pub(super) path: SharedPath,
    /// The directory that it lies in, as long as that is on the tree.
    pub(super) parent: Option<NameId>,
    /// It is a symbolic link, as far as the recording tells.
    pub(super) is_link: bool,
    /// It is the top of a tree: no lookup leads to it.
    pub(super) is_top: bool,
    /// Something lies in it, or it was listed.
    pub(super) is_directory: bool,
    /// It was there at some time.
    pub(super) exists: bool,
    /// Its size, where the recording tells.
    pub(super) pages: Option<u32>,
}

impl TreeName {
    /// A name of which nothing else is known.
    fn new(path: SharedPath) -> Self {
        Self {
            path,
            parent: None,
            is_link: false,
            is_top: false,
            is_directory: false,
            exists: false,
            pages: None,
        }
    }
}

impl<'a> WorkloadTree<'a> {
    pub(super) fn new(paths: &'a PathTable, context: &Context, roots: &Roots) -> Self {
        let links =
            context.links.iter().map(|link| (paths.bytes(link.path), link.target.clone().into_bytes()));
        let network =
            context.mounts.iter().enumerate().filter(|(_, mount)| mount.served_by() == ServedBy::Network);
        Self {
            mounts: mounts(context, roots),
            above: if let Roots::Below { depth, .. } = roots { *depth } else { 0 },
            network: network.map(|(number, _)| MountId(u16::try_from(number).unwrap_or(u16::MAX))).collect(),
            links: links.collect(),
            ids: HashMap::new(),
            names: Vec::new(),
        }
    }

    /// True if a path lies on the tree, its top included.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        self.mount_of(path).is_some()
    }

    /// True if a network file system served this when it was recorded.
    pub(super) fn was_network(&self, mount: Option<MountId>) -> bool {
        mount.is_some_and(|mount| self.network.contains(&mount))
    }

    /// The top of the tree that a path lies on. The deepest mount decides.
    fn mount_of(&self, path: &[u8]) -> Option<&[u8]> {
        let above = self.mounts.iter().filter(|(top, _)| is_below(path, top));
        let (top, serves) = above.max_by_key(|(top, _)| top.len())?;
        serves.then_some(top.as_slice())
    }

    /// The name of a path, after those on the way to it from the top; `None` off the tree, and for a path that no kernel takes.
    pub(super) fn name(&mut self, path: &[u8]) -> Option<NameId> {
        if let Some(known) = self.ids.get(path) {
            return Some(*known);
        }
        let top = self.mount_of(path).filter(|_| path.len() <= LONGEST_PATH)?.len();
        let whole: Rc<[u8]> = path.into();
        let first = if self.above == 0 { top } else { 0 };
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
        let ends: Vec<usize> = slashes.filter(|end| *end >= first).chain([path.len()]).collect();
        let known = |index: &usize| self.ids.contains_key(&path[..ends[*index]]);
        let begin = (0..ends.len()).rev().find(known);
        let mut parent = begin.map(|index| self.ids[&path[..ends[index]]]);
        for end in &ends[begin.map_or(0, |index| index + 1)..] {
            parent = self.next(parent, SharedPath { whole: Rc::clone(&whole), end: *end });
        }
        parent
    }

    /// The new name of a path whose parent has this name; `None` off the tree.
    fn next(&mut self, parent: Option<NameId>, path: SharedPath) -> Option<NameId> {
        let is_top = self.mount_of(path.bytes())? == path.bytes() && self.above == 0;
        let is_link = self.links.contains_key(path.bytes());
        Some(self.add(TreeName { parent, is_top, is_link, ..TreeName::new(path) }))
    }

    fn add(&mut self, name: TreeName) -> NameId {
        let id = NameId(self.names.len() as u32);
        self.ids.insert(name.path.clone(), id);
        self.names.push(name);
        id
    }

    /// The names above a top that lies below its mount point: made up, as the recording was made elsewhere. They are
    /// absolute paths of nothing, since a name holds no `/`.
    fn names_above(&mut self) -> Vec<NameId> {
        let known = |tree: &mut Self, number: u32| {
            let path = format!("above/{number}").into_bytes();
            let path = SharedPath { end: path.len(), whole: path.into() };
            match tree.ids.get(&path) {
                Some(id) => *id,
                None => tree.add(TreeName {
                    is_top: number == 0,
                    is_directory: true,
                    exists: true,
                    ..TreeName::new(path)
                }),
            }
        };
        (0..self.above).map(|number| known(self, number)).collect()
    }

    /// The names on the tree that a walk from `base` along `path` meets, links and what they hold included. Shape: in
    /// the order of the walk.
    pub(super) fn walk(&mut self, base: &[u8], path: &[u8], follow_last: bool) -> Vec<NameId> {
        let mut at = if path.first() == Some(&b'/') {
            Vec::new()
        } else {
            base.strip_suffix(b"/").unwrap_or(base).to_vec()
        };
        let mut todo: Vec<Vec<u8>> = components(path);
        let (mut met, mut links) = (Vec::new(), 0);
        while let Some(component) = todo.pop() {
            match component.as_slice() {
                b"." => continue,
                b".." => {
                    at.truncate(at.iter().rposition(|&byte| byte == b'/').unwrap_or(0));
                    continue;
                }
                name if at.len() + name.len() >= LONGEST_PATH => break,
                name => {
                    at.push(b'/');
                    at.extend_from_slice(name);
                }
            }
            if self.above > 0 && self.mount_of(&at) == Some(&at) {
                met.extend(self.names_above());
            }
            met.extend(self.name(&at));
            if todo.is_empty() && !follow_last {
                break;
            }
            let Some(target) = self.links.get(at.as_slice()) else { continue };
            links += 1;
            if links > MOST_LINKS {
                break;
            }
            todo.append(&mut components(target));
            let parent = at.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
            at.truncate(if target.first() == Some(&b'/') { 0 } else { parent });
        }
        met
    }
}

/// The kernel's limit on links in one walk. Source: `path_resolution(7)`.
const MOST_LINKS: u32 = 40;

/// A kernel takes no longer path, so only a damaged trace has one. Unit: bytes. Source: `PATH_MAX`.
const LONGEST_PATH: usize = 4096;

/// Mount points, and whether what lies below counts.
fn mounts(context: &Context, roots: &Roots) -> Vec<(Vec<u8>, bool)> {
    if let Roots::Below { directories, .. } = roots {
        let trimmed = |path: &Vec<u8>| path.strip_suffix(b"/").unwrap_or(path).to_vec();
        return directories.iter().map(|path| (trimmed(path), true)).collect();
    }
    let Some(first) = context.mounts.first().map(|mount| mount.namespace) else { return Vec::new() };
    let own = context.mounts.iter().filter(|mount| mount.namespace == first);
    let mount = |mount: &quell_trace::Mount| {
        let point = mount.mount_point.trim_end_matches('/').as_bytes().to_vec();
        (point, mount.served_by() == ServedBy::Network)
    };
    own.map(mount).collect()
}

/// True if a path is `top` or lies below it.
fn is_below(path: &[u8], top: &[u8]) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.first().is_none_or(|&byte| byte == b'/'))
}

/// The components, last first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).rev().map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &[u8]) -> Vec<TreeName> {
        let paths = PathTable::default();
        let roots = Roots::Below { directories: vec![b"/fs".to_vec()], depth: 0 };
        let mut tree = WorkloadTree::new(&paths, &Context::default(), &roots);
        tree.name(path);
        tree.walk(b"/", path, true);
        tree.names
    }

    #[test]
    fn the_names_on_the_way_come_first_and_begin_at_the_top() {
        let found = names(b"/fs/a/b");
        let said: Vec<_> = found.iter().map(|name| (name.path.bytes(), name.parent, name.is_top)).collect();
        let expected: [(&[u8], _, _); 3] =
            [(b"/fs", None, true), (b"/fs/a", Some(NameId(0)), false), (b"/fs/a/b", Some(NameId(1)), false)];
        assert_eq!(said, expected);
        assert!(names(b"/else/a").is_empty());
    }

    #[test]
    fn a_path_that_no_kernel_takes_leads_nowhere() {
        let path = |components: usize| [b"/fs".as_slice(), &b"/a".repeat(components)].concat();
        assert_eq!(names(&path(2000)).len(), 2001);
        // The walk goes as far as a path can go.
        assert!(names(&path(60_000)).len() <= 2048);
    }
}
