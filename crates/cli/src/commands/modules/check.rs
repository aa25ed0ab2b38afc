//! `quell modules check`: whether caches are what their trees are.

use super::caches::{LeftOut, barred};
use super::{caches, explain, paths};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ModulesCheck;
use crate::printer::Printer;
use quell_base::escape;
use quell_base::shown;
use quell_modules::caches::{Change, What, lmod, modules};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Checked {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// Whether every cache is what it would be if it were built now.
    pub fresh: bool,
    /// What is not, by modulepath.
    pub changes: Vec<Changed>,
    /// Modulepaths that can have no cache, and why.
    pub left_out: Vec<LeftOut>,
}

/// A difference.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Changed {
    /// The modulepath; for what is the matter with a cache of Lmod itself, its directory.
    pub modulepath: String,
    /// Below it; empty for the modulepath as a whole.
    pub path: String,
    /// The cache, or the directory of one of Lmod.
    pub cache: String,
    /// `no-cache`, `unreadable`, `outdated`, `replaced`, `added`, `removed`, `changed`, `touched`, `closed`, `opened` or
    /// `other`.
    pub what: &'static str,
}

/// Version of [`Checked`].
const SCHEMA_VERSION: u32 = 1;

/// Changes of a modulepath that are shown.
const SHOWN: usize = 10;

/// The JSON schema of [`Checked`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Checked).to_value()
}

pub(crate) fn run(flags: &ModulesCheck, printer: &Printer) -> Result<u8, Failure> {
    let mut found: Vec<Stale> = Vec::new();
    let mut left_out: Vec<LeftOut> = Vec::new();
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
    let text = match flags.json {
        true => report::json(&json(&found, left_out))?,
        false => describe(&found, &left_out),
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

fn json(found: &[Stale], left_out: Vec<LeftOut>) -> Checked {
    Checked { schema_version: SCHEMA_VERSION, fresh: found.is_empty(), changes: told(found), left_out }
}

/// Differences for JSON.
pub(super) fn told(found: &[Stale]) -> Vec<Changed> {
    let changed = |stale: &Stale, change: &Change| Changed {
        modulepath: shown(&stale.modulepath),
        path: escape(&change.path),
        cache: shown(&stale.cache),
        what: word(change.what),
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

fn describe(found: &[Stale], left_out: &[LeftOut]) -> String {
    let mut text = String::new();
    for Stale { modulepath, cache, changes } in found {
        _ = writeln!(text, "{}: the cache `{}` is stale", shown(modulepath), shown(cache));
        for change in changes.iter().take(SHOWN) {
            let name = if change.path.is_empty() { String::new() } else { escape(&change.path) + " " };
            _ = writeln!(text, "  {name}{}", change.what.words());
        }
        let more = changes.len().saturating_sub(SHOWN);
        if more > 0 {
            _ = writeln!(text, "  and {more} more");
        }
    }
    for LeftOut { modulepath, why } in left_out {
        _ = writeln!(text, "{modulepath}: can have no cache: {why}");
    }
    if found.is_empty() {
        text.push_str("the caches are what their trees are\n");
    }
    text
}
