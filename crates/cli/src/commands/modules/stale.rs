//! Stale caches, and modulepaths that can have none, as `check` and `convert --to cache` tell of them.

use super::explain::{OUTSIDE, explain};
use crate::failure::Failure;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::ModulesError;
use quell_modules::caches::{CacheBarrier, CacheStaleness, StaleEntry, modules};
use quell_report::view::{CacheChange, CacheLeftOut};
use std::path::{Path, PathBuf};

/// A stale cache.
pub(super) struct Stale {
    /// Its modulepath.
    pub(super) modulepath: PathBuf,
    /// Its path, whether it exists or not.
    pub(super) cache: PathBuf,
    pub(super) changes: Vec<StaleEntry>,
}

impl Stale {
    /// A cache of Environment Modules; `None` without changes.
    pub(super) fn of(modulepath: &Path, target: Option<PathBuf>, changes: Vec<StaleEntry>) -> Option<Self> {
        let cache = target.unwrap_or_else(|| modulepath.join(modules::NAME));
        (!changes.is_empty()).then(|| Self { modulepath: modulepath.to_owned(), cache, changes })
    }
}

/// Every change of every cache.
pub(super) fn told(found: &[Stale]) -> Vec<CacheChange> {
    let changed = |stale: &Stale, change: &StaleEntry| CacheChange {
        modulepath: shown(&stale.modulepath),
        path: escape(&change.path),
        cache: shown(&stale.cache),
        what: word(change.what),
        words: change.what.words(),
    };
    let changes =
        found.iter().flat_map(|stale| stale.changes.iter().map(move |change| changed(stale, change)));
    changes.collect()
}

fn word(what: CacheStaleness) -> &'static str {
    match what {
        CacheStaleness::NoCache => "no-cache",
        CacheStaleness::Unreadable => "unreadable",
        CacheStaleness::Outdated => "outdated",
        CacheStaleness::Replaced => "replaced",
        CacheStaleness::Added => "added",
        CacheStaleness::Removed => "removed",
        CacheStaleness::Changed => "changed",
        CacheStaleness::Touched => "touched",
        CacheStaleness::Closed => "closed",
        CacheStaleness::Opened => "opened",
        CacheStaleness::Other => "other",
    }
}

/// A modulepath that can have no cache. Prints a hint if another place would help.
pub(super) fn barred(modulepath: &Path, barrier: &CacheBarrier, printer: &Printer) -> CacheLeftOut {
    if matches!(barrier, CacheBarrier::Above(_)) {
        printer.hint(OUTSIDE);
    }
    CacheLeftOut { modulepath: shown(modulepath), why: barrier.to_string() }
}

/// Paths of caches outside of their modulepaths. Shape: one for each modulepath.
pub(super) fn targets(out: Option<&Path>, modulepaths: &[PathBuf]) -> Result<Vec<Option<PathBuf>>, Failure> {
    let Some(out) = out else { return Ok(vec![None; modulepaths.len()]) };
    let mut targets: Vec<Option<PathBuf>> = Vec::new();
    for modulepath in modulepaths {
        let name = out.join(modulepath.file_name().unwrap_or("root".as_ref()));
        let target = Some(std::path::absolute(&name)?.join(modules::NAME));
        if let Some(other) = targets.iter().position(|other| *other == target) {
            let (one, other) = (modulepaths[other].clone(), modulepath.clone());
            return Err(explain(ModulesError::SameName { one, other, name }));
        }
        targets.push(target);
    }
    Ok(targets)
}
