//! Findings about caches of Lmod: caches that some users cannot read, that are older than the tree, that show modulefiles to
//! users against their permissions, or that lack modulefiles that some users may read.

use super::finding::TreeFinding;
use crate::ModulesError;
use crate::access::{Access, Permission};
use crate::caches::{Closed, outside};
use crate::cookie::{Cookie, is_for_lmod, is_ignored_by_lmod};
use crate::scan::{CACHE_LIMIT, EntryKind, ModuleTree, ScanOptions, TreeEntry};
use std::collections::{BTreeSet, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A cache that `update_lmod_system_cache_files` wrote.
#[derive(Clone, Debug)]
pub struct LmodCache {
    /// The file: `spiderT.lua`.
    pub path: PathBuf,
    access: Option<Access>,
    modified: i128,
    /// The text; empty where it could not be read.
    text: Vec<u8>,
}

/// Reads the cache in a directory.
///
/// **Errors**: [`ModulesError::Read`] for a directory without a cache.
pub fn read_lmod_cache(directory: &Path, options: ScanOptions) -> Result<LmodCache, ModulesError> {
    let tree = ModuleTree::scan(directory, options)?;
    let path = directory.join("spiderT.lua");
    let absent = || ModulesError::read(&path)(std::io::ErrorKind::NotFound);
    let entry = tree.find(b"spiderT.lua").ok_or_else(absent)?;
    let text = match (&entry.kind, entry.content()) {
        (EntryKind::File(_), Some(content)) if content.len() < crate::scan::FILE_LIMIT => content.to_vec(),
        (EntryKind::File(_), _) => {
            crate::place::read(&path, CACHE_LIMIT as u64).map_err(ModulesError::read(&path))?
        }
        _ => Vec::new(),
    };
    Ok(LmodCache { path, access: entry.access.clone(), modified: entry.modified, text })
}

pub(super) fn look(cache: &LmodCache, trees: &[ModuleTree]) -> Vec<TreeFinding> {
    let mut findings = Vec::new();
    let mut add = |code, rule, text: String, advice: &str| {
        findings.push(TreeFinding { path: cache.path.clone(), code, rule, text, advice: advice.into() });
    };
    if !cache.access.as_ref().is_some_and(|access| access.everybody(Permission::Read)) {
        add(
            "lmod-cache-unreadable",
            21,
            "cannot be read by every user; those who cannot walk the tree".into(),
            "build it with umask 022",
        );
    }
    let paths = quoted(&cache.text);
    let of_lmod = |tree: &ModuleTree| -> Vec<TreeEntry> {
        let files = tree
            .entries
            .iter()
            .filter(|entry| entry.content().is_some_and(|content| is_for_lmod(entry.name(), content)));
        files.cloned().collect()
    };
    for tree in trees {
        let known = |entry: &TreeEntry| paths.contains(tree.full_path(&entry.path).as_os_str().as_bytes());
        let files = of_lmod(tree);
        let (everybodys, others): (Vec<&TreeEntry>, Vec<&TreeEntry>) =
            files.iter().partition(|entry| tree.is_for_everybody(entry));
        let newer = tree.entries.iter().find(|entry| counts(entry) && entry.modified > cache.modified);
        let lost = everybodys.into_iter().find(|entry| !known(entry));
        if let Some(entry) = newer.or(lost) {
            let path = quell_base::shown(tree.full_path(&entry.path));
            add(
                "lmod-cache-stale",
                23,
                format!("is older than `{path}`, or lacks it"),
                "run update_lmod_system_cache_files after every change",
            );
        }
        if let Some(entry) = others.into_iter().find(|entry| !known(entry)) {
            let path = quell_base::shown(tree.full_path(&entry.path));
            add(
                "lmod-cache-misses",
                23,
                format!("lacks `{path}`, which some users may read: with cached loads they cannot load it"),
                "keep such modulefiles in a modulepath that is not cached",
            );
        }
        if let Some(text) = leak(cache, tree, &paths) {
            let advice = "remove the bits for others (`chmod o-r`) or keep the file out of the cache, and build the cache again";
            add("lmod-cache-leak", 20, text, advice);
        }
    }
    findings
}

/// A sentence about files that not every user may read and that a world-readable cache shows; `None` if there are none.
fn leak(cache: &LmodCache, tree: &ModuleTree, paths: &HashSet<&[u8]>) -> Option<String> {
    if cache.access.as_ref().is_none_or(|access| access.mode & 4 == 0) {
        return None;
    }
    let root = [tree.root.as_os_str().as_bytes(), b"/"].concat();
    let names = paths.iter().filter_map(|path| path.strip_prefix(root.as_slice()));
    // Lmod's program follows loops and gives the files behind them further names. Directories count as open: every user sees
    // their names.
    let names = names.map(|name| tree.around_loops(name));
    let is_directory =
        |name: &[u8]| tree.find(name).is_some_and(|entry| entry.permission() == Some(Permission::List));
    let names: BTreeSet<Vec<u8>> = names.filter(|name| !is_directory(name)).collect();
    let directory = cache.path.parent().unwrap_or(Path::new("/"));
    if let Some(closed) = outside(&tree.root, directory).filter(|_| !names.is_empty()) {
        let closed = quell_base::shown(closed);
        return Some(format!("shows every user the files below `{closed}`, which not every user can enter"));
    }
    let mut closed = Closed::new(tree);
    let leaks: Vec<&Vec<u8>> = names.iter().filter(|name| closed.of(name).is_some()).collect();
    let first = quell_base::shown(tree.full_path(leaks.first()?));
    let more = if leaks.len() > 1 { format!(", and {} more", leaks.len() - 1) } else { String::new() };
    Some(format!(
        "shows every user `{first}`{more}, which not every user may read: Lmod goes by the bits for others alone"
    ))
}

/// Tells whether Lmod looks at an entry, so that its time matters. Backups and the cache of Environment Modules do not
/// count.
fn counts(entry: &TreeEntry) -> bool {
    !is_ignored_by_lmod(&entry.path)
        && entry
            .content()
            .is_none_or(|content| entry.path.ends_with(b".lua") || Cookie::of(content).is_some())
}

/// Every text between double quotes; Lua writes paths so.
fn quoted(text: &[u8]) -> HashSet<&[u8]> {
    text.split(|byte| *byte == b'"').skip(1).step_by(2).collect()
}
