//! The recorded directory that is meant by default, the mount point of the network file system that was asked most; and
//! what earlier replays left in the one that they were played against.

use super::error::ReplayError;
use quell_trace::{Recording, ServedBy};
use std::path::{Path, PathBuf};

/// The begin of the name of a directory in which ranks write.
pub(super) const PREFIX: &str = ".quell-replay-";

/// The recorded root: the network mount with most metadata operations, the first of equals.
///
/// # Errors
/// [`ReplayError::NoRoot`] when no call was on a network file system, [`ReplayError::Empty`] when there were no calls on files.
pub fn root(recording: &Recording) -> Result<Vec<u8>, ReplayError> {
    let mounts = &recording.context.mounts;
    let mut asked = vec![0_u64; mounts.len()];
    let mut any = false;
    recording.for_each_event(|event| {
        any |= event.call.class().is_metadata();
        let mount = event.file_system.and_then(|mount| asked.get_mut(usize::from(mount.0)));
        if let Some(asked) = mount.filter(|_| event.call.class().is_metadata()) {
            *asked += 1;
        }
    })?;
    let network = mounts
        .iter()
        .zip(&asked)
        .filter(|(mount, asked)| **asked > 0 && mount.served_by() == ServedBy::Network);
    let busiest = network.rev().max_by_key(|(_, asked)| **asked);
    match busiest {
        Some((mount, _)) => Ok(mount.mount_point.as_bytes().to_vec()),
        None if any => Err(ReplayError::NoRoot),
        None => Err(ReplayError::Empty),
    }
}

/// Directories of replays in `root` that could not remove them, because they were killed. Lists `root`, so it is nothing for
/// the time before a replay. Shape: sorted; empty where it cannot be listed.
pub fn leftovers(root: &Path) -> Vec<PathBuf> {
    let Ok(entries) = root.read_dir() else { return Vec::new() };
    let ours = entries.flatten().filter(|entry| {
        entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir())
    });
    let mut found: Vec<PathBuf> = ours.map(|entry| entry.path()).collect();
    found.sort();
    found
}
