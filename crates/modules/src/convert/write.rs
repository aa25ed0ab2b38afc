//! Carries out a plan: trees are made aside, judged, and only then get their names.

use super::Strategy;
use super::copy::copy;
use super::plan::Plan;
use super::undo::{RECORD, Record, RecordedTree, fingerprint};
use crate::ModulesError;
use crate::verify::{self, Difference, Judge, Side};
use quell_trace::path::escape;
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where new modulepaths get their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// In this directory, each by the last component of the old one.
    Out(PathBuf),
    /// In place of the old ones, which are kept beside them as `NAME.quell-before`.
    InPlace,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The new modulepaths, in the order of the old ones; empty if there was a difference.
    pub targets: Vec<PathBuf>,
    /// What the judge found; then nothing was written.
    pub differences: Vec<Difference>,
    /// Requests that were refused and are refused now, with another reason; see [`super::Consent::exact`].
    pub reworded: Vec<Difference>,
    /// By which the conversion can be undone. Shape: one file, or one a modulepath in place.
    pub records: Vec<PathBuf>,
}

/// One tree's way.
#[derive(Debug)]
struct Way {
    source: PathBuf,
    /// Where it is made.
    aside: PathBuf,
    /// Its name at last.
    target: PathBuf,
    /// The old tree's name then, in place.
    backup: Option<PathBuf>,
}

/// Writes the trees of a plan, asks `judge`, and gives them their names; or removes them, if anything differs.
///
/// **Errors**: [`ModulesError::Occupied`] where a name is taken; what copying and judging give. Nothing is left then.
pub fn write(plan: &Plan, destination: &Destination, judge: &mut dyn Judge) -> Result<Written, ModulesError> {
    let ways = ways(plan, destination)?;
    let cleaner = prepare(&ways, destination)?;
    for (tree, way) in plan.trees.iter().zip(&ways) {
        copy(tree, &way.aside)?;
    }
    let (reworded, differences) = differences(plan, &ways, judge)?;
    if !differences.is_empty() {
        drop(cleaner);
        return Ok(Written { differences, ..Written::default() });
    }
    let records = match destination {
        Destination::Out(directory) => vec![name_new(plan.strategy, &ways, directory)?],
        Destination::InPlace => name_in_place(plan.strategy, &ways)?,
    };
    Ok(Written { targets: ways.into_iter().map(|way| way.target).collect(), differences, reworded, records })
}

fn ways(plan: &Plan, destination: &Destination) -> Result<Vec<Way>, ModulesError> {
    if plan.strategy == Strategy::Virtual && *destination == Destination::InPlace {
        return Err(ModulesError::VirtualInPlace);
    }
    let mut ways: Vec<Way> = Vec::new();
    for tree in &plan.trees {
        let source = fs::canonicalize(&tree.source).map_err(ModulesError::read(&tree.source))?;
        if let Destination::Out(directory) = destination
            && resolved(directory).starts_with(&source)
        {
            return Err(ModulesError::Within { path: directory.clone(), modulepath: source });
        }
        if [ASIDE, BEFORE].iter().any(|end| source.as_os_str().as_bytes().ends_with(end.as_bytes())) {
            return Err(ModulesError::Leftover { path: source });
        }
        let name = tree.source.file_name().or(source.file_name()).unwrap_or("root".as_ref()).to_owned();
        let (aside, target, backup) = match destination {
            Destination::Out(directory) => (directory.join(ASIDE).join(&name), directory.join(&name), None),
            Destination::InPlace => (aside_of(&source), source.clone(), Some(beside(&source, BEFORE))),
        };
        verify::refuse_colon(&target)?;
        if let Some(other) = ways.iter().find(|way| way.target == target) {
            let (one, other) = (other.source.clone(), tree.source.clone());
            return Err(ModulesError::SameName { one, other, name: target });
        }
        ways.push(Way { source: tree.source.clone(), aside, target, backup });
    }
    Ok(ways)
}

/// The name of a tree with something at its end.
fn beside(tree: &Path, suffix: &str) -> PathBuf {
    let mut name = tree.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    tree.with_file_name(name)
}

/// Where a tree is made that is to take the place of this one.
pub(super) fn aside_of(tree: &Path) -> PathBuf {
    beside(tree, ASIDE)
}

/// A path as it will be: without links as far as it is there.
pub(crate) fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    match there {
        Some((above, real)) => real.join(path.strip_prefix(above).unwrap_or(Path::new(""))),
        None => path.to_owned(),
    }
}

/// Where trees are made before they have names.
pub(super) const ASIDE: &str = ".quell-new";

/// What the old trees are called in place.
const BEFORE: &str = ".quell-before";

/// Removes what was made aside, and directories that were made for it and hold nothing now.
#[derive(Debug)]
struct Cleaner {
    aside: Vec<PathBuf>,
    /// Shape: deepest first.
    made: Vec<PathBuf>,
    /// Held until all is done.
    locks: Vec<Lock>,
}

/// Keeps other conversions away from a directory. Without a descriptor the file system has no such locks.
#[derive(Debug)]
struct Lock(Option<OwnedFd>);

impl Lock {
    /// **Errors**: [`ModulesError::Busy`].
    fn take(directory: &Path) -> Result<Self, ModulesError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory, flags, Mode::empty());
        let opened = opened.map_err(|errno| ModulesError::write(directory)(errno.into()))?;
        match rustix::fs::flock(&opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self(Some(opened))),
            Err(Errno::WOULDBLOCK) => Err(ModulesError::Busy { path: directory.to_owned() }),
            Err(_) => Ok(Self(None)),
        }
    }

    /// Removes what a conversion that was ended left at `aside`: with the lock, and no record beside it, nobody needs it.
    fn clear(&self, aside: &Path) -> Result<(), ModulesError> {
        match fs::symlink_metadata(aside) {
            Err(_) => Ok(()),
            Ok(left) if self.0.is_some() && left.is_dir() && left.uid() == geteuid().as_raw() => {
                fs::remove_dir_all(aside).map_err(ModulesError::write(aside))
            }
            Ok(_) => Err(ModulesError::Occupied { path: aside.to_owned() }),
        }
    }
}

impl Drop for Cleaner {
    fn drop(&mut self) {
        // What is left of a conversion is named `.quell-new`; the next one removes it.
        self.aside.iter().for_each(|path| _ = fs::remove_dir_all(path));
        // One with something in it stays.
        self.made.iter().for_each(|path| _ = fs::remove_dir(path));
        self.locks.clear();
    }
}

/// Makes sure that all names are free, and stay so. What has no record and ends in `.quell-new` is of a conversion that was
/// ended before anything had its name.
fn prepare(ways: &[Way], destination: &Destination) -> Result<Cleaner, ModulesError> {
    let free = |path: &Path| match fs::symlink_metadata(path) {
        Ok(_) => Err(ModulesError::Occupied { path: path.to_owned() }),
        Err(_) => Ok(()),
    };
    if let Destination::Out(directory) = destination {
        let aside = directory.join(ASIDE);
        free(&directory.join(RECORD))?;
        ways.iter().try_for_each(|way| free(&way.target))?;
        let made = directory.ancestors().take_while(|path| !path.exists()).map(Path::to_owned).collect();
        let mut cleaner = Cleaner { aside: Vec::new(), made, locks: Vec::new() };
        crate::caches::open_directory(directory).map_err(ModulesError::write(directory))?;
        let lock = Lock::take(directory)?;
        lock.clear(&aside)?;
        cleaner.aside.push(aside.clone());
        cleaner.locks.push(lock);
        crate::caches::open_directory(&aside).map_err(ModulesError::write(&aside))?;
        return Ok(cleaner);
    }
    let mut cleaner = Cleaner { aside: Vec::new(), made: Vec::new(), locks: Vec::new() };
    for way in ways {
        let lock = Lock::take(&way.source)?;
        way.backup.iter().chain([&record_of(&way.target)]).try_for_each(|path| free(path))?;
        lock.clear(&way.aside)?;
        cleaner.aside.push(way.aside.clone());
        cleaner.locks.push(lock);
    }
    Ok(cleaner)
}

/// What is reworded and what differs with the settings that the strategy is for, and without them: users get both at
/// different times.
fn differences(
    plan: &Plan,
    ways: &[Way],
    judge: &mut dyn Judge,
) -> Result<(Vec<Difference>, Vec<Difference>), ModulesError> {
    let old = Side {
        modulepaths: ways.iter().map(|way| way.source.clone()).collect(),
        variables: Vec::new(),
        root: None,
    };
    let modulepaths: Vec<PathBuf> = ways.iter().map(|way| way.aside.clone()).collect();
    let mut settings = vec![plan.strategy.variables()];
    if !settings[0].is_empty() {
        settings.push(Vec::new());
    }
    let mut reworded = Vec::new();
    for variables in settings {
        let new = Side { modulepaths: modulepaths.clone(), variables, root: None };
        let (words, differences): (Vec<_>, Vec<_>) =
            judge.differences(&old, &new)?.into_iter().partition(|difference| is_reworded(difference, plan));
        reworded.extend(words);
        if !differences.is_empty() {
            return Ok((reworded, differences));
        }
    }
    reworded.sort();
    reworded.dedup();
    Ok((reworded, Vec::new()))
}

/// Whether nothing but the reason changes for which a name is refused that a command of ours hides.
fn is_reworded(difference: &Difference, plan: &Plan) -> bool {
    let asks_for = |name: &[u8]| {
        let name = escape(name);
        difference.question.split(' ').any(|word| word == name)
    };
    !plan.consent.exact
        && difference.is_rewording()
        && plan.trees.iter().flat_map(|tree| &tree.hidden).any(|name| asks_for(name))
}

/// Gives new trees their names; takes them away again where one fails. The record is there first: what has a name can be
/// undone, whenever we are stopped.
fn name_new(strategy: Strategy, ways: &[Way], directory: &Path) -> Result<PathBuf, ModulesError> {
    let path = directory.join(RECORD);
    Record::new(strategy, recorded(ways)?).write(&path)?;
    for (number, way) in ways.iter().enumerate() {
        if let Err(error) = fs::rename(&way.aside, &way.target) {
            for way in &ways[..number] {
                fs::rename(&way.target, &way.aside).map_err(ModulesError::write(&way.aside))?;
            }
            remove(&path)?;
            return Err(ModulesError::write(&way.target)(error));
        }
    }
    Ok(path)
}

/// Exchanges old and new trees, so that at every moment one of them is there.
fn name_in_place(strategy: Strategy, ways: &[Way]) -> Result<Vec<PathBuf>, ModulesError> {
    let mut records = Vec::new();
    for (way, tree) in ways.iter().zip(recorded(ways)?) {
        let path = record_of(&way.target);
        records.push(path.clone());
        if let Err(error) = Record::new(strategy, vec![tree]).write(&path) {
            records.iter().try_for_each(|path| remove(path))?;
            return Err(error);
        }
    }
    for (number, way) in ways.iter().enumerate() {
        if let Err(error) = exchange(&way.aside, &way.target) {
            for way in &ways[..number] {
                exchange(&way.aside, &way.target)?;
            }
            records.iter().try_for_each(|path| remove(path))?;
            return Err(error);
        }
    }
    for way in ways {
        let backup = way.backup.as_ref().unwrap_or(&way.aside);
        fs::rename(&way.aside, backup).map_err(ModulesError::write(backup))?;
    }
    Ok(records)
}

fn remove(path: &Path) -> Result<(), ModulesError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ModulesError::write(path)(error)),
        _ => Ok(()),
    }
}

/// Exchanges two directories in one step; on a file system without that, in three, with a moment without the target.
pub(super) fn exchange(one: &Path, target: &Path) -> Result<(), ModulesError> {
    match rustix::fs::renameat_with(CWD, one, CWD, target, RenameFlags::EXCHANGE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            let mut between = one.as_os_str().to_owned();
            between.push("-between");
            let steps = [(target, Path::new(&between)), (one, target), (Path::new(&between), one)];
            steps.iter().try_for_each(|(from, to)| fs::rename(from, to).map_err(ModulesError::write(to)))
        }
        outcome => outcome.map_err(|errno| ModulesError::write(target)(errno.into())),
    }
}

fn record_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(RECORD);
    target.with_file_name(name)
}

fn recorded(ways: &[Way]) -> Result<Vec<RecordedTree>, ModulesError> {
    let one = |way: &Way| {
        Ok(RecordedTree {
            source: way.source.clone(),
            target: way.target.clone(),
            backup: way.backup.clone(),
            fingerprint: fingerprint(&way.aside)?,
        })
    };
    ways.iter().map(one).collect()
}
