//! Taking what a run learned into the forest, as if a recording had asked for it.
//!
//! A lesson counts below the image's roots only. From there on it is what a recording says: secrets are left out,
//! directories that something changed in stay the original, an image for everybody holds what everybody may read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quell_image::learned::{Learned, Lesson};
use quell_image::path::{components, is_within};

use crate::extents::Extent;
use crate::path_tree::PathTree;
use crate::requests::is_path;
use crate::roots::RootOrigin;

/// Adds what was learned below `roots`, the files in their order. Returns how many paths were taken.
pub(crate) fn take(forest: &mut PathTree, roots: &[(Vec<u8>, RootOrigin)], learned: &[Learned]) -> u64 {
    let mut taken = 0;
    for learned in learned {
        // What a run reads comes behind what was read before.
        let mut clock = 0;
        forest.visit(b"/", &mut |_, node| clock = clock.max(node.seen.read.map_or(0, |read| read + 1)));
        for (path, lesson) in &learned.lessons {
            let within = is_path(path) && roots.iter().any(|(root, _)| is_within(path, root));
            if within && take_one(forest, path, lesson, clock) {
                taken += 1;
            }
        }
    }
    taken
}

/// Takes one lesson; whether it said anything.
fn take_one(forest: &mut PathTree, path: &[u8], lesson: &Lesson, clock: u64) -> bool {
    let metadata = Path::new(OsStr::from_bytes(path)).symlink_metadata().ok();
    let bytecode = components(path).any(|name| name == b"__pycache__");
    // A compiler of bytecode makes a file of another name first, a new one each time.
    if bytecode && metadata.is_none() && !path.ends_with(b".pyc") {
        return false;
    }
    if lesson.changed && !bytecode {
        forest.live_parent(path, "was changed by a later run");
    }
    let file = metadata.filter(std::fs::Metadata::is_file);
    let seen = forest.seen(path);
    seen.missed |= lesson.absent;
    seen.entered |= lesson.listed;
    seen.touched |= lesson.found || lesson.listed || lesson.read.is_some();
    // Bytecode that a run wrote is what the next one reads.
    let read = lesson.read.is_some() || (lesson.changed && bytecode);
    if let Some(file) = file.filter(|_| read) {
        let order = lesson.read.unwrap_or(u64::MAX >> 2);
        seen.read.get_or_insert(clock.saturating_add(order));
        seen.extent.add(&extent(lesson, &file));
    }
    true
}

/// How much of a file a run read. It is taken for the file that is there now.
fn extent(lesson: &Lesson, file: &std::fs::Metadata) -> Extent {
    let modified = u64::try_from(file.mtime()).ok().zip(u64::try_from(file.mtime_nsec()).ok());
    let modified = modified.and_then(|(seconds, rest)| seconds.checked_mul(1_000_000_000)?.checked_add(rest));
    Extent {
        whole: lesson.blocks.is_empty(),
        blocks: lesson.blocks.clone(),
        version: modified.map(|modified| (file.size(), modified)),
    }
}
