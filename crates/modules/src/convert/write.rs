//! Carries out a plan: trees are made aside and judged, and only then get their names.

use super::aside::prepare;
use super::copy::copy;
use super::fingerprint::{FingerprintSpan, fingerprint};
use super::name::{name_in_place, name_new};
use super::plan::{Basis, ConversionPlan, TreePlan};
use super::record::RecordedTree;
use super::request::Destination;
use super::ways::{TreePlaces, ways};
use crate::ModulesError;
use crate::place;
use crate::scan::{ModuleTree, ScanOptions};
use crate::tools::can_show_over;
use crate::verify::{AFTER, ConversionJudge, Difference, JudgedSide};
use quell_base::escape;
use std::fs;
use std::path::PathBuf;

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The new modulepaths, in the order of the old ones; `None` for one without changes. Empty if there was a difference.
    pub targets: Vec<Option<PathBuf>>,
    /// Answers that differ; then nothing was written.
    pub differences: Vec<Difference>,
    /// Requests that are refused as before, for another reason; see [`super::Consent::exact`].
    pub reworded: Vec<Difference>,
    /// Old and new were compared, and nothing else was done.
    pub is_trial: bool,
    /// Records by which the conversion can be undone. Shape: one file, or one for each modulepath in place.
    pub records: Vec<PathBuf>,
}

/// Writes the trees of a plan, asks `judge`, and gives the trees their names; or removes them if an answer differs.
///
/// **Errors**: [`ModulesError::Occupied`] where a name is taken; [`ModulesError::ChangedMeanwhile`] for an old tree that has
/// changed since it was planned for; errors of copying and judging. Nothing is left then. [`ModulesError::Halfway`].
pub fn write(
    plan: &ConversionPlan,
    destination: &Destination,
    judge: &mut dyn ConversionJudge,
) -> Result<Written, ModulesError> {
    carry_out(plan, destination, judge, Until::Named)
}

/// Does what [`write()`] does, up to the judge, and removes the trees.
///
/// **Errors**: those of [`write()`].
pub fn trial(
    plan: &ConversionPlan,
    destination: &Destination,
    judge: &mut dyn ConversionJudge,
) -> Result<Written, ModulesError> {
    carry_out(plan, destination, judge, Until::Judged)
}

/// The last step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    Judged,
    Named,
}

fn carry_out(
    plan: &ConversionPlan,
    destination: &Destination,
    judge: &mut dyn ConversionJudge,
    until: Until,
) -> Result<Written, ModulesError> {
    let ways = ways(plan, destination)?;
    let is_judged = ways.iter().any(TreePlaces::is_made) || !plan.strategy.variables().is_empty();
    if !is_judged {
        return Ok(Written { targets: vec![None; ways.len()], ..Written::default() });
    }
    let mut cleaner = prepare(&ways, destination)?;
    make(plan, destination, &ways)?;
    let (reworded, differences) = differences(plan, &ways, judge)?;
    if !differences.is_empty() {
        // Modules that were installed meanwhile differ because they are new, not because of the conversion.
        plan.trees.iter().try_for_each(unchanged)?;
        return Ok(Written { differences, is_trial: until == Until::Judged, ..Written::default() });
    }
    if until == Until::Judged {
        return Ok(Written { reworded, is_trial: true, ..Written::default() });
    }
    ways.iter().filter(|way| way.is_made()).try_for_each(|way| place::on_disk(&way.aside))?;
    let recorded = ways.iter().filter(|way| way.is_made()).map(recorded).collect::<Result<_, _>>()?;
    // As late as possible: changes from here on, until the names are given, reach the old tree alone.
    plan.trees.iter().try_for_each(unchanged)?;
    let records = match destination {
        Destination::Out(directory) => vec![name_new(plan.strategy, &ways, recorded, directory)?],
        Destination::InPlace => name_in_place(plan.strategy, &ways, recorded, &mut cleaner)?,
    };
    let targets = ways.into_iter().map(|way| way.is_made().then_some(way.target)).collect();
    Ok(Written { targets, differences, reworded, is_trial: false, records })
}

/// Makes the trees aside. Where old and new are kept apart, absolute links between trees lead to the new ones.
fn make(plan: &ConversionPlan, destination: &Destination, ways: &[TreePlaces]) -> Result<(), ModulesError> {
    let pairs: Vec<(PathBuf, PathBuf)> = match destination {
        Destination::InPlace => Vec::new(),
        Destination::Out(_) => {
            let copied = plan.trees.iter().zip(ways).filter(|(tree, _)| tree.basis == Basis::Copy);
            let pair = |(tree, way): (&TreePlan, &TreePlaces)| {
                let real = fs::canonicalize(&tree.source).map_err(ModulesError::read(&tree.source))?;
                Ok((real, way.aside.clone()))
            };
            copied.map(pair).collect::<Result<_, ModulesError>>()?
        }
    };
    let made = plan.trees.iter().zip(ways).filter(|(_, way)| way.is_made());
    made.into_iter().try_for_each(|(tree, way)| copy(tree, &way.aside, destination, &pairs))
}

/// Refuses a modulepath that has changed since it was planned for.
fn unchanged(tree: &TreePlan) -> Result<(), ModulesError> {
    let now = ModuleTree::scan(&tree.source, ScanOptions::default())?;
    match fingerprint(&now, FingerprintSpan::Moment) == tree.seen {
        true => Ok(()),
        false => Err(ModulesError::ChangedMeanwhile { path: tree.source.clone() }),
    }
}

fn recorded(way: &TreePlaces) -> Result<RecordedTree, ModulesError> {
    let inode = way.places.as_ref().map(|places| places.inode);
    RecordedTree::of(&way.source, &way.target, inode, &way.aside)
}

/// The rewordings and the differences, with the strategy's settings and without them: users get tree and settings at
/// different times.
fn differences(
    plan: &ConversionPlan,
    ways: &[TreePlaces],
    judge: &mut dyn ConversionJudge,
) -> Result<(Vec<Difference>, Vec<Difference>), ModulesError> {
    let old = JudgedSide {
        modulepaths: ways.iter().map(|way| way.source.clone()).collect(),
        ..JudgedSide::default()
    };
    // Modulefiles name other modulepaths, which the tools then find converted.
    let places = ways.iter().filter_map(|way| way.places.as_ref());
    let over: Vec<(PathBuf, PathBuf)> =
        places.map(|places| (places.target.clone(), places.aside.clone())).collect();
    let (modulepaths, over) = match !over.is_empty() && can_show_over() {
        true => (old.modulepaths.clone(), over),
        false => (ways.iter().map(|way| way.aside.clone()).collect(), Vec::new()),
    };
    let mut settings = vec![plan.strategy.variables()];
    if !settings[0].is_empty() {
        settings.push(Vec::new());
    }
    let mut reworded = Vec::new();
    for variables in settings {
        let new = JudgedSide { modulepaths: modulepaths.clone(), variables, root: None, over: over.clone() };
        let (words, differences): (Vec<_>, Vec<_>) =
            judge.differences(&old, &new)?.into_iter().partition(|difference| is_reworded(difference, plan));
        reworded.extend(words);
        if !differences.is_empty() {
            return Ok((reworded, differences));
        }
    }
    reworded.sort();
    reworded.dedup();
    Ok((reworded, Vec::new()))
}

/// Tells whether only the reason changes for which a request is refused, and a command of the plan hides the requested name.
/// Tools also look at files whose names begin with the requested word.
fn is_reworded(difference: &Difference, plan: &ConversionPlan) -> bool {
    let asks_for = |name: &[u8]| {
        let name = escape(name);
        difference
            .question
            .split(AFTER)
            .flat_map(|part| part.split(' ').skip(1))
            .any(|word| name.starts_with(word))
    };
    !plan.consent.exact
        && difference.is_rewording()
        && plan.trees.iter().flat_map(|tree| &tree.hidden).any(|name| asks_for(name))
}
