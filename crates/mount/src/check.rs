//! Checks that the sources of an image are unchanged: compares attributes with the originals, many at a time.
//!
//! Compared are the directories whose names the image knows, the files that it holds, and whatever else the recording
//! asked for: a program would get wrong answers about these if they had changed. The time of the last inode change
//! decides: no program can set it back.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use quell_image::{
    Attributes, Beyond, Coverage, FileContent as Content, FileKind as Kind, Image, Nid, NodeUse as Use,
};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::difference::{SourceChange, SourceDifference};
use crate::error::{ImageError, OsError};
use crate::lock;

/// Operations that are in flight at once unless the caller says otherwise: enough to hide the round trips of a
/// network file system, few enough not to be the storm that quell is there to prevent.
pub const DEFAULT_PARALLELISM: usize = 32;

/// The outcome of a comparison, and its cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Changed originals. Shape: sorted by path.
    pub changes: Vec<SourceChange>,
    /// Files, directories and links that were compared.
    pub entries: u64,
    /// Operations on the originals: one for each of them, and one for each stretch of names in a directory.
    pub operations: u64,
}

/// Compares an image with its sources. A complete image whose directories this node does not all have is compared with
/// nothing.
///
/// `parallelism` bounds the operations in flight; 0 counts as 1. All threads have ended on return. Names are looked up by
/// their directory's descriptor: a client that keeps no names would walk the whole path anew for each of them.
///
/// **Errors** [`ImageError::Invalid`] for a damaged image. An original that cannot be looked at is a change.
pub fn check<B: AsRef<[u8]>>(image: &Image<B>, parallelism: usize) -> Result<Checked, ImageError> {
    if !is_beside_its_sources(image) {
        return Ok(Checked { changes: Vec::new(), entries: 0, operations: 0 });
    }
    let subjects = subjects(image)?;
    let stretches = stretches(&subjects);
    let next = AtomicUsize::new(0);
    let changes = Mutex::new(Vec::new());
    let work = || {
        while let Some(stretch) = stretches.get(next.fetch_add(1, Ordering::Relaxed)) {
            let found = compare_stretch(stretch);
            lock(&changes).extend(found);
        }
    };
    let threads = parallelism.clamp(1, stretches.len().max(1));
    std::thread::scope(|scope| {
        // If a thread cannot be started, the others do its work.
        let started =
            (1..threads).map(|_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work));
        let _threads: Vec<_> = started.take_while(Result::is_ok).collect();
        work();
    });
    let mut changes = changes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    changes.sort();
    let (entries, opened) = (subjects.len() as u64, stretches.len() as u64);
    Ok(Checked { changes, entries, operations: entries + opened })
}

/// Most names that one thread takes at a time: many enough to be worth opening their directory, few enough to leave the
/// other threads some of a large one.
const STRETCH: usize = 64;

/// `subjects`, sorted by directory, cut where the directory changes, and where it is large.
fn stretches(subjects: &[Subject]) -> Vec<&[Subject]> {
    let of_one_directory = subjects.chunk_by(|a, b| a.directory == b.directory);
    of_one_directory.flat_map(|subjects| subjects.chunks(STRETCH)).collect()
}

/// Compares names of one directory.
fn compare_stretch(subjects: &[Subject]) -> Vec<SourceChange> {
    let Some(first) = subjects.first() else { return Vec::new() };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(CWD, &*first.directory, flags, Mode::empty());
    let look_at = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let compare = |subject: &Subject| {
        let stat = directory.as_ref().map_err(|errno| *errno);
        let stat = stat.and_then(|directory| rustix::fs::statat(directory, &subject.name, look_at));
        let difference = compare(&subject.packed, subject.extent, stat)?;
        Some(SourceChange { path: subject.directory.join(&subject.name), difference })
    };
    subjects.iter().filter_map(compare).collect()
}

/// Tells whether an image has sources on this node: those of a complete one may be gone, or may never have been here. It
/// counts as having them if this node has a directory for each root.
pub(crate) fn is_beside_its_sources<B: AsRef<[u8]>>(image: &Image<B>) -> bool {
    let index = image.index();
    index.beyond() == Beyond::Originals || index.roots().all(|root| path_of(root.path.to_vec()).is_dir())
}

/// Stack of a checking thread.
const STACK: usize = 128 << 10;

/// A node that must be compared.
#[derive(Debug)]
struct Subject {
    directory: Arc<Path>,
    name: OsString,
    packed: Attributes,
    extent: Extent,
}

/// The subjects to compare, sorted by directory and name.
fn subjects<B: AsRef<[u8]>>(image: &Image<B>) -> Result<Vec<Subject>, ImageError> {
    let roots: Vec<PathBuf> = image.index().roots().map(|root| path_of(root.path.to_vec())).collect();
    let mut subjects = Vec::new();
    for nid in image.nodes() {
        let packed = image.attributes(nid).map_err(quell_image::OpenError::from)?;
        if !matters(image, nid, &packed) {
            continue;
        }
        let path = path_of(image.path(nid).map_err(quell_image::OpenError::from)?);
        // `/` has no name, and is no root: nothing can be mounted over it.
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
        if roots.iter().any(|root| path.starts_with(root)) {
            let extent = Extent::of(image, nid, packed.kind);
            subjects.push(Subject { directory: directory.into(), name: name.into(), packed, extent });
        }
    }
    subjects.sort_unstable_by(|a, b| (&a.directory, &a.name).cmp(&(&b.directory, &b.name)));
    Ok(subjects)
}

/// Tells whether a program would be told something wrong if this node had changed. What is only listed is not asked about;
/// every empty file counts as held, also those.
fn matters<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid, packed: &Attributes) -> bool {
    match packed.kind {
        Kind::Regular if packed.size > 0 && has_content(image, nid) => true,
        Kind::Directory => image.coverage(nid).is_ok_and(|coverage| coverage != Coverage::Uncovered),
        _ => image.usage(nid).is_ok_and(|usage| usage == Use::Touched),
    }
}

/// Tells whether the image holds some of a file's content. A damaged node has to be compared too.
fn has_content<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid) -> bool {
    image.content(nid) != Ok(Content::Original)
}

/// The attributes of a node that must be unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it: what a file holds, which names a directory has.
    Whole,
    /// Its kind and permissions: a directory of which only some names are known to be there, each checked by itself.
    /// Others may come and go in it.
    Identity,
}

impl Extent {
    fn of<B: AsRef<[u8]>>(image: &Image<B>, nid: Nid, kind: Kind) -> Self {
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

/// The first difference, in the order of [`SourceDifference`].
fn compare(packed: &Attributes, extent: Extent, original: Result<Stat, Errno>) -> Option<SourceDifference> {
    let stat = match original {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(SourceDifference::Gone),
        Err(_) => return Some(SourceDifference::Unreadable),
    };
    let same_time = |time: quell_image::Timestamp, seconds: i64, nanoseconds: u64| {
        (time.seconds, u64::from(time.nanoseconds)) == (seconds, nanoseconds)
    };
    let is_directory = packed.kind == Kind::Directory;
    if Kind::from_mode(stat.st_mode) != Some(packed.kind) {
        Some(SourceDifference::Kind)
    } else if !is_directory && packed.size != stat.st_size.cast_unsigned() {
        Some(SourceDifference::Size)
    } else if extent == Extent::Whole && !same_time(packed.mtime, stat.st_mtime, stat.st_mtime_nsec) {
        Some(SourceDifference::Modified)
    } else if (packed.mode(), packed.uid, packed.gid) != (stat.st_mode, stat.st_uid, stat.st_gid) {
        Some(SourceDifference::Permissions)
    } else if extent == Extent::Whole && !same_time(packed.ctime, stat.st_ctime, stat.st_ctime_nsec) {
        Some(SourceDifference::Changed)
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
    use quell_image::{DeviceNumber as Device, Timestamp};

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
            (Attributes { kind: Kind::Symlink, ..same }, SourceDifference::Kind),
            (Attributes { size: 1, ..same }, SourceDifference::Size),
            (Attributes { mtime: Timestamp::default(), ..same }, SourceDifference::Modified),
            (Attributes { permissions: 0o777, ..same }, SourceDifference::Permissions),
            (Attributes { uid: 12, ..same }, SourceDifference::Permissions),
            (Attributes { ctime: Timestamp::default(), ..same }, SourceDifference::Changed),
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
        assert_eq!(compare(&same, Extent::Whole, Err(Errno::NOENT)), Some(SourceDifference::Gone));
        assert_eq!(compare(&same, Extent::Whole, Err(Errno::ACCESS)), Some(SourceDifference::Unreadable));
    }
}
