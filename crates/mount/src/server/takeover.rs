//! Judges whether a killed server had carried out a change.
//!
//! A server notes that it begins with a change, and that the original has answered. Killed between the two, it leaves one
//! change of names in doubt for each of its threads. Names are compared with the nodes that the change was about. What was
//! made is ours only if it was made after the change was begun; a file that was made and opened at once has left its
//! descriptor in the table that all servers share.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};

use rustix::fs::{AtFlags, FileType, StatxFlags};
use rustix::io::Errno;

use super::made_files::MadeFiles;
use super::node::{Node, key_of};
use super::nodes::Nodes;
use super::originals::reach;
use super::slots::{Attempt, Death};
use crate::fuse::request::Caller;
use crate::lock;

/// The state in which a server takes over from one that died.
#[derive(Debug)]
pub(crate) struct Takeover {
    death: Option<Death>,
    /// Files that it and earlier ones had made.
    made: MadeFiles,
    /// Held while a request is answered again that may have killed an earlier server.
    suspicion: Mutex<()>,
}

impl Takeover {
    /// After the death of the server before this one, if there was one.
    pub(crate) fn after(death: Option<Death>, made: MadeFiles) -> Self {
        Self { death, made, suspicion: Mutex::new(()) }
    }

    /// Lets requests that may have killed a server be tried one at a time, so that only the cause is given up.
    pub(crate) fn try_alone(&self, attempt: Attempt<'_>) -> Option<MutexGuard<'_, ()>> {
        attempt.is_suspect().then(|| lock(&self.suspicion))
    }

    /// Counts the death against a request that the dead server had in its hands. Returns whether to give the request up.
    pub(crate) fn is_given_up(&self, attempt: Attempt<'_>) -> bool {
        attempt.note_death(self.death.unwrap_or(Death::Killed))
    }

    /// Tells whether an earlier server made `name` for this caller when it was killed: it is of this kind, not in use yet, and
    /// not older than that. An older lock file of another process is not.
    pub(crate) fn is_ours(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        kind: FileType,
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> bool {
        // A server that acts for others made it with the caller's identity; another one is its only user.
        let own = rustix::process::geteuid();
        let owner = if own.is_root() { caller.uid } else { own.as_raw() };
        reach(directory, name).is_ok_and(|(found, stat)| {
            FileType::from_raw_mode(stat.st_mode) == kind
                && stat.st_uid == owner
                && (kind != FileType::RegularFile || stat.st_size == 0)
                && is_born_since(&found, (stat.st_ctime, stat.st_ctime_nsec), attempt.begun_at())
        })
    }

    /// The same of a file that was opened as it was made.
    pub(crate) fn is_our_file(
        &self,
        directory: &OwnedFd,
        name: &[u8],
        caller: Caller,
        attempt: Attempt<'_>,
    ) -> bool {
        self.is_ours(directory, name, FileType::RegularFile, caller, attempt)
            && reach(directory, name).is_ok_and(|(_, stat)| self.made.may_have(key_of(&stat)))
    }
}

/// Tells whether `name` leads to the node's original; `None` if that is not known.
pub(crate) fn leads_to(nodes: &Nodes, directory: &OwnedFd, name: &[u8], node: Option<Node>) -> Option<bool> {
    let original = nodes.original(node?)?;
    match reach(directory, name) {
        Ok(_) => Some(is_same(directory, name, &original)),
        Err(Errno::NOENT) => Some(false),
        Err(_) => None,
    }
}

/// Tells whether `name` leads to this original.
pub(crate) fn is_same(directory: &OwnedFd, name: &[u8], original: &OwnedFd) -> bool {
    let key = rustix::fs::fstat(original).map(|stat| key_of(&stat));
    reach(directory, name).is_ok_and(|(_, stat)| key == Ok(key_of(&stat)))
}

/// A time as seconds since the epoch, and nanoseconds.
type Moment = (i64, u64);

/// Tells whether a file was made at `since` or later. On file systems without a time of birth, the time of change decides.
fn is_born_since(found: &OwnedFd, changed: Moment, since: Moment) -> bool {
    if !is_stamped_here(found) {
        return changed.0 >= since.0 - CLOCKS_APART;
    }
    let stat = rustix::fs::statx(found, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok();
    let born = stat.filter(|stat| StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::BTIME));
    let made = born.map_or(changed, |born| (born.stx_btime.tv_sec, born.stx_btime.tv_nsec.into()));
    // A file system may keep whole seconds.
    if made.1 == 0 { made.0 >= since.0 } else { made >= since }
}

/// Seconds by which the clock of a file server may be behind ours.
const CLOCKS_APART: i64 = 5;

/// Tells whether a file system takes its times from this node's clock. Source: statfs(2) for the numbers.
fn is_stamped_here(found: impl AsFd) -> bool {
    const LOCAL: [u32; 7] =
        [0xEF53, 0x5846_5342, 0x9123_683E, 0x0102_1994, 0x794C_7630, 0x2FC1_2FC1, 0xF2F5_2010];
    rustix::fs::fstatfs(found)
        .is_ok_and(|stat| u32::try_from(stat.f_type).is_ok_and(|kind| LOCAL.contains(&kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_ours_only_if_it_was_made_since() {
        let before = crate::server::slots::now();
        let file: OwnedFd = tempfile::tempfile().unwrap().into();
        let stat = rustix::fs::fstat(&file).unwrap();
        let changed = (stat.st_ctime, stat.st_ctime_nsec);
        assert!(is_born_since(&file, changed, before));
        let later = (before.0 + 6, before.1);
        assert!(!is_born_since(&file, changed, later));
    }
}
