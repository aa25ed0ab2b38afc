//! The record of a conversion, and undoing it.

use super::Strategy;
use super::fingerprint::{Span, fingerprint};
use super::places::{ASIDE, Places, rename};
use crate::ModulesError;
use crate::lock::Lock;
use crate::scan::{Options, Tree};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of a record; in place, after the modulepath's name and a dot.
pub(super) const RECORD: &str = "quell-plan.json";

/// Version of [`Record`].
const SCHEMA_VERSION: u32 = 1;

/// What was done, as far as undoing it needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    schema_version: u32,
    strategy: String,
    trees: Vec<RecordedTree>,
}

/// A modulepath that was converted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedTree {
    /// The old modulepath.
    pub(super) source: PathBuf,
    /// The new one.
    pub(super) target: PathBuf,
    /// The old one's number in its file system, where the new one has its name; none where it stayed.
    pub(super) inode: Option<u64>,
    /// What the new one was when it was written.
    pub(super) fingerprint: String,
}

/// The record of a modulepath that is converted in place.
pub(super) fn record_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(RECORD);
    target.with_file_name(name)
}

impl Record {
    pub(super) fn new(strategy: Strategy, trees: Vec<RecordedTree>) -> Self {
        Self { schema_version: SCHEMA_VERSION, strategy: strategy.name().into(), trees }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), ModulesError> {
        let json = serde_json::to_vec_pretty(self);
        let json =
            json.map_err(|error| ModulesError::Record { path: path.to_owned(), why: error.to_string() })?;
        fs::write(path, json).map_err(|error| {
            // A part of a record is none.
            _ = fs::remove_file(path);
            ModulesError::write(path)(error)
        })
    }

    /// **Errors**: [`ModulesError::Record`], also for one that speaks of anything but what lies beside it: somebody may have
    /// written any path into it.
    fn read(path: &Path) -> Result<Self, ModulesError> {
        let refused = |why: String| ModulesError::Record { path: path.to_owned(), why };
        let text = fs::read(path).map_err(ModulesError::read(path))?;
        let record: Self = serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        if record.schema_version != SCHEMA_VERSION {
            let newer = record.schema_version;
            return Err(refused(format!("it has version {newer}, this quell knows {SCHEMA_VERSION}")));
        }
        let real = |path: &Path| path.parent().and_then(|directory| directory.canonicalize().ok());
        let beside =
            |tree: &RecordedTree| tree.target.file_name().is_some() && real(&tree.target) == real(path);
        match record.trees.iter().all(beside) {
            true => Ok(record),
            false => Err(refused("it names a tree in another directory".into())),
        }
    }
}

/// What was undone, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// New modulepaths that are gone.
    pub removed: Vec<PathBuf>,
    /// Modulepaths that are what they were.
    pub restored: Vec<PathBuf>,
}

/// Undoes the conversion of which `record` tells: puts old modulepaths back, and removes new ones.
///
/// New trees lose their names first, then the record goes, then they are removed: stopped in between, this can be done
/// again, or the next conversion clears what is left.
///
/// **Errors**: those of [`would_undo`], before anything is done; [`ModulesError::Busy`], [`ModulesError::Write`].
pub fn undo(record: &Path) -> Result<Undone, ModulesError> {
    let undoing = Undoing::of(record)?;
    let _locks = undoing.lock()?;
    undoing.carry_out()?;
    Ok(undoing.outcome())
}

/// What [`undo`] would do.
///
/// **Errors**: [`ModulesError::ChangedSince`] for a new modulepath that is not what was written, or an old one that is not
/// there; [`ModulesError::Occupied`] for a name that it needs; [`ModulesError::Record`].
pub fn would_undo(record: &Path) -> Result<Undone, ModulesError> {
    Ok(Undoing::of(record)?.outcome())
}

/// A conversion that can be undone.
struct Undoing {
    /// The record.
    path: PathBuf,
    /// Shape: one a tree of the record.
    steps: Vec<Step>,
}

/// What undoing a tree takes. A conversion, or undoing it, may have been ended between any two of its steps.
enum Step {
    /// It has no name.
    Nothing,
    /// It loses its name.
    Withdraw(PathBuf),
    /// The old tree gets its name back.
    PutBack(Places),
}

impl Undoing {
    fn of(record: &Path) -> Result<Self, ModulesError> {
        let path = match (record.is_dir(), record_of(record)) {
            // A modulepath that was converted in place.
            (true, beside) if beside.is_file() => beside,
            (true, _) => record.join(RECORD),
            (false, _) => record.to_owned(),
        };
        let steps = Record::read(&path)?.trees.iter().map(step).collect::<Result<_, _>>()?;
        Ok(Self { path, steps })
    }

    fn outcome(&self) -> Undone {
        let mut undone = Undone::default();
        for step in &self.steps {
            match step {
                Step::Nothing => {}
                Step::Withdraw(target) => undone.removed.push(target.clone()),
                Step::PutBack(places) => undone.restored.push(places.target.clone()),
            }
        }
        undone
    }

    /// Keeps conversions away that might be giving these names now.
    fn lock(&self) -> Result<Vec<Lock>, ModulesError> {
        let directory = self.path.parent().filter(|_| self.aside().is_some());
        let old = self.steps.iter().filter_map(|step| match step {
            Step::PutBack(places) => places.old(),
            _ => None,
        });
        directory.into_iter().chain(old).map(Lock::take).collect()
    }

    /// Where new trees without names are, in a directory of new trees.
    fn aside(&self) -> Option<PathBuf> {
        let is_of_many = self.path.file_name().is_some_and(|name| name == RECORD);
        is_of_many.then(|| self.path.with_file_name(ASIDE))
    }

    fn carry_out(&self) -> Result<(), ModulesError> {
        // Trees that a conversion which was ended had not named yet.
        self.aside().iter().try_for_each(|aside| remove_tree(aside))?;
        let mut nameless = Vec::new();
        for step in &self.steps {
            match step {
                Step::Nothing => {}
                Step::Withdraw(target) => {
                    let aside = target.with_file_name(ASIDE);
                    crate::caches::open_directory(&aside).map_err(ModulesError::write(&aside))?;
                    rename(target, &aside.join(target.file_name().unwrap_or_default()))?;
                    nameless.push(aside);
                }
                Step::PutBack(places) => {
                    places.put_back()?;
                    nameless.push(places.aside.clone());
                }
            }
        }
        fs::remove_file(&self.path).map_err(ModulesError::write(&self.path))?;
        nameless.iter().try_for_each(|aside| remove_tree(aside))
    }
}

/// Removes a directory, if there is one.
fn remove_tree(path: &Path) -> Result<(), ModulesError> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ModulesError::write(path)(error)),
        _ => Ok(()),
    }
}

fn step(tree: &RecordedTree) -> Result<Step, ModulesError> {
    let changed = || ModulesError::ChangedSince { path: tree.target.clone() };
    let is_new = |path: &Path| -> Result<bool, ModulesError> {
        Ok(path.is_dir()
            && fingerprint(&Tree::scan(path, Options::default())?, Span::Lasting) == tree.fingerprint)
    };
    let Some(inode) = tree.inode else {
        return match fs::symlink_metadata(&tree.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Step::Nothing),
            _ if is_new(&tree.target)? => Ok(Step::Withdraw(tree.target.clone())),
            _ => Err(changed()),
        };
    };
    let places = Places::new(tree.target.clone(), inode);
    let old = places.old().ok_or_else(changed)?;
    if let Some(new) = places.new_tree() {
        if !is_new(new)? {
            return Err(changed());
        }
        if old == places.backup && new == places.target && places.aside.symlink_metadata().is_ok() {
            return Err(ModulesError::Occupied { path: places.aside });
        }
    }
    Ok(Step::PutBack(places))
}
