//! Decides how much of each used file is held, and promises it to the tree in the order of first access.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use quell_image::erofs::BLOCK_BYTES;
use quell_image::{Attributes, BlockSet, ContentSource, ImageTree, TreeError, TreeNodeId};

use crate::extents::UsedExtent;
use crate::options::Hold;

/// Largest file that is always held whole: one or two READs get all of it, which costs less than pushing a part.
const WHOLE_UP_TO: u64 = 32 << 10;

/// A file to hold.
pub(crate) struct FileToHold {
    pub(crate) first_access: u64,
    pub(crate) node: TreeNodeId,
    pub(crate) path: Vec<u8>,
    /// The blocks that were used; `None` for all.
    pub(crate) part: Option<BlockSet>,
}

/// The blocks to hold of a file, unless it is to be held whole. Every reader of a file reads its first block, and so does
/// the kernel that executes it.
pub(crate) fn part_to_hold(hold: Hold, attributes: &Attributes, extent: &UsedExtent) -> Option<BlockSet> {
    let time = attributes.mtime;
    let seconds = u64::try_from(time.seconds).ok()?;
    let modified = seconds.checked_mul(1_000_000_000)?.checked_add(time.nanoseconds.into())?;
    // A changed file may need other blocks.
    let same = extent.version.is_none_or(|version| version == (attributes.size, modified));
    let used = hold == Hold::Used && same && !extent.whole && attributes.size > WHOLE_UP_TO;
    used.then(|| {
        let mut blocks = extent.blocks.clone();
        blocks.insert(0..1);
        blocks
    })
}

/// Promises the content of `files`, in the order of first access.
pub(crate) fn hold_files(tree: &mut ImageTree, mut files: Vec<FileToHold>) -> Result<(), TreeError> {
    files.sort_unstable_by(|a, b| (a.first_access, a.node, &a.path).cmp(&(b.first_access, b.node, &b.path)));
    // A file with several names needs the blocks that were used under any of them.
    let mut parts: HashMap<TreeNodeId, Option<BlockSet>> = HashMap::new();
    for file in &files {
        let part = parts.entry(file.node).or_insert_with(|| Some(BlockSet::default()));
        match (part.as_mut(), &file.part) {
            (Some(blocks), Some(further)) => blocks.union(further),
            _ => *part = None,
        }
    }
    for FileToHold { node, path, .. } in &files {
        let source = ContentSource::File(OsStr::from_bytes(path).into());
        match parts.remove(node) {
            Some(Some(mut blocks)) => {
                let size = tree.attributes(*node).size;
                // The kernel reads ahead over a single missing block between two held ones, which a server cannot
                // tell from a need.
                blocks.fill_single_gaps(size.div_ceil(BLOCK_BYTES));
                tree.hold_part(*node, source, &blocks)?;
            }
            Some(None) => tree.hold(*node, source)?,
            None => {}
        }
    }
    Ok(())
}
