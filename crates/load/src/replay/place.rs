//! Which recorded directory is meant when nobody says: the mount point of the network file system that was asked most.

use super::ReplayError;
use quell_trace::{Recording, ServedBy};

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
