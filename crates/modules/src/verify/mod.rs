//! Whether two sets of modulepaths say the same to everybody: what is compared, and what differs.
//!
//! The judge is the site's own Environment Modules or Lmod, asked once with the old modulepaths and once with the new.
//! Where an answer names a directory of one side, that is taken for the same directory of the other.

mod judge;
mod normal;
mod questions;
mod rewording;
mod users;

pub use judge::{Comparison, Progress, Tools};
pub(crate) use questions::{shown, without_target};
pub use users::{Unasked, members};

use crate::ModulesError;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Modulepaths as a user has them, and what else a user's environment must say for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Side {
    /// The modulepaths. Shape: in the order of MODULEPATH; the n-th of one side stands for the n-th of the other.
    pub modulepaths: Vec<PathBuf>,
    /// Variables that this side needs, such as `MODULES_MCOOKIE_CHECK=eval`. Shape: name and value.
    pub variables: Vec<(String, String)>,
    /// A directory that stands for `/`: the modulepaths lie below it as they do below that on the other side.
    pub root: Option<PathBuf>,
}

/// An answer that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The tool that gave both answers, with its version, such as `Modules 5.2.0`.
    pub tool: String,
    /// The user or class of users who asked.
    pub user: String,
    /// What was asked, such as `load appa/sym`.
    pub question: String,
    /// The lines of the old answer that are not in the new one.
    pub old: String,
    /// The lines of the new answer that are not in the old one.
    pub new: String,
}

/// Refuses a name that would be two in MODULEPATH, or in what a tool says: asked about it, a tool says nothing of either side,
/// which proves nothing.
pub(crate) fn refuse_name(modulepath: &Path) -> Result<(), ModulesError> {
    let bytes = modulepath.as_os_str().as_bytes();
    let path = modulepath.to_owned();
    match (bytes.contains(&b':'), bytes.iter().any(u8::is_ascii_control)) {
        (true, _) => Err(ModulesError::Colon { path }),
        (_, true) => Err(ModulesError::Control { path }),
        _ => Ok(()),
    }
}

/// The judge of those who ask for none: nothing differs.
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl Judge for Nobody {
    fn differences(&mut self, _: &Side, _: &Side) -> Result<Vec<Difference>, ModulesError> {
        Ok(Vec::new())
    }
}

/// Who judges a conversion.
pub trait Judge {
    /// Every question of rule 24, asked of both sides, for every tool and class of users that matters here.
    ///
    /// Shape: sorted by tool, user, question; empty if the sides are equivalent.
    ///
    /// **Errors**: a tool that cannot be run.
    fn differences(&mut self, old: &Side, new: &Side) -> Result<Vec<Difference>, ModulesError>;
}
