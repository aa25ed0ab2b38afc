//! Whether an image still says what its sources are: attributes compared with the originals, many at a time.
//!
//! Compared are the directories whose names the image knows, the files that it holds, and whatever else the recording
//! asked for: what a program would be told wrongly if it had changed. The time of the last inode change is the
//! witness: no program can set it back.

use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use quell_image::{Attributes, Beyond, Content, Coverage, Image, Kind, Nid, Use};
use rustix::fs::Stat;
use rustix::io::Errno;
use serde::Serialize;

use crate::budget::Budget;
use crate::error::{ImageError, OsError};
use crate::lock;
use crate::memory::{LoadedImage, Shared, Trust};

/// Something that is not as it was packed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// The original's path.
    pub path: PathBuf,
    /// What differs first.
    pub difference: Difference,
}

/// In what an original differs from the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Difference {
    /// It is gone.
    Gone,
    /// It cannot be looked at.
    Unreadable,
    /// It is a file where a directory was, or the like.
    Kind,
    /// Its size.
    Size,
    /// The time of its last modification: of a directory, names came or went.
    Modified,
    /// Its owner, group or permissions.
    Permissions,
    /// The time of its last change of the inode, while all else is equal: it may have been replaced by an equal one.
    Changed,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Gone => "is gone",
            Self::Unreadable => "cannot be looked at",
            Self::Kind => "is something else",
            Self::Size => "has another size",
            Self::Modified => "was modified",
            Self::Permissions => "has another owner, group or mode",
            Self::Changed => "was replaced or touched",
        })
    }
}

/// Operations that are in flight at once unless the caller says otherwise: enough to hide the round trips of a
/// network file system, few enough not to be the storm that quell is there to prevent.
pub const DEFAULT_PARALLELISM: usize = 32;

/// Compares the image at `path` with its sources; every change, sorted by path.
///
/// A complete image whose directories this node does not all have is compared with nothing.
///
/// `parallelism` bounds the operations in flight; 0 counts as 1. All threads have ended on return.
///
/// **Errors** see [`ImageError`].
pub fn check(path: &Path, trust: Trust, parallelism: usize) -> Result<Vec<Change>, ImageError> {
    changes(&LoadedImage::open(path, trust, Budget::Available)?.image, parallelism)
}

/// Compares an open image with its sources.
pub(crate) fn changes(image: &Image<Shared>, parallelism: usize) -> Result<Vec<Change>, ImageError> {
    if !is_beside_its_sources(image) {
        return Ok(Vec::new());
    }
    let subjects = subjects(image)?;
    let next = AtomicUsize::new(0);
    let changes = Mutex::new(Vec::new());
    let work = || {
        while let Some(subject) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Some(difference) =
                compare(&subject.packed, subject.extent, rustix::fs::lstat(&subject.path))
            {
                lock(&changes).push(Change { path: subject.path.clone(), difference });
            }
        }
    };
    let threads = parallelism.clamp(1, subjects.len().max(1));
    std::thread::scope(|scope| {
        // Where a thread cannot be had, the others do its work.
        let started =
            (1..threads).map(|_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work));
        let _threads: Vec<_> = started.take_while(Result::is_ok).collect();
        work();
    });
    let mut changes = changes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    changes.sort();
    Ok(changes)
}

/// Whether an image has sources on this node: those of a complete one may be gone, or may never have been here. It
/// counts as having them if this node has a directory for each root.
pub(crate) fn is_beside_its_sources(image: &Image<Shared>) -> bool {
    let index = image.index();
    index.beyond() == Beyond::Originals || index.roots().all(|root| path_of(root.path.to_vec()).is_dir())
}

/// Stack of a checking thread.
const STACK: usize = 128 << 10;

/// A node that must be compared.
#[derive(Debug)]
struct Subject {
    path: PathBuf,
    packed: Attributes,
    extent: Extent,
}

/// What must be compared.
fn subjects(image: &Image<Shared>) -> Result<Vec<Subject>, ImageError> {
    let roots: Vec<PathBuf> = image.index().roots().map(|root| path_of(root.path.to_vec())).collect();
    let mut subjects = Vec::new();
    for nid in image.nodes() {
        let packed = image.attributes(nid).map_err(quell_image::OpenError::from)?;
        if !matters(image, nid, &packed) {
            continue;
        }
        let path = path_of(image.path(nid).map_err(quell_image::OpenError::from)?);
        if roots.iter().any(|root| path.starts_with(root)) {
            subjects.push(Subject { path, extent: Extent::of(image, nid, packed.kind), packed });
        }
    }
    Ok(subjects)
}

/// Whether a program would be told something wrong if this node had changed. What is only listed is not asked about;
/// every empty file counts as held, also those.
fn matters(image: &Image<Shared>, nid: Nid, packed: &Attributes) -> bool {
    match packed.kind {
        Kind::Regular if packed.size > 0 && has_content(image, nid) => true,
        Kind::Directory => image.coverage(nid).is_ok_and(|coverage| coverage != Coverage::Uncovered),
        _ => image.usage(nid).is_ok_and(|usage| usage == Use::Touched),
    }
}

/// Whether the image holds some of a file's content. A damaged node has to be compared too.
fn has_content(image: &Image<Shared>, nid: Nid) -> bool {
    image.content(nid) != Ok(Content::Original)
}

/// How much of a node must be as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it: what a file holds, which names a directory has.
    Whole,
    /// Its kind and permissions: a directory of which only some names are known to be there, each checked by itself.
    /// Others may come and go in it.
    Identity,
}

impl Extent {
    fn of(image: &Image<Shared>, nid: Nid, kind: Kind) -> Self {
        let partial = kind == Kind::Directory && image.coverage(nid) == Ok(Coverage::Partial);
        match partial && image.absences(nid).is_ok_and(|absences| absences.is_empty()) {
            true => Self::Identity,
            false => Self::Whole,
        }
    }
}

fn path_of(bytes: Vec<u8>) -> PathBuf {
    std::ffi::OsString::from_vec(bytes).into()
}

/// What differs first, in the order of [`Difference`].
fn compare(packed: &Attributes, extent: Extent, original: Result<Stat, Errno>) -> Option<Difference> {
    let stat = match original {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(Difference::Gone),
        Err(_) => return Some(Difference::Unreadable),
    };
    let same_time = |time: quell_image::Timestamp, seconds: i64, nanoseconds: u64| {
        (time.seconds, u64::from(time.nanoseconds)) == (seconds, nanoseconds)
    };
    let is_directory = packed.kind == Kind::Directory;
    if Kind::from_mode(stat.st_mode) != Some(packed.kind) {
        Some(Difference::Kind)
    } else if !is_directory && packed.size != stat.st_size.cast_unsigned() {
        Some(Difference::Size)
    } else if extent == Extent::Whole && !same_time(packed.mtime, stat.st_mtime, stat.st_mtime_nsec) {
        Some(Difference::Modified)
    } else if (packed.mode(), packed.uid, packed.gid) != (stat.st_mode, stat.st_uid, stat.st_gid) {
        Some(Difference::Permissions)
    } else if extent == Extent::Whole && !same_time(packed.ctime, stat.st_ctime, stat.st_ctime_nsec) {
        Some(Difference::Changed)
    } else {
        None
    }
}

impl From<OsError> for ImageError {
    fn from(error: OsError) -> Self {
        Self::Unreadable(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_image::{Device, Timestamp};

    fn packed(stat: &Stat) -> Attributes {
        let time = |seconds, nanoseconds: u64| Timestamp { seconds, nanoseconds: nanoseconds as u32 };
        Attributes {
            kind: Kind::from_mode(stat.st_mode).unwrap(),
            permissions: (stat.st_mode & 0o7777) as u16,
            uid: stat.st_uid,
            gid: stat.st_gid,
            size: stat.st_size as u64,
            nlink: stat.st_nlink as u32,
            rdev: Device::default(),
            mtime: time(stat.st_mtime, stat.st_mtime_nsec),
            ctime: time(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
            device: stat.st_dev,
        }
    }

    #[test]
    fn the_first_difference_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = || rustix::fs::lstat(file.path()).unwrap();
        let same = packed(&stat());
        assert_eq!(compare(&same, Extent::Whole, Ok(stat())), None);
        let cases = [
            (Attributes { kind: Kind::Symlink, ..same }, Difference::Kind),
            (Attributes { size: 1, ..same }, Difference::Size),
            (Attributes { mtime: Timestamp::default(), ..same }, Difference::Modified),
            (Attributes { permissions: 0o777, ..same }, Difference::Permissions),
            (Attributes { uid: 12, ..same }, Difference::Permissions),
            (Attributes { ctime: Timestamp::default(), ..same }, Difference::Changed),
        ];
        for (packed, difference) in cases {
            assert_eq!(compare(&packed, Extent::Whole, Ok(stat())), Some(difference));
        }
        let touched = Attributes { mtime: Timestamp::default(), ctime: Timestamp::default(), ..same };
        assert_eq!(
            compare(&touched, Extent::Identity, Ok(stat())),
            None,
            "others may come and go in a passage"
        );
        assert_eq!(compare(&same, Extent::Whole, Err(Errno::NOENT)), Some(Difference::Gone));
        assert_eq!(compare(&same, Extent::Whole, Err(Errno::ACCESS)), Some(Difference::Unreadable));
    }
}
