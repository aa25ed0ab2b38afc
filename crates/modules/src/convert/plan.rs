//! What a conversion would change, what it would leave, and why it would not be done at all.

use super::request::{Consent, Destination, Strategy};
use crate::cookie::CACHE;
use crate::rc::Leave;
use quell_trace::path::escape;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

/// What becomes of some modulepaths.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How.
    pub strategy: Strategy,
    /// What it may do.
    pub consent: Consent,
    /// Shape: one entry a modulepath, in their order.
    pub trees: Vec<TreePlan>,
}

impl Plan {
    /// Whether every modulepath can be converted.
    pub fn is_possible(&self) -> bool {
        self.trees.iter().all(|tree| tree.refusals.is_empty())
    }
}

/// What becomes of a modulepath.
#[derive(Clone, Debug)]
pub struct TreePlan {
    /// The modulepath.
    pub source: PathBuf,
    /// Whether the new one holds what the old one does, with the changes, or nothing but what the changes make.
    pub basis: Basis,
    /// By path below the modulepath.
    pub changes: BTreeMap<Vec<u8>, Change>,
    /// rc files that stay, and why.
    pub left: Vec<(Vec<u8>, Leave)>,
    /// Why it cannot be converted; empty if it can.
    pub refusals: Vec<Refusal>,
    /// Names that are not listed because of a command of ours, where it was the file that was looked at before.
    pub hidden: BTreeSet<Vec<u8>>,
    /// What one should know besides.
    pub notes: Vec<String>,
    /// What one should know where the new modulepath is to be beside the old one.
    pub beside: Vec<String>,
    /// What the modulepath was when it was planned for.
    pub(super) seen: String,
}

impl TreePlan {
    /// What one should know, where the new modulepath goes there; `None` where that is not known yet.
    pub fn notes_for(&self, destination: Option<&Destination>) -> impl Iterator<Item = &String> {
        let is_beside = destination != Some(&Destination::InPlace);
        self.notes.iter().chain(self.beside.iter().filter(move |_| is_beside))
    }

    /// Whether the new modulepath says anything that the old one does not. That the old one's cache is left out is nothing: the
    /// cache is that of the old one.
    pub fn changes_anything(&self) -> bool {
        self.basis == Basis::Empty || self.changes.keys().any(|path| path != CACHE)
    }
}

/// What a new modulepath begins as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A copy of the old one.
    Copy,
    /// An empty directory.
    Empty,
}

/// What becomes of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A file is written.
    Write {
        /// What it held; `None` if it was not there.
        old: Option<Vec<u8>>,
        /// What it holds.
        new: Vec<u8>,
    },
    /// A file is left out.
    Remove {
        /// What it held; `None` where that is no text of use.
        old: Option<Vec<u8>>,
    },
    /// A symbolic link is made.
    Link {
        /// To where.
        to: PathBuf,
    },
}

/// Why a modulepath cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The number of the rule.
    pub rule: u8,
    /// Where, below the modulepath.
    pub path: Vec<u8>,
    /// Why, in a sentence that begins with the path.
    pub text: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "`{}` {}", escape(&self.path), self.text)
    }
}
