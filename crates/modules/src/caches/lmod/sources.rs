//! The sources of a cache of Lmod: a digest for each name that Lmod looks at, because the cache itself holds none.

use super::super::digest::{DigestTool, digest, prints};
use super::super::{CacheStaleness, StaleEntry};
use crate::ModulesError;
use crate::place;
use crate::scan::{EntryKind, ModuleTree, ScanOptions};
use crate::tools::Tool;
use quell_base::{escape, shown};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the list of a cache's sources.
pub const LIST: &str = "quell-cache.json";

/// The list of sources beside a cache.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Sources {
    schema_version: u32,
    /// Name and version of the tool that made it.
    tool: String,
    /// Shape: in the order of MODULEPATH, without those that are left out.
    pub(super) modulepaths: Vec<Source>,
    /// Modulepaths that modulefiles add. Shape: sorted; the digest of one that does not exist is empty.
    #[serde(default)]
    pub(super) added: Vec<Source>,
    /// A digest of each file of the cache.
    #[serde(default)]
    pub(super) files: BTreeMap<String, String>,
    /// Answers with the cache were compared with those without it.
    #[serde(default)]
    pub(super) is_verified: bool,
    /// For undoing: digests of every content that quell gave a name, the last two of each.
    #[serde(default)]
    pub(super) own: BTreeMap<String, Vec<String>>,
    /// For undoing: digests of the files that were there before the first build.
    #[serde(default)]
    pub(super) before: BTreeMap<String, String>,
}

/// A modulepath.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Source {
    path: String,
    digest: String,
    /// A digest of each name.
    names: BTreeMap<String, String>,
}

/// Version 2 adds the files of the cache and every name that Lmod looks at, version 3 modulepaths that modulefiles add.
const SCHEMA_VERSION: u32 = 3;

/// A longer list is refused: 20 000 modulefiles take 2 MB.
const LONGEST: u64 = 1 << 28;

impl Sources {
    /// The sources of trees that [`tree`] read, without the cache's own files.
    pub(super) fn of(tool: &Tool, trees: &[ModuleTree]) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            tool: tool.to_string(),
            modulepaths: trees.iter().map(Source::of).collect(),
            added: Vec::new(),
            files: BTreeMap::new(),
            is_verified: true,
            own: BTreeMap::new(),
            before: BTreeMap::new(),
        }
    }

    /// Tells whether this list has everything that lists of this version have.
    pub(super) fn is_complete(&self) -> bool {
        self.schema_version == SCHEMA_VERSION
    }

    /// Names at the root of modulepaths about which answers may differ from those with this cache, which is in its place; `None` for all.
    pub(super) fn changed_names(&self, now: &Self, trees: &[ModuleTree]) -> Option<BTreeSet<Vec<u8>>> {
        let paths =
            |sources: &Self| sources.modulepaths.iter().map(|source| source.path.clone()).collect::<Vec<_>>();
        if !self.is_verified || !self.is_complete() || self.tool != now.tool || paths(self) != paths(now) {
            return None;
        }
        let changes = self.modulepaths.iter().zip(trees).flat_map(|(source, tree)| source.changes(tree));
        let tops =
            changes.map(|change| change.path.split(|byte| *byte == b'/').next().unwrap_or_default().to_vec());
        let tops: BTreeSet<Vec<u8>> = tops.collect();
        // The modulepath itself, and what its root holds for all names.
        let is_name = |top: &Vec<u8>| !top.is_empty() && !top.starts_with(b".");
        tops.iter().all(is_name).then_some(tops)
    }

    /// Tells whether the same sources would give this cache.
    pub(super) fn is_made_from(&self, sources: &Self) -> bool {
        let Self { schema_version, tool, modulepaths, .. } = sources;
        (self.schema_version, &self.tool, &self.modulepaths) == (*schema_version, tool, modulepaths)
            && self.added.iter().all(|source| source.now().is_ok_and(|now| now == *source))
    }
}

impl Source {
    fn of(tree: &ModuleTree) -> Self {
        let names =
            prints(tree, DigestTool::Lmod).into_iter().map(|(path, print)| (escape(path), print)).collect();
        Self { path: shown(&tree.root), digest: digest(tree, DigestTool::Lmod), names }
    }

    /// A modulepath that a modulefile adds.
    ///
    /// **Errors**: those of [`tree`], except for one that does not exist.
    pub(super) fn added(path: &Path) -> Result<Self, ModulesError> {
        match tree(path) {
            Ok(tree) => Ok(Self::of(&tree)),
            Err(ModulesError::Read { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
            {
                Ok(Self { path: shown(path), digest: String::new(), names: BTreeMap::new() })
            }
            Err(error) => Err(error),
        }
    }

    /// The present [`Source::added`] of its path.
    fn now(&self) -> Result<Self, ModulesError> {
        Self::added(&self.path())
    }

    /// The differences from the present state of a modulepath that a modulefile adds. Shape: sorted.
    pub(super) fn changes_now(&self) -> Result<Vec<StaleEntry>, ModulesError> {
        let now = self.now()?;
        let whole = |what| Ok(vec![StaleEntry { path: Vec::new(), what }]);
        match (self.digest.is_empty(), now.digest.is_empty()) {
            (true, false) => whole(CacheStaleness::Added),
            (false, true) => whole(CacheStaleness::Removed),
            _ => Ok(self.changes_to(now)),
        }
    }

    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(OsString::from(&self.path))
    }

    /// The differences from the present tree. Shape: sorted.
    pub(super) fn changes(&self, tree: &ModuleTree) -> Vec<StaleEntry> {
        self.changes_to(Self::of(tree))
    }

    fn changes_to(&self, now: Self) -> Vec<StaleEntry> {
        let now = now.names;
        let change = |name: &String, what| StaleEntry { path: name.clone().into_bytes(), what };
        let gone = self.names.keys().filter(|name| !now.contains_key(*name));
        let gone = gone.map(|name| change(name, CacheStaleness::Removed));
        let changed = now.iter().filter_map(|(name, print)| match self.names.get(name) {
            None => Some(change(name, CacheStaleness::Added)),
            Some(before) if before != print => Some(change(
                name,
                if name.is_empty() { CacheStaleness::Other } else { CacheStaleness::Changed },
            )),
            Some(_) => None,
        });
        let mut changes: Vec<StaleEntry> = gone.chain(changed).collect();
        changes.sort();
        changes
    }
}

/// The list in a directory.
///
/// **Errors**: [`ModulesError::Read`]; [`ModulesError::NoCache`] for a damaged list.
pub(super) fn read(directory: &Path) -> Result<Sources, ModulesError> {
    let path = directory.join(LIST);
    let text = place::read(&path, LONGEST).map_err(ModulesError::read(&path))?;
    serde_json::from_slice(&text).map_err(|error| ModulesError::NoCache {
        path: directory.to_owned(),
        why: format!("its list of sources is damaged: {error}"),
    })
}

/// A modulepath as Lmod sees it, with the directories that Environment Modules leaves out, such as `CVS`.
///
/// **Errors**: those of [`ModuleTree::scan`].
pub(super) fn tree(modulepath: &Path) -> Result<ModuleTree, ModulesError> {
    let mut tree = ModuleTree::scan(modulepath, ScanOptions::default())?;
    let left_out = |tree: &ModuleTree| -> Vec<_> {
        let entries = tree.entries.iter().filter(|entry| {
            entry.kind == EntryKind::IgnoredDirectory && !matches!(entry.name(), b".git" | b".svn")
        });
        entries.map(|entry| (entry.path.clone(), entry.identity)).collect()
    };
    let mut waiting = left_out(&tree);
    // A link in such a directory may lead back to it, or to another.
    let mut seen = BTreeSet::new();
    while let Some((path, identity)) = waiting.pop() {
        if !seen.insert(identity) {
            continue;
        }
        let below = match ModuleTree::scan(&tree.full_path(&path), ScanOptions::default()) {
            // An unreadable directory is judged by its permissions, which are known.
            Err(ModulesError::Read { source, .. }) if source.kind() != std::io::ErrorKind::Interrupted => {
                continue;
            }
            below => below?,
        };
        let whole = |name: &[u8]| [&path, b"/".as_slice(), name].concat();
        waiting.extend(left_out(&below).into_iter().map(|(name, identity)| (whole(&name), identity)));
        for mut entry in below.entries {
            entry.path = whole(&entry.path);
            tree.entries.push(entry);
        }
    }
    tree.entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(tree)
}
