//! Going through an image from a directory downwards.

use std::collections::HashSet;

use crate::error::{Corrupt, Fault};
use crate::image::Image;
use crate::index::INDEX_PATH;
use crate::model::{FileKind, Nid};
use crate::path::{is_name, join};

/// A node and the path by which it was met.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundNode {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// The node.
    pub nid: Nid,
}

/// Every name from a node downwards: parents before their entries, entries by name. A node with several names comes
/// several times. quell's own index is left out.
///
/// Ends after the first error. A forged image cannot keep it busy: a directory that comes a second time is an error,
/// and so is a path that is longer than Linux takes.
#[derive(Debug)]
pub struct ImageWalk<'i, B> {
    image: &'i Image<B>,
    /// Nodes to visit, the next one last.
    ahead: Vec<FoundNode>,
    directories: HashSet<Nid>,
}

/// Longest path, with the zero at its end. Source: `PATH_MAX` of Linux.
const PATH_MAX: usize = 4096;

impl<'i, B: AsRef<[u8]>> ImageWalk<'i, B> {
    /// From `start` downwards.
    pub fn new(image: &'i Image<B>, start: FoundNode) -> Self {
        Self { image, ahead: vec![start], directories: HashSet::new() }
    }

    fn enter(&mut self, directory: &FoundNode) -> Result<(), Corrupt> {
        if !self.directories.insert(directory.nid) {
            return Err(Fault::Parent.at(directory.nid));
        }
        let begin = self.ahead.len();
        for entry in self.image.entries(directory.nid)? {
            let entry = entry?;
            let own = directory.nid == self.image.root() && entry.name == INDEX_PATH[0];
            if entry.is_dot() || own {
                continue;
            }
            let path = join(&directory.path, entry.name);
            if !is_name(entry.name) || path.len() >= PATH_MAX {
                return Err(Fault::Directory.at(directory.nid));
            }
            self.ahead.push(FoundNode { path, nid: entry.nid });
        }
        self.ahead[begin..].reverse();
        Ok(())
    }
}

impl<B: AsRef<[u8]>> Iterator for ImageWalk<'_, B> {
    type Item = Result<FoundNode, Corrupt>;

    fn next(&mut self) -> Option<Self::Item> {
        let found = self.ahead.pop()?;
        let entered = self.image.attributes(found.nid).and_then(|attributes| match attributes.kind {
            FileKind::Directory => self.enter(&found),
            _ => Ok(()),
        });
        if let Err(corrupt) = entered {
            self.ahead.clear();
            return Some(Err(corrupt));
        }
        Some(Ok(found))
    }
}
