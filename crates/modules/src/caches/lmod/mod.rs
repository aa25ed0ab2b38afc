//! The system cache of Lmod: one directory for all modulepaths, with a list of what it was made from.
//!
//! ```text
//! DIR/spiderT.lua, spiderT.luac_5.3   what Lmod reads, made by its own `update_lmod_system_cache_files`
//! DIR/timestamp                       a cache that is older than this file is not used
//! DIR/lmodrc.lua                      what LMOD_RC names, so that users get the cache
//! DIR/quell-cache.json                what it was made from, for `check`
//! ```
//!
//! Lmod has one cache for all users. A modulepath with files that some users cannot read is left out: users see it as if
//! there were no cache, each according to the permissions.

mod files;
mod literal;
mod sources;
mod undo;

use super::digest::DigestTool;
use super::{CacheBarrier, CacheBuilder, CacheStaleness, StaleEntry, eligibility};
use crate::ModulesError;
use crate::place;
use crate::scan::ModuleTree;
use crate::tools::{Tool, ToolKind, User};
pub use files::SETTINGS;
pub use sources::LIST;
use sources::{Source, Sources};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
pub(super) use undo::undo;

/// A cache after a build. The build may have left it unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltLmodCache {
    /// The cache was built now.
    pub rebuilt: bool,
    /// Modulepaths in it.
    pub modulepaths: Vec<PathBuf>,
    /// Modulepaths that are left out, with the reasons.
    pub left_out: Vec<(PathBuf, CacheBarrier)>,
    /// Length of the file that Lmod reads. Unit: bytes.
    pub bytes: u64,
}

/// A cache that no user sees yet. No other process builds in its directory while this value exists.
#[derive(Debug)]
pub struct PreparedLmodCache {
    /// The cache as it will be.
    pub built: BuiltLmodCache,
    directory: PathBuf,
    sources: Sources,
    /// `None` where the last cache needs no change.
    aside: Option<tempfile::TempDir>,
    /// Names that differ from the last cache, which was compared; `None` where everything may differ.
    changed: Option<BTreeSet<Vec<u8>>>,
    lock: crate::lock::DirectoryLock,
}

impl PreparedLmodCache {
    /// The settings file with which Lmod uses the new cache before it is in its place; `None` where nothing changes.
    pub fn settings(&self) -> Option<PathBuf> {
        Some(self.aside.as_ref()?.path().join(SETTINGS))
    }

    /// Names about which answers may differ from those with the last cache, which was compared; `None` for all.
    pub fn changed(&self) -> Option<&BTreeSet<Vec<u8>>> {
        self.changed.as_ref()
    }

    /// Notes that the answers were not compared: then the next build compares all of them.
    pub fn unverified(mut self) -> Self {
        self.sources.is_verified = false;
        self
    }

    /// Puts the cache in its place. Readers see the last cache or this one, each complete.
    ///
    /// **Errors**: [`ModulesError::Write`].
    pub fn install(mut self) -> Result<BuiltLmodCache, ModulesError> {
        let Some(aside) = self.aside else { return Ok(self.built) };
        self.sources.files = files::prints(aside.path())?;
        undo::keep(&self.directory, aside.path(), &mut self.sources)?;
        // The list first: from here on it tells what is ours, wherever this process is killed.
        let path = self.directory.join(LIST);
        let list = serde_json::to_vec(&self.sources)
            .map_err(|error| ModulesError::NoCache { path: path.clone(), why: error.to_string() })?;
        place::write(&path, &list)?;
        files::install(aside.path(), &self.directory)?;
        files::write_settings(&self.directory)?;
        drop(self.lock);
        Ok(self.built)
    }
}

/// Builds the cache of modulepaths in `directory` and puts it in its place without a comparison of answers. See [`prepare`].
///
/// **Errors**: those of [`prepare`] and [`PreparedLmodCache::install`].
pub fn build<'a>(
    builder: impl Into<CacheBuilder<'a>>,
    modulepaths: &[PathBuf],
    directory: &Path,
) -> Result<BuiltLmodCache, ModulesError> {
    prepare(builder, modulepaths, directory)?.unverified().install()
}

/// Makes the cache of modulepaths beside its place in `directory`, unless the last one needs no change.
///
/// **Errors**: [`ModulesError::Barred`] if every modulepath would have to be left out; [`ModulesError::NoCache`] if the tool
/// makes none; [`ModulesError::Within`] for a directory in a modulepath, where Lmod would take the cache for modulefiles;
/// [`ModulesError::Busy`]; those of reading, running and writing.
pub fn prepare<'a>(
    builder: impl Into<CacheBuilder<'a>>,
    modulepaths: &[PathBuf],
    directory: &Path,
) -> Result<PreparedLmodCache, ModulesError> {
    let builder = builder.into();
    let tool = builder.tool;
    let directory = std::path::absolute(directory).map_err(ModulesError::write(directory))?;
    let wanted = Wanted::of(modulepaths, &directory)?;
    // Every user evaluates the files of this directory, root included.
    place::make_trusted_directory(&directory)?;
    let user = builder.user(&wanted.trees.iter().collect::<Vec<_>>())?;
    let lock = crate::lock::DirectoryLock::inside(&directory)?;
    place::clear(&lock, &directory, files::is_left_aside);
    let sources = Sources::of(tool, &wanted.trees);
    let last = sources::read(&directory).ok().filter(|last| files::fault(&directory, &last.files).is_none());
    let is_same = last.as_ref().is_some_and(|last| last.is_made_from(&sources));
    let changed = last.as_ref().and_then(|last| last.changed_names(&sources, &wanted.trees));
    let kept: Vec<PathBuf> = wanted.trees.into_iter().map(|tree| tree.root).collect();
    let aside = match is_same {
        true => None,
        false => Some(files::make(tool, &user, &kept, &directory)?),
    };
    let place = aside.as_ref().map_or(directory.as_path(), |aside| aside.path());
    let bytes = place.join(files::CACHE).metadata().map_or(0, |metadata| metadata.len());
    let mut sources = sources;
    if let Some(aside) = &aside {
        for path in files::added(aside.path(), &directory)?.into_iter().filter(|path| !kept.contains(path)) {
            refuse_closed(&path, &directory)?;
            sources.added.push(Source::added(&path)?);
        }
    }
    let built = BuiltLmodCache { rebuilt: !is_same, modulepaths: kept, left_out: wanted.left_out, bytes };
    // A modulepath that a modulefile adds is looked into after loads of all names that lead there.
    let changed = changed.filter(|_| last.is_some_and(|last| last.added == sources.added));
    Ok(PreparedLmodCache { built, directory, sources, aside, changed, lock })
}

/// Modulepaths that modulefiles add, each with one that has such a modulefile, as the spider of Lmod follows them; none for another
/// tool, which looks into them only once they are in MODULEPATH.
///
/// **Errors**: those of running; [`ModulesError::NoCache`] for an answer that is not plain data.
pub(crate) fn followed(
    tool: &Tool,
    user: &User,
    modulepaths: &[PathBuf],
) -> Result<Vec<(PathBuf, PathBuf)>, ModulesError> {
    match tool.kind {
        ToolKind::Lmod => files::followed(tool, user, modulepaths),
        ToolKind::Modules => Ok(Vec::new()),
    }
}

/// Refuses a modulepath that a modulefile adds and that some users cannot read: Lmod has it in its cache all the same, for every user.
fn refuse_closed(path: &Path, directory: &Path) -> Result<(), ModulesError> {
    let tree = match sources::tree(path) {
        Err(ModulesError::Read { source, .. }) if source.kind() != std::io::ErrorKind::Interrupted => {
            return Ok(());
        }
        tree => tree?,
    };
    tree.refuse_special()?;
    match eligibility::of_lmod(&tree, directory, |entry| DigestTool::Lmod.looks_at(entry)) {
        Some(barrier) => Err(ModulesError::Barred { path: path.to_owned(), barrier }),
        None => Ok(()),
    }
}

/// Differences between a cache and the modulepaths that it was made from, and faults for which Lmod does not use it.
///
/// Shape: for each modulepath with differences these, sorted by path; before them the cache's own directory, if the cache
/// itself has a fault.
///
/// **Errors**: those of reading; [`ModulesError::NoCache`] for a damaged list of sources.
pub fn check(directory: &Path) -> Result<Vec<(PathBuf, Vec<StaleEntry>)>, ModulesError> {
    let sources = sources::read(directory)?;
    let mut found = of_itself(directory, &sources);
    for source in &sources.modulepaths {
        let changes = match sources::tree(&source.path()) {
            Err(ModulesError::Read { source, .. }) if source.kind() != std::io::ErrorKind::Interrupted => {
                whole(CacheStaleness::Removed)
            }
            // Readers of the cache would see what lies behind the closed directory.
            Ok(_) if eligibility::outside(&source.path(), directory).is_some() => {
                whole(CacheStaleness::Closed)
            }
            tree => source.changes(&tree?),
        };
        found.extend((!changes.is_empty()).then(|| (source.path(), changes)));
    }
    found.extend(of_added(directory, &sources)?);
    Ok(found)
}

/// Differences of modulepaths that modulefiles add.
fn of_added(directory: &Path, sources: &Sources) -> Result<Vec<(PathBuf, Vec<StaleEntry>)>, ModulesError> {
    let mut found = Vec::new();
    for source in &sources.added {
        let is_closed = refuse_closed(&source.path(), directory).is_err();
        let changes = if is_closed { whole(CacheStaleness::Closed) } else { source.changes_now()? };
        found.extend((!changes.is_empty()).then(|| (source.path(), changes)));
    }
    Ok(found)
}

/// The effect that a build would have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLmodCache {
    /// The reasons to build a cache; empty where it needs no change. Shape: as [`check`].
    pub changes: Vec<(PathBuf, Vec<StaleEntry>)>,
    /// Modulepaths that would be left out, with the reasons.
    pub left_out: Vec<(PathBuf, CacheBarrier)>,
}

/// Tells the effect of building the cache of these modulepaths in `directory`.
///
/// **Errors**: those of [`prepare`], except those of running and writing.
pub fn pending(modulepaths: &[PathBuf], directory: &Path) -> Result<PendingLmodCache, ModulesError> {
    let directory = std::path::absolute(directory).map_err(ModulesError::read(directory))?;
    let wanted = Wanted::of(modulepaths, &directory)?;
    if !directory.join(LIST).is_file() {
        let changes = vec![(directory, whole(CacheStaleness::NoCache))];
        return Ok(PendingLmodCache { changes, left_out: wanted.left_out });
    }
    let last = sources::read(&directory)?;
    let mut found = of_itself(&directory, &last);
    for tree in &wanted.trees {
        let known = last.modulepaths.iter().find(|source| source.path() == tree.root);
        let changes = known.map_or_else(|| whole(CacheStaleness::Added), |source| source.changes(tree));
        found.extend((!changes.is_empty()).then(|| (tree.root.clone(), changes)));
    }
    found.extend(of_added(&directory, &last)?);
    let is_wanted = |path: &PathBuf| wanted.trees.iter().any(|tree| tree.root == *path);
    for path in last.modulepaths.iter().map(|source| source.path()).filter(|path| !is_wanted(path)) {
        let is_closed = wanted.left_out.iter().any(|(closed, _)| *closed == path);
        found.push((path, whole(if is_closed { CacheStaleness::Closed } else { CacheStaleness::Removed })));
    }
    Ok(PendingLmodCache { changes: found, left_out: wanted.left_out })
}

/// A difference of the whole modulepath.
fn whole(what: CacheStaleness) -> Vec<StaleEntry> {
    vec![StaleEntry { path: Vec::new(), what }]
}

fn of_itself(directory: &Path, sources: &Sources) -> Vec<(PathBuf, Vec<StaleEntry>)> {
    // A list of an earlier version lacks modulepaths.
    let fault = match sources.is_complete() {
        true => files::fault(directory, &sources.files),
        false => Some(CacheStaleness::Replaced),
    };
    fault.map(|what| (directory.to_owned(), whole(what))).into_iter().collect()
}

/// The modulepaths that a cache can hold, and those that it cannot hold.
struct Wanted {
    trees: Vec<ModuleTree>,
    left_out: Vec<(PathBuf, CacheBarrier)>,
}

impl Wanted {
    /// **Errors**: [`ModulesError::Barred`], for the first modulepath, if every one is left out; those of reading.
    fn of(modulepaths: &[PathBuf], directory: &Path) -> Result<Self, ModulesError> {
        let mut wanted = Self { trees: Vec::new(), left_out: Vec::new() };
        for modulepath in modulepaths {
            let modulepath = std::path::absolute(modulepath).map_err(ModulesError::read(modulepath))?;
            crate::verify::refuse_name(&modulepath)?;
            if place::resolved(directory).starts_with(place::resolved(&modulepath)) {
                return Err(ModulesError::Within { path: directory.to_owned(), modulepath });
            }
            let tree = sources::tree(&modulepath)?;
            tree.refuse_special()?;
            match eligibility::of_lmod(&tree, directory, |entry| DigestTool::Lmod.looks_at(entry)) {
                Some(barrier) => wanted.left_out.push((modulepath, barrier)),
                None => wanted.trees.push(tree),
            }
        }
        match (wanted.trees.is_empty(), wanted.left_out.first()) {
            (true, Some((path, barrier))) => {
                Err(ModulesError::Barred { path: path.clone(), barrier: barrier.clone() })
            }
            _ => Ok(wanted),
        }
    }
}
