//! The record of a conversion: what undoing it needs to know.

use super::fingerprint::{FingerprintSpan, fingerprint, left_out};
use super::request::Strategy;
use crate::ModulesError;
use crate::place;
use crate::scan::{ModuleTree, ScanOptions};
use quell_base::escape;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// The name of a record. In place it follows the modulepath's name and a dot.
pub(super) const RECORD: &str = "quell-plan.json";

/// Version of [`ConversionRecord`].
const SCHEMA_VERSION: u32 = 1;

/// Permissions of a record: every user may read it.
const MODE: u32 = 0o644;

/// The record of a conversion.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ConversionRecord {
    schema_version: u32,
    strategy: String,
    pub(super) trees: Vec<RecordedTree>,
}

/// A modulepath that was converted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RecordedTree {
    /// The old modulepath.
    pub(super) source: PathBuf,
    /// The new one.
    pub(super) target: PathBuf,
    /// The old modulepath's inode, where the new one took its name; `None` where the old one stayed.
    pub(super) inode: Option<u64>,
    /// The fingerprint of the new modulepath when it was written.
    pub(super) fingerprint: String,
    /// Fingerprints of the directories that no tool looks into, such as `.git`. Shape: by escaped path below the tree.
    #[serde(default)]
    pub(super) left_out: BTreeMap<String, String>,
}

impl RecordedTree {
    /// The record of a new tree, which lies `aside` and has no name yet.
    pub(super) fn of(
        source: &Path,
        target: &Path,
        inode: Option<u64>,
        aside: &Path,
    ) -> Result<Self, ModulesError> {
        let new = ModuleTree::scan(aside, ScanOptions::default())?;
        let left_out = left_out(&new).into_iter().map(|(path, sum)| (escape(&path), sum)).collect();
        let fingerprint = fingerprint(&new, FingerprintSpan::Lasting);
        Ok(Self { source: source.to_owned(), target: target.to_owned(), inode, fingerprint, left_out })
    }

    /// Refuses a tree that has changed since it was written. A directory that no tool looks into may be missing: then
    /// nothing of it can be lost.
    ///
    /// **Errors**: [`ModulesError::ChangedSince`], [`ModulesError::LeftOutChanged`], [`ModulesError::Read`].
    pub(super) fn refuse_changed(&self, path: &Path) -> Result<(), ModulesError> {
        let changed = || ModulesError::ChangedSince { path: self.target.clone() };
        if !path.is_dir() {
            return Err(changed());
        }
        let now = ModuleTree::scan(path, ScanOptions::default())?;
        if fingerprint(&now, FingerprintSpan::Lasting) != self.fingerprint {
            return Err(changed());
        }
        let is_other = |(path, sum): &(Vec<u8>, String)| self.left_out.get(&escape(path)) != Some(sum);
        match left_out(&now).into_iter().find(is_other) {
            Some((directory, _)) => Err(ModulesError::LeftOutChanged {
                path: self.target.join(OsStr::from_bytes(&directory)),
                tree: self.target.clone(),
            }),
            None => Ok(()),
        }
    }

    /// Like [`RecordedTree::refuse_changed`], if anything exists at this place.
    pub(super) fn refuse_changed_at(&self, place: &Path) -> Result<(), ModulesError> {
        match place.symlink_metadata() {
            Ok(_) => self.refuse_changed(place),
            Err(_) => Ok(()),
        }
    }
}

/// The record of a modulepath that is converted in place.
pub(super) fn record_of(target: &Path) -> PathBuf {
    let mut name = target.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(RECORD);
    target.with_file_name(name)
}

impl ConversionRecord {
    pub(super) fn new(strategy: Strategy, trees: Vec<RecordedTree>) -> Self {
        Self { schema_version: SCHEMA_VERSION, strategy: strategy.name().into(), trees }
    }

    pub(super) fn write(&self, path: &Path) -> Result<(), ModulesError> {
        let json = serde_json::to_vec_pretty(self);
        let json =
            json.map_err(|error| ModulesError::Record { path: path.to_owned(), why: error.to_string() })?;
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let made = File::options().write(true).create_new(true).custom_flags(flags).mode(MODE).open(path);
        let mut file = made.map_err(ModulesError::write(path))?;
        // Undoing trusts the record, so no other user may write in it, whatever the umask is.
        let permissions = fs::Permissions::from_mode(MODE);
        let written = file.write_all(&json).and_then(|()| file.set_permissions(permissions));
        written.and_then(|()| file.sync_all()).map_err(|error| {
            // A partial record is useless.
            _ = fs::remove_file(path);
            ModulesError::write(path)(error)
        })
    }

    /// **Errors**: [`ModulesError::Record`], also for a record of another user, and for one that names a path in another
    /// directory: its author may have written any path.
    pub(super) fn read(path: &Path) -> Result<Self, ModulesError> {
        let refused = |why: String| ModulesError::Record { path: path.to_owned(), why };
        let text = place::read_record(path)?;
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
