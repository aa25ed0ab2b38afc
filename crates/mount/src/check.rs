//! Checks that the originals of an image are unchanged: compares attributes with the originals, many at a time.
//!
//! Compared are the files that the image holds, whatever else the recording asked for, and the directories that it covers: a
//! program would get wrong answers about these if they had changed. The time of the last inode change decides: no program
//! can set it back.
//!
//! A directory whose times are as they were has the names that it had. If they differ, its names are compared one by one: each
//! that the recording found is compared anyway, each that it did not find is looked up again, and the directory is listed if the
//! recording listed it. So names that come and go concern only a program that listed the directory or looked for them.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_base::parallel::in_parallel;
use quell_image::original::{OriginalDirectory, attributes_from};
use quell_image::{Attributes, Beyond, FileKind as Kind, Image, Nid};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::difference::{OriginalChange, OriginalDifference};
use crate::error::{ImageError, OsError};
use crate::request::path_of;
use crate::staleness::{Staleness, is_compared};

/// The outcome of a comparison, and its cost.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Facts that the recording learned and that do not hold any more. Shape: sorted by path; nothing below a directory that is
    /// gone or something else.
    pub changes: Vec<OriginalChange>,
    /// Files, directories and links that were compared.
    pub entries: u64,
    /// Operations on the originals: one for each of them, one for each stretch of names in a directory, and those for the names
    /// of directories whose times changed.
    pub operations: u64,
    /// The same for a server.
    pub(crate) staleness: Staleness,
}

/// Compares an image with its originals. A complete image whose directories this node does not all have is compared with
/// nothing.
///
/// `path` is the image's own, whose name does not count as a name in a directory.
/// `parallelism` bounds the operations in flight; 0 counts as 1. All threads have ended on return. Names are looked up by
/// their directory's descriptor: a client that keeps no names would walk the whole path anew for each of them.
///
/// **Errors** [`ImageError::Invalid`] for a damaged image. An original that cannot be looked at is a change.
pub fn check<B: AsRef<[u8]> + Sync>(
    image: &Image<B>,
    path: &Path,
    parallelism: usize,
) -> Result<Checked, ImageError> {
    if !has_its_originals(image) {
        return Ok(Checked::default());
    }
    let subjects = subjects(image)?;
    let stretches = stretches(&subjects);
    let mut outcome = Outcome::default();
    for (subject, finding) in in_parallel(&stretches, parallelism, |stretch| compare_stretch(stretch)) {
        outcome.take(subject, finding);
    }
    let renewed = outcome.staleness.renewed.keys().copied();
    let searches = searches(image, renewed)?;
    for found in in_parallel(&searches, parallelism, |search| search.look(image, path)) {
        outcome.take_found(found);
    }
    let changes = outcome.changes();
    let operations = subjects.len() + stretches.len() + searches.iter().map(Search::cost).sum::<usize>();
    Ok(Checked {
        staleness: Staleness { changes: changes.len() as u64, ..outcome.staleness },
        changes,
        entries: subjects.len() as u64,
        operations: operations as u64,
    })
}

/// Most names that one thread takes at a time: many enough to be worth opening their directory, few enough to leave the
/// other threads some of a large one.
const STRETCH: usize = 64;

/// `subjects`, sorted by directory, cut where the directory changes, and where it is large.
fn stretches(subjects: &[Subject]) -> Vec<&[Subject]> {
    let of_one_directory = subjects.chunk_by(|a, b| a.directory == b.directory);
    of_one_directory.flat_map(|subjects| subjects.chunks(STRETCH)).collect()
}

/// Compares names of one directory; gives those that are not the same.
fn compare_stretch<'s>(subjects: &&'s [Subject]) -> Vec<(&'s Subject, Finding)> {
    let Some(first) = subjects.first() else { return Vec::new() };
    let directory = open(&first.directory);
    let compare = |subject: &'s Subject| {
        let stat = directory.as_ref().map_err(|errno| *errno);
        let stat = stat.and_then(|directory| rustix::fs::statat(directory, &subject.name, LOOK_AT));
        Some((subject, compare(&subject.packed, stat)?))
    };
    subjects.iter().filter_map(compare).collect()
}

fn open(directory: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, directory, flags, Mode::empty())
}

/// A name itself is looked at, and nothing is mounted for it.
const LOOK_AT: AtFlags = AtFlags::SYMLINK_NOFOLLOW.union(AtFlags::NO_AUTOMOUNT);

/// Tells whether an image has originals on this node: those of a complete one may be gone, or may never have been here. It
/// counts as having them if this node has a directory for each root.
pub(crate) fn has_its_originals<B: AsRef<[u8]>>(image: &Image<B>) -> bool {
    let index = image.index();
    index.beyond() == Beyond::Originals || index.roots().all(|root| path_of(root.path.to_vec()).is_dir())
}

/// A node that must be compared.
#[derive(Debug)]
struct Subject {
    nid: Nid,
    directory: Arc<Path>,
    name: OsString,
    packed: Attributes,
}

impl Subject {
    fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// The subjects to compare, sorted by directory and name.
fn subjects<B: AsRef<[u8]>>(image: &Image<B>) -> Result<Vec<Subject>, ImageError> {
    let roots: Vec<PathBuf> = image.index().roots().map(|root| path_of(root.path.to_vec())).collect();
    let mut subjects = Vec::new();
    for nid in image.nodes() {
        let packed = image.attributes(nid).map_err(quell_image::OpenError::from)?;
        if !is_compared(image, nid, &packed) {
            continue;
        }
        let path = path_of(image.path(nid).map_err(quell_image::OpenError::from)?);
        // `/` has no name, and is no root: nothing can be mounted over it.
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
        if roots.iter().any(|root| path.starts_with(root)) {
            subjects.push(Subject { nid, directory: directory.into(), name: name.into(), packed });
        }
    }
    subjects.sort_unstable_by(|a, b| (&a.directory, &a.name).cmp(&(&b.directory, &b.name)));
    Ok(subjects)
}

/// The way in which a node is not as it was packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// Its original answers for it.
    Changed(OriginalDifference),
    /// A directory with other attributes, which are a change by themselves if its permissions are others.
    Renewed(Attributes, Option<OriginalDifference>),
}

/// The first difference, in the order of [`OriginalDifference`].
fn compare(packed: &Attributes, original: Result<Stat, Errno>) -> Option<Finding> {
    let stat = match original {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(Finding::Changed(OriginalDifference::Gone)),
        Err(_) => return Some(Finding::Changed(OriginalDifference::Unreadable)),
    };
    let Some(now) = attributes_from(&stat).filter(|now| now.kind == packed.kind) else {
        return Some(Finding::Changed(OriginalDifference::Kind));
    };
    let rights = |it: &Attributes| (it.permissions, it.uid, it.gid);
    let permissions = (rights(packed) != rights(&now)).then_some(OriginalDifference::Permissions);
    let times = |it: &Attributes| (it.mtime, it.ctime);
    if packed.kind == Kind::Directory {
        let same = permissions.is_none() && times(packed) == times(&now);
        return (!same).then_some(Finding::Renewed(now, permissions));
    }
    let difference = if packed.size != now.size {
        OriginalDifference::Size
    } else if packed.mtime != now.mtime {
        OriginalDifference::Modified
    } else if permissions.is_some() {
        OriginalDifference::Permissions
    } else if packed.ctime != now.ctime {
        OriginalDifference::Changed
    } else {
        return None;
    };
    Some(Finding::Changed(difference))
}

/// Something to find out about the names of a directory whose times changed.
#[derive(Debug)]
struct Search {
    nid: Nid,
    directory: Arc<Path>,
    /// The names that were absent.
    absent: Vec<Vec<u8>>,
    /// True if the program learned its listing.
    listed: bool,
}

/// An outcome of a [`Search`].
#[derive(Debug)]
struct Found {
    nid: Nid,
    directory: Arc<Path>,
    /// A name that was absent; `None` for other names than there were.
    appeared: Option<(Vec<u8>, OriginalDifference)>,
}

/// The searches in the directories `renewed`.
fn searches<B: AsRef<[u8]>>(
    image: &Image<B>,
    renewed: impl Iterator<Item = Nid>,
) -> Result<Vec<Search>, ImageError> {
    let mut searches = Vec::new();
    for nid in renewed {
        let corrupt = quell_image::OpenError::from;
        let directory: Arc<Path> = path_of(image.path(nid).map_err(corrupt)?).into();
        let absences = image.absences(nid).map_err(corrupt)?;
        let absent: Vec<_> =
            (0..absences.len()).filter_map(|number| absences.name(number)).map(<[u8]>::to_vec).collect();
        let listed = image.is_listing_learned(nid).map_err(corrupt)?;
        let search = |absent: &[Vec<u8>]| Search {
            nid,
            directory: Arc::clone(&directory),
            absent: absent.to_vec(),
            listed,
        };
        match listed {
            // One listing tells of all names.
            true => searches.push(search(&absent)),
            false => searches.extend(absent.chunks(STRETCH).map(search)),
        }
    }
    Ok(searches)
}

impl Search {
    fn cost(&self) -> usize {
        if self.listed { 2 } else { 1 + self.absent.len() }
    }

    fn look<B: AsRef<[u8]>>(&self, image: &Image<B>, path: &Path) -> Vec<Found> {
        let found = |appeared| Found { nid: self.nid, directory: Arc::clone(&self.directory), appeared };
        let names = self.listed.then(|| OriginalDirectory::open(&self.directory)?.names());
        let Some(Ok(names)) = names else {
            let directory = open(&self.directory);
            let look = |name: &Vec<u8>| {
                let directory = directory.as_ref().map_err(|errno| *errno)?;
                rustix::fs::statat(directory, OsStr::from_bytes(name), LOOK_AT)
            };
            let difference = |name: &Vec<u8>| match look(name) {
                Err(Errno::NOENT) => None,
                Ok(_) => Some((name.clone(), OriginalDifference::Appeared)),
                Err(_) => Some((name.clone(), OriginalDifference::Unreadable)),
            };
            let unlisted = self.listed.then_some(None);
            let appeared = self.absent.iter().filter_map(difference).map(Some);
            return unlisted.into_iter().chain(appeared).map(found).collect();
        };
        let there = |name: &&Vec<u8>| names.binary_search(name).is_ok();
        let appeared = self.absent.iter().filter(there).cloned();
        let appeared = appeared.map(|name| Some((name, OriginalDifference::Appeared)));
        let other_names = (!is_same_listing(image, self.nid, &names, path)).then_some(None);
        other_names.into_iter().chain(appeared).map(found).collect()
    }
}

/// Tells whether `names` are those that the image lists in a directory, but for files of quell itself.
fn is_same_listing<B: AsRef<[u8]>>(image: &Image<B>, directory: Nid, names: &[Vec<u8>], path: &Path) -> bool {
    let own = path.file_name().unwrap_or_default().as_bytes();
    let counts = |name: &&[u8]| !is_own(name, own);
    let Ok(entries) = image.entries(directory) else { return false };
    let packed = entries.filter_map(Result::ok).filter(|entry| !entry.is_dot()).map(|entry| entry.name);
    packed.filter(counts).eq(names.iter().map(|name| &name[..]).filter(counts))
}

/// Tells whether `name` is that of a trace, an image, or a file that belongs to one, such as `image`: an application that keeps
/// them beside its files is not changed by them.
fn is_own(name: &[u8], image: &[u8]) -> bool {
    let contains = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
    (!image.is_empty() && name.starts_with(image))
        || name.ends_with(b".qtrace")
        || name.ends_with(b".qimg")
        || contains(b".qimg.")
}

/// The findings so far.
#[derive(Debug, Default)]
struct Outcome {
    staleness: Staleness,
    changes: Vec<OriginalChange>,
    /// Directories that cannot be gone through any more: what lies below them is no change of its own.
    barred: HashSet<PathBuf>,
}

impl Outcome {
    fn take(&mut self, subject: &Subject, finding: Finding) {
        let difference = match finding {
            Finding::Changed(difference) => {
                self.staleness.altered.insert(subject.nid);
                Some(difference)
            }
            Finding::Renewed(attributes, difference) => {
                self.staleness.renewed.insert(subject.nid, attributes);
                difference
            }
        };
        let Some(difference) = difference else { return };
        if subject.packed.kind == Kind::Directory {
            self.barred.insert(subject.path());
        }
        self.changes.push(OriginalChange { path: subject.path(), difference });
    }

    fn take_found(&mut self, found: Found) {
        let Found { nid, directory, appeared } = found;
        let change = match appeared {
            Some((name, difference)) => {
                let path = directory.join(OsStr::from_bytes(&name));
                self.staleness.appeared.insert((nid, name));
                OriginalChange { path, difference }
            }
            None => {
                OriginalChange { path: directory.to_path_buf(), difference: OriginalDifference::Modified }
            }
        };
        self.changes.push(change);
    }

    /// The changes, sorted.
    fn changes(&mut self) -> Vec<OriginalChange> {
        let mut changes = std::mem::take(&mut self.changes);
        changes.sort();
        let below =
            |change: &OriginalChange| change.path.parent().is_some_and(|above| self.barred.contains(above));
        let follows = |change: &OriginalChange| {
            matches!(change.difference, OriginalDifference::Gone | OriginalDifference::Unreadable)
                && below(change)
        };
        changes.retain(|change| !follows(change));
        changes.dedup_by(|later, first| later.path == first.path);
        changes
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
    use quell_image::Timestamp;

    fn changed(difference: OriginalDifference) -> Option<Finding> {
        Some(Finding::Changed(difference))
    }

    #[test]
    fn the_first_difference_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let stat = || rustix::fs::lstat(file.path()).unwrap();
        let same = attributes_from(&stat()).unwrap();
        assert_eq!(compare(&same, Ok(stat())), None);
        let cases = [
            (Attributes { kind: Kind::Symlink, ..same }, OriginalDifference::Kind),
            (Attributes { size: 1, ..same }, OriginalDifference::Size),
            (Attributes { mtime: Timestamp::default(), ..same }, OriginalDifference::Modified),
            (Attributes { permissions: 0o777, ..same }, OriginalDifference::Permissions),
            (Attributes { uid: 12, ..same }, OriginalDifference::Permissions),
            (Attributes { ctime: Timestamp::default(), ..same }, OriginalDifference::Changed),
        ];
        for (packed, difference) in cases {
            assert_eq!(compare(&packed, Ok(stat())), changed(difference));
        }
        assert_eq!(compare(&same, Err(Errno::NOENT)), changed(OriginalDifference::Gone));
        assert_eq!(compare(&same, Err(Errno::ACCESS)), changed(OriginalDifference::Unreadable));
    }

    #[test]
    fn the_times_of_a_directory_are_no_difference_by_themselves() {
        let directory = tempfile::tempdir().unwrap();
        let stat = || rustix::fs::lstat(directory.path()).unwrap();
        let now = attributes_from(&stat()).unwrap();
        assert_eq!(compare(&now, Ok(stat())), None);
        let touched = Attributes { mtime: Timestamp::default(), ..now };
        assert_eq!(compare(&touched, Ok(stat())), Some(Finding::Renewed(now, None)));
        let opened = Attributes { permissions: 0o777, ..now };
        let difference = Some(OriginalDifference::Permissions);
        assert_eq!(compare(&opened, Ok(stat())), Some(Finding::Renewed(now, difference)));
    }

    #[test]
    fn files_of_quell_are_known_by_their_names() {
        for (name, own) in [
            ("app.qtrace", true),
            ("app.qimg", true),
            ("app.qimg.checked", true),
            ("app.py", false),
            ("qimg", false),
            ("image.checked", true),
        ] {
            assert_eq!(is_own(name.as_bytes(), b"image"), own, "{name}");
        }
    }
}
