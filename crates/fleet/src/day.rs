//! One day of a table, while it is compacted.

use crate::directory::{Directory, is_regular};
use crate::names::{is_ours, is_unfinished};
use crate::tables::Table;
use crate::{Engine, FleetError};
use rustix::fs::{AtFlags, FileType, RenameFlags, Stat};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsRawFd;

/// The result of a compaction.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Days of a table that were merged.
    pub days: u64,
    /// Files that became one for each of these.
    pub files: u64,
    /// The file system cannot exchange directories: readers that do not tell jobs by `id` saw some twice for a moment.
    pub without_exchange: bool,
    /// The days and files that stay as they are, each with its reason.
    pub failures: Vec<FleetError>,
}

/// A day of a table.
pub(crate) struct Day<'a> {
    /// The directory of compactions.
    pub(crate) aside: &'a Directory,
    /// The directory of the table.
    pub(crate) days: &'a Directory,
    /// The directory of the day, with the files that are merged.
    pub(crate) place: Directory,
    pub(crate) table: Table,
    /// The name of the day's directory.
    pub(crate) name: &'a str,
}

/// The files that are merged, with their status when they were listed.
type Parts = BTreeMap<OsString, Stat>;

impl Day<'_> {
    pub(crate) fn compact(&self, engine: Engine, compacted: &mut Compacted) -> Result<(), FleetError> {
        let Some((parts, new, aside)) = self.prepare(engine, &mut compacted.failures)? else { return Ok(()) };
        let merged: BTreeSet<OsString> = parts.keys().cloned().collect();
        match self.aside.rename_with(&aside, (self.days, OsStr::new(self.name)), RenameFlags::EXCHANGE) {
            Ok(()) => {
                self.days.sync()?;
                self.aside.sync()?;
                self.carry_over(&new, &merged, &aside)?;
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                compacted.without_exchange = true;
                self.put_in_place(&new, &merged)?;
                self.aside.remove_with_files(&aside)?;
            }
            Err(errno) => return Err(FleetError::io("exchange", self.place.path())(errno.into())),
        }
        compacted.days += 1;
        compacted.files += merged.len() as u64;
        self.aside.remove(list_name(&aside))
    }

    /// Merges the files of quell; `None` if there are fewer than two. Returns the merged files, the new directory for the day, and
    /// the name that this directory has until then.
    fn prepare(
        &self,
        engine: Engine,
        failures: &mut Vec<FleetError>,
    ) -> Result<Option<(Parts, Directory, OsString)>, FleetError> {
        for attempt in 1.. {
            let mut wrong = Vec::new();
            let parts = self.parts(&mut wrong)?;
            let made = if parts.len() < 2 { Ok(None) } else { self.make(engine, &parts).map(Some) };
            match made {
                // A recording was collected again meanwhile: its file is another.
                Err(FleetError::Changed { .. }) if attempt < ATTEMPTS_TO_MERGE => {}
                made => {
                    failures.append(&mut wrong);
                    return Ok(made?.map(|(new, aside)| (parts, new, aside)));
                }
            }
        }
        Ok(None)
    }

    /// Makes the directory that shall take the place of the day. Nothing is left of it after a failure.
    fn make(&self, engine: Engine, parts: &Parts) -> Result<(Directory, OsString), FleetError> {
        let (hidden, new) = self.aside.make_hidden("new")?;
        match self.fill(engine, parts, &new).and_then(|()| self.show(&hidden, &new, parts)) {
            Ok(aside) => Ok((new, aside)),
            Err(error) => {
                _ = self.aside.remove_with_files(&hidden);
                Err(error)
            }
        }
    }

    /// The files of quell in this day. One with wrong columns is left out: merged, its columns would be those of the whole day.
    fn parts(&self, failures: &mut Vec<FleetError>) -> Result<Parts, FleetError> {
        let mut parts = Parts::new();
        for name in self.place.names()?.into_iter().filter(|name| is_ours(name)) {
            let Some(stat) = self.place.stat_of(&name)?.filter(is_regular) else { continue };
            let path = self.place.path_of(&name);
            match self.place.open_file(&name).and_then(|file| self.table.verify(&file, &path)) {
                Ok(()) => _ = parts.insert(name, stat),
                Err(error) => failures.push(error),
            }
        }
        Ok(parts)
    }

    /// Fills the new directory: the merged file, and what came while it was made.
    fn fill(&self, engine: Engine, parts: &Parts, new: &Directory) -> Result<(), FleetError> {
        new.set_group(&self.place.stat()?)?;
        self.merge(engine, parts, new)?;
        self.link_late(parts, new)?;
        new.sync()
    }

    /// Writes these files of the day as one, each job once. The query names files, and they have digits in their names alone.
    fn merge(&self, engine: Engine, parts: &Parts, new: &Directory) -> Result<(), FleetError> {
        let name = merged_name(parts.keys());
        let path = new.path_of(&name);
        let file = new.create_file(&name, 0o600).map_err(FleetError::io("create", &path))?;
        let names = parts.keys().filter_map(|name| name.to_str());
        let list = names.map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",\n");
        let (key, order) = match self.table {
            Table::Jobs => ("id", "began, id"),
            Table::Paths => ("id, path", "id, metadata_operations DESC, path"),
        };
        // DuckDB writes to this open file, even if its name leads elsewhere by then. The path names quell's process, because a
        // wrapper between quell and DuckDB may pass no descriptors on.
        let to = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let script = format!(
            "SET temp_directory = '';\nCOPY (SELECT * FROM (SELECT DISTINCT ON ({key}) * FROM read_parquet([{list}],\n\
            hive_partitioning = false, union_by_name = true)) ORDER BY {order})\n\
            TO '{to}' (FORMAT parquet, COMPRESSION zstd, USE_TMP_FILE false);\n"
        );
        engine.run(&self.place.reached(), &script)?;
        self.verify_unchanged(parts)?;
        // The files that were merged are removed for this one.
        self.table.verify(&file, &path)?;
        let access = rustix::fs::Mode::from_raw_mode(access(parts));
        rustix::fs::fchmod(&file, access).map_err(|errno| FleetError::io("write", &path)(errno.into()))?;
        file.sync_all().map_err(FleetError::io("write", &path))
    }

    /// DuckDB opens files by their names. A member of the group may have put a link in the place of one meanwhile, to a file that
    /// only this user may read: renaming the file away and back shows in its time of change.
    fn verify_unchanged(&self, parts: &Parts) -> Result<(), FleetError> {
        let facts = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_size, stat.st_ctime, stat.st_ctime_nsec);
        for (name, before) in parts {
            let now = self.place.stat_of(name)?;
            if now.as_ref().map(facts) != Some(facts(before)) {
                return Err(FleetError::Changed { path: self.place.path_of(name) });
            }
        }
        Ok(())
    }

    /// Gives what came while the files were merged a name in the new directory too, so that it is seen right after the exchange.
    fn link_late(&self, parts: &Parts, new: &Directory) -> Result<(), FleetError> {
        for name in self.place.names()?.iter().filter(|name| is_ours(name) && !parts.contains_key(*name)) {
            // A file whose link is refused is carried over later.
            _ = rustix::fs::linkat(&self.place, name, new, name, AtFlags::empty());
        }
        Ok(())
    }

    /// Gives the new directory the name that tells a killed compaction how far it came, and the permissions of the day, last.
    fn show(&self, hidden: &OsStr, new: &Directory, parts: &Parts) -> Result<OsString, FleetError> {
        let aside = OsString::from(format!("{}.{}.{}", self.table.name(), self.name, new.stat()?.st_ino));
        let list = list_name(&aside);
        self.aside.remove(&list)?;
        let text: String =
            parts.keys().filter_map(|name| name.to_str()).map(|name| format!("{name}\n")).collect();
        let written = self.aside.create_file(&list, access(parts)).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        let shown = written
            .map_err(FleetError::io("write", &self.aside.path_of(&list)))
            .and_then(|()| new.set_mode(self.place.stat()?.st_mode))
            .and_then(|()| self.aside.rename(hidden, self.aside, &aside))
            .and_then(|()| self.aside.sync());
        if shown.is_err() {
            _ = self.aside.remove(&list);
        }
        shown.map(|()| aside)
    }

    /// Moves what is in the old directory and was not merged into the new one, and removes the rest. `aside`: the name of the old
    /// directory.
    pub(crate) fn carry_over(
        &self,
        new: &Directory,
        merged: &BTreeSet<OsString>,
        aside: &OsStr,
    ) -> Result<(), FleetError> {
        let old = &self.place;
        let is_old =
            |stat: Stat| old.stat().is_ok_and(|old| (old.st_dev, old.st_ino) == (stat.st_dev, stat.st_ino));
        if !self.aside.stat_of(aside)?.is_some_and(is_old) {
            return Err(FleetError::Changed { path: self.aside.path_of(aside) });
        }
        for _ in 0..ATTEMPTS {
            for name in old.names()? {
                match merged.contains(&name) || is_unfinished(&name) {
                    true => old.remove(&name)?,
                    false => carry(old, new, &name)?,
                }
            }
            // A writer that opened the directory before puts its file into it until it is gone, and looks for it afterwards.
            match self.aside.remove_directory(aside) {
                Err(FleetError::Io { source, .. }) if source.kind() == ErrorKind::DirectoryNotEmpty => {}
                removed => return removed,
            }
        }
        Err(FleetError::io("remove", &self.aside.path_of(aside))(Errno::NOTEMPTY.into()))
    }

    /// Without an exchange: the merged file first, then the files that it replaces are removed.
    fn put_in_place(&self, new: &Directory, merged: &BTreeSet<OsString>) -> Result<(), FleetError> {
        let name = OsString::from(merged_name(merged));
        new.rename(&name, &self.place, &name)?;
        self.place.sync()?;
        merged.iter().try_for_each(|name| self.place.remove(name))
    }
}

/// Moves a file to the new day. One that has the name there is newer, or the same file: that one stays.
fn carry(old: &Directory, new: &Directory, name: &OsStr) -> Result<(), FleetError> {
    match old.rename_with(name, (new, name), RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::EXIST) => {
            let is_directory = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            match old.stat_of(name)?.is_some_and(is_directory) {
                true => old.remove_directory(name),
                false => old.remove(name),
            }
        }
        // A file system without this flag.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => old.rename(name, new, name),
        Err(errno) => Err(FleetError::io("carry over", &old.path_of(name))(errno.into())),
    }
}

/// The permissions that all of the files have.
fn access(parts: &Parts) -> u32 {
    0o600 | parts.values().fold(0o666, |access, stat| access & stat.st_mode)
}

/// The name of the merged file: of no job, and another than those of its parts.
fn merged_name<'a>(names: impl IntoIterator<Item = &'a OsString>) -> String {
    let names: Vec<&str> = names.into_iter().filter_map(|name| name.to_str()).collect();
    format!("{}.parquet", crate::identity::together(&names))
}

/// The name of the list of files that were merged into the directory `aside`.
pub(crate) fn list_name(aside: &OsStr) -> OsString {
    let mut name = aside.to_owned();
    name.push(LIST);
    name
}

/// The files that were merged into the directory `name`; none where the list is not there: then all of them are carried over.
pub(crate) fn list_of(aside: &Directory, name: &OsStr) -> Result<BTreeSet<OsString>, FleetError> {
    let list = list_name(name);
    if aside.stat_of(&list)?.is_none() {
        return Ok(BTreeSet::new());
    }
    let read = |file: File| {
        let mut text = String::new();
        file.take(LONGEST_LIST).read_to_string(&mut text).map(|_| text)
    };
    let text = read(aside.open_file(&list)?).map_err(FleetError::io("read", &aside.path_of(&list)))?;
    Ok(text.lines().map(OsString::from).filter(|name| is_ours(name)).collect())
}

/// The end of a list's name.
pub(crate) const LIST: &str = ".list";
/// Attempts to merge a day whose files change meanwhile.
const ATTEMPTS_TO_MERGE: u32 = 10;
/// Attempts to empty an old directory.
const ATTEMPTS: u32 = 1000;
/// Bytes of a list at most: ten million files in a day.
const LONGEST_LIST: u64 = 400_000_000;
