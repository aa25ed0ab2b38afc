//! Module trees: walked whole for one answer, with a file of settings in each directory.
//!
//! Sources: the cookbook of Environment Modules, "Reduce I/O load"; Lmod's guide, "System spider cache".

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::limits::{MODULE_RC_FILES, MODULE_TREE_WALK};
use super::words::{count, directory, last, quoted};
use crate::SearchKind;
use quell_base::escape;
use std::collections::BTreeSet;

/// Programs that read module trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModuleTool {
    EnvironmentModules,
    Lmod,
}

impl ModuleTool {
    /// The tool that the recording ran, by the name of its script.
    pub(super) fn of(case: &Case<'_>) -> Option<Self> {
        let mut words = case.summary.commands.keys().flatten().map(|word| last(word.as_bytes()));
        words.find_map(|word| match word {
            b"modulecmd.tcl" | b"modulecmd" | b"modulecmd-test.tcl" => Some(Self::EnvironmentModules),
            b"lmod" | b"spider" | b"update_lmod_system_cache_files" => Some(Self::Lmod),
            _ => None,
        })
    }
}

/// The directories of MODULEPATH: those that were searched, else those that the variable names.
pub(super) fn trees(case: &Case<'_>) -> BTreeSet<Vec<u8>> {
    let searched = case.summary.searches.entries.keys().filter(|key| key.kind == SearchKind::Modules);
    let mut trees: BTreeSet<Vec<u8>> = searched.map(|key| key.directory.to_vec()).collect();
    if trees.is_empty() {
        let named = case.variable("MODULEPATH").unwrap_or_default().split(':');
        let named = named.filter(|directory| directory.starts_with('/'));
        trees.extend(named.map(|directory| directory.trim_end_matches('/').as_bytes().to_vec()));
    }
    trees.retain(|tree| case.counts(tree));
    trees
}

/// `module-tree-walk`.
pub(super) fn walks(case: &Case<'_>) -> Vec<Found> {
    let Some(tool) = ModuleTool::of(case) else { return Vec::new() };
    let trees = trees(case);
    let rows: Vec<_> = trees
        .iter()
        .map(|tree| (case.within(tree).map(|(_, _, counts)| counts.metadata_operations).sum::<u64>(), tree))
        .filter(|(operations, _)| *operations > 0)
        .collect();
    let all: u64 = rows.iter().map(|(operations, _)| operations).sum();
    let names: Vec<String> = rows.iter().map(|(_, tree)| quoted(tree)).collect();
    let walked = match rows.len() {
        1 => "1 module tree".to_owned(),
        several => format!("{several} module trees"),
    };
    let (text, command) = cache(tool, &names);
    Draft {
        limit: &MODULE_TREE_WALK,
        measured: case.each(all),
        title: format!("the module tool walked {walked} with {}", count(all, "operation")),
        evidence: largest(rows, |operations, tree| {
            format!("{}: {}", escape(tree), count(operations, "operation"))
        }),
        operations: all,
        change: RemedyDraft::of(text, command, Cost::Setup, cached(case, tool, &trees)),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The cache of each tool. Source: `module(1)`, cachebuild; Lmod's guide.
fn cache(tool: ModuleTool, trees: &[String]) -> (String, String) {
    match tool {
        ModuleTool::EnvironmentModules => (
            "build a cache of each tree, which Environment Modules 5.3 and later read instead of it; build it again \
             whenever the tree changes"
                .to_owned(),
            format!("module cachebuild {}", trees.join(" ")),
        ),
        ModuleTool::Lmod => (
            "build the system cache, name it in LMOD_RC, and set LMOD_CACHED_LOADS=yes so that loads use it too; \
             build it again whenever a tree changes"
                .to_owned(),
            format!(
                "update_lmod_system_cache_files -d /var/cache/lmod -t /var/cache/lmod/timestamp {}",
                trees.join(":")
            ),
        ),
    }
}

/// With a cache no tool asks for anything below a tree. Environment Modules reads one cache in each tree instead, and Lmod one
/// cache outside of the trees.
fn cached(case: &Case<'_>, tool: ModuleTool, trees: &BTreeSet<Vec<u8>>) -> Effect {
    let mut effect = Effect::default();
    for tree in trees {
        let mut walked = false;
        for (number, _, counts) in case.within(tree).filter(|(_, path, _)| path != tree) {
            walked = true;
            effect.remove(number, RemovedKind::All, counts.metadata_operations);
        }
        if walked && tool == ModuleTool::EnvironmentModules {
            let components = tree.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).count() as u64;
            effect.added += case.starts * (READING_A_CACHE + components + 1);
        }
    }
    effect
}

/// `stat`, `access`, `open` and `fstat` of `.modulecache`, which Tcl opens with a `readlink` for each component. Source:
/// the cookbook's tables without and with a cache.
const READING_A_CACHE: u64 = 4;

/// `module-rc-files`.
pub(super) fn rc_files(case: &Case<'_>) -> Vec<Found> {
    if ModuleTool::of(case) != Some(ModuleTool::EnvironmentModules) {
        return Vec::new();
    }
    let trees = trees(case);
    let mut effect = Effect::default();
    let mut rows = Vec::new();
    for tree in &trees {
        let below = case.within(tree).filter(|(_, path, counts)| {
            matches!(last(path), b".modulerc" | b".version")
                && directory(path) != tree
                && counts.habits.opens > 0
        });
        let mut files = 0;
        for (number, _, counts) in below {
            files += 1;
            effect.remove(number, RemovedKind::All, counts.metadata_operations);
        }
        if files > 0 {
            let root = [tree, &b"/.modulerc"[..]].concat();
            let is_there = case.path(&root).is_some_and(|(_, counts)| counts.habits.opens > 0);
            effect.added += if is_there { 0 } else { case.starts * ASKED_OF_AN_RC_FILE };
            rows.push((files, tree));
        }
    }
    let files: u64 = rows.iter().map(|(files, _)| files).sum();
    let first = rows.first().map(|(_, tree)| quoted(tree)).unwrap_or_default();
    let places = match rows.len() {
        1 => "a `.modulerc` at the root of its tree".to_owned(),
        _ => "a `.modulerc` at the root of each tree".to_owned(),
    };
    let text = format!(
        "move what they say to {places}, with full names (`module-version NAME/VERSION default`), and remove them; \
             Environment Modules 4.3 and later read it"
    );
    Draft {
        limit: &MODULE_RC_FILES,
        measured: files as f64,
        title: format!(
            "{} below the roots of module trees were read with {}",
            count(files, "`.modulerc` and `.version` file"),
            count(effect.removed(), "operation")
        ),
        evidence: largest(rows, |files, tree| format!("{}: {}", escape(tree), count(files, "file"))),
        operations: effect.removed(),
        change: RemedyDraft::of(text, format!("$EDITOR {first}/.modulerc"), Cost::Setup, effect),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// `access`, `stat`, `open` of one rc file. Source: measured; Environment Modules 5.2.
const ASKED_OF_AN_RC_FILE: u64 = 3;
