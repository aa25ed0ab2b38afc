//! Plans a conversion: each strategy in turn, for all modulepaths together.

use super::beside::note_names;
use super::fingerprint::{FingerprintSpan, fingerprint};
use super::names::{AccountNames, Remembered};
use super::plan::{Basis, ConversionPlan, FileChange, Refusal, TreePlan};
use super::request::{Consent, Strategy};
use super::together::{Listed, Meanings};
use super::{eval, rc, virtual_modules};
use crate::cookie::CACHE;
use crate::rc::{MergedRcFiles, RcCommand, SpokenNames};
use crate::scan::{EntryKind, ModuleTree};
use std::collections::{BTreeMap, BTreeSet};

/// Plans a conversion of modulepaths together.
pub fn plan(
    trees: &[ModuleTree],
    strategy: Strategy,
    consent: Consent,
    names: &mut dyn AccountNames,
) -> ConversionPlan {
    plan_but(trees, strategy, consent, names, &BTreeSet::new())
}

/// Like [`plan`]; the rc files of these top names stay where they are.
pub fn plan_but(
    trees: &[ModuleTree],
    strategy: Strategy,
    consent: Consent,
    names: &mut dyn AccountNames,
    staying: &BTreeSet<Vec<u8>>,
) -> ConversionPlan {
    let names: &mut dyn AccountNames = &mut Remembered::new(names);
    let spoken: Vec<SpokenNames> = trees.iter().map(SpokenNames::of).collect();
    let judged = SpokenNames::judged(staying);
    let merge_one = |(number, tree): (usize, &ModuleTree)| {
        let others = SpokenNames::but(&spoken, number).into_iter().chain([&judged]).collect::<Vec<_>>();
        merge_rc(tree, &others)
    };
    let (mut plans, merged): (Vec<TreePlan>, Vec<MergedRcFiles>) =
        trees.iter().enumerate().map(merge_one).unzip();
    let listed: Vec<Listed> =
        trees.iter().zip(&merged).map(|(tree, merged)| Listed::of(tree, merged)).collect();
    let meanings = Meanings::of(trees, merged.iter());
    for (number, (plan, merged)) in plans.iter_mut().zip(&merged).enumerate() {
        let tree = &trees[number];
        if strategy != Strategy::Rc {
            eval::virtual_targets(number, trees, plan);
        }
        match strategy {
            Strategy::Rc => rc::write_root(tree, merged.text(RcCommand::clone), Vec::new(), plan),
            Strategy::Eval => {
                let hidden = eval::hide(number, trees, &listed, consent, names, plan, &|_| true);
                meanings.refuse_hidden(plan);
                let hides: BTreeSet<_> =
                    plan.hidden.iter().filter(|path| !plan.changes.contains_key(*path)).cloned().collect();
                eval::note_secrets(tree, |entry| hides.contains(&entry.path), plan);
                rc::write_root(tree, merged.text(RcCommand::clone), hidden, plan);
            }
            Strategy::Virtual => {
                virtual_modules::plan(number, trees, &listed, merged, &meanings, names, plan);
            }
        }
    }
    note_names(trees, &mut plans);
    ConversionPlan { strategy, consent, trees: plans }
}

/// Plans a modulepath as far as its own rc files go.
fn merge_rc(tree: &ModuleTree, others: &[&SpokenNames]) -> (TreePlan, MergedRcFiles) {
    let mut plan = TreePlan {
        source: tree.root.clone(),
        basis: Basis::Copy,
        changes: BTreeMap::new(),
        left: Vec::new(),
        refusals: Vec::new(),
        hidden: BTreeSet::new(),
        notes: Vec::new(),
        beside: Vec::new(),
        seen: fingerprint(tree, FingerprintSpan::Moment),
    };
    special(tree, &mut plan);
    let merged = rc::plan(tree, others, &mut plan);
    (plan, merged)
}

/// Refuses what cannot be copied or compared, and leaves out the cache.
fn special(tree: &ModuleTree, plan: &mut TreePlan) {
    for entry in &tree.entries {
        let (rule, text) = match entry.kind {
            EntryKind::Special => (13, "is neither file nor directory, and cannot be copied"),
            EntryKind::Loop | EntryKind::TooDeep => {
                (5, "leads back to a directory above it, so one file has many names")
            }
            _ => continue,
        };
        plan.refusals.push(Refusal { rule, path: entry.path.clone(), text: text.into() });
    }
    if tree.find(CACHE).is_some() {
        plan.changes.insert(CACHE.to_vec(), FileChange::Remove { old: None });
        plan.notes.push("the cache belongs to the old tree and is left out: build a new one".into());
    }
}
