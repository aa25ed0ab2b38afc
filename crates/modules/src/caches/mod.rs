//! Caches that the site's own tools make of module trees. They are built aside and renamed into place, hold nothing that
//! some reader may not see, and are compared with the tree that they were made from.
//!
//! ```text
//! modulepath -> scan -> what changed since the last cache -> directory of links to that -> the tool's own builder
//!                                                                   cache, whole <- what is closed is taken out <-'
//! ```
//!
//! Environment Modules has a cache in each modulepath (`.modulecache`, from 5.3); Lmod has one directory for all
//! modulepaths.

pub(crate) mod barrier;
mod changes;
mod digest;
mod eligibility;
mod format;
mod kept;
pub mod lmod;
mod mirror;
pub mod modules;
mod reach;
mod undo;

pub use barrier::CacheBarrier;
pub(crate) use changes::compare;
pub use eligibility::closed_above;
pub(crate) use eligibility::outside;
pub use kept::UndoneCache;
pub use mirror::Mirror;
pub(crate) use reach::Closed;
pub use undo::CacheRecord;

use crate::ModulesError;
use crate::scan::ModuleTree;
use crate::tools::{Tool, User};
use crate::trust;
use std::path::Path;
use std::time::Duration;

/// A tool that builds a cache may be silent for this long: it evaluates or reads every modulefile, on slow file systems too.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The tool that builds a cache, and the user as which root starts it.
#[derive(Clone, Copy, Debug)]
pub struct CacheBuilder<'a> {
    tool: &'a Tool,
    /// The user that root names; `None` where quell chooses.
    user: Option<&'a User>,
}

impl<'a> CacheBuilder<'a> {
    /// A tool that is started as `user`, or as the user that quell chooses.
    pub fn new(tool: &'a Tool, user: Option<&'a User>) -> Self {
        Self { tool, user }
    }

    /// The user as which the tool is started on these trees.
    ///
    /// **Errors**: [`ModulesError::Unsafe`].
    fn user(&self, trees: &[&ModuleTree]) -> Result<User, ModulesError> {
        trust::builder(self.tool, trees, self.user)
    }
}

impl<'a> From<&'a Tool> for CacheBuilder<'a> {
    fn from(tool: &'a Tool) -> Self {
        Self::new(tool, None)
    }
}

/// Gives a new directory to the user that will write in it.
///
/// **Errors**: [`ModulesError::Write`].
pub(crate) fn hand_over(directory: &Path, user: &User) -> Result<(), ModulesError> {
    let Some(credentials) = &user.credentials else { return Ok(()) };
    let (owner, group) = (Some(credentials.user), Some(credentials.group));
    std::os::unix::fs::lchown(directory, owner, group).map_err(ModulesError::write(directory))
}

/// A difference between a cache and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StaleEntry {
    /// The path below the modulepath; empty for the modulepath as a whole. Shape: bytes as the file system has them.
    pub path: Vec<u8>,
    /// The kind of difference.
    pub what: CacheStaleness,
}

/// The difference between a file and a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheStaleness {
    /// There is no cache.
    NoCache,
    /// Some users cannot read the cache.
    Unreadable,
    /// The cache of Lmod is older than its timestamp.
    Outdated,
    /// The cache of Lmod is not the one that was built.
    Replaced,
    /// The file is not in the cache.
    Added,
    /// The file is in the cache and no longer in the tree.
    Removed,
    /// Its content differs from the cache.
    Changed,
    /// Its time differs from the cache; listings show it.
    Touched,
    /// Some users may not read it, and the cache shows it to all.
    Closed,
    /// Every user may read it, and the cache sends users to the file.
    Opened,
    /// A difference that no file's entry shows: permissions of a directory, a link, a file that is no modulefile.
    Other,
}

impl CacheStaleness {
    /// The difference in words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoCache => "there is no cache",
            Self::Unreadable => "some users cannot read its cache",
            Self::Outdated => "its cache is older than its timestamp, so Lmod does not use it",
            Self::Replaced => "its cache is not the one that was built from the sources beside it",
            Self::Added => "is not in the cache",
            Self::Removed => "is in the cache, and no longer in the tree",
            Self::Changed => "differs from the cache",
            Self::Touched => "has another time than in the cache",
            Self::Closed => "is closed to some users, and the cache shows it to all",
            Self::Opened => "is open to every user, and the cache sends users to the tree for it",
            Self::Other => "permissions, links, or files that are no modulefiles have changed",
        }
    }
}
