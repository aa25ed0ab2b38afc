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

use crate::directory::Directory;
use crate::names::day;
use crate::tables::Table;
use crate::{FleetError, JobRow, identity, trust};
use quell_base::files::{Durability, OutputMode, OutputPlace};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirEntry, File};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
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

/// The days of a data set that have jobs. Shape: names such as `day=2026-11-24`, of days that exist; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetDays(pub(crate) BTreeSet<String>);

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
    /// [`FleetError::NotOfRoot`] for root in a data set where others may write; those of writing.
    pub fn append(&self, jobs: &[JobRow]) -> Result<Replaced, FleetError> {
        let mut days: BTreeMap<String, BTreeMap<&str, &JobRow>> = BTreeMap::new();
        for job in jobs {
            days.entry(job.day()).or_default().insert(&job.id, job);
        }
        let mut replaced = 0;
        trust::refuse_unsafe_path(&self.directory)?;
        std::fs::create_dir_all(&self.directory).map_err(FleetError::io("create", &self.directory))?;
        // Root refuses both tables before it writes one.
        let root = self.open()?;
        Table::ALL.into_iter().try_for_each(|table| root.below(table.name()).map(drop))?;
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
        let day = format!("day={day}");
        self.open()?.made(table.name())?.made(&day)?;
        Ok(self.directory.join(table.name()).join(day))
    }

    /// The days that have jobs. Directories that are no dates are left out.
    ///
    /// # Errors
    /// [`FleetError::NotOfRoot`] for root in a data set where others may write, whose files the engine would read as root;
    /// [`FleetError::Empty`]; [`FleetError::WrongFile`] for a pipe or a device in the place of a file, for which engines would
    /// wait.
    pub fn days(&self) -> Result<FleetDays, FleetError> {
        let jobs = match self.directory.exists() {
            true => self.open()?.below(Table::Jobs.name())?,
            false => None,
        };
        let mut days = BTreeSet::new();
        self.each_file(|day, file| {
            let is_file = file.file_type().is_ok_and(|kind| kind.is_file())
                // A link, or a file of a day that was compacted meanwhile.
                || file.path().metadata().map_or(true, |found| found.is_file());
            if !is_file {
                return Err(FleetError::WrongFile {
                    path: file.path(),
                    reason: "is no regular file".to_owned(),
                });
            }
            days.insert(day.to_owned());
            Ok(())
        })?;
        if let Some(jobs) = jobs {
            days.iter().try_for_each(|day| jobs.below(day).map(drop))?;
        }
        match days.is_empty() {
            true => Err(FleetError::Empty { path: self.directory.clone() }),
            false => Ok(FleetDays(days)),
        }
    }

    /// Names the first file that is no table of jobs.
    ///
    /// # Errors
    /// [`FleetError::WrongFile`].
    pub(crate) fn verify(&self) -> Result<(), FleetError> {
        let mut files = Vec::new();
        self.each_file(|_, file| {
            files.push(file.path());
            Ok(())
        })?;
        files.sort();
        files.iter().try_for_each(|path| match File::open(path) {
            Ok(file) => Table::Jobs.verify(&file, path),
            // Its day was compacted meanwhile, or the engine said that it may not be read.
            Err(_) => Ok(()),
        })
    }

    /// Visits the files that a query reads.
    fn each_file(
        &self,
        mut visit: impl FnMut(&str, &DirEntry) -> Result<(), FleetError>,
    ) -> Result<(), FleetError> {
        for found in entries(&self.directory.join(Table::Jobs.name()))? {
            let name = found.file_name();
            let Some(day) = day(&name) else { continue };
            for file in entries(&found.path())? {
                let name = file.file_name();
                if name.as_encoded_bytes().ends_with(b".parquet")
                    && !name.as_encoded_bytes().starts_with(b".")
                {
                    visit(day, &file)?;
                }
            }
        }
        Ok(())
    }

    /// Opens the directory of the data set.
    ///
    /// # Errors
    /// [`FleetError::NotOfRoot`] for root in a data set where others may write; those of open(2).
    pub(crate) fn open(&self) -> Result<Directory, FleetError> {
        trust::refuse_unsafe_path(&self.directory)?;
        Directory::open(&self.directory)
    }
}

/// The entries of a directory; none where it is absent or no directory.
fn entries(directory: &Path) -> Result<Vec<DirEntry>, FleetError> {
    let entries = match directory.read_dir() {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries.map_err(FleetError::io("list", directory))?,
    };
    entries.collect::<Result<_, _>>().map_err(FleetError::io("list", directory))
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

/// Times that a file is written before the writer gives up: a day is exchanged once in a compaction.
const ATTEMPTS: u32 = 10;
/// Waits of 20 ms for a file that is carried over.
const PATIENCE: u32 = 100;
/// The set-group-ID bit. Source: inode(7).
const SET_GROUP: u32 = 0o2000;
