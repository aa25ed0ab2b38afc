//! The directory in which a load works: refused where it cannot, removed whatever happens.

use crate::error::CalibrateError;
use rustix::fs::Access;
use rustix::io::Errno;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The room that a load needs in its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Unit: bytes, directories and inodes included.
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

/// A new directory of our own in the one to be measured. It goes away with this value.
#[derive(Debug)]
pub(crate) struct WorkDirectory {
    path: PathBuf,
}

/// The begin of its name, by which one that `SIGKILL` left is known.
pub const PREFIX: &str = "quell-calibrate-";

/// Names that are tried: another node's process may have the same number.
const NAMES: u32 = 100;

/// Looks whether a directory can be measured in, and makes nothing. Shape: the directory, absolute and without links.
///
/// **Errors**: it is `/`, missing, no directory, read-only, not ours to write to, or too full for `needs`.
pub(crate) fn check(directory: &Path, needs: Needs) -> Result<PathBuf, CalibrateError> {
    let refused = |source| CalibrateError::Directory { path: directory.to_owned(), source };
    let real = directory.canonicalize().map_err(refused)?;
    if real == Path::new("/") {
        return Err(CalibrateError::Root);
    }
    if !real.metadata().map_err(refused)?.is_dir() {
        return Err(refused(Errno::NOTDIR.into()));
    }
    let wanted = Access::WRITE_OK | Access::EXEC_OK;
    rustix::fs::access(&real, wanted).map_err(|errno| refused(errno.into()))?;
    has_room(directory, needs)?;
    Ok(real)
}

impl WorkDirectory {
    /// Makes it, if [`check`] has nothing against it.
    ///
    /// **Errors**: those of [`check`], and of mkdir(2).
    pub(crate) fn make(parent: &Path, needs: Needs) -> Result<Self, CalibrateError> {
        let real = check(parent, needs)?;
        let refused = |source| CalibrateError::Directory { path: parent.to_owned(), source };
        for number in 0..NAMES {
            let path = real.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(refused(error)),
            }
        }
        Err(refused(Errno::EXIST.into()))
    }

    /// Absolute.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it and says whether that worked.
    pub(crate) fn remove(self) -> Result<(), CalibrateError> {
        // Twice: what another client makes until it ends may come in between.
        (0..2).for_each(|_| empty(&self.path));
        std::fs::remove_dir_all(&self.path)
            .map_err(|source| CalibrateError::Left { path: self.path.clone(), source })
    }
}

impl Drop for WorkDirectory {
    /// [`Self::remove`] has reported what it could not remove.
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Directories that earlier calibrations could not remove, because they were killed. Shape: absolute, sorted; empty where
/// it cannot be listed.
pub fn leftovers(directory: &Path) -> Vec<PathBuf> {
    let Ok(parent) = directory.canonicalize() else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(parent) else { return Vec::new() };
    let ours = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
    };
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(ours).collect();
    found.sort();
    found
}

fn has_room(directory: &Path, needs: Needs) -> Result<(), CalibrateError> {
    let refused = |errno: rustix::io::Errno| CalibrateError::Directory {
        path: directory.to_owned(),
        source: errno.into(),
    };
    let room = rustix::fs::statvfs(directory).map_err(refused)?;
    let full = |what, free, needed| CalibrateError::Full { path: directory.to_owned(), what, free, needed };
    let free = room.f_bavail.saturating_mul(room.f_frsize);
    // A client that was mounted a moment ago may not know yet, and says 0 of 0.
    if room.f_blocks > 0 && free < needs.bytes {
        return Err(full("bytes", free, needs.bytes));
    }
    // A file system that counts no files says 0 of 0.
    if room.f_files > 0 && room.f_favail < needs.files {
        return Err(full("files", room.f_favail, needs.files));
    }
    Ok(())
}

/// Removes what is in a directory by several threads: a client waits round trips for each name. What cannot be removed here
/// is left to the one that removes the directory itself, and reports.
fn empty(directory: &Path) {
    let Ok(entries) = std::fs::read_dir(directory) else { return };
    let inner: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..REMOVERS.min(inner.len()) {
            scope.spawn(|| {
                while let Some(path) = inner.get(next.fetch_add(1, Ordering::Relaxed)) {
                    _ = std::fs::remove_dir_all(path);
                }
            });
        }
    });
}

/// Threads that remove.
const REMOVERS: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const LITTLE: Needs = Needs { bytes: 1, files: 1 };

    #[test]
    fn a_place_is_new_private_and_goes_away_with_what_is_in_it() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let place = WorkDirectory::make(parent.path(), LITTLE).expect("a place");
        let path = place.path().to_owned();
        std::fs::create_dir_all(path.join("a/b")).expect("directories");
        std::fs::write(path.join("a/b/c"), "c").expect("a file");
        assert_eq!(leftovers(parent.path()), std::slice::from_ref(&path));
        place.remove().expect("it can be removed");
        assert!(!path.exists());
        assert!(leftovers(parent.path()).is_empty());
    }

    #[test]
    fn what_cannot_be_worked_in_is_refused() {
        let parent = tempfile::tempdir().expect("a temporary directory");
        let file = parent.path().join("file");
        std::fs::write(&file, "").expect("a file");
        assert!(matches!(WorkDirectory::make(Path::new("/"), LITTLE), Err(CalibrateError::Root)));
        assert!(matches!(WorkDirectory::make(Path::new("/usr/.."), LITTLE), Err(CalibrateError::Root)));
        for bad in [file, parent.path().join("missing")] {
            assert!(
                matches!(WorkDirectory::make(&bad, LITTLE), Err(CalibrateError::Directory { .. })),
                "{bad:?}"
            );
        }
        let huge = Needs { bytes: u64::MAX, files: 1 };
        assert!(matches!(
            WorkDirectory::make(parent.path(), huge),
            Err(CalibrateError::Full { what: "bytes", .. })
        ));
    }
}
