//! An image is an EROFS file system already: copied as it is, or written anew with what the originals still hold
//! unchanged in it, so that a foreign mount can read more.
//!
//! Everything else stays as it is: names, attributes, coverage, absences, the recorded command, the order of the data.
//! So the result is an image of quell too.

use std::collections::HashMap;
use std::path::Path;

use crate::error::Corrupt;
use crate::export::error::ExportError;
use crate::export::member::{IsSecret, LeftOutNode, LeftOutReason, original};
use crate::export::walk::{FoundNode, ImageWalk};
use crate::image::{FileContent, Image};
use crate::model::{Coverage, FileKind, Nid, NodeUse};
use crate::path::split;
use crate::tree::{ContentSource, ImageTree, TreeNodeId};
use crate::write::output::ImageOutput;
use crate::write::{Audience, WriteError};

/// Copies the image to `target`, which appears when it is complete and durable. Returns its length.
pub fn copy<B: AsRef<[u8]>>(image: &Image<B>, target: &Path, audience: Audience) -> Result<u64, WriteError> {
    let total = image.length();
    let mut output = ImageOutput::create(target, audience, total)?;
    output.append(image.view().bytes, total)?;
    output.publish()?;
    Ok(total)
}

/// An image as a tree, to be written anew.
#[derive(Debug)]
pub struct Rebuilt {
    /// The tree.
    pub tree: ImageTree,
    /// Files whose content it still does not hold.
    pub left_out: Vec<LeftOutNode>,
    /// Files that the image did not hold whole and the tree does, and their bytes.
    pub filled: (u64, u64),
}

/// The tree of `image`, whose bytes are the file at `file`, with the content of originals that did not change and are not
/// secrets.
pub fn rebuild<B: AsRef<[u8]>>(
    image: &Image<B>,
    file: &Path,
    is_secret: IsSecret,
) -> Result<Rebuilt, ExportError> {
    let root = image.root();
    let tree = ImageTree::new(image.attributes(root)?)?;
    let nodes = HashMap::from([(root, tree.root())]);
    let mut rebuilder = Rebuilder {
        image,
        file,
        rebuilt: Rebuilt { tree, left_out: Vec::new(), filled: (0, 0) },
        nodes,
        held: Vec::new(),
        fillable: Vec::new(),
    };
    for found in ImageWalk::new(image, FoundNode { path: b"/".to_vec(), nid: root }) {
        rebuilder.add(&found?)?;
    }
    rebuilder.hold(is_secret)?;
    rebuilder.places()?;
    Ok(rebuilder.rebuilt)
}

struct Rebuilder<'i, B> {
    image: &'i Image<B>,
    file: &'i Path,
    rebuilt: Rebuilt,
    nodes: HashMap<Nid, TreeNodeId>,
    /// Held files with the offset of their data.
    held: Vec<(u64, TreeNodeId)>,
    /// Files that are not held, or in part, by path.
    fillable: Vec<(Vec<u8>, Nid, TreeNodeId)>,
}

impl<B: AsRef<[u8]>> Rebuilder<'_, B> {
    fn add(&mut self, found: &FoundNode) -> Result<(), ExportError> {
        let (image, nid) = (self.image, found.nid);
        let attributes = image.attributes(nid)?;
        if nid != image.root() {
            let (parent, name) = self.parent(found)?;
            let tree = &mut self.rebuilt.tree;
            if let Some(&node) = self.nodes.get(&nid) {
                return Ok(tree.link(parent, name, node)?);
            }
            let node = match attributes.kind {
                FileKind::Symlink => tree.add_symlink(parent, name, attributes, image.link_target(nid)?)?,
                _ => tree.add(parent, name, attributes)?,
            };
            self.nodes.insert(nid, node);
        }
        let node = self.nodes[&nid];
        let tree = &mut self.rebuilt.tree;
        if image.usage(nid)? == NodeUse::Touched {
            tree.touch(node);
        }
        let xattrs = image.xattrs(nid)?.map(|xattr| (xattr.name(), xattr.value.to_vec())).collect();
        tree.set_xattrs(node, xattrs)?;
        match attributes.kind {
            FileKind::Directory => self.cover(nid, node),
            FileKind::Regular => Ok(self.note(found, node)?),
            _ => Ok(()),
        }
    }

    /// The directory that a path other than the root's lies in, and the name in it.
    fn parent<'p>(&self, found: &'p FoundNode) -> Result<(TreeNodeId, &'p [u8]), ExportError> {
        let (parent, name) = split(&found.path);
        let parent = self.rebuilt.tree.find(parent);
        Ok((parent.ok_or(crate::error::Fault::Parent.at(found.nid))?, name))
    }

    fn cover(&mut self, nid: Nid, node: TreeNodeId) -> Result<(), ExportError> {
        let coverage = self.image.coverage(nid)?;
        self.rebuilt.tree.cover(node, coverage)?;
        if coverage != Coverage::Uncovered {
            if coverage == Coverage::Complete && !self.image.is_listing_learned(nid)? {
                self.rebuilt.tree.only_searched(node)?;
            }
            let absences = self.image.absences(nid)?;
            for name in (0..absences.len()).filter_map(|number| absences.name(number)) {
                self.rebuilt.tree.absent(node, name)?;
            }
        }
        Ok(())
    }

    fn note(&mut self, found: &FoundNode, node: TreeNodeId) -> Result<(), Corrupt> {
        match self.image.content(found.nid)? {
            FileContent::Held(data) => {
                self.held.push((self.image.offset_of(data), node));
            }
            FileContent::Part(_) | FileContent::Original => {
                self.fillable.push((found.path.clone(), found.nid, node));
            }
        }
        Ok(())
    }

    /// Promises the content: what the image holds in its order, then what the originals do.
    fn hold(&mut self, is_secret: IsSecret) -> Result<(), ExportError> {
        self.held.sort_unstable();
        for (offset, node) in std::mem::take(&mut self.held) {
            self.rebuilt.tree.hold(node, ContentSource::Part { path: self.file.to_path_buf(), offset })?;
        }
        for (path, nid, node) in std::mem::take(&mut self.fillable) {
            let attributes = self.image.attributes(nid)?;
            match original(&path, &attributes, is_secret) {
                Ok(original) => {
                    self.rebuilt.tree.hold(node, ContentSource::File(original))?;
                    self.rebuilt.filled.0 += 1;
                    self.rebuilt.filled.1 += attributes.size;
                }
                Err(reason) => {
                    self.hold_part(nid, node)?;
                    self.rebuilt.left_out.push(LeftOutNode { path, reason });
                }
            }
        }
        Ok(())
    }

    /// Promises what the image holds of a file whose original is of no use.
    fn hold_part(&mut self, nid: Nid, node: TreeNodeId) -> Result<(), ExportError> {
        if let FileContent::Part(part) = self.image.content(nid)? {
            let source = ContentSource::Part {
                path: self.file.to_path_buf(),
                offset: self.image.offset_of(part.data),
            };
            self.rebuilt.tree.hold_part(node, source, &part.blocks())?;
        }
        Ok(())
    }

    fn places(&mut self) -> Result<(), ExportError> {
        let index = self.image.index();
        for root in index.roots() {
            self.rebuilt.tree.add_root(root.path, root.reason, root.file_system)?;
        }
        for live in index.live_directories() {
            self.rebuilt.tree.add_live(live.path, live.reason)?;
        }
        self.rebuilt.tree.set_directory(index.directory());
        self.rebuilt.tree.set_beyond(index.beyond());
        self.rebuilt.tree.set_command(index.command().map(<[u8]>::to_vec).collect());
        Ok(())
    }
}

/// Files whose content `image` does not hold, or not whole.
pub fn not_held<B: AsRef<[u8]>>(image: &Image<B>) -> Result<Vec<LeftOutNode>, Corrupt> {
    let mut left_out = Vec::new();
    for found in ImageWalk::new(image, FoundNode { path: b"/".to_vec(), nid: image.root() }) {
        let FoundNode { path, nid } = found?;
        let regular = image.attributes(nid)?.kind == FileKind::Regular;
        if !regular {
            continue;
        }
        match image.content(nid)? {
            FileContent::Held(_) => {}
            FileContent::Part(_) => left_out.push(LeftOutNode { path, reason: LeftOutReason::PartlyHeld }),
            FileContent::Original => left_out.push(LeftOutNode { path, reason: LeftOutReason::NotHeld }),
        }
    }
    Ok(left_out)
}
