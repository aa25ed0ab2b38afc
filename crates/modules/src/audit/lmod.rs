//! Findings about caches of Lmod: whether everybody can read one, whether it is older than the tree, and which
//! modulefiles it lost because whoever built it could not, or root should not, tell who may read them.

use super::{Finding, is_for_everybody};
use crate::ModulesError;
use crate::access::{Access, Permission};
use crate::cookie::{Cookie, is_for_lmod, is_ignored_by_lmod};
use crate::scan::{CACHE_LIMIT, Entry, Kind, Options, Tree};
use quell_trace::path::escape;
use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A cache that `update_lmod_system_cache_files` wrote.
#[derive(Clone, Debug)]
pub struct LmodCache {
    /// The file: `spiderT.lua`.
    pub path: PathBuf,
    access: Option<Access>,
    modified: i128,
    /// Its text; empty where it could not be read.
    text: Vec<u8>,
}

/// Reads the cache in a directory.
///
/// **Errors**: [`ModulesError::Read`] for a directory without a cache.
pub fn read_lmod_cache(directory: &Path, options: Options) -> Result<LmodCache, ModulesError> {
    let tree = Tree::scan(directory, options)?;
    let path = directory.join("spiderT.lua");
    let absent = || ModulesError::read(&path)(std::io::ErrorKind::NotFound.into());
    let entry = tree.find(b"spiderT.lua").ok_or_else(absent)?;
    let text = match (&entry.kind, entry.content()) {
        (Kind::File(_), Some(content)) if content.len() < crate::scan::FILE_LIMIT => content.to_vec(),
        (Kind::File(_), _) => whole(&path)?,
        _ => Vec::new(),
    };
    Ok(LmodCache { path, access: entry.access.clone(), modified: entry.modified, text })
}

/// A text that is longer than a modulefile may be.
fn whole(path: &Path) -> Result<Vec<u8>, ModulesError> {
    use std::io::Read;
    let file = std::fs::File::open(path).map_err(ModulesError::read(path))?;
    let mut text = Vec::new();
    file.take(CACHE_LIMIT as u64).read_to_end(&mut text).map_err(ModulesError::read(path))?;
    Ok(text)
}

pub(super) fn look(cache: &LmodCache, trees: &[Tree]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut add = |code, rule, text: String, advice: &str| {
        findings.push(Finding { path: cache.path.clone(), code, rule, text, advice: advice.into() });
    };
    if !cache.access.as_ref().is_some_and(|access| access.everybody(Permission::Read)) {
        add(
            "lmod-cache-unreadable",
            21,
            "cannot be read by every user; the others walk the tree".into(),
            "build it with umask 022",
        );
    }
    let paths = quoted(&cache.text);
    let of_lmod = |tree: &Tree| -> Vec<Entry> {
        let files = tree
            .entries
            .iter()
            .filter(|entry| entry.content().is_some_and(|content| is_for_lmod(entry.name(), content)));
        files.cloned().collect()
    };
    for tree in trees {
        let known = |entry: &Entry| paths.contains(tree.full_path(&entry.path).as_os_str().as_bytes());
        let files = of_lmod(tree);
        let (everybodys, others): (Vec<&Entry>, Vec<&Entry>) =
            files.iter().partition(|entry| is_for_everybody(tree, entry));
        let newer = tree.entries.iter().find(|entry| counts(entry) && entry.modified > cache.modified);
        let lost = everybodys.into_iter().find(|entry| !known(entry));
        if let Some(entry) = newer.or(lost) {
            let path = escape(tree.full_path(&entry.path).as_os_str().as_bytes());
            add(
                "lmod-cache-stale",
                23,
                format!("is older than `{path}`, or does not know it"),
                "run update_lmod_system_cache_files after every change",
            );
        }
        if let Some(entry) = others.into_iter().find(|entry| !known(entry)) {
            let path = escape(tree.full_path(&entry.path).as_os_str().as_bytes());
            add(
                "lmod-cache-misses",
                23,
                format!("lacks `{path}`, which some users may read: with cached loads it is unknown to them"),
                "keep such modulefiles in a modulepath that is not cached",
            );
        }
    }
    findings
}

/// Whether Lmod looks at it, so that its time says something: not at backups, nor at a cache of Environment Modules.
fn counts(entry: &Entry) -> bool {
    !is_ignored_by_lmod(&entry.path)
        && entry
            .content()
            .is_none_or(|content| entry.path.ends_with(b".lua") || Cookie::of(content).is_some())
}

/// Every text between double quotes, as Lua writes paths.
fn quoted(text: &[u8]) -> HashSet<&[u8]> {
    text.split(|byte| *byte == b'"').skip(1).step_by(2).collect()
}
