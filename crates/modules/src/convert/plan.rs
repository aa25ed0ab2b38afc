//! What a conversion would change, what it would leave, and why it would not be done at all.

use super::beside::note_names;
use super::fingerprint::{Span, fingerprint};
use super::names::{Names, Remembered};
use super::together::{Listed, Meanings};
use super::{Consent, Destination, Strategy, eval, rc, virtual_modules};
use crate::caches;
use crate::rc::{Command, Leave, Merged, Spoken};
use crate::scan::{Kind, Tree};
use quell_base::escape;
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

const CACHE: &[u8] = caches::modules::NAME.as_bytes();

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

/// Plans a conversion of modulepaths together.
pub fn plan(trees: &[Tree], strategy: Strategy, consent: Consent, names: &mut dyn Names) -> Plan {
    let names: &mut dyn Names = &mut Remembered::new(names);
    let spoken: Vec<Spoken> = trees.iter().map(Spoken::of).collect();
    let merge_one = |(number, tree): (usize, &Tree)| merge_rc(tree, &Spoken::but(&spoken, number));
    let (mut plans, merged): (Vec<TreePlan>, Vec<Merged>) = trees.iter().enumerate().map(merge_one).unzip();
    let listed: Vec<Listed> =
        trees.iter().zip(&merged).map(|(tree, merged)| Listed::of(tree, merged)).collect();
    let meanings = Meanings::of(trees, merged.iter());
    for (number, (plan, merged)) in plans.iter_mut().zip(&merged).enumerate() {
        let tree = &trees[number];
        if strategy != Strategy::Rc {
            eval::virtual_targets(number, trees, plan);
        }
        match strategy {
            Strategy::Rc => rc::write_root(tree, merged.text(Command::clone), Vec::new(), plan),
            Strategy::Eval => {
                let hidden = eval::hide(number, trees, &listed, consent, names, plan, &|_| true);
                meanings.refuse_hidden(plan);
                let hides: BTreeSet<_> =
                    plan.hidden.iter().filter(|path| !plan.changes.contains_key(*path)).cloned().collect();
                eval::note_secrets(tree, |entry| hides.contains(&entry.path), plan);
                rc::write_root(tree, merged.text(Command::clone), hidden, plan);
            }
            Strategy::Virtual => {
                virtual_modules::plan(number, trees, &listed, merged, &meanings, names, plan);
            }
        }
    }
    note_names(trees, &mut plans);
    Plan { strategy, consent, trees: plans }
}

/// The plan for a modulepath as far as its own rc files go.
fn merge_rc(tree: &Tree, others: &[&Spoken]) -> (TreePlan, Merged) {
    let mut plan = TreePlan {
        source: tree.root.clone(),
        basis: Basis::Copy,
        changes: BTreeMap::new(),
        left: Vec::new(),
        refusals: Vec::new(),
        hidden: BTreeSet::new(),
        notes: Vec::new(),
        beside: Vec::new(),
        seen: fingerprint(tree, Span::Moment),
    };
    special(tree, &mut plan);
    let merged = rc::plan(tree, others, &mut plan);
    (plan, merged)
}

/// What cannot be copied or compared, and what a copy must not have.
fn special(tree: &Tree, plan: &mut TreePlan) {
    for entry in &tree.entries {
        let (rule, text) = match entry.kind {
            Kind::Special => (13, "is neither file nor directory, and cannot be copied"),
            Kind::Loop | Kind::TooDeep => (5, "leads around in a circle, so one file has many names"),
            _ => continue,
        };
        plan.refusals.push(Refusal { rule, path: entry.path.clone(), text: text.into() });
    }
    if tree.find(CACHE).is_some() {
        plan.changes.insert(CACHE.to_vec(), Change::Remove { old: None });
        plan.notes.push("the cache is that of the old tree and is left out: build it anew".into());
    }
}
