//! The inodes of containers: paths become numbers once, since containers do not change.

use std::collections::{BTreeMap, HashMap};

use quell_gather::{Entry, Seen, View, is_reserved};

use super::attributes::{attr_of_entry, time};
use crate::fuse::abi::{Attr, BLOCK_SIZE, NodeId};

/// An inode.
#[derive(Debug)]
pub(super) struct GatheredNode {
    /// The entry; `None` for the top.
    pub(super) seen: Option<Seen>,
    pub(super) attr: Attr,
    /// The names of a directory. **Shape** sorted.
    pub(super) names: BTreeMap<Vec<u8>, NodeId>,
    pub(super) parent: NodeId,
}

/// All inodes, by their number.
#[derive(Debug)]
pub(super) struct GatheredNodes(Vec<GatheredNode>);

impl GatheredNodes {
    pub(super) fn new(view: &View) -> Self {
        let written = view.containers.iter().map(|open| open.written);
        let written = written.max().map(time).unwrap_or_default();
        let top = Attr {
            atime: written,
            mtime: written,
            ctime: written,
            mode: 0o040_755,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            size: BLOCK_SIZE.into(),
            block_size: BLOCK_SIZE,
            inode: NodeId::ROOT.0,
            nlink: 2,
            ..Attr::default()
        };
        let attr =
            |seen: Seen, entry: &Entry| attr_of_entry(entry, view.containers[seen.container].is_trusted);
        let top = match view.changed_top().and_then(|seen| Some((seen, view.entry(seen)?))) {
            Some((seen, entry)) => Attr { inode: top.inode, nlink: 2, ..attr(seen, entry) },
            None => top,
        };
        let top = GatheredNode { seen: None, attr: top, names: BTreeMap::new(), parent: NodeId::ROOT };
        let mut nodes = Self(vec![top]);
        let mut by_path: HashMap<&[u8], NodeId> = HashMap::from([(&b""[..], NodeId::ROOT)]);
        let mut files: HashMap<Seen, NodeId> = HashMap::new();
        for (path, seen) in view.paths.iter().filter(|(path, _)| !is_reserved(path)) {
            let slash = path.iter().rposition(|byte| *byte == b'/');
            let (directory, name) = slash.map_or((&b""[..], &path[..]), |at| (&path[..at], &path[at + 1..]));
            let (Some(&parent), Some(entry)) = (by_path.get(directory), view.entry(*seen)) else { continue };
            let known = files.get(seen).copied();
            let id = known.unwrap_or_else(|| nodes.add(*seen, attr(*seen, entry), parent));
            if entry.is_directory() {
                by_path.insert(path, id);
                nodes.get_mut(parent).attr.nlink += 1;
                nodes.get_mut(id).attr.nlink = 2;
            } else {
                files.insert(*seen, id);
                nodes.get_mut(id).attr.nlink += 1;
            }
            nodes.get_mut(parent).names.insert(name.to_vec(), id);
        }
        nodes
    }

    fn add(&mut self, seen: Seen, attr: Attr, parent: NodeId) -> NodeId {
        let id = NodeId(NodeId::ROOT.0 + self.0.len() as u64);
        let attr = Attr { inode: id.0, ..attr };
        self.0.push(GatheredNode { seen: Some(seen), attr, names: BTreeMap::new(), parent });
        id
    }

    fn get_mut(&mut self, id: NodeId) -> &mut GatheredNode {
        &mut self.0[(id.0 - NodeId::ROOT.0) as usize]
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &GatheredNode> {
        self.0.iter()
    }

    pub(super) fn get(&self, id: NodeId) -> Option<&GatheredNode> {
        self.0.get(usize::try_from(id.0.checked_sub(NodeId::ROOT.0)?).ok()?)
    }
}
