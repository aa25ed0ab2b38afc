//! Building the index of a tree whose layout is planned.

use crate::bytes::put;
use crate::erofs::inode::DataLayout;
use crate::index::row::{ContentState, ROW, Row};
use crate::index::{
    CHECKED_FROM, CHECKSUM_AT, COMPLETE, DIRECTORY_AT, FLAGS_AT, HEADER, IDENTITY_AT, ImageIdentity, MAGIC,
    PLACE, SECTIONS_AT, STRING, VERSION,
};
use crate::model::{Beyond, Coverage, Nid};
use crate::tree::{Body, INDEX_NODE, ImageTree, MarkedDirectory, TreeDirectory, TreeNode};
use crate::write::error::WriteError;
use crate::write::plan::{ImageLayout, NodeLayout};

/// Length of the index of `tree` in bytes.
///
/// **Errors** [`WriteError::TooLarge`] beyond 4 GiB of strings or 2^32 absences.
pub(crate) fn index_length(tree: &ImageTree) -> Result<u64, WriteError> {
    let mut absences = 0_u64;
    let strings = tree.command.iter().chain([&tree.directory]);
    let mut pool: u64 = strings.map(|string| string.len() as u64).sum();
    for chosen in tree.roots.iter().chain(&tree.live) {
        pool += (chosen.path.len() + chosen.reason.len() + chosen.file_system.len()) as u64;
    }
    for directory in tree.nodes.iter().filter_map(covered) {
        absences += directory.absences.len() as u64;
        pool += directory.absences.iter().map(|name| name.len() as u64).sum::<u64>();
    }
    if pool.max(absences) > u32::MAX.into() {
        return Err(WriteError::TooLarge { bytes: pool.max(absences) });
    }
    let records = tree.nodes.len() * ROW
        + (tree.roots.len() + tree.live.len()) * PLACE
        + tree.command.len() * STRING
        + HEADER;
    Ok(records as u64 + absences * STRING as u64 + pool)
}

/// The index of `tree` laid out as `plan`, still without identity and checksum: see [`seal`].
pub(crate) fn build(tree: &ImageTree, plan: &ImageLayout) -> Vec<u8> {
    let mut builder = Builder::default();
    for (placed, &id) in plan.places.iter().zip(&plan.order) {
        let node = tree.node(id);
        let size = if id == INDEX_NODE { plan.index_length } else { node.attributes.size };
        let row = builder.row(node, placed, size);
        builder.rows.extend_from_slice(&row.encode());
    }
    for chosen in &tree.roots {
        let place = builder.place(chosen, plan);
        builder.roots.extend_from_slice(&place);
    }
    for chosen in &tree.live {
        let place = builder.place(chosen, plan);
        builder.live.extend_from_slice(&place);
    }
    for argument in &tree.command {
        let string = builder.string(argument);
        builder.command.extend_from_slice(&string);
    }
    builder.finish(tree)
}

/// Completes an index with the image's identity and its own checksum.
pub(crate) fn seal(index: &mut [u8], identity: ImageIdentity) {
    put(index, IDENTITY_AT, identity.as_bytes());
    let sum = crc32c::crc32c(&index[CHECKED_FROM..]);
    put(index, CHECKSUM_AT, &sum.to_le_bytes());
}

/// The sections as they grow.
#[derive(Debug, Default)]
struct Builder {
    rows: Vec<u8>,
    roots: Vec<u8>,
    live: Vec<u8>,
    command: Vec<u8>,
    absences: Vec<u8>,
    pool: Vec<u8>,
}

impl Builder {
    fn row(&mut self, node: &TreeNode, placed: &NodeLayout, size: u64) -> Row {
        let first_absence = (self.absences.len() / STRING) as u32;
        let mut absences = 0;
        if let Some(directory) = covered(node) {
            for name in &directory.absences {
                let string = self.string(name);
                self.absences.extend_from_slice(&string);
            }
            absences = directory.absences.len() as u32;
        }
        let content = match (placed.layout, placed.part.1) {
            (DataLayout::Plain | DataLayout::Inline, _) => ContentState::Held,
            (DataLayout::Chunks, 0) => ContentState::Original,
            (DataLayout::Chunks, _) => ContentState::Part,
        };
        let (first, count) = match (absences, content) {
            // An image has fewer than 2^32 blocks.
            (_, ContentState::Part) => (placed.part.0, placed.part.1 as u32),
            (0, _) => (0, 0),
            _ => (first_absence, absences),
        };
        Row {
            nid: Nid::new(placed.nid),
            parent: placed.parent,
            slot: placed.slot,
            inode: node.attributes.inode,
            device: node.attributes.device,
            size,
            ctime: node.attributes.ctime,
            content,
            coverage: match &node.body {
                Body::Directory(directory) => Some(directory.coverage),
                _ => None,
            },
            usage: node.usage,
            searched: matches!(&node.body, Body::Directory(directory) if directory.searched),
            first,
            count,
        }
    }

    fn place(&mut self, chosen: &MarkedDirectory, plan: &ImageLayout) -> [u8; PLACE] {
        let mut raw = [0; PLACE];
        put(&mut raw, 0, &plan.placed(chosen.node).nid.to_le_bytes());
        put(&mut raw, 8, &self.string(&chosen.path));
        put(&mut raw, 16, &self.string(chosen.reason.as_bytes()));
        put(&mut raw, 24, &self.string(chosen.file_system.as_bytes()));
        raw
    }

    /// Adds a string to the pool; the reference to it. `index_length` has checked that the pool fits.
    fn string(&mut self, bytes: &[u8]) -> [u8; STRING] {
        let mut raw = [0; STRING];
        put(&mut raw, 0, &(self.pool.len() as u32).to_le_bytes());
        put(&mut raw, 4, &(bytes.len() as u32).to_le_bytes());
        self.pool.extend_from_slice(bytes);
        raw
    }

    fn finish(mut self, tree: &ImageTree) -> Vec<u8> {
        let directory = self.string(&tree.directory);
        let flags = if tree.beyond == Beyond::Nothing { COMPLETE } else { 0 };
        let sections = [
            (&self.rows, ROW),
            (&self.roots, PLACE),
            (&self.live, PLACE),
            (&self.command, STRING),
            (&self.absences, STRING),
            (&self.pool, 1),
        ];
        let length = HEADER + sections.iter().map(|(bytes, _)| bytes.len()).sum::<usize>();
        let mut index = vec![0; HEADER];
        index.reserve(length - HEADER);
        put(&mut index, 0, MAGIC);
        put(&mut index, 8, &VERSION.to_le_bytes());
        put(&mut index, 16, &(length as u64).to_le_bytes());
        let totals = tree.totals();
        put(&mut index, 56, &totals.held_files.to_le_bytes());
        put(&mut index, 64, &totals.nodes.to_le_bytes());
        put(&mut index, 72, &totals.content_bytes.to_le_bytes());
        put(&mut index, FLAGS_AT, &flags.to_le_bytes());
        put(&mut index, DIRECTORY_AT, &directory);
        for (number, (bytes, size)) in sections.into_iter().enumerate() {
            let at = SECTIONS_AT + number * 16;
            let (offset, count) = (index.len() as u64, (bytes.len() / size) as u64);
            put(&mut index, at, &offset.to_le_bytes());
            put(&mut index, at + 8, &count.to_le_bytes());
            index.extend_from_slice(bytes);
        }
        index
    }
}

/// The directory that `node` is, if its absences count.
fn covered(node: &TreeNode) -> Option<&TreeDirectory> {
    match &node.body {
        Body::Directory(directory) if directory.coverage != Coverage::Uncovered => Some(directory),
        _ => None,
    }
}
