//! The cache of Environment Modules, one in each modulepath.
//!
//! The tool builds it of a directory with links to what changed; the rest is taken from the cache that is there. What not
//! everybody can reach is put into it as `limited-access-file` or `-directory`, for which users are sent to the tree.

use super::digest::{NANOSECONDS, digest};
use super::format::{Cache, Item, ItemKind, as_tcl_reads};
use super::reach::Closed;
use super::{Change, Mirror, What, place};
use crate::ModulesError;
use crate::access::Permission;
use crate::convert;
use crate::scan::{CACHE_LIMIT, Entry, FILE_LIMIT, Kind, Options, Role, Tree};
use crate::tools::{self, Environment, Tool, User};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The name of a cache.
pub const NAME: &str = ".modulecache";

/// How much is built anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What is not what the cache says.
    Changed,
    /// Everything.
    All,
}

/// A cache that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// Where it is.
    pub cache: PathBuf,
    /// Commands in it.
    pub entries: usize,
    /// Names at the modulepath's root that were built anew; the rest was taken from the last cache.
    pub rebuilt: usize,
    /// What not everybody can read: its content is not in the cache. Shape: below the modulepath, sorted.
    pub closed: Vec<Vec<u8>>,
    /// Its length. Unit: bytes.
    pub bytes: u64,
}

/// A cache that no user sees yet.
#[derive(Debug)]
pub struct Prepared {
    /// What it will be.
    pub built: Built,
    modulepath: PathBuf,
    /// `None` where the last one is what it would be.
    text: Option<Vec<u8>>,
}

impl Prepared {
    /// The modulepath as it will be with this cache, in a directory below `aside`; `None` where nothing changes.
    ///
    /// **Errors**: [`ModulesError::Write`].
    pub fn mirror(&self, aside: &Path) -> Result<Option<Mirror>, ModulesError> {
        self.text.as_ref().map(|text| Mirror::new(&self.modulepath, text, aside)).transpose()
    }

    /// Puts it in its place. Readers see the last cache, or this one whole.
    ///
    /// **Errors**: [`ModulesError::Write`]; then the last one is there.
    pub fn install(self) -> Result<Built, ModulesError> {
        if let Some(text) = self.text {
            let directory = self.built.cache.parent().unwrap_or(Path::new("/"));
            place::open_directory(directory).map_err(ModulesError::write(directory))?;
            place::write(&self.built.cache, &text)?;
        }
        Ok(self.built)
    }
}

/// Builds the cache of a modulepath and puts it in its place without asking anybody. See [`prepare`].
///
/// **Errors**: those of [`prepare`] and [`Prepared::install`].
pub fn build(
    tool: &Tool,
    modulepath: &Path,
    target: Option<&Path>,
    extent: Extent,
    aside: &Path,
) -> Result<Built, ModulesError> {
    prepare(tool, modulepath, target, extent, aside)?.install()
}

/// Makes the cache of a modulepath, for `target` or the modulepath.
///
/// `aside` is a directory in which another can be made for a moment.
///
/// **Errors**: [`ModulesError::NoCache`] for a modulepath that is closed to somebody, one without modulefiles, or a tool
/// that makes no cache; those of reading, running and writing.
pub fn prepare(
    tool: &Tool,
    modulepath: &Path,
    target: Option<&Path>,
    extent: Extent,
    aside: &Path,
) -> Result<Prepared, ModulesError> {
    let modulepath = std::path::absolute(modulepath).map_err(ModulesError::read(modulepath))?;
    let refuse = |why: &str| ModulesError::NoCache { path: modulepath.clone(), why: why.to_owned() };
    if !supports(tool) {
        return Err(refuse(&format!("{tool} makes none; Modules does from 5.3")));
    }
    let tree = Tree::scan(&modulepath, Options::default())?;
    if !tree.access.everybody(Permission::List) {
        return Err(refuse("not every user can enter it, and a cache could not tell them apart"));
    }
    let path = target.map_or_else(|| modulepath.join(NAME), Path::to_owned);
    if target.is_some_and(|target| convert::resolved(target).starts_with(convert::resolved(&modulepath))) {
        return Err(ModulesError::Within { path, modulepath });
    }
    tree.refuse_special()?;
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refuse("what has the cache's name is no file"));
    }
    let last =
        (extent == Extent::Changed).then(|| read(&path)).flatten().filter(|cache| cache.digest.is_some());
    let digest = digest(&tree);
    if let Some(last) = last.as_ref().filter(|last| last.digest.as_ref() == Some(&digest)) {
        return Ok(Prepared { built: built(path, last, 0, &tree), modulepath, text: None });
    }
    let stale = last.as_ref().map_or_else(|| tops(&tree), |last| stale(last, &tree));
    let mut cache = ask(tool, &modulepath, &stale, aside)?;
    if let Some(last) = last {
        let kept = last.items.into_iter().filter(|(name, _)| !stale.contains(top(name)));
        cache.items.extend(kept);
        if cache.cookie.is_empty() {
            cache.cookie = last.cookie;
        }
    }
    close(&mut cache, &tree);
    if cache.items.is_empty() {
        return Err(refuse("there is nothing in it that a cache could hold"));
    }
    cache.digest = Some(digest);
    let text = Some(cache.text());
    Ok(Prepared { built: built(path, &cache, stale.len(), &tree), modulepath, text })
}

/// Whether a tool makes and reads such caches.
pub fn supports(tool: &Tool) -> bool {
    tool.kind == tools::Kind::Modules && tool.version.is_at_least(5, 3)
}

/// In what a modulepath's cache differs from the modulepath.
///
/// Shape: sorted by path; empty when the cache is what it would be if it were built now.
///
/// **Errors**: those of reading.
pub fn check(modulepath: &Path) -> Result<Vec<Change>, ModulesError> {
    let tree = Tree::scan(modulepath, Options::default())?;
    let whole = |what| Ok(vec![Change { path: Vec::new(), what }]);
    let path = modulepath.join(NAME);
    let Some(cache) = read(&path) else { return whole(What::NoCache) };
    let mode = path.metadata().map_err(ModulesError::read(&path))?.permissions().mode();
    if mode & place::OPEN != place::OPEN {
        return whole(What::Unreadable);
    }
    if cache.digest.as_ref() == Some(&digest(&tree)) {
        return Ok(Vec::new());
    }
    let changes = changes(&cache, &tree);
    match changes.is_empty() && cache.digest.is_some() {
        true => whole(What::Other),
        false => Ok(changes),
    }
}

fn built(cache: PathBuf, content: &Cache, rebuilt: usize, tree: &Tree) -> Built {
    let closed = super::reach::closed(tree);
    Built { bytes: content.text().len() as u64, cache, entries: content.items.len(), rebuilt, closed }
}

fn read(path: &Path) -> Option<Cache> {
    Some(Cache::parse(&place::read(path, CACHE_LIMIT as u64).ok()?))
}

fn top(name: &[u8]) -> &[u8] {
    name.split(|&byte| byte == b'/').next().unwrap_or_default()
}

/// The names at the root that can be part of a cache.
fn tops(tree: &Tree) -> BTreeSet<Vec<u8>> {
    let tops = tree.entries.iter().map(|entry| entry.top().to_vec());
    tops.filter(|name| name != NAME.as_bytes() && name != b".version").collect()
}

/// The names at the root below which something is not what the cache says, or of which it says nothing.
fn stale(cache: &Cache, tree: &Tree) -> BTreeSet<Vec<u8>> {
    let changes = changes(cache, tree);
    // What the root's rc file says may concern every file.
    if changes.iter().any(|change| change.path == b".modulerc") {
        return tops(tree);
    }
    let unknown = tree.files().filter(|(entry, _)| !is_known(cache, &entry.path));
    let unknown = unknown.map(|(entry, _)| entry.top().to_vec());
    let mut stale: BTreeSet<Vec<u8>> =
        changes.iter().map(|change| top(&change.path).to_vec()).chain(unknown).collect();
    stale.remove(&b".version"[..]);
    stale
}

fn is_known(cache: &Cache, path: &[u8]) -> bool {
    let above = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &path[..at]);
    let is_limited =
        |name: &[u8]| cache.items.get(name).is_some_and(|item| item.kind == ItemKind::LimitedDirectory);
    cache.items.contains_key(path) || above.into_iter().any(is_limited)
}

fn changes(cache: &Cache, tree: &Tree) -> Vec<Change> {
    let mut closed = Closed::new(tree);
    let mut changes = Vec::new();
    for (name, item) in &cache.items {
        let what = match tree.find(name) {
            None => (!is_in_a_loop(tree, name)).then_some(What::Removed),
            Some(entry) => difference(item, entry, closed.of(&entry.path).is_some()),
        };
        changes.extend(what.map(|what| Change { path: name.clone(), what }));
    }
    let is_one = |entry: &Entry, role| match role {
        Role::Module | Role::HiddenModule => entry.cookie().is_some_and(|cookie| cookie.is_some()),
        Role::Rc(_) => entry.content().is_some(),
    };
    let added = tree.files().filter(|(entry, role)| is_one(entry, *role) && !is_known(cache, &entry.path));
    changes.extend(added.map(|(entry, _)| Change { path: entry.path.clone(), what: What::Added }));
    changes.sort();
    changes
}

/// Such names are in the tool's listings again and again, and once in ours.
fn is_in_a_loop(tree: &Tree, name: &[u8]) -> bool {
    let above = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| &name[..at]);
    above.into_iter().any(|path| tree.find(path).is_some_and(|entry| entry.kind == Kind::Loop))
}

fn difference(item: &Item, entry: &Entry, is_closed: bool) -> Option<What> {
    let content = match &item.kind {
        ItemKind::Module(_, content) | ItemKind::Rc(content) => content,
        ItemKind::Invalid => {
            let is_module = entry.cookie().is_some_and(|cookie| cookie == crate::cookie::Cookie::Any);
            return is_module.then_some(What::Changed);
        }
        ItemKind::Limited | ItemKind::LimitedDirectory => return (!is_closed).then_some(What::Opened),
    };
    if is_closed {
        return Some(What::Closed);
    }
    let now = entry.content()?;
    // With the extension library the tool keeps carriage returns, else it does not. Of a very long file only the first
    // part was read.
    let differs = match now.len() < FILE_LIMIT {
        true => as_tcl_reads(now) != as_tcl_reads(content),
        false => !as_tcl_reads(content).starts_with(&as_tcl_reads(&now[..FILE_LIMIT / 2])),
    };
    let seconds = entry.modified.div_euclid(NANOSECONDS);
    match item.kind {
        _ if differs => Some(What::Changed),
        ItemKind::Module(Some(time), _) if i128::from(time) != seconds => Some(What::Touched),
        _ => None,
    }
}

/// What the tool says of these names.
fn ask(
    tool: &Tool,
    modulepath: &Path,
    names: &BTreeSet<Vec<u8>>,
    aside: &Path,
) -> Result<Cache, ModulesError> {
    if names.is_empty() {
        return Ok(Cache::default());
    }
    // The tool records nothing of a modulepath that others cannot enter.
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
    let question = ["cachebuild".into(), links.path().into()];
    let answer = tools::ask_apart(tool, &Environment::default(), &User::ourselves(), &question)?;
    let mut cache = read(&links.path().join(NAME)).unwrap_or_default();
    if answer.status != 0 {
        let said = String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ");
        return Err(ModulesError::NoCache {
            path: modulepath.to_owned(),
            why: format!("{tool} says: {said}"),
        });
    }
    // The root's rc file is always asked about, because it may say what is passed over.
    cache.items.retain(|name, _| names.contains(top(name)));
    Ok(cache)
}

/// Takes out what not everybody can read, and sends users to the tree for it.
fn close(cache: &mut Cache, tree: &Tree) {
    let mut closed = Closed::new(tree);
    let mut limited = BTreeSet::new();
    cache.items.retain(|name, _| {
        let Some(entry) = tree.find(name) else { return is_in_a_loop(tree, name) };
        match closed.of(&entry.path) {
            Some(path) => {
                limited.insert(path.to_vec());
                false
            }
            None => true,
        }
    });
    for path in limited {
        let is_file = tree.find(&path).is_some_and(|entry| entry.role().is_some());
        let kind = if is_file { ItemKind::Limited } else { ItemKind::LimitedDirectory };
        if let Some(item) = Item::limited(kind, &path) {
            cache.items.insert(path, item);
        }
    }
}
