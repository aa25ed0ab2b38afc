//! The directories over which the mount engine records.

use crate::RecordError;
use quell_base::mountinfo;
use quell_trace::ServedBy;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Every mount point of a network file system. On a node without any: the directories from which programs are loaded,
/// the user's home directory and the working directory. Shape: sorted.
pub fn default_roots() -> Vec<PathBuf> {
    let network = network_mounts(&mountinfo::own_table());
    if !network.is_empty() {
        return network;
    }
    let home = std::env::home_dir();
    let here = std::env::current_dir().ok();
    let local = LOADED_FROM.iter().map(PathBuf::from).chain(home).chain(here);
    without_nested(local.filter_map(|path| path.canonicalize().ok()).filter(|path| is_fit(path)).collect())
}

/// Directories from which programs are loaded.
const LOADED_FROM: [&str; 2] = ["/usr", "/opt"];

/// The directories that the user named, absolute and without links. Shape: sorted, none below another.
///
/// # Errors
/// [`RecordError::NoRoot`] for one that is no directory, and for those of the kernel's own file systems.
pub(crate) fn given(roots: &[PathBuf]) -> Result<Vec<PathBuf>, RecordError> {
    let absolute = |root: &PathBuf| {
        let found = root.canonicalize().ok().filter(|path| is_fit(path));
        found.ok_or_else(|| RecordError::NoRoot { root: root.clone() })
    };
    Ok(without_nested(roots.iter().map(absolute).collect::<Result<_, _>>()?))
}

/// True for a directory that may be mounted over: not the root, below which `/proc` and `/dev` lie.
fn is_fit(path: &Path) -> bool {
    let kernels = ["/proc", "/sys", "/dev"].iter().any(|kernels| path.starts_with(kernels));
    path.is_dir() && path != Path::new("/") && !kernels
}

fn network_mounts(table: &[u8]) -> Vec<PathBuf> {
    let is_network = |kind: &[u8]| {
        std::str::from_utf8(kind).is_ok_and(|kind| ServedBy::of_type(kind) == ServedBy::Network)
    };
    let entries = mountinfo::entries(table).filter(|entry| is_network(&entry.kind));
    let points = entries.map(|entry| PathBuf::from(OsStr::from_bytes(&entry.mount_point)));
    let mut points: Vec<_> = points.filter(|path| path != Path::new("/")).collect();
    points.sort();
    points.dedup();
    points
}

fn without_nested(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    paths.sort();
    paths.dedup_by(|path, outer| path.starts_with(outer));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_absolute_directories_none_below_another() {
        let folder = tempfile::tempdir().unwrap();
        let outer = folder.path().canonicalize().unwrap();
        std::fs::create_dir(outer.join("inner")).unwrap();
        std::fs::write(outer.join("file"), "").unwrap();
        let found = given(&[outer.join("inner"), outer.clone()]).unwrap();
        assert_eq!(found, std::slice::from_ref(&outer));
        for unfit in [outer.join("file"), outer.join("absent"), "/".into(), "/proc".into()] {
            assert!(matches!(given(&[unfit]), Err(RecordError::NoRoot { .. })));
        }
    }

    #[test]
    fn every_network_mount_is_a_root() {
        let table = b"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / /home rw - nfs4 s:/home rw\n\
            3 1 0:3 / /lustre rw - lustre x@tcp:/l rw\n4 3 0:4 / /lustre/tmp rw - tmpfs t rw\n";
        assert_eq!(network_mounts(table), [Path::new("/home"), Path::new("/lustre")]);
        assert!(network_mounts(b"1 0 0:1 / / rw - nfs4 s:/ rw\n").is_empty());
    }
}
