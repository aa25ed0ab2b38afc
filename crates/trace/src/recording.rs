//! Reads recordings. One directory is one recording; recordings that are read together are one trace.

use crate::header::{FORMAT, VERSION};
use crate::path::{LONGEST, LONGEST_TARGET};
use crate::resolve::{NoFileSystem, Resolver};
use crate::store::spool::{SpoolNote, SpoolReader, SpoolRecord};
use crate::store::sums::Sums;
use crate::store::{events, tables};
use crate::touched::Collected;
use crate::writer::Damage;
use crate::{Completeness, Context, Event, Header, PathTable, Touched, TraceError, writer};
use std::path::{Path, PathBuf};

/// One recording: its header, paths and context in memory, its events on disk.
#[derive(Debug)]
pub struct Recording {
    /// The directory of the recording.
    pub directory: PathBuf,
    /// The header: the command, its start and its end.
    pub header: Header,
    /// The paths that events name.
    pub paths: PathTable,
    /// All other facts about the run.
    pub context: Context,
    store: Store,
}

/// The source of the events.
#[derive(Debug)]
enum Store {
    /// The recorder finished.
    Parquet(Sums),
    /// The recorder was killed. These are the events of the spool, resolved without access to the file system, and the
    /// touched parts of files of processes that had ended.
    Spool(Vec<Event>, Option<Vec<Touched>>),
}

impl Recording {
    /// Reads header, paths and context of the recording in `directory`, and the events of a partial recording.
    ///
    /// # Errors
    /// [`TraceError::NotATrace`] and [`TraceError::Newer`] for a directory that this version cannot read,
    /// [`TraceError::Damaged`] for a file that differs from the one written.
    pub fn open(directory: &Path) -> Result<Self, TraceError> {
        let Stored { mut header, files } = read_header(directory)?;
        let directory = directory.to_owned();
        let spool = directory.join("spool");
        if header.completeness == Completeness::Partial {
            let Recovered { paths, context, events, touched } = recover(&spool)?;
            refuse_long(&directory, &paths, &context)?;
            header.recorder.events = events.len() as u64;
            return Ok(Self { directory, header, paths, context, store: Store::Spool(events, touched) });
        }
        let (paths, context) = tables::read(&directory, &files)?;
        refuse_long(&directory, &paths, &context)?;
        Ok(Self { directory, header, paths, context, store: Store::Parquet(files) })
    }

    /// Calls `each` for every event, in the order in which calls ended.
    pub fn for_each_event(&self, mut each: impl FnMut(&Event)) -> Result<(), TraceError> {
        match &self.store {
            Store::Parquet(files) => {
                files.verify(&self.directory, events::NAME)?;
                events::for_each(&self.directory.join(events::NAME), each)
            }
            Store::Spool(events, _) => {
                events.iter().for_each(&mut each);
                Ok(())
            }
        }
    }

    /// The parts of mapped files that each process touched. Shape: sorted; parts of one process and file do not touch
    /// each other. `None` when the recorder did not look, as in an imported log or a trace of an earlier quell.
    ///
    /// A process that mapped or executed a file and has no row for it may have touched all of it: it unmapped the file
    /// before its end, or the recorder could not look at it. A process may have touched more of a file than its rows
    /// say, when it unmapped one of two mappings or when the kernel reclaimed pages. The parts that the kernel itself
    /// read at execution (the first page and the program headers) need not be among the rows.
    ///
    /// The table is read on demand, because most readers never need it.
    ///
    /// # Errors
    /// [`TraceError::Damaged`] for a table that differs from the one written, or whose rows refer to missing entries.
    pub fn touched(&self) -> Result<Option<Vec<Touched>>, TraceError> {
        match &self.store {
            Store::Parquet(files) => tables::read_touched(&self.directory, files, &self.paths, &self.context),
            Store::Spool(_, touched) => Ok(touched.clone()),
        }
    }
}

/// One or several recordings. Reading them together merges them exactly, in any order.
#[derive(Debug)]
pub struct Trace {
    /// Shape: at least one; sorted by rank, then by directory.
    pub recordings: Vec<Recording>,
}

impl Trace {
    /// Opens every directory given.
    pub fn open<P: AsRef<Path>>(directories: &[P]) -> Result<Self, TraceError> {
        let mut recordings = directories
            .iter()
            .map(|directory| Recording::open(directory.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        recordings.sort_by_key(|recording| (recording.header.rank, recording.directory.clone()));
        Ok(Self { recordings })
    }
}

/// Refuses overlong paths: readers keep every parent directory of a path, so that a long path would exhaust memory.
fn refuse_long(directory: &Path, paths: &PathTable, context: &Context) -> Result<(), TraceError> {
    // The table stores a byte of a link's content as at most four bytes.
    let is_long = paths.iter().any(|(_, path)| path.len() > LONGEST_TARGET)
        || context.links.iter().any(|link| link.target.len() > 4 * LONGEST);
    match is_long {
        true => {
            Err(TraceError::damaged(directory, format!("it has a path of more than {LONGEST_TARGET} bytes")))
        }
        false => Ok(()),
    }
}

/// `header.json` as read.
#[derive(serde::Deserialize)]
struct Stored {
    #[serde(flatten)]
    header: Header,
    #[serde(default)]
    files: Sums,
}

fn read_header(directory: &Path) -> Result<Stored, TraceError> {
    let not_a_trace =
        |reason: &str| TraceError::NotATrace { path: directory.to_owned(), reason: reason.to_owned() };
    let path = directory.join("header.json");
    let text = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound if directory.exists() => not_a_trace("it holds no `header.json`"),
        std::io::ErrorKind::NotADirectory => not_a_trace("it is no directory"),
        std::io::ErrorKind::NotFound => TraceError::io("open", directory)(error),
        _ => TraceError::io("read", &path)(error),
    })?;
    let json: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| TraceError::damaged(&path, error))?;
    if json["format"] != FORMAT {
        return Err(not_a_trace("its header has another format"));
    }
    match json["version"].as_u64() {
        Some(version) if version > u64::from(VERSION) => Err(TraceError::Newer {
            path: directory.to_owned(),
            version: u32::try_from(version).unwrap_or(u32::MAX),
        }),
        Some(_) => serde_json::from_value(json).map_err(|error| TraceError::damaged(&path, error)),
        None => Err(TraceError::damaged(&path, "it has no version")),
    }
}

/// The content of a recording whose recorder was killed.
struct Recovered {
    paths: PathTable,
    context: Context,
    events: Vec<Event>,
    touched: Option<Vec<Touched>>,
}

/// Reads a spool and resolves it without access to the file system, so that links are not followed.
fn recover(spool: &Path) -> Result<Recovered, TraceError> {
    let writer::LoadedSpool { mut paths, context, .. } =
        writer::load_context(SpoolReader::open(spool)?, Damage::Ends)?;
    let known = (context.processes.len(), paths.len());
    let mut resolver = Resolver::new(&context);
    let mut events = Vec::new();
    let mut touched = Collected::default();
    writer::for_each(SpoolReader::open(spool)?, Damage::Ends, &mut PathTable::default(), |record| {
        match record {
            SpoolRecord::Event(mut event) => {
                resolver.resolve(&mut paths, &mut NoFileSystem, &mut event);
                events.push(event);
            }
            SpoolRecord::Seen(seen) => resolver.see(seen),
            SpoolRecord::Touched(process, path, extents) => {
                if (process.0 as usize) < known.0 && (path.0 as usize) < known.1 {
                    touched.add(process, path, &extents);
                }
            }
            SpoolRecord::Note(SpoolNote::Looked(process)) => touched.looked(process),
            SpoolRecord::Note(_) => {}
        }
        Ok(())
    })?;
    Ok(Recovered { paths, context, events, touched: touched.into_rows() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SymbolicLink;

    #[test]
    fn paths_that_no_kernel_takes_are_refused() {
        for (length, target, is_sound) in
            [(LONGEST_TARGET, 4 * LONGEST, true), (LONGEST_TARGET + 1, 1, false), (1, 4 * LONGEST + 1, false)]
        {
            let mut paths = PathTable::default();
            let path = paths.intern(&vec![b'/'; length]);
            let links = vec![SymbolicLink { path, target: "a".repeat(target) }];
            let context = Context { links, ..Context::default() };
            let said = refuse_long(Path::new("t.qtrace"), &paths, &context);
            assert_eq!(said.is_ok(), is_sound, "{length} {target}");
        }
    }
}
