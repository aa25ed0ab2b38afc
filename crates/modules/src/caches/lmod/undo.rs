//! Undoes the builds of a cache of Lmod: its directory has again the files that it had before the first build.
//!
//! Files that were there before are kept under a second name. The list of sources says which contents are ours and which were there
//! before, and is written before any name changes, so that the way back is known wherever a build or an undoing is killed.

use super::super::kept::{Found, Place, UndoStep, UndoneCache, is_same, kept};
use super::files::{self, FAMILY, SETTINGS, TIMESTAMP};
use super::sources::{self, LIST, Sources};
use crate::ModulesError;
use crate::caches::format::content_digest;
use crate::lock::DirectoryLock;
use crate::place;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Keeps the files that another program made, and notes in `sources` what is theirs and what is ours.
///
/// **Errors**: those of reading and writing; [`ModulesError::Occupied`].
pub(super) fn keep(directory: &Path, aside: &Path, sources: &mut Sources) -> Result<(), ModulesError> {
    let last = sources::read(directory).ok();
    let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let [from, to] = [Place::open(aside)?, Place::open(directory)?];
    for name in names(aside)?.iter().filter(|name| *name != SETTINGS) {
        own.entry(name.clone()).or_default().extend(from.find(name)?.map(|found| found.digest()));
    }
    own.insert(SETTINGS.to_owned(), vec![content_digest(files::settings(directory).as_bytes())]);
    match last {
        Some(last) => {
            for (name, digests) in last.own {
                own.entry(name).or_default().extend(digests.into_iter().next());
            }
            sources.before = last.before;
        }
        None => {
            for name in names(directory)? {
                let found = to.find(&name)?;
                if let Some(digest) = found.as_ref().map(Found::digest) {
                    to.keep(&name, &found, &kept(&name))?;
                    sources.before.insert(name, digest);
                }
            }
        }
    }
    sources.own = own;
    Ok(())
}

/// The files of a cache and those that make Lmod use it.
fn names(directory: &Path) -> Result<BTreeSet<String>, ModulesError> {
    let family = files::names(directory)?.into_iter().filter_map(|name| name.into_string().ok());
    Ok(family.chain([TIMESTAMP, SETTINGS].map(str::to_owned)).collect())
}

/// Undoes the builds of which a list tells.
///
/// **Errors**: those of [`super::super::CacheRecord::undo`].
pub(crate) fn undo(list: &Path, step: UndoStep) -> Result<UndoneCache, ModulesError> {
    let refused = |why: &str| ModulesError::Record { path: list.to_owned(), why: why.to_owned() };
    let text = place::read_record(list)?;
    let sources: Sources = serde_json::from_slice(&text).map_err(|error| refused(&error.to_string()))?;
    let is_name = |name: &String| {
        let is_known = name.starts_with(FAMILY) || [TIMESTAMP, SETTINGS].contains(&name.as_str());
        is_known && !name.contains('/')
    };
    let all: BTreeSet<&String> = sources.own.keys().chain(sources.before.keys()).collect();
    if sources.own.is_empty() || !all.iter().all(|name| is_name(name)) {
        return Err(refused("an earlier version wrote it; build the cache again, and undo that"));
    }
    let directory = list.parent().unwrap_or(Path::new("/"));
    let _lock = match step {
        UndoStep::Do => Some(DirectoryLock::inside(directory)?),
        UndoStep::Tell => None,
    };
    let place = Place::open(directory)?;
    let mut steps = Vec::new();
    for name in all {
        steps.extend(of_name(&place, directory, &sources, name)?.map(|undoing| (name, undoing)));
    }
    let mut undone = UndoneCache::default();
    for (name, undoing) in &steps {
        let paths = if *undoing == Undoing::Remove { &mut undone.removed } else { &mut undone.restored };
        paths.push(directory.join(name));
        match undoing {
            _ if step == UndoStep::Tell => {}
            Undoing::Remove => place.remove(name)?,
            Undoing::PutBack => place.put_back(&kept(name), name)?,
            Undoing::Forget => place.remove(&kept(name))?,
        }
    }
    if step == UndoStep::Do {
        place.remove(LIST)?;
    }
    Ok(undone)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undoing {
    Remove,
    PutBack,
    /// The file has its name, and a second one.
    Forget,
}

/// The step for one name; `None` where nothing is left to do.
fn of_name(
    place: &Place,
    directory: &Path,
    sources: &Sources,
    name: &str,
) -> Result<Option<Undoing>, ModulesError> {
    let changed = |name: &str| ModulesError::ChangedSince { path: directory.join(name) };
    let (now, other) = (place.find(name)?, place.find(&kept(name))?);
    let is = |found: &Option<Found>, digest: &String| {
        found.as_ref().is_some_and(|found| found.digest() == *digest)
    };
    let before = sources.before.get(name);
    let is_before = before.is_some_and(|before| is(&now, before));
    let is_ours = sources.own.get(name).is_some_and(|own| own.iter().any(|digest| is(&now, digest)));
    if now.is_some() && !is_before && !is_ours {
        return Err(changed(name));
    }
    Ok(match before {
        None => now.map(|_| Undoing::Remove),
        Some(_) if is_same(&now, &other) => Some(Undoing::Forget),
        // Ours may have the same content, and another time.
        Some(before) if is(&other, before) => Some(Undoing::PutBack),
        Some(_) if is_before => None,
        Some(_) => return Err(changed(&kept(name))),
    })
}
