//! Compaction: the files of a day that is over become one.
//!
//! ```text
//! list jobs/day=D            F, the files that are merged
//! .compact/.new.PID.N/       made aside, for this user alone: F as one file, on disk
//!                            what came meanwhile gets a name in it too
//! .compact/jobs.day=D.INO.list   the names in F, on disk; INO is the inode of the directory aside
//! .compact/jobs.day=D.INO/   the new name of the directory aside, with the permissions of the day
//! exchange                   jobs/day=D <-> .compact/jobs.day=D.INO, by renameat2(RENAME_EXCHANGE): one step for readers
//! carry over                 what is in the old directory and not in F is moved into the new one
//! remove                     F, the old directory, the list
//! ```
//!
//! Killed before the exchange, the directory aside has the inode in its name: the next compaction removes it. Killed after, it
//! has another, that of the old day: the next writer or compaction carries over and removes. So nothing is lost. A reader that
//! listed a day before the exchange does not find its files after it, and lists again.
//!
//! Where the file system cannot exchange, the merged file is renamed into the day, and F is removed after that: meanwhile a
//! reader sees jobs twice, with equal `id`. Killed in between, they are twice until the next compaction, which merges by `id`.
//!
//! One process at a time compacts: it holds a lock, on `.compact/lock`. DuckDB merges.

use crate::day::{Compacted, Day, LIST, list_name, list_of};
use crate::directory::Directory;
use crate::names::day;
use crate::tables::Table;
use crate::{DataSet, Engine, FleetError};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::ErrorKind;

/// Merges the files of all days before the one of `now`, which is in seconds since 1970. `engine` finds the engine, after the
/// data set is judged.
///
/// # Errors
/// [`FleetError::Busy`] while another process compacts; [`FleetError::NotOfRoot`]; those of opening the data set. A day that
/// fails is in [`Compacted::failures`].
pub fn compact(
    data_set: &DataSet,
    engine: impl FnOnce() -> Result<Engine, FleetError>,
    now: i64,
) -> Result<Compacted, FleetError> {
    let root = data_set.open()?;
    let engine = engine()?;
    let aside = root.made(ASIDE)?;
    let _lock = lock(&root, &aside)?;
    let mut compacted = Compacted { failures: finish_earlier(&root, &aside)?, ..Compacted::default() };
    let today = format!("day={}", &quell_base::date::utc(now)[..10]);
    for table in Table::ALL {
        let Some(days) = root.below(table.name())? else { continue };
        for name in days.names()? {
            let Some(name) = day(&name).filter(|name| *name < today.as_str()) else { continue };
            let done = days.below(name).and_then(|place| match place {
                Some(place) => {
                    let day = Day { aside: &aside, days: &days, place, table, name };
                    day.compact(engine, &mut compacted)
                }
                None => Ok(()),
            });
            compacted.failures.extend(done.err());
        }
    }
    Ok(compacted)
}

/// Takes the lock of the data set `root`. Members of a group open the same file: so it has the permissions of the directory.
fn lock(root: &Directory, aside: &Directory) -> Result<File, FleetError> {
    let path = aside.path_of(LOCK);
    let mode = 0o600 | aside.stat()?.st_mode & 0o060;
    let open = |flags| aside.open_with(LOCK, flags, Mode::empty());
    let file = match aside.create_file(LOCK, mode) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => open(OFlags::RDWR),
        made => made,
    };
    // NFS locks only what is open for writing. Elsewhere reading is enough.
    let file = match file {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => open(OFlags::RDONLY),
        file => file,
    };
    let file = file.map_err(FleetError::io("open", &path))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => Err(FleetError::Busy { path: root.path().to_owned() }),
        Err(errno) => Err(FleetError::io("lock", &path)(errno.into())),
    }
}

/// Ends compactions that were killed, unless one is under way.
///
/// # Errors
/// Those of the file system. Usual cause: a data set whose days belong to several users.
pub fn finish(data_set: &DataSet) -> Result<(), FleetError> {
    let root = data_set.open()?;
    let Some(aside) = root.below(ASIDE)? else { return Ok(()) };
    if aside.names()?.iter().all(|name| name == LOCK) {
        return Ok(());
    }
    let _lock = lock(&root, &aside)?;
    finish_earlier(&root, &aside)?.into_iter().next().map_or(Ok(()), Err)
}

/// Ends compactions that were killed. Shape of the result: the reason for each that could not be ended.
fn finish_earlier(root: &Directory, aside: &Directory) -> Result<Vec<FleetError>, FleetError> {
    let mut failures = Vec::new();
    for name in aside.names()? {
        failures.extend(finish_one(root, aside, &name).err());
    }
    Ok(failures)
}

fn finish_one(root: &Directory, aside: &Directory, name: &OsStr) -> Result<(), FleetError> {
    let Some(text) = name.to_str() else { return Ok(()) };
    if text.starts_with(".new.") {
        // Only the user who made it may enter it, and ends it.
        _ = aside.remove_with_files(name);
        return Ok(());
    }
    if let Some(of) = text.strip_suffix(LIST) {
        return match aside.stat_of(of)? {
            None => aside.remove(name),
            Some(_) => Ok(()),
        };
    }
    let Some((table, day, made)) = parts(text) else { return Ok(()) };
    let Some(old) = aside.below(name)? else { return Ok(()) };
    if made == old.stat()?.st_ino.to_string() {
        aside.remove_with_files(name)?;
    } else {
        let days = root.made(table.name())?;
        let day = Day { aside, days: &days, place: old, table, name: day };
        day.carry_over(&days.made(day.name)?, &list_of(aside, name)?, name)?;
    }
    aside.remove(list_name(name))
}

/// The parts of a directory's name aside: table, day, and the inode that it was made with.
fn parts(name: &str) -> Option<(Table, &str, &str)> {
    let mut parts = name.splitn(3, '.');
    let (table, name, made) = (parts.next()?, parts.next()?, parts.next()?);
    let table = Table::ALL.into_iter().find(|known| known.name() == table)?;
    Some((table, day(OsStr::new(name))?, made))
}

/// The name of the directory aside. Engines list `jobs` and `paths` alone.
const ASIDE: &str = ".compact";
const LOCK: &str = "lock";

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::FileType;
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::{Path, PathBuf};

    /// A day aside with a merged file `m`, and the inode in its name or another.
    fn killed(root: &Path, is_exchanged: bool) -> PathBuf {
        let aside = root.join(".compact/new");
        std::fs::create_dir_all(&aside).unwrap();
        let number = aside.metadata().unwrap().ino() + u64::from(is_exchanged);
        let named = root.join(format!(".compact/jobs.day=2023-11-14.{number}"));
        std::fs::rename(&aside, &named).unwrap();
        named
    }

    fn list_path(aside: &Path) -> PathBuf {
        list_name(aside.as_os_str()).into()
    }

    fn names(directory: &Path) -> Vec<OsString> {
        Directory::open(directory).unwrap().names().unwrap()
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
            let [merged, late, linked] = [file('a'), file('b'), file('c')];
            let part = format!(".{}.7.0.part", file('d'));
            for name in [&merged, &late, &part, &linked] {
                std::fs::write(aside.join(name), name).unwrap();
            }
            std::fs::hard_link(aside.join(&linked), day.join(&linked)).unwrap();
            std::fs::write(list_path(&aside), format!("{merged}\n")).unwrap();
            finish(&DataSet::new(root.path())).unwrap();
            let expected = if is_exchanged { vec![late, linked] } else { vec![linked] };
            assert_eq!(names(&day), expected.into_iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(names(&root.path().join(".compact")), ["lock"]);
        }
    }

    #[test]
    fn what_quell_did_not_write_is_carried_over() {
        let root = tempfile::tempdir().unwrap();
        let day = root.path().join("jobs/day=2023-11-14");
        std::fs::create_dir_all(&day).unwrap();
        let aside = killed(root.path(), true);
        std::fs::create_dir(aside.join("directory")).unwrap();
        std::fs::write(aside.join("directory/file"), "").unwrap();
        symlink("target", aside.join("link")).unwrap();
        let bytes = OsStr::from_bytes(b"caf\xe9.parquet").to_owned();
        for name in [OsStr::new("part-0.parquet"), OsStr::new("twice"), &bytes] {
            std::fs::write(aside.join(name), "old").unwrap();
        }
        std::fs::write(day.join("twice"), "new").unwrap();
        finish(&DataSet::new(root.path())).unwrap();
        let mut expected: Vec<OsString> =
            ["directory", "link", "part-0.parquet", "twice"].map(OsString::from).to_vec();
        expected.insert(0, bytes);
        assert_eq!(names(&day), expected);
        assert!(day.join("directory/file").exists());
        assert_eq!(std::fs::read(day.join("twice")).unwrap(), b"new", "written after the exchange");
        assert_eq!(names(&root.path().join(".compact")), ["lock"]);
    }

    #[test]
    fn what_killed_compactions_leave_is_removed() {
        let root = tempfile::tempdir().unwrap();
        let aside = root.path().join(".compact");
        std::fs::create_dir_all(aside.join(".new.7.0")).unwrap();
        std::fs::write(aside.join(".new.7.0").join(file('a')), "").unwrap();
        std::fs::write(aside.join("jobs.day=2023-11-14.7.list"), file('a')).unwrap();
        finish(&DataSet::new(root.path())).unwrap();
        assert_eq!(names(&aside), ["lock"]);
        assert_eq!(names(root.path()), [".compact"]);
    }

    #[test]
    fn a_list_names_nothing_outside_of_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let aside = killed(root.path(), true);
        std::fs::write(root.path().join("kept"), "").unwrap();
        std::fs::write(list_path(&aside), "../../kept\nkept\n").unwrap();
        finish(&DataSet::new(root.path())).unwrap();
        assert!(root.path().join("kept").exists());
    }

    #[test]
    fn a_lock_is_a_regular_file() {
        for kind in ["link", "pipe", "directory"] {
            let root = tempfile::tempdir().unwrap();
            let aside = root.path().join(".compact");
            std::fs::create_dir_all(aside.join("left over")).unwrap();
            let path = aside.join(LOCK);
            match kind {
                "link" => symlink(root.path().join("victim"), &path).unwrap(),
                "pipe" => {
                    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
                }
                _ => std::fs::create_dir(&path).unwrap(),
            }
            assert!(finish(&DataSet::new(root.path())).is_err(), "{kind}");
            assert!(!root.path().join("victim").exists());
        }
    }
}
