//! The data set on disk: files that appear whole, in a directory for each day.
//!
//! ```text
//! DIR/jobs/day=2026-11-24/0123456789abcdef0123456789abcdef.parquet
//! DIR/paths/day=2026-11-24/0123456789abcdef0123456789abcdef.parquet
//! DIR/.compact/                                                        only while days are compacted
//! ```
//!
//! A file is named after the jobs in it, so that a trace that is collected again replaces its file. Writers need no lock:
//! no two of them write different files of one name. A day's directory may be exchanged by another that holds the same jobs
//! (`compact.rs`) while a writer has it open: the writer then waits until its file is carried over, or writes it again.

use crate::tables::Table;
use crate::{FleetError, JobRow, identity};
use quell_base::files::{Durability, OutputMode, OutputPlace};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A data set.
#[derive(Debug)]
pub struct DataSet {
    directory: PathBuf,
}

/// Jobs that were there already, under the same name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replaced(pub u64);

impl DataSet {
    /// The data set in `directory`, which need not exist.
    pub fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned() }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Adds jobs. Those of one day go into one file. When it returns, every reader sees them.
    ///
    /// # Errors
    /// Those of writing.
    pub fn append(&self, jobs: &[JobRow]) -> Result<Replaced, FleetError> {
        let mut days: BTreeMap<String, BTreeMap<&str, &JobRow>> = BTreeMap::new();
        for job in jobs {
            days.entry(job.day()).or_default().insert(&job.id, job);
        }
        let mut replaced = 0;
        for (day, jobs) in days {
            let ids: Vec<&str> = jobs.keys().copied().collect();
            let name = format!("{}.parquet", identity::together(&ids));
            let jobs: Vec<&JobRow> = jobs.into_values().collect();
            for table in Table::ALL {
                let was_there = self.write(table, &day, &name, &jobs)?;
                replaced += if was_there && table == Table::Jobs { jobs.len() as u64 } else { 0 };
            }
        }
        Ok(Replaced(replaced))
    }

    /// Writes one file. True when one of its name was there.
    fn write(&self, table: Table, day: &str, name: &str, jobs: &[&JobRow]) -> Result<bool, FleetError> {
        let mut was_there = false;
        for attempt in 1.. {
            let directory = self.day(table, day)?;
            let path = directory.join(name);
            was_there |= attempt == 1 && path.exists();
            match fill(table, &path, jobs) {
                Ok(file) if has_landed(&path, &file)? => break,
                // The day was exchanged meanwhile, and the process that did it is gone.
                Ok(_) if attempt < ATTEMPTS => {}
                Err(FleetError::Io { source, .. })
                    if source.kind() == ErrorKind::NotFound && attempt < ATTEMPTS => {}
                Ok(_) => return Err(FleetError::io("write", &path)(ErrorKind::ResourceBusy.into())),
                Err(error) => return Err(error),
            }
        }
        Ok(was_there)
    }

    /// The directory of a day, which is made with the permissions of the data set.
    fn day(&self, table: Table, day: &str) -> Result<PathBuf, FleetError> {
        let table = self.directory.join(table.name());
        let directory = table.join(format!("day={day}"));
        if !directory.is_dir() {
            std::fs::create_dir_all(&self.directory).map_err(FleetError::io("create", &self.directory))?;
            for directory in [&table, &directory] {
                make(directory).map_err(FleetError::io("create", directory))?;
            }
        }
        Ok(directory)
    }
}

/// Writes a file that appears complete.
fn fill(table: Table, path: &Path, jobs: &[&JobRow]) -> Result<File, FleetError> {
    let io = |action| FleetError::io(action, path);
    // A directory whose files go to its group is meant for that group.
    let directory = path.parent().map(Path::metadata).transpose().map_err(io("write"))?;
    let is_shared = directory.is_some_and(|directory| directory.mode() & SET_GROUP != 0);
    let access = OutputMode::Exactly(if is_shared { 0o640 } else { 0o600 });
    let place = OutputPlace::of(path).map_err(io("write"))?;
    let output = place.create(access).map_err(io("write"))?;
    table.write(output.as_file(), path, jobs)?;
    let file = output.as_file().try_clone().map_err(io("write"))?;
    output.publish(Durability::Durable).map_err(io("write"))?;
    Ok(file)
}

/// Waits until readers see the jobs of a file that has its name. Where its day was exchanged in that moment, the file is carried
/// over to its path, or was merged and removed.
fn has_landed(path: &Path, file: &File) -> Result<bool, FleetError> {
    for _ in 0..PATIENCE {
        match path.symlink_metadata() {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found.map(|found| found.is_file()).map_err(FleetError::io("read", path)),
        }
        match file.metadata() {
            Ok(file) if file.nlink() > 0 => std::thread::sleep(Duration::from_millis(20)),
            gone => return Ok(gone.is_ok()),
        }
    }
    Ok(false)
}

/// Makes a directory with the permissions of the one above, so that those who may write there may write here. It has them when
/// it appears.
pub(crate) fn make(directory: &Path) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
        return std::fs::create_dir(directory);
    };
    let above = parent.metadata()?.mode() & ALL_BITS;
    for attempt in 0.. {
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.{attempt}", std::process::id()));
        let hidden = parent.join(hidden);
        match DirBuilder::new().mode(0o700).create(&hidden) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempt < MOST_NAMES => continue,
            made => made?,
        }
        std::fs::set_permissions(&hidden, Permissions::from_mode(above))?;
        return match std::fs::rename(&hidden, directory) {
            Ok(()) => Ok(()),
            Err(error) => {
                std::fs::remove_dir(&hidden)?;
                // Another writer was first.
                if directory.is_dir() { Ok(()) } else { Err(error) }
            }
        };
    }
    Ok(())
}

/// Times that a file is written before the writer gives up: a day is exchanged once in a compaction.
const ATTEMPTS: u32 = 10;
/// Waits of 20 ms for a file that is carried over.
const PATIENCE: u32 = 100;
/// Hidden names that are tried. Killed writers leave them, and processes of one number on other nodes.
const MOST_NAMES: u32 = 1000;
/// The set-group-ID bit. Source: inode(7).
const SET_GROUP: u32 = 0o2000;
/// Every bit of chmod(2).
const ALL_BITS: u32 = 0o7777;
