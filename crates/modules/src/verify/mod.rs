//! Compares the answers of the site's own tools about two sets of modulepaths.
//!
//! The judge is the site's Environment Modules or Lmod, asked once with the old modulepaths and once with the new. A path of
//! one side in an answer counts as equal to the same path of the other.

mod follow;
mod judge;
mod normal;
mod questions;
mod rewording;
mod states;
mod users;

pub use follow::added;
pub use judge::{JudgedComparison, ToolsJudge, VerifyProgress};
pub(crate) use questions::{shown, without_target};
pub(crate) use states::AFTER;
pub use users::{UnaskedUsers, members};

use crate::ModulesError;
use crate::tools::Environment;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Modulepaths, with the variables that their users need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JudgedSide {
    /// The modulepaths. Shape: in the order of MODULEPATH; the n-th of one side stands for the n-th of the other.
    pub modulepaths: Vec<PathBuf>,
    /// Variables for this side, such as `MODULES_MCOOKIE_CHECK=eval`. Shape: name and value.
    pub variables: Vec<(String, String)>,
    /// A directory that stands for `/`: the modulepaths lie below it as those of the other side lie below `/`.
    pub root: Option<PathBuf>,
    /// Trees that the tools see under the names of others: first the name, then the tree. Root can ask so, and a new tree then has
    /// the name that it will have.
    pub over: Vec<(PathBuf, PathBuf)>,
}

impl JudgedSide {
    /// An environment with the modulepaths, the site's variables and the side's own.
    pub(crate) fn environment(&self, site: &[(OsString, OsString)]) -> Environment {
        let own = self.variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment {
            modulepaths: self.modulepaths.clone(),
            variables: site.iter().cloned().chain(own).collect(),
            over: self.over.clone(),
        }
    }

    /// The places of the modulepaths for this process. Shape: as `modulepaths`.
    fn places(&self) -> Vec<PathBuf> {
        let place = |path: &PathBuf| {
            let real = path.canonicalize().ok();
            let over = self.over.iter().find(|(name, _)| Some(name) == real.as_ref());
            over.map_or_else(|| path.clone(), |(_, tree)| tree.clone())
        };
        self.modulepaths.iter().map(place).collect()
    }
}

/// An answer that changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The tool that gave both answers, with its version, such as `Modules 5.2.0`.
    pub tool: String,
    /// The user or class of users that asked.
    pub user: String,
    /// The question, such as `load appa/sym`.
    pub question: String,
    /// The lines of the old answer that are not in the new one.
    pub old: String,
    /// The lines of the new answer that are not in the old one.
    pub new: String,
}

/// Refuses a name that MODULEPATH or a line of output would split. A tool lists nothing of such a modulepath, which proves
/// nothing.
pub(crate) fn refuse_name(modulepath: &Path) -> Result<(), ModulesError> {
    let bytes = modulepath.as_os_str().as_bytes();
    let path = modulepath.to_owned();
    match (bytes.contains(&b':'), bytes.iter().any(u8::is_ascii_control)) {
        (true, _) => Err(ModulesError::Colon { path }),
        (_, true) => Err(ModulesError::Control { path }),
        _ => Ok(()),
    }
}

/// A judge that asks no tool and finds no difference.
#[derive(Clone, Copy, Debug)]
pub struct NoJudge;

impl ConversionJudge for NoJudge {
    fn differences(&mut self, _: &JudgedSide, _: &JudgedSide) -> Result<Vec<Difference>, ModulesError> {
        Ok(Vec::new())
    }
}

/// The judge of a conversion.
pub trait ConversionJudge {
    /// Asks every question of rule 24 of both sides, for every tool and class of users.
    ///
    /// Shape: sorted by tool, user, question; empty if the sides are equivalent.
    ///
    /// **Errors**: a tool cannot be run.
    fn differences(&mut self, old: &JudgedSide, new: &JudgedSide) -> Result<Vec<Difference>, ModulesError>;
}
