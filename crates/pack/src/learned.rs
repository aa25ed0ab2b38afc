//! Adds the requests of a run (`run --learn`) to the recorded paths, as if a recording had made them.
//!
//! A lesson counts below the image's roots only. From there on every rule of packing holds for it: secrets are left out,
//! changed directories stay the original, a public image holds what every user may read.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use quell_image::learned::{Learned, Lesson};
use quell_image::path::{components, is_within};

use crate::extents::UsedExtent;
use crate::path_tree::PathTree;
use crate::requests::is_path;
use crate::roots::RootOrigin;

/// Adds the lessons below `roots`, the files in their order. Returns the number of paths that were taken.
pub(crate) fn take(recorded: &mut PathTree, roots: &[(Vec<u8>, RootOrigin)], learned: &[Learned]) -> u64 {
    let mut taken = 0;
    for learned in learned {
        // Content that a run read comes behind the content that was read before.
        let mut clock = 0;
        recorded.visit(b"/", &mut |_, node| clock = clock.max(node.seen.read.map_or(0, |read| read + 1)));
        for (path, lesson) in &learned.lessons {
            let within = is_path(path) && roots.iter().any(|(root, _)| is_within(path, root));
            if within && take_one(recorded, path, lesson, clock) {
                taken += 1;
            }
        }
    }
    taken
}

/// Takes one lesson; tells whether it counts.
fn take_one(recorded: &mut PathTree, path: &[u8], lesson: &Lesson, clock: u64) -> bool {
    let metadata = Path::new(OsStr::from_bytes(path)).symlink_metadata().ok();
    let bytecode = components(path).any(|name| name == b"__pycache__");
    // A compiler of bytecode makes a file of another name first, a new one each time.
    if bytecode && metadata.is_none() && !path.ends_with(b".pyc") {
        return false;
    }
    if lesson.changed && !bytecode {
        recorded.live_parent(path, "was changed by a later run");
    }
    let file = metadata.filter(std::fs::Metadata::is_file);
    let seen = recorded.seen(path);
    seen.missed |= lesson.absent;
    seen.entered |= lesson.listed;
    seen.touched |= lesson.found || lesson.listed || lesson.read.is_some();
    // The next run reads the bytecode that a run wrote.
    let read = lesson.read.is_some() || (lesson.changed && bytecode);
    if let Some(file) = file.filter(|_| read) {
        let order = lesson.read.unwrap_or(u64::MAX >> 2);
        seen.read.get_or_insert(clock.saturating_add(order));
        seen.extent.add(&extent(lesson, &file));
    }
    true
}

/// The blocks that a run read, taken for blocks of the file that is there now.
fn extent(lesson: &Lesson, file: &std::fs::Metadata) -> UsedExtent {
    let modified = u64::try_from(file.mtime()).ok().zip(u64::try_from(file.mtime_nsec()).ok());
    let modified = modified.and_then(|(seconds, rest)| seconds.checked_mul(1_000_000_000)?.checked_add(rest));
    UsedExtent {
        whole: lesson.blocks.is_empty(),
        blocks: lesson.blocks.clone(),
        version: modified.map(|modified| (file.size(), modified)),
    }
}
