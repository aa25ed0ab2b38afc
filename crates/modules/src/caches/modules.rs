//! The cache of Environment Modules, one in each modulepath.
//!
//! The tool builds it of a directory with links to what changed; the rest is taken from the cache that is there. What not
//! everybody can reach is put into it as `limited-access-file` or `-directory`, for which users are sent to the tree.

use super::changes::{differences, is_other, stale, top, tops};
use super::digest::{Reader, digest};
use super::format::{Cache, Item, ItemKind};
use super::reach::Closed;
use super::{Barrier, Builder, Change, Mirror, PATIENCE, What, eligibility};
use crate::ModulesError;
use crate::place;
use crate::scan::{CACHE_LIMIT, Options, Tree};
use crate::tools::{self, Environment, Tool, User};
use quell_trace::path::escape;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::Permissions;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

pub use crate::cookie::CACHE_NAME as NAME;

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
    /// Whether the last one was not what it would be, or not everybody could read it.
    pub is_new: bool,
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
            if directory != self.modulepath {
                place::make_trusted_directory(directory)?;
            }
            place::write(&self.built.cache, &text)?;
        }
        Ok(self.built)
    }
}

/// Builds the cache of a modulepath and puts it in its place without asking anybody. See [`prepare`].
///
/// **Errors**: those of [`prepare`] and [`Prepared::install`].
pub fn build<'a>(
    builder: impl Into<Builder<'a>>,
    modulepath: &Path,
    target: Option<&Path>,
    extent: Extent,
    aside: &Path,
) -> Result<Built, ModulesError> {
    prepare(builder, modulepath, target, extent, aside)?.install()
}

/// Makes the cache of a modulepath, for `target` or the modulepath.
///
/// `aside` is a directory in which another can be made for a moment. Below a directory that is closed to somebody
/// ([`super::closed_above`]) it must be, too, if that is above the modulepath, or closed to everybody else.
///
/// **Errors**: [`ModulesError::Barred`] for a modulepath that can have none; [`ModulesError::NoCache`] for a tool that makes
/// none; those of reading, running and writing.
pub fn prepare<'a>(
    builder: impl Into<Builder<'a>>,
    modulepath: &Path,
    target: Option<&Path>,
    extent: Extent,
    aside: &Path,
) -> Result<Prepared, ModulesError> {
    let builder = builder.into();
    let tool = builder.tool;
    let modulepath = std::path::absolute(modulepath).map_err(ModulesError::read(modulepath))?;
    let refuse = |why: &str| ModulesError::NoCache { path: modulepath.clone(), why: why.to_owned() };
    if !supports(tool) {
        return Err(refuse(&format!("{tool} makes none; Modules does from 5.3")));
    }
    let tree = Tree::scan(&modulepath, Options::default())?;
    let path = target.map_or_else(|| modulepath.join(NAME), Path::to_owned);
    if let Some(barrier) = eligibility::of_modules(&tree, &path) {
        return Err(ModulesError::Barred { path: modulepath, barrier });
    }
    if target.is_some_and(|target| place::resolved(target).starts_with(place::resolved(&modulepath))) {
        return Err(ModulesError::Within { path, modulepath });
    }
    tree.refuse_special()?;
    if path.symlink_metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(refuse("what has the cache's name is no file"));
    }
    let last = (extent == Extent::Changed)
        .then(|| read(&path).ok())
        .flatten()
        .filter(|cache| cache.digest.is_some());
    let digest = digest(&tree, Reader::Modules);
    if let Some(last) = last.as_ref().filter(|last| last.digest.as_ref() == Some(&digest)) {
        let text = (!place::is_open(&path)).then(|| last.text());
        let built = Built { is_new: text.is_some(), ..built(path, last, 0, &tree) };
        return Ok(Prepared { built, modulepath, text });
    }
    let stale = last.as_ref().map_or_else(|| tops(&tree), |last| stale(last, &tree));
    let mut cache = match stale.is_empty() {
        true => Cache::default(),
        false => ask(tool, &builder.user(&[&tree])?, &modulepath, &stale, aside)?,
    };
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

/// What is to be said of a cache that is there, or is not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// In what it differs from its modulepath. Shape: sorted by path; empty when it is what it would be if it were built now.
    pub changes: Vec<Change>,
    /// Why the modulepath can have none. Then only one that is there all the same is a change.
    pub barrier: Option<Barrier>,
}

/// In what the cache of a modulepath differs from it. The cache is at `target`, else in the modulepath.
///
/// **Errors**: those of reading.
pub fn check(modulepath: &Path, target: Option<&Path>) -> Result<Checked, ModulesError> {
    let tree = Tree::scan(modulepath, Options::default())?;
    let whole = |what| vec![Change { path: Vec::new(), what }];
    let path = target.map_or_else(|| modulepath.join(NAME), Path::to_owned);
    let barrier = eligibility::of_modules(&tree, &path);
    let changes = match (read(&path), &barrier) {
        (Err(error), _) if error.kind() == ErrorKind::PermissionDenied => whole(What::Unreadable),
        (Err(_), Some(_)) => Vec::new(),
        (Err(_), None) => whole(What::NoCache),
        (Ok(_), Some(Barrier::Above(_))) => whole(What::Closed),
        (Ok(_), _) if !place::is_open(&path) => whole(What::Unreadable),
        (Ok(cache), _) => differences(&cache, &tree),
    };
    Ok(Checked { changes, barrier })
}

fn built(cache: PathBuf, content: &Cache, rebuilt: usize, tree: &Tree) -> Built {
    let closed = super::reach::closed(tree, |entry| entry.role().is_some());
    let (bytes, entries) = (content.text().len() as u64, content.items.len());
    Built { cache, entries, rebuilt, is_new: true, closed, bytes }
}

fn read(path: &Path) -> io::Result<Cache> {
    Ok(Cache::parse(&place::read(path, CACHE_LIMIT as u64)?))
}

/// What the tool says of these names.
fn ask(
    tool: &Tool,
    user: &User,
    modulepath: &Path,
    names: &BTreeSet<Vec<u8>>,
    aside: &Path,
) -> Result<Cache, ModulesError> {
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
    super::hand_over(links.path(), user)?;
    let question = [OsStr::new("cachebuild"), links.path().as_os_str()];
    let mut command = tool.command(&Environment::default());
    command.args(question);
    let answer = tools::run(command, user, PATIENCE).map_err(|source| ModulesError::Run {
        tool: tool.to_string(),
        user: user.name.clone(),
        source,
    })?;
    let made = place::read_made(&links.path().join(NAME), user, CACHE_LIMIT as u64);
    let mut cache = made.map(|text| Cache::parse(&text)).unwrap_or_default();
    if answer.status != 0 {
        let said = String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; ");
        return Err(ModulesError::NoCache {
            path: modulepath.to_owned(),
            why: format!("{tool} ends with status {}: {said}", answer.status),
        });
    }
    // The root's rc file is always asked about, because it may say what is passed over.
    cache.items.retain(|name, _| names.contains(top(name)));
    Ok(cache)
}

/// Refuses what is not in the tree: an rc file that the tool evaluates while it builds could have put it there.
fn refuse_other_content(cache: &Cache, tree: &Tree) -> Result<(), String> {
    let differs = |(name, item): &(&Vec<u8>, &Item)| match (&item.kind, tree.find(name)) {
        (ItemKind::Module(_, content) | ItemKind::Rc(content), Some(entry)) => {
            entry.content().is_some_and(|now| is_other(content, entry, now))
        }
        _ => false,
    };
    match cache.items.iter().find(differs) {
        Some((name, _)) => {
            Err(format!("the tool says another content of `{}` than the file has", escape(name)))
        }
        None => Ok(()),
    }
}

/// Takes out what not everybody can read, and what lies behind a loop, and sends users to the tree for it.
fn close(cache: &mut Cache, tree: &Tree) {
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
        cache.items.insert(path.clone(), Item::limited(kind, &path));
    }
}
