//! Directories that are packed whole, whatever the recordings looked at: everything in them counts as read, after all
//! that was recorded.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use quell_image::path::{is_within, join};

use crate::error::PackError;
use crate::path_tree::PathTree;
use crate::roots::RootChoice;

/// Marks everything in `directories` as read, sorted by path; returns their absolute paths. Live directories and other
/// file systems that are mounted in them are passed over.
///
/// **Errors** [`PackError::Added`] for what cannot be listed.
pub(crate) fn mark(recorded: &mut PathTree, directories: &[PathBuf]) -> Result<Vec<Vec<u8>>, PackError> {
    // Behind everything that was recorded: no recording has so many events.
    let mut clock = 1 << 62;
    let mut marked = Vec::new();
    for directory in directories {
        let failed = |source| PackError::Added { path: directory.clone(), source };
        let path = directory.canonicalize().map_err(failed)?;
        let device = path.metadata().map_err(failed)?.dev();
        let path = path.into_os_string().into_vec();
        mark_directory(recorded, &path, device, &mut clock)?;
        marked.push(path);
    }
    Ok(marked)
}

fn mark_directory(
    recorded: &mut PathTree,
    top: &[u8],
    device: u64,
    clock: &mut u64,
) -> Result<(), PackError> {
    let mut left = vec![top.to_vec()];
    while let Some(path) = left.pop() {
        let seen = recorded.seen(&path);
        (seen.touched, seen.entered) = (true, true);
        let names = list(Path::new(OsStr::from_bytes(&path)), device);
        let failed = |source| PackError::Added { path: OsStr::from_bytes(&path).into(), source };
        for (name, kind) in names.map_err(failed)? {
            let path = join(&path, &name);
            if kind.is_dir() {
                if recorded.find(&path).is_none_or(|known| known.live.is_none() && known.mounted.is_none()) {
                    left.push(path);
                }
                continue;
            }
            let seen = recorded.seen(&path);
            seen.touched = true;
            if kind.is_file() {
                *clock += 1;
                seen.read.get_or_insert(*clock);
                seen.extent.whole = true;
            }
        }
    }
    Ok(())
}

/// The names in a directory, sorted; none if it lies on another device, or may not be listed.
fn list(path: &Path, device: u64) -> io::Result<Vec<(Vec<u8>, std::fs::FileType)>> {
    if path.symlink_metadata()?.dev() != device {
        return Ok(Vec::new());
    }
    let entries = match path.read_dir() {
        Ok(entries) => entries,
        // A directory that may not be listed is left out, as in a recording.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let named = |entry: io::Result<std::fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().into_vec(), entry.file_type()?))
    };
    let mut names = entries.map(named).collect::<io::Result<Vec<_>>>()?;
    names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    Ok(names)
}

/// Verifies that each of `added` is packed.
///
/// **Errors** [`PackError::Outside`].
pub(crate) fn verify(added: &[Vec<u8>], choices: &[RootChoice]) -> Result<(), PackError> {
    let packed = |path: &Vec<u8>| {
        let covers = |choice: &RootChoice| {
            is_within(path, &choice.path) && !choice.live.iter().any(|(live, _)| is_within(path, live))
        };
        choices.iter().any(covers)
    };
    match added.iter().find(|path| !packed(path)) {
        Some(path) => Err(PackError::Outside { path: OsStr::from_bytes(path).into() }),
        None => Ok(()),
    }
}
