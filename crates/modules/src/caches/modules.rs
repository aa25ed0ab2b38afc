//! The cache of Environment Modules, one in each modulepath.
//!
//! The tool builds the cache of a directory with links to what changed; the rest comes from the existing cache. Entries that
//! some users cannot reach become `limited-access-file` or `limited-access-directory`, for which the tool sends users to the
//! tree.

use super::changes::{differences, is_other, stale, top, tops};
use super::digest::{DigestTool, digest};
use super::format::{CachedCommand, ItemKind, ParsedCache};
use super::reach::Closed;
use super::{CacheBarrier, CacheBuilder, CacheStaleness, Mirror, PATIENCE, StaleEntry, eligibility, kept};
use crate::ModulesError;
use crate::place;
use crate::scan::{CACHE_LIMIT, ModuleTree, ScanOptions};
use crate::tools::{self, Environment, Tool, User};
use quell_base::escape;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub use crate::cookie::CACHE_NAME as NAME;

/// The part of a cache that is built anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// Names that differ from the existing cache.
    Changed,
    /// Everything.
    All,
}

/// A cache that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltModulesCache {
    /// The path of its file.
    pub cache: PathBuf,
    /// The number of commands in it.
    pub entries: usize,
    /// Names at the modulepath's root that were built anew; the rest comes from the last cache.
    pub rebuilt: usize,
    /// The cache differs from the last one, or the last one could not be read by every user.
    pub is_new: bool,
    /// Paths that some users cannot read: their content is not in the cache. Shape: below the modulepath, sorted.
    pub closed: Vec<Vec<u8>>,
    /// Length. Unit: bytes.
    pub bytes: u64,
}

/// A cache that no user sees yet.
#[derive(Debug)]
pub struct PreparedModulesCache {
    /// The cache as it will be.
    pub built: BuiltModulesCache,
    modulepath: PathBuf,
    /// `None` where the last cache needs no change.
    text: Option<Vec<u8>>,
    /// Names at the root that differ from the last cache, which was compared; `None` where everything may differ.
    changed: Option<BTreeSet<Vec<u8>>>,
}

impl PreparedModulesCache {
    /// Names at the modulepath's root about which answers may differ from those with the last cache, which was compared;
    /// `None` for all.
    pub fn changed(&self) -> Option<&BTreeSet<Vec<u8>>> {
        self.changed.as_ref()
    }

    /// Notes that the answers were not compared: then the next build compares all of them.
    pub fn unverified(mut self) -> Self {
        self.text =
            self.text.map(|text| ParsedCache { is_verified: false, ..ParsedCache::parse(&text) }.text());
        self
    }

    /// The modulepath with this cache, in a mirror below `aside`; `None` where nothing changes.
    ///
    /// **Errors**: [`ModulesError::Write`].
    pub fn mirror(&self, aside: &Path) -> Result<Option<Mirror>, ModulesError> {
        self.text.as_ref().map(|text| Mirror::new(&self.modulepath, text, aside)).transpose()
    }

    /// Puts the cache in its place. Readers see the last cache or this one, each complete.
    ///
    /// **Errors**: [`ModulesError::Write`]; then the last cache is unchanged.
    pub fn install(self) -> Result<BuiltModulesCache, ModulesError> {
        if let Some(text) = self.text {
            let directory = self.built.cache.parent().unwrap_or(Path::new("/"));
            if directory != self.modulepath {
                place::make_trusted_directory(directory)?;
            }
            let before = kept::keep(&self.built.cache)?;
            let text = ParsedCache { before, ..ParsedCache::parse(&text) }.text();
            place::write(&self.built.cache, &text)?;
        }
        Ok(self.built)
    }
}

/// Builds the cache of a modulepath and puts it in its place without a comparison of answers. See [`prepare`].
///
/// **Errors**: those of [`prepare`] and [`PreparedModulesCache::install`].
pub fn build<'a>(
    builder: impl Into<CacheBuilder<'a>>,
    modulepath: &Path,
    target: Option<&Path>,
    rebuild: Rebuild,
    aside: &Path,
) -> Result<BuiltModulesCache, ModulesError> {
    prepare(builder, modulepath, target, rebuild, aside)?.unverified().install()
}

/// Makes the cache of a modulepath, for `target` or else for the modulepath itself.
///
/// `aside` is a directory for temporary directories. If a directory above the modulepath is closed to some users
/// ([`super::closed_above`]), `aside` must lie below that directory too, or be closed to every other user.
///
/// **Errors**: [`ModulesError::Barred`] for a modulepath that can have none; [`ModulesError::NoCache`] for a tool that makes
/// none; those of reading, running and writing.
pub fn prepare<'a>(
    builder: impl Into<CacheBuilder<'a>>,
    modulepath: &Path,
    target: Option<&Path>,
    rebuild: Rebuild,
    aside: &Path,
) -> Result<PreparedModulesCache, ModulesError> {
    let builder = builder.into();
    let tool = builder.tool;
    let modulepath = std::path::absolute(modulepath).map_err(ModulesError::read(modulepath))?;
    let refuse = |why: &str| ModulesError::NoCache { path: modulepath.clone(), why: why.to_owned() };
    if !supports(tool) {
        return Err(refuse(&format!("{tool} makes none; Modules does from 5.3")));
    }
    let tree = ModuleTree::scan(&modulepath, ScanOptions::default())?;
    let path = target.map_or_else(|| modulepath.join(NAME), Path::to_owned);
    if let Some(barrier) = eligibility::of_modules(&tree, &path) {
        return Err(ModulesError::Barred { path: modulepath, barrier });
    }
    if target.is_some_and(|target| place::resolved(target).starts_with(place::resolved(&modulepath))) {
        return Err(ModulesError::Within { path, modulepath });
    }
    tree.refuse_special()?;
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refuse("the path of the cache is no file"));
    }
    let last = (rebuild == Rebuild::Changed)
        .then(|| read(&path).ok())
        .flatten()
        .filter(|cache| cache.digest.is_some());
    let digest = digest(&tree, DigestTool::Modules);
    if let Some(last) = last.as_ref().filter(|last| last.digest.as_ref() == Some(&digest)) {
        let text = (!place::is_open(&path)).then(|| last.text());
        let built = BuiltModulesCache { is_new: text.is_some(), ..built(path, last, 0, &tree) };
        return Ok(PreparedModulesCache { built, modulepath, text, changed: Some(BTreeSet::new()) });
    }
    let stale = last.as_ref().map_or_else(|| tops(&tree), |last| stale(last, &tree));
    let mut cache = match stale.is_empty() {
        true => ParsedCache::default(),
        false => ask(tool, &builder.user(&[&tree])?, &modulepath, &stale, aside)?,
    };
    let is_known = last.as_ref().is_some_and(|last| last.is_verified) && stale != tops(&tree);
    let changed = is_known.then(|| stale.clone());
    refuse_other_content(&cache, &tree).map_err(|why| refuse(&why))?;
    if let Some(last) = last {
        let kept = last.items.into_iter().filter(|(name, _)| !stale.contains(top(name)));
        cache.items.extend(kept);
        if cache.cookie.is_empty() {
            cache.cookie = last.cookie;
        }
    }
    close(&mut cache, &tree);
    if cache.items.is_empty() {
        return Err(refuse("it holds nothing that a cache could record"));
    }
    cache.digest = Some(digest);
    cache.is_verified = true;
    let text = Some(cache.text());
    Ok(PreparedModulesCache { built: built(path, &cache, stale.len(), &tree), modulepath, text, changed })
}

/// Tells whether a tool makes and reads such caches.
pub fn supports(tool: &Tool) -> bool {
    tool.kind == tools::ToolKind::Modules && tool.version.is_at_least(5, 3)
}

/// The state of a modulepath's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedModulesCache {
    /// Differences from the modulepath. Shape: sorted by path; empty for a cache that a build would not change.
    pub changes: Vec<StaleEntry>,
    /// The reason for which the modulepath can have no cache. Then only a cache that exists all the same is a change.
    pub barrier: Option<CacheBarrier>,
}

/// Compares the cache of a modulepath with its tree. The cache is at `target`, else in the modulepath.
///
/// **Errors**: those of reading.
pub fn check(modulepath: &Path, target: Option<&Path>) -> Result<CheckedModulesCache, ModulesError> {
    let tree = ModuleTree::scan(modulepath, ScanOptions::default())?;
    let whole = |what| vec![StaleEntry { path: Vec::new(), what }];
    let path = target.map_or_else(|| modulepath.join(NAME), Path::to_owned);
    let barrier = eligibility::of_modules(&tree, &path);
    let changes = match (read(&path), &barrier) {
        (Err(error), _) if error.kind() == ErrorKind::PermissionDenied => whole(CacheStaleness::Unreadable),
        (Err(_), Some(_)) => Vec::new(),
        (Err(_), None) => whole(CacheStaleness::NoCache),
        (Ok(_), Some(CacheBarrier::Above(_))) => whole(CacheStaleness::Closed),
        (Ok(_), _) if !place::is_open(&path) => whole(CacheStaleness::Unreadable),
        (Ok(cache), _) => differences(&cache, &tree),
    };
    Ok(CheckedModulesCache { changes, barrier })
}

fn built(cache: PathBuf, content: &ParsedCache, rebuilt: usize, tree: &ModuleTree) -> BuiltModulesCache {
    let closed = super::reach::closed(tree, |entry| entry.role().is_some());
    let (bytes, entries) = (content.text().len() as u64, content.items.len());
    BuiltModulesCache { cache, entries, rebuilt, is_new: true, closed, bytes }
}

fn read(path: &Path) -> io::Result<ParsedCache> {
    Ok(ParsedCache::parse(&place::read(path, CACHE_LIMIT as u64)?))
}

/// Asks the tool to build a cache of these names.
fn ask(
    tool: &Tool,
    user: &User,
    modulepath: &Path,
    names: &BTreeSet<Vec<u8>>,
    aside: &Path,
) -> Result<ParsedCache, ModulesError> {
    // The tool records nothing of a modulepath that other users cannot enter.
    let open = Permissions::from_mode(0o755);
    let made = tempfile::Builder::new().prefix("quell-cache-").tempdir_in(aside).and_then(|links| {
        std::fs::set_permissions(links.path(), open)?;
        for name in names.iter().map(Vec::as_slice).chain([&b".modulerc"[..]]) {
            let name = OsStr::from_bytes(name);
            let (from, to) = (modulepath.join(name), links.path().join(name));
            let is_there = from.symlink_metadata().is_ok() && to.symlink_metadata().is_err();
            if is_there {
                symlink(from, to)?;
            }
        }
        Ok(links)
    });
    let links = made.map_err(ModulesError::write(aside))?;
    super::hand_over(links.path(), user)?;
    let question = [OsStr::new("cachebuild"), links.path().as_os_str()];
    let mut command = tool.command(&Environment::default());
    command.args(question);
    let answer = tools::run(command, user, PATIENCE).map_err(tools::not_run(tool, user))?;
    let made = place::read_made(&links.path().join(NAME), user, CACHE_LIMIT as u64);
    let mut cache = made.map(|text| ParsedCache::parse(&text)).unwrap_or_default();
    if answer.status != 0 {
        let said = String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ");
        return Err(ModulesError::NoCache {
            path: modulepath.to_owned(),
            why: format!("{tool} ends with status {}: {said}", answer.status),
        });
    }
    // The tool always reads the root's rc file, because that file may tell it to ignore others.
    cache.items.retain(|name, _| names.contains(top(name)));
    Ok(cache)
}

/// Refuses content that the tree does not have: an rc file that the tool evaluates during the build could have written it.
fn refuse_other_content(cache: &ParsedCache, tree: &ModuleTree) -> Result<(), String> {
    let differs = |(name, item): &(&Vec<u8>, &CachedCommand)| match (&item.kind, tree.find(name)) {
        (ItemKind::Module(_, content) | ItemKind::Rc(content), Some(entry)) => {
            entry.content().is_some_and(|now| is_other(content, entry, now))
        }
        _ => false,
    };
    match cache.items.iter().find(differs) {
        Some((name, _)) => Err(format!("the tool's content of `{}` differs from the file", escape(name))),
        None => Ok(()),
    }
}

/// Removes what some users cannot read and what lies behind a loop, and sends users to the tree for it.
fn close(cache: &mut ParsedCache, tree: &ModuleTree) {
    let mut closed = Closed::new(tree);
    let mut limited = BTreeSet::new();
    cache.items.retain(|name, _| match closed.of(name) {
        Some(path) => {
            limited.insert(path.to_vec());
            false
        }
        None => tree.find(name).is_some(),
    });
    for path in limited {
        let is_file = tree.find(&path).is_some_and(|entry| entry.role().is_some());
        let kind = if is_file { ItemKind::Limited } else { ItemKind::LimitedDirectory };
        cache.items.insert(path.clone(), CachedCommand::limited(kind, &path));
    }
}
