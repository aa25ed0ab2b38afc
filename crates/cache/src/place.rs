//! The directory of a cache, and the trust in it.
//!
//! All that is later done in a cache is done by path. That is safe because no other user can change a name on the way: each
//! directory and link of it belongs to the user or root and is closed to others, as for images.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use quell_base::files::{WalkedPath, is_anothers};
use rustix::fs::FileType;

use crate::{CacheEntry, CacheError, CacheKey};

/// The owners whose caches are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheOwner {
    /// The user alone: the cache is written to.
    User,
    /// The user or root: the cache is only read.
    UserOrRoot,
}

/// A cache that may be used.
#[derive(Debug, Clone)]
pub struct CacheDirectory {
    path: PathBuf,
    mode: u32,
}

impl CacheDirectory {
    /// Opens the cache at `path`; `None` if there is none.
    ///
    /// # Errors
    /// [`CacheError::Foreign`], [`CacheError::Changeable`], [`CacheError::NotADirectory`], or what the system said.
    pub fn open(path: &Path, owner: CacheOwner) -> Result<Option<Self>, CacheError> {
        let way = match WalkedPath::walk(path) {
            Ok(way) => way,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(CacheError::of("open", path)(error)),
        };
        if let Some(changeable) = way.replaceable() {
            return Err(CacheError::Changeable { path: changeable.to_owned() });
        }
        let Some((_, stat)) = &way.found else { return Ok(None) };
        let path = path.to_owned();
        if !FileType::from_raw_mode(stat.st_mode).is_dir() {
            return Err(CacheError::NotADirectory { path });
        }
        let allowed = match owner {
            CacheOwner::User => stat.st_uid == rustix::process::geteuid().as_raw(),
            CacheOwner::UserOrRoot => !is_anothers(stat),
        };
        match allowed {
            false => Err(CacheError::Foreign { path, owner: stat.st_uid }),
            true if stat.st_mode & 0o022 != 0 => Err(CacheError::Changeable { path }),
            true => Ok(Some(Self { path, mode: stat.st_mode & 0o755 })),
        }
    }

    /// Opens the user's cache at `path`, and makes it where there is none: for its owner alone.
    ///
    /// # Errors
    /// As [`CacheDirectory::open`].
    pub fn make(path: &Path) -> Result<Self, CacheError> {
        if let Some(there) = Self::open(path, CacheOwner::User)? {
            return Ok(there);
        }
        let unseen = || CacheError::Unseen { path: path.to_owned() };
        match fs::DirBuilder::new().recursive(true).mode(0o700).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && is_unseen(path) => Err(unseen()),
            Err(error) => Err(CacheError::of("create", path)(error)),
            Ok(()) => Self::open(path, CacheOwner::User)?.ok_or_else(unseen),
        }
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// True when other users may read what lies in the cache: its images are for all of them.
    pub fn is_public(&self) -> bool {
        self.mode & 0o005 == 0o005
    }

    /// The entry of a program, which may not be there.
    pub fn entry(&self, key: &CacheKey) -> CacheEntry {
        CacheEntry::at(&self.path, key)
    }

    /// The entry of a program, with a directory to write to.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn make_entry(&self, key: &CacheKey) -> Result<CacheEntry, CacheError> {
        let entry = self.entry(key);
        match fs::DirBuilder::new().mode(self.mode | 0o700).create(entry.path()) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(CacheError::of("create", entry.path())(error)),
        }
        Ok(entry)
    }

    /// All entries. Shape: sorted by key.
    ///
    /// # Errors
    /// [`CacheError::Io`].
    pub fn entries(&self) -> Result<Vec<CacheEntry>, CacheError> {
        let names = fs::read_dir(&self.path).map_err(CacheError::of("list", &self.path))?;
        let key = |name: fs::DirEntry| CacheKey::parse(name.file_name().to_str()?);
        let mut keys: Vec<_> = names.filter_map(|name| key(name.ok()?)).collect();
        keys.sort();
        Ok(keys.iter().map(|key| self.entry(key)).collect())
    }
}

/// Tells whether the client of the file system takes a part of `path` for absent that the server has: all that it sees of the path
/// are directories. A link that leads nowhere is seen.
fn is_unseen(path: &Path) -> bool {
    path.ancestors().find(|part| part.symlink_metadata().is_ok()).is_some_and(Path::is_dir)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_cache_is_made_for_its_owner_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a/b/quell");
        assert!(CacheDirectory::open(&path, CacheOwner::User).unwrap().is_none());
        let cache = CacheDirectory::make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(!cache.is_public());
        assert_eq!(CacheDirectory::make(&path).unwrap().path(), path);
    }

    #[test]
    fn a_cache_that_others_can_change_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mode =
            |name: &str, mode| fs::set_permissions(path(name), PermissionsExt::from_mode(mode)).unwrap();
        CacheDirectory::make(&path("open/quell")).unwrap();
        mode("open/quell", 0o777);
        assert!(matches!(CacheDirectory::make(&path("open/quell")), Err(CacheError::Changeable { .. })));
        mode("open/quell", 0o755);
        assert!(CacheDirectory::make(&path("open/quell")).unwrap().is_public());
        mode("open", 0o777);
        assert!(matches!(CacheDirectory::make(&path("open/quell")), Err(CacheError::Changeable { .. })));
        symlink("open/quell", path("link")).unwrap();
        assert!(matches!(CacheDirectory::make(&path("link")), Err(CacheError::Changeable { .. })));
        symlink("nowhere", path("lost")).unwrap();
        let lost = CacheDirectory::make(&path("lost/quell"));
        assert!(matches!(lost, Err(CacheError::Io { .. })), "{lost:?}");
        fs::write(path("file"), "").unwrap();
        assert!(matches!(CacheDirectory::make(&path("file")), Err(CacheError::NotADirectory { .. })));
    }
}
