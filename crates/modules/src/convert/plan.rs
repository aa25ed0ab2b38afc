//! The plan of a conversion: changes, rc files that stay, and reasons to refuse.

use super::request::{Consent, Destination, Strategy};
use crate::cookie::CACHE;
use crate::rc::LeaveReason;
use crate::verify::Difference;
use quell_base::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// The plan for some modulepaths.
#[derive(Clone, Debug)]
pub struct ConversionPlan {
    /// The strategy.
    pub strategy: Strategy,
    /// The options.
    pub consent: Consent,
    /// Shape: one entry a modulepath, in their order.
    pub trees: Vec<TreePlan>,
}

impl ConversionPlan {
    /// Tells whether every modulepath can be converted.
    pub fn is_possible(&self) -> bool {
        self.trees.iter().all(|tree| tree.refusals.is_empty())
    }

    /// The top names whose rc files the plan moves and whose modules these differences are about. A plan without them may pass.
    pub fn to_blame(&self, differences: &[Difference]) -> BTreeSet<Vec<u8>> {
        let moved = self.trees.iter().flat_map(|tree| &tree.changes);
        let moved = moved
            .filter(|(path, change)| matches!(change, FileChange::Remove { .. }) && path.contains(&b'/'));
        let tops: BTreeSet<&[u8]> =
            moved.filter_map(|(path, _)| path.split(|byte| *byte == b'/').next()).collect();
        let lines = differences.iter().flat_map(|one| [&one.question, &one.old, &one.new]);
        let is_sign = |letter: char| !letter.is_alphanumeric() && !"_.+-".contains(letter);
        let words: BTreeSet<&[u8]> = lines.flat_map(|line| line.split(is_sign)).map(str::as_bytes).collect();
        tops.intersection(&words).map(|top| top.to_vec()).collect()
    }
}

/// The plan for one modulepath.
#[derive(Clone, Debug)]
pub struct TreePlan {
    /// The modulepath.
    pub source: PathBuf,
    /// The new modulepath begins as a copy, or empty.
    pub basis: Basis,
    /// By path below the modulepath.
    pub changes: BTreeMap<Vec<u8>, FileChange>,
    /// rc files that stay, with the reasons.
    pub left: Vec<(Vec<u8>, LeaveReason)>,
    /// The reasons to refuse; empty if the modulepath can be converted.
    pub refusals: Vec<Refusal>,
    /// Names that the commands of the plan hide. Before, the tool looked at their files and did not list them.
    pub hidden: BTreeSet<Vec<u8>>,
    /// Further facts for the administrator.
    pub notes: Vec<String>,
    /// Facts that matter where the new modulepath will be beside the old one.
    pub beside: Vec<String>,
    /// The fingerprint of the modulepath that was planned for.
    pub(super) seen: String,
}

impl TreePlan {
    /// Facts for the administrator, for this destination; `None` where the destination is not known yet.
    pub fn notes_for(&self, destination: Option<&Destination>) -> impl Iterator<Item = &String> {
        let is_beside = destination != Some(&Destination::InPlace);
        self.notes.iter().chain(self.beside.iter().filter(move |_| is_beside))
    }

    /// Tells whether the new modulepath differs in what it says. Leaving out the old cache is no difference.
    pub fn changes_anything(&self) -> bool {
        self.basis == Basis::Empty || self.changes.keys().any(|path| path != CACHE)
    }
}

/// The initial content of a new modulepath.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A copy of the old one.
    Copy,
    /// An empty directory.
    Empty,
}

/// The change of one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// A file is written.
    Write {
        /// The old content; `None` if there was no file.
        old: Option<Vec<u8>>,
        /// The new content.
        new: Vec<u8>,
    },
    /// A file is left out.
    Remove {
        /// The old content; `None` where it is no useful text.
        old: Option<Vec<u8>>,
    },
    /// A symbolic link is made.
    Link {
        /// The destination.
        to: PathBuf,
    },
}

/// A reason for which a modulepath cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the rule.
    pub rule: u8,
    /// The path below the modulepath.
    pub path: Vec<u8>,
    /// A sentence that begins with the path.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "`{}` {}", escape(&self.path), self.text)
    }
}
