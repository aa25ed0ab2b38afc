//! The data sets in which root works. Another user who may write there could have root merge, rename and remove what that user
//! may not, and have DuckDB read a damaged file as root.

use crate::FleetError;
use quell_base::files::WalkedPath;
use rustix::fs::Stat;
use std::os::fd::AsFd;
use std::path::Path;

/// Refuses for root a path on which another user may exchange a name. `path` need not exist.
pub(crate) fn refuse_unsafe_path(path: &Path) -> Result<(), FleetError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut place = path;
    let way = loop {
        match WalkedPath::walk(if place.as_os_str().is_empty() { Path::new(".") } else { place }) {
            Ok(way) => break way,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(FleetError::io("open", path)(error)),
        }
        let Some(above) = place.parent() else { return Ok(()) };
        place = above;
    };
    match way.replaceable() {
        None => Ok(()),
        Some(step) => {
            let owner = rustix::fs::lstat(step).map_err(io(step))?.st_uid;
            Err(FleetError::NotOfRoot { path: step.to_owned(), owner })
        }
    }
}

/// Refuses for root a directory of another user, or one in which others may write.
pub(crate) fn refuse_unsafe_directory(directory: impl AsFd, path: &Path) -> Result<(), FleetError> {
    match rustix::process::geteuid().is_root() {
        true => refuse_unsafe_stat(&rustix::fs::fstat(directory).map_err(io(path))?, path),
        false => Ok(()),
    }
}

/// Stricter than the judgement of the way to a data set: here others may not even add a name, since quell would merge the file. So
/// neither a sticky bit nor the group of root helps.
fn refuse_unsafe_stat(stat: &Stat, path: &Path) -> Result<(), FleetError> {
    match stat.st_uid == 0 && stat.st_mode & WRITABLE_BY_OTHERS == 0 {
        true => Ok(()),
        false => Err(FleetError::NotOfRoot { path: path.to_owned(), owner: stat.st_uid }),
    }
}

fn io(path: &Path) -> impl FnOnce(rustix::io::Errno) -> FleetError {
    move |errno| FleetError::io("read", path)(errno.into())
}

/// Write permission of the group and of others. An access control list shows in that of the group.
const WRITABLE_BY_OTHERS: u32 = 0o022;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_directory_that_root_alone_may_change_is_one_of_root() {
        let place = tempfile::tempdir().unwrap();
        let mut stat = rustix::fs::stat(place.path()).unwrap();
        for (owner, mode, is_refused) in [
            (0, 0o40755, false),
            (0, 0o42750, false),
            (0, 0o42770, true),
            (0, 0o41777, true),
            (1000, 0o40700, true),
        ] {
            (stat.st_uid, stat.st_mode) = (owner, mode);
            let judged = refuse_unsafe_stat(&stat, place.path());
            assert_eq!(judged.is_err(), is_refused, "{owner} {mode:o}");
        }
    }
}
