//! Caches that the site's own tools make of module trees: built aside and renamed into place, shown to nobody who may not
//! see what is in them, compared with the tree that they were made from.
//!
//! ```text
//! modulepath -> scan -> what changed since the last cache -> directory of links to that -> the tool's own builder
//!                                                                   cache, whole <- what is closed is taken out <-'
//! ```
//!
//! Environment Modules has a cache in each modulepath (`.modulecache`, from 5.3); Lmod one directory for all of them.

pub(crate) mod barrier;
mod changes;
mod digest;
mod eligibility;
mod format;
pub mod lmod;
mod mirror;
pub mod modules;
mod reach;

pub use barrier::Barrier;
pub(crate) use changes::compare;
pub use eligibility::closed_above;
pub(crate) use eligibility::outside;
pub use mirror::Mirror;
pub(crate) use reach::Closed;

use crate::ModulesError;
use crate::scan::Tree;
use crate::tools::{Tool, User};
use crate::trust;
use std::path::Path;
use std::time::Duration;

/// So long a tool that builds a cache may say nothing: it evaluates or reads every modulefile, on a slow file system too.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);

/// The tool that builds a cache, and as whom root starts it.
#[derive(Clone, Copy, Debug)]
pub struct Builder<'a> {
    tool: &'a Tool,
    /// Root's choice; `None` where quell is to choose.
    user: Option<&'a User>,
}

impl<'a> Builder<'a> {
    /// A tool, started as this user.
    pub fn new(tool: &'a Tool, user: Option<&'a User>) -> Self {
        Self { tool, user }
    }

    /// As whom it is started on these trees.
    ///
    /// **Errors**: [`ModulesError::Unsafe`].
    fn user(&self, trees: &[&Tree]) -> Result<User, ModulesError> {
        trust::builder(self.tool, trees, self.user)
    }
}

impl<'a> From<&'a Tool> for Builder<'a> {
    fn from(tool: &'a Tool) -> Self {
        Self::new(tool, None)
    }
}

/// Gives a directory that was made for a builder to it.
///
/// **Errors**: [`ModulesError::Write`].
fn hand_over(directory: &Path, user: &User) -> Result<(), ModulesError> {
    let Some(credentials) = &user.credentials else { return Ok(()) };
    let (owner, group) = (Some(credentials.user), Some(credentials.group));
    std::os::unix::fs::lchown(directory, owner, group).map_err(ModulesError::write(directory))
}

/// A difference between a cache and what it was made from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// Below the modulepath; empty for the modulepath as a whole. Shape: bytes as the file system has them.
    pub path: Vec<u8>,
    /// What is different.
    pub what: What,
}

/// How a file differs from what a cache says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// There is no cache.
    NoCache,
    /// There is a cache, and not everybody can read it.
    Unreadable,
    /// There is a cache of Lmod, and it is older than its timestamp.
    Outdated,
    /// There is a cache of Lmod, and it is not the one that was built.
    Replaced,
    /// The file is not in the cache.
    Added,
    /// The file is in the cache, and nowhere else.
    Removed,
    /// Its content is not that of the cache.
    Changed,
    /// Its time is not that of the cache, which listings show.
    Touched,
    /// Not everybody may read it, and the cache shows it to all.
    Closed,
    /// Everybody may read it, and the cache sends users to the file.
    Opened,
    /// Something that no file of the cache tells: permissions of a directory, a link, a file that is no modulefile.
    Other,
}

impl What {
    /// What it is, in words that follow the path.
    pub fn words(self) -> &'static str {
        match self {
            Self::NoCache => "there is no cache",
            Self::Unreadable => "its cache cannot be read by everybody",
            Self::Outdated => "its cache is older than its timestamp, so Lmod does not use it",
            Self::Replaced => "its cache is not the one that was built of what is listed beside it",
            Self::Added => "is not in the cache",
            Self::Removed => "is in the cache, and not there any more",
            Self::Changed => "is not what the cache says",
            Self::Touched => "has another time than the cache says",
            Self::Closed => "is closed to some users, and the cache shows it to all",
            Self::Opened => "is open to everybody, which the cache does not know",
            Self::Other => "permissions, links or files that are no modulefiles are not what they were",
        }
    }
}
