//! The record of a conversion, and undoing it.

use super::Strategy;
use super::write::exchange;
use crate::ModulesError;
use crate::scan::{Kind, Options, Tree};
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
    /// Where the old one is now; none where it stayed.
    pub(super) backup: Option<PathBuf>,
    /// What the new one was when it was written.
    pub(super) fingerprint: String,
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

    fn read(path: &Path) -> Result<Self, ModulesError> {
        let refused = |why: String| ModulesError::Record { path: path.to_owned(), why };
        let text = fs::read(path).map_err(ModulesError::read(path))?;
        let record: Self = serde_json::from_slice(&text).map_err(|error| refused(error.to_string()))?;
        match record.schema_version {
            SCHEMA_VERSION => Ok(record),
            newer => Err(refused(format!("it has version {newer}, this quell knows {SCHEMA_VERSION}"))),
        }
    }
}

/// What was undone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// Trees that are gone.
    pub removed: Vec<PathBuf>,
    /// Modulepaths that are what they were.
    pub restored: Vec<PathBuf>,
}

/// Undoes the conversion of which `record` tells: puts old modulepaths back, and removes new ones.
///
/// **Errors**: [`ModulesError::ChangedSince`] for a new modulepath that is not what was written, before anything is done;
/// [`ModulesError::Record`].
pub fn undo(record: &Path) -> Result<Undone, ModulesError> {
    let path = match record.is_dir() {
        true => record.join(RECORD),
        false => record.to_owned(),
    };
    let record = Record::read(&path)?;
    // A record speaks of what lies beside it, and of nothing else that somebody may have written into it.
    let beside = |tree: &&PathBuf| tree.parent() == path.parent() && tree.file_name().is_some();
    let mut named = record.trees.iter().flat_map(|tree| std::iter::once(&tree.target).chain(&tree.backup));
    if !named.all(|tree| beside(&tree)) {
        let why = "it names a tree in another directory".into();
        return Err(ModulesError::Record { path, why });
    }
    let steps: Vec<(&RecordedTree, Step)> =
        record.trees.iter().map(|tree| Ok((tree, step(tree)?))).collect::<Result<_, ModulesError>>()?;
    let mut undone = Undone::default();
    for (tree, step) in steps {
        let remove = match step {
            Step::Nothing => continue,
            Step::Remove(path) => path,
            Step::Exchange(held) => {
                exchange(&held, &tree.target)?;
                undone.restored.push(tree.target.clone());
                held
            }
        };
        fs::remove_dir_all(&remove).map_err(ModulesError::write(&remove))?;
        undone.removed.push(remove);
    }
    if path.file_name().is_some_and(|name| name == RECORD) {
        let aside = path.with_file_name(super::write::ASIDE);
        // Trees that a conversion which was ended had not named yet. Most left none.
        match fs::remove_dir_all(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(ModulesError::write(&aside)(error));
            }
            _ => {}
        }
    }
    fs::remove_file(&path).map_err(ModulesError::write(&path))?;
    Ok(undone)
}

/// What undoing a tree takes. A conversion may have been ended between any two of its steps.
enum Step {
    /// The new tree never got its name.
    Nothing,
    /// Remove the new tree.
    Remove(PathBuf),
    /// Exchange the old tree, which is here, for the new one.
    Exchange(PathBuf),
}

fn step(tree: &RecordedTree) -> Result<Step, ModulesError> {
    let is_new = |path: &Path| Ok(path.is_dir() && fingerprint(path)? == tree.fingerprint);
    let changed = || Err(ModulesError::ChangedSince { path: tree.target.clone() });
    let Some(backup) = &tree.backup else {
        return match fs::symlink_metadata(&tree.target) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Step::Nothing),
            _ if is_new(&tree.target)? => Ok(Step::Remove(tree.target.clone())),
            _ => changed(),
        };
    };
    let aside = super::write::aside_of(&tree.target);
    let held = if backup.is_dir() { backup.clone() } else { aside };
    match (is_new(&tree.target)?, is_new(&held)?) {
        (true, _) if held.is_dir() => Ok(Step::Exchange(held)),
        (false, true) => Ok(Step::Remove(held)),
        _ => changed(),
    }
}

/// A checksum of everything that a scan sees in a modulepath: names, permissions, content.
pub(super) fn fingerprint(root: &Path) -> Result<String, ModulesError> {
    let tree = Tree::scan(root, Options::default())?;
    let mut hasher = blake3::Hasher::new();
    for entry in &tree.entries {
        let content = match &entry.kind {
            Kind::File(content) => content.as_slice(),
            _ => &[],
        };
        let mode = entry.access.as_ref().map_or(0, |access| access.mode);
        hasher.update(&(entry.path.len() as u64).to_le_bytes()).update(&entry.path);
        hasher.update(&mode.to_le_bytes()).update(&[u8::from(entry.is_link)]);
        hasher.update(&(content.len() as u64).to_le_bytes()).update(content);
    }
    Ok(hasher.finalize().to_hex().to_string())
}
