//! `quell modules check`: whether caches are what their trees are.

use super::caches::barred;
use super::{caches, explain, paths};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesCheck;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_modules::caches::{Change, What, lmod, modules};
use quell_report::terminal;
use quell_report::view::{CacheChange, CacheLeftOut, ModulesCheckView, SCHEMA_VERSION};
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &ModulesCheck, printer: &Printer) -> Result<u8, Failure> {
    let mut found: Vec<Stale> = Vec::new();
    let mut left_out: Vec<CacheLeftOut> = Vec::new();
    let paths = paths::modulepaths(&flags.paths, printer)?;
    for (path, target) in paths.iter().zip(caches::targets(flags.out.as_deref(), &paths)?) {
        if path.join(lmod::LIST).is_file() {
            let stale = |(modulepath, changes)| Stale { modulepath, cache: path.clone(), changes };
            found.extend(lmod::check(path).map_err(explain)?.into_iter().map(stale));
        } else {
            let checked = modules::check(path, target.as_deref()).map_err(explain)?;
            if let (Some(barrier), false) = (&checked.barrier, checked.changes.is_empty()) {
                let why = "what is there all the same, no build puts right: remove it by hand";
                printer.hint(&format!("`{}` can have no cache ({barrier}): {why}", shown(path)));
            }
            left_out.extend(checked.barrier.map(|barrier| barred(path, &barrier, printer)));
            found.extend(Stale::of(path, target, checked.changes));
        }
    }
    let view = view(&found, left_out);
    let text = match flags.json {
        true => report::json(&view)?,
        false => terminal::modules_check(&view),
    };
    printer.data(&text)?;
    if !found.is_empty() {
        printer.hint("`quell modules convert --to cache` or `--to lmod-cache` builds what changed");
    }
    Ok(u8::from(!found.is_empty()))
}

/// What is wrong with a cache.
pub(super) struct Stale {
    /// Of this modulepath.
    pub(super) modulepath: PathBuf,
    /// Where it is, or would be.
    pub(super) cache: PathBuf,
    pub(super) changes: Vec<Change>,
}

impl Stale {
    /// A cache of Environment Modules; `None` where nothing is wrong.
    pub(super) fn of(modulepath: &Path, target: Option<PathBuf>, changes: Vec<Change>) -> Option<Self> {
        let cache = target.unwrap_or_else(|| modulepath.join(modules::NAME));
        (!changes.is_empty()).then(|| Self { modulepath: modulepath.to_owned(), cache, changes })
    }
}

fn view(found: &[Stale], left_out: Vec<CacheLeftOut>) -> ModulesCheckView {
    ModulesCheckView {
        schema_version: SCHEMA_VERSION,
        fresh: found.is_empty(),
        changes: told(found),
        left_out,
    }
}

/// Differences for JSON.
pub(super) fn told(found: &[Stale]) -> Vec<CacheChange> {
    let changed = |stale: &Stale, change: &Change| CacheChange {
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

fn word(what: What) -> &'static str {
    match what {
        What::NoCache => "no-cache",
        What::Unreadable => "unreadable",
        What::Outdated => "outdated",
        What::Replaced => "replaced",
        What::Added => "added",
        What::Removed => "removed",
        What::Changed => "changed",
        What::Touched => "touched",
        What::Closed => "closed",
        What::Opened => "opened",
        What::Other => "other",
    }
}
