//! Compaction: the files of a day that is over become one.
//!
//! ```text
//! list jobs/day=D            F, the files that are merged
//! .compact/jobs.day=D.INO/   made aside: F as one file, on disk; INO is the inode of this directory
//! .compact/jobs.day=D.INO.list   the names in F, on disk
//! link                       what came meanwhile gets a name in the new directory too
//! exchange                   jobs/day=D <-> .compact/jobs.day=D.INO, by renameat2(RENAME_EXCHANGE): one step for readers
//! carry over                 what is in the old directory and not in F came late: moved into the new one
//! remove                     F, the old directory, the list
//! ```
//!
//! Killed before the exchange, the directory aside has the inode in its name: the next compaction removes it. Killed after, it
//! has another, that of the old day: the next writer or compaction carries over and removes. So nothing is lost. A reader that listed a day before the exchange does not find its files after it, and lists again.
//!
//! Where the file system cannot exchange, the merged file is renamed into the day, and F is removed after that: meanwhile a
//! reader sees jobs twice, with equal `id`. Killed in between, they are twice until the next compaction, which merges by `id`.
//!
//! One process at a time compacts: it holds a lock, on `.compact/lock`. DuckDB merges.

use crate::dataset::make;
use crate::tables::Table;
use crate::{DataSet, Engine, FleetError};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The result of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Days of a table that were merged.
    pub days: u64,
    /// Files that became one for each of these.
    pub files: u64,
    /// The file system cannot exchange directories: readers that do not tell jobs by `id` saw some twice for a moment.
    pub without_exchange: bool,
}

/// Merges the files of all days before the one of `now`, which is in seconds since 1970.
///
/// # Errors
/// [`FleetError::Busy`] while another process compacts; those of the engine and of the file system.
pub fn compact(data_set: &DataSet, engine: Engine, now: i64) -> Result<Compacted, FleetError> {
    let root = data_set.directory();
    let aside = root.join(ASIDE);
    make(&aside).map_err(FleetError::io("create", &aside))?;
    let _lock = lock(root, &aside.join("lock"))?;
    finish_earlier(root, &aside)?;
    let today = quell_base::date::utc(now)[..10].to_owned();
    let mut compacted = Compacted::default();
    for table in Table::ALL {
        for day in days(&root.join(table.name()))? {
            if day.as_str() < &*format!("day={today}") {
                Day { root, aside: &aside, table, day: &day }.compact(engine, &mut compacted)?;
            }
        }
    }
    Ok(compacted)
}

fn lock(root: &Path, path: &Path) -> Result<File, FleetError> {
    let open = File::options().write(true).create(true).truncate(false).open(path);
    let file = open.map_err(FleetError::io("open", path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(FleetError::Busy { path: root.to_owned() }),
        Err(errno) => Err(FleetError::io("lock", path)(errno.into())),
    }
}

/// Ends compactions that were killed, unless one is under way.
///
/// # Errors
/// Those of the file system. Usual cause: a data set whose days belong to several users.
pub fn finish(data_set: &DataSet) -> Result<(), FleetError> {
    let root = data_set.directory();
    let aside = root.join(ASIDE);
    if names(&aside)?.iter().all(|name| name == "lock") {
        return Ok(());
    }
    let _lock = lock(root, &aside.join("lock"))?;
    finish_earlier(root, &aside)
}

/// Ends compactions that were killed.
fn finish_earlier(root: &Path, aside: &Path) -> Result<(), FleetError> {
    for name in names(aside)? {
        let old = aside.join(&name);
        let mut parts = name.splitn(3, '.');
        let (Some(table), Some(day), Some(made)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        let Some(table) = Table::ALL.into_iter().find(|known| known.name() == table) else { continue };
        if !old.is_dir() || !is_day(day) {
            continue;
        }
        let day = Day { root, aside, table, day };
        let number = old.metadata().map_err(FleetError::io("read", &old))?.ino();
        if made == number.to_string() {
            remove_all(&old)?;
        } else {
            day.carry_over(&old, &list_of(&old))?;
        }
        remove_list(&old)?;
    }
    Ok(())
}

/// A day of a table.
struct Day<'a> {
    root: &'a Path,
    aside: &'a Path,
    table: Table,
    day: &'a str,
}

impl Day<'_> {
    fn place(&self) -> PathBuf {
        self.root.join(self.table.name()).join(self.day)
    }

    fn compact(&self, engine: Engine, compacted: &mut Compacted) -> Result<(), FleetError> {
        let place = self.place();
        let files: BTreeSet<String> = names(&place)?.into_iter().filter(|name| is_ours(name)).collect();
        if files.len() < 2 {
            return Ok(());
        }
        let new = self.make_aside()?;
        self.merge(engine, &files, &new)?;
        let list = list_path(&new);
        let text: String = files.iter().map(|name| format!("{name}\n")).collect();
        let put = quell_base::files::replace(
            &list,
            quell_base::files::OutputMode::Exactly(0o600),
            quell_base::files::Durability::Durable,
            text.as_bytes(),
        );
        put.map_err(FleetError::io("write", &list))?;
        self.link_late(&files, &new)?;
        compacted.days += 1;
        compacted.files += files.len() as u64;
        match renameat_with(CWD, &new, CWD, &place, RenameFlags::EXCHANGE) {
            Ok(()) => {
                for directory in [place.parent().unwrap_or(self.root), self.aside] {
                    sync(directory)?;
                }
                self.carry_over(&new, &files)?;
            }
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                compacted.without_exchange = true;
                self.put_in_place(&new, &files)?;
            }
            Err(errno) => return Err(FleetError::io("exchange", &place)(errno.into())),
        }
        remove_list(&new)
    }

    /// A new directory whose name has its inode, with the permissions of the day.
    fn make_aside(&self) -> Result<PathBuf, FleetError> {
        let plain = self.aside.join("new");
        if plain.exists() {
            remove_all(&plain)?;
        }
        std::fs::create_dir(&plain).map_err(FleetError::io("create", &plain))?;
        let place = self.place();
        let of_day = place.metadata().map_err(FleetError::io("read", &place))?;
        let made = plain.metadata().map_err(FleetError::io("read", &plain))?;
        // Root may compact what users collect into: the directory stays theirs.
        if (made.uid(), made.gid()) != (of_day.uid(), of_day.gid()) {
            std::os::unix::fs::chown(&plain, Some(of_day.uid()), Some(of_day.gid()))
                .map_err(FleetError::io("give", &plain))?;
        }
        std::fs::set_permissions(&plain, of_day.permissions()).map_err(FleetError::io("give", &plain))?;
        let name = format!("{}.{}.{}", self.table.name(), self.day, made.ino());
        let new = self.aside.join(name);
        std::fs::rename(&plain, &new).map_err(FleetError::io("create", &new))?;
        Ok(new)
    }

    /// Writes these files of the day as one, each job once. The query names files, and they have digits in their names alone.
    fn merge(&self, engine: Engine, files: &BTreeSet<String>, new: &Path) -> Result<(), FleetError> {
        let (table, day) = (self.table.name(), self.day);
        let list = files.iter().map(|name| format!("'{table}/{day}/{name}'")).collect::<Vec<_>>().join(",");
        let (key, order) = match self.table {
            Table::Jobs => ("id", "began, id"),
            Table::Paths => ("id, path", "id, metadata_operations DESC, path"),
        };
        let name = merged_name(files);
        let to = new.join(&name);
        let inner = to.strip_prefix(self.root).unwrap_or(&to).display().to_string();
        let script = format!(
            "SET temp_directory = '';\nCOPY (SELECT * FROM (SELECT DISTINCT ON ({key}) * FROM read_parquet([{list}], \
            hive_partitioning = false, union_by_name = true)) ORDER BY {order}) TO '{inner}' (FORMAT parquet, COMPRESSION zstd)"
        );
        engine.run(self.root, &script)?;
        let file = File::open(&to).map_err(FleetError::io("open", &to))?;
        let oldest = self.place().join(files.first().expect("two files or more"));
        let access = oldest.metadata().map_err(FleetError::io("read", &oldest))?.permissions();
        file.set_permissions(access).map_err(FleetError::io("write", &to))?;
        file.sync_all().map_err(FleetError::io("write", &to))?;
        sync(new)
    }

    /// Gives what came while the files were merged a name in the new directory too, so that it is seen right after the exchange.
    fn link_late(&self, files: &BTreeSet<String>, new: &Path) -> Result<(), FleetError> {
        let place = self.place();
        for name in names(&place)?.iter().filter(|name| is_ours(name) && !files.contains(*name)) {
            // Where links are refused, the file is carried over.
            _ = std::fs::hard_link(place.join(name), new.join(name));
        }
        sync(new)
    }

    /// Moves what is in the old directory and was not merged into the new one, and removes the rest.
    fn carry_over(&self, old: &Path, merged: &BTreeSet<String>) -> Result<(), FleetError> {
        let place = self.place();
        for _ in 0..ATTEMPTS {
            for name in names(old)? {
                let file = old.join(&name);
                let is_late = is_ours(&name) && !merged.contains(&name);
                // Two names of one file stay as they are in rename(2).
                let moved = if is_late { std::fs::rename(&file, place.join(&name)) } else { Ok(()) };
                match moved.and_then(|()| std::fs::remove_file(&file)) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    done => done.map_err(FleetError::io("carry over", &file))?,
                }
            }
            // A writer that opened the directory before puts its file into it until it is gone, and looks for it afterwards.
            match std::fs::remove_dir(old) {
                Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {}
                done => return done.map_err(FleetError::io("remove", old)),
            }
        }
        Err(FleetError::io("remove", old)(ErrorKind::DirectoryNotEmpty.into()))
    }

    /// Without an exchange: the merged file first, then the files that it replaces are removed.
    fn put_in_place(&self, new: &Path, files: &BTreeSet<String>) -> Result<(), FleetError> {
        let place = self.place();
        let name = merged_name(files);
        let (from, to) = (new.join(&name), place.join(&name));
        std::fs::rename(&from, &to).map_err(FleetError::io("write", &to))?;
        sync(&place)?;
        for name in files {
            let file = place.join(name);
            match std::fs::remove_file(&file) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                done => done.map_err(FleetError::io("remove", &file))?,
            }
        }
        remove_all(new)
    }
}

/// The name of the merged file: of no job, and another than those of its parts.
fn merged_name(files: &BTreeSet<String>) -> String {
    let names: Vec<&str> = files.iter().map(String::as_str).collect();
    format!("{}.parquet", crate::identity::together(&names))
}

/// A file that quell wrote: 32 hexadecimal digits.
fn is_ours(name: &str) -> bool {
    let digits = name.strip_suffix(".parquet");
    digits.is_some_and(|digits| digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// `day=2026-11-24`.
fn is_day(name: &str) -> bool {
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    };
    let day = name.strip_prefix("day=");
    day.is_some_and(|day| day.len() == 10 && day.bytes().enumerate().all(shape))
}

/// The days of a table. Shape: sorted. A link is none.
fn days(table: &Path) -> Result<Vec<String>, FleetError> {
    let is_directory = |name: &String| table.join(name).symlink_metadata().is_ok_and(|found| found.is_dir());
    Ok(names(table)?.into_iter().filter(|name| is_day(name) && is_directory(name)).collect())
}

/// The names in a directory that are text. Shape: sorted; none for a directory that is not there.
fn names(directory: &Path) -> Result<Vec<String>, FleetError> {
    let entries = match directory.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(FleetError::io("list", directory))?,
    };
    let name = |entry: io::Result<std::fs::DirEntry>| entry.map(|entry| entry.file_name().into_string().ok());
    let names = entries.map(name).collect::<Result<Vec<_>, _>>();
    let mut names: Vec<String> =
        names.map_err(FleetError::io("list", directory))?.into_iter().flatten().collect();
    names.sort();
    Ok(names)
}

fn list_path(aside: &Path) -> PathBuf {
    let mut path = aside.as_os_str().to_owned();
    path.push(".list");
    path.into()
}

/// The files that were merged; none where the list is not there: then all of them are carried over.
fn list_of(aside: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(list_path(aside)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn remove_list(aside: &Path) -> Result<(), FleetError> {
    let path = list_path(aside);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.map_err(FleetError::io("remove", &path)),
    }
}

fn remove_all(directory: &Path) -> Result<(), FleetError> {
    std::fs::remove_dir_all(directory).map_err(FleetError::io("remove", directory))
}

/// Writes a directory's names to disk.
fn sync(directory: &Path) -> Result<(), FleetError> {
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(FleetError::io("write", directory))
}

/// The name of the directory aside. Engines list `jobs` and `paths` alone.
const ASIDE: &str = ".compact";
/// Times that an old directory is emptied.
const ATTEMPTS: u32 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    /// A day aside with a merged file `m`, and the inode in its name or another.
    fn killed(root: &Path, is_exchanged: bool) -> PathBuf {
        let aside = root.join(".compact/new");
        std::fs::create_dir_all(&aside).unwrap();
        let number = aside.metadata().unwrap().ino() + u64::from(is_exchanged);
        let named = root.join(format!(".compact/jobs.day=2023-11-14.{number}"));
        std::fs::rename(&aside, &named).unwrap();
        named
    }

    fn file(letter: char) -> String {
        format!("{}.parquet", letter.to_string().repeat(32))
    }

    #[test]
    fn a_compaction_that_was_killed_is_ended_without_loss() {
        for is_exchanged in [false, true] {
            let root = tempfile::tempdir().unwrap();
            let day = root.path().join("jobs/day=2023-11-14");
            std::fs::create_dir_all(&day).unwrap();
            let aside = killed(root.path(), is_exchanged);
            let [merged, late, part, linked] = [file('a'), file('b'), "x.part".to_owned(), file('c')];
            for name in [&merged, &late, &part, &linked] {
                std::fs::write(aside.join(name), name).unwrap();
            }
            std::fs::hard_link(aside.join(&linked), day.join(&linked)).unwrap();
            std::fs::write(list_path(&aside), format!("{merged}\n")).unwrap();
            finish(&DataSet::new(root.path())).unwrap();
            let expected = if is_exchanged { vec![late, linked] } else { vec![linked] };
            assert_eq!(names(&day).unwrap(), expected);
            assert_eq!(names(&root.path().join(".compact")).unwrap(), ["lock"]);
        }
    }

    #[test]
    fn only_names_that_quell_gives_are_merged() {
        assert!(is_ours(&file('f')) && is_day("day=2023-11-14"));
        for name in
            ["f.parquet", "'.parquet", &format!("{}'.parquet", "f".repeat(31)), ".x.part", &"f".repeat(32)]
        {
            assert!(!is_ours(name), "{name}");
        }
        for name in
            ["day=2023-11-1'", "day=2023-11-140", "2023-11-14", "day=", "day=..........", "day=20231-1-14"]
        {
            assert!(!is_day(name), "{name}");
        }
    }
}
