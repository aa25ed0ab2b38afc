//! Emits the parts of an image in the order of the file.

use crate::blocks::BlockSet;
use crate::erofs::dirent::{self, Dirent};
use crate::erofs::inode::{DataLayout, Inode};
use crate::erofs::{SLOT, chunk, xattr};
use crate::model::{FileKind, Nid};
use crate::tree::{Body, ImageTree, TreeDirectory, TreeNodeId};
use crate::write::error::WriteError;
use crate::write::plan::{ImageLayout, NodeLayout, listing};
use crate::write::source;
use crate::write::stream::{STRETCH, Stream};

/// Emits the parts of the image in the order of the file.
pub(crate) struct Emitter<'a, 'p> {
    pub(crate) tree: &'a ImageTree,
    pub(crate) plan: &'a ImageLayout,
    pub(crate) stream: Stream<'p>,
}

impl Emitter<'_, '_> {
    /// Room for the superblock, then every inode with what follows it.
    pub(crate) fn inodes(&mut self) -> Result<(), WriteError> {
        for (row, placed) in self.plan.places.iter().enumerate() {
            let node = self.tree.node(self.plan.order[row]);
            self.stream.pad_to(placed.nid * SLOT)?;
            let inode = Inode {
                layout: placed.layout,
                kind: node.attributes.kind,
                permissions: node.attributes.permissions & 0o7777,
                size: placed.size,
                start: placed.start,
                number: row as u32 + 1,
                uid: node.attributes.uid,
                gid: node.attributes.gid,
                mtime: node.attributes.mtime,
                nlink: node.attributes.nlink,
                xattr_bytes: placed.xattr_bytes,
            };
            self.stream.append(&inode.encode())?;
            // The tree takes no attributes that cannot be encoded.
            self.stream.append(&xattr::encode(&node.xattrs).unwrap_or_default())?;
            match (placed.layout, &node.body) {
                (DataLayout::Inline, Body::Directory(directory)) => {
                    let last = self.directory_blocks(directory, placed, row).pop().unwrap_or_default();
                    self.stream.append(&last)?;
                }
                (DataLayout::Inline, Body::Symlink(target)) => self.stream.append(target)?,
                (DataLayout::Chunks, Body::File(held)) => {
                    let part = held.as_ref().and_then(|held| held.part.as_ref());
                    self.chunks(placed, part)?;
                }
                _ => {}
            }
        }
        self.stream.pad_to_block()
    }

    /// The map of a file that is not held, or in part.
    fn chunks(&mut self, placed: &NodeLayout, part: Option<&BlockSet>) -> Result<(), WriteError> {
        let group = 1 << placed.start;
        let (mut block, mut next) = (placed.part.0, 0);
        let entry = |block: u32| block.to_le_bytes();
        for run in part.iter().flat_map(|part| part.runs()) {
            let (start, end) = (run.start / group, run.end.div_ceil(group));
            (next..start).try_for_each(|_| self.stream.append(&entry(chunk::UNHELD)))?;
            for _ in start..end {
                self.stream.append(&entry(block))?;
                // Only the last chunk of a file is shorter; what is counted too much behind it is not used.
                block = block.saturating_add(group as u32);
            }
            next = end;
        }
        (next..chunk::count(placed.size, placed.start))
            .try_for_each(|_| self.stream.append(&entry(chunk::UNHELD)))
    }

    /// The blocks of directories and links outside their inodes.
    pub(crate) fn blocks(&mut self) -> Result<(), WriteError> {
        for (row, placed) in self.plan.places.iter().enumerate() {
            if placed.data_blocks() == 0 {
                continue;
            }
            match &self.tree.node(self.plan.order[row]).body {
                Body::Directory(directory) => {
                    let blocks = self.directory_blocks(directory, placed, row);
                    for block in blocks.into_iter().take(placed.data_blocks() as usize) {
                        self.stream.append(&block)?;
                        self.stream.pad_to_block()?;
                    }
                }
                Body::Symlink(target) => {
                    self.stream.append(target)?;
                    self.stream.pad_to_block()?;
                }
                Body::File(_) | Body::Special => {}
            }
        }
        Ok(())
    }

    /// The content of held files: small ones read ahead many at a time, large ones streamed.
    pub(crate) fn files(&mut self) -> Result<(), WriteError> {
        let mut buffer = vec![0; STRETCH];
        let mut left = &self.tree.held[..];
        while let Some((&first, rest)) = left.split_first() {
            let ahead = source::ahead(self.tree, left);
            if ahead == 0 {
                self.stream_file(first, &mut buffer)?;
                left = rest;
                continue;
            }
            for content in source::load(self.tree, &left[..ahead]) {
                self.stream.append(&content?)?;
                self.stream.pad_to_block()?;
            }
            left = &left[ahead..];
        }
        match self.tree.asked {
            Some(asked) => self.stream_file(asked, &mut buffer),
            None => Ok(()),
        }
    }

    fn stream_file(&mut self, file: TreeNodeId, buffer: &mut [u8]) -> Result<(), WriteError> {
        let node = self.tree.node(file);
        if let Body::File(Some(held)) = &node.body {
            source::copy(held, &node.attributes, buffer, &mut |bytes| self.stream.append(bytes))?;
        }
        self.stream.pad_to_block()
    }

    /// The used bytes of each block of a directory.
    fn directory_blocks(&self, directory: &TreeDirectory, placed: &NodeLayout, row: usize) -> Vec<Vec<u8>> {
        let names = listing(directory);
        let parent = &self.plan.places[placed.parent as usize];
        let entry = |name, node: Option<TreeNodeId>| match node {
            Some(child) => (self.plan.placed(child).nid, self.tree.attributes(child).kind),
            None if name == b"." => (self.plan.places[row].nid, FileKind::Directory),
            None => (parent.nid, FileKind::Directory),
        };
        let mut entries = names.iter().map(|&(name, node)| {
            let (nid, kind) = entry(name, node);
            Dirent { name, nid: Nid::new(nid), kind }
        });
        dirent::cut(names.iter().map(|&(name, _)| name))
            .map(|(count, used)| {
                let mut block = Vec::with_capacity(used);
                dirent::encode(&entries.by_ref().take(count).collect::<Vec<_>>(), &mut block);
                block
            })
            .collect()
    }
}
