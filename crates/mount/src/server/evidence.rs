//! Whether a killed server had carried out what it was about to.
//!
//! A server notes that it begins with a change, and that the original has answered. Killed between the two, it leaves one
//! change of names in doubt for each of its threads. Names are compared with the nodes that the change was about. What was
//! made is ours only if it was made after the change was begun; a file that was made and opened at once has left its
//! descriptor in the table that all servers share.

use std::os::fd::{AsFd, OwnedFd, RawFd};

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags};
use rustix::io::Errno;

use super::Server;
use super::nodes::{Node, OriginalKey, key_of};
use super::originals::reach;
use super::slots::Attempt;
use crate::fuse::request::Caller;
use crate::sys::process::{inherited, open_descriptors};

/// Files that killed servers had made when they died, by the descriptors that they left.
#[derive(Debug, Clone, Default)]
pub(crate) struct MadeFiles {
    keys: Vec<OriginalKey>,
    /// A holder was replaced: descriptors of its server's last calls are not in the table of the next one.
    is_incomplete: bool,
}

impl MadeFiles {
    /// Takes in the descriptors that a killed server left and no record names, before they are closed.
    pub(crate) fn take_in(&mut self, left: &[RawFd]) {
        self.keys.extend(left.iter().copied().filter_map(made_by));
        let surplus = self.keys.len().saturating_sub(MOST_MADE);
        self.keys.drain(..surplus);
    }

    /// Descriptors were lost.
    pub(crate) fn lose_some(&mut self) {
        self.is_incomplete = true;
    }

    /// Tells whether the file may be one that a killed server made. A call that outlived its server has left its descriptor in
    /// this process' table.
    fn may_have(&self, key: OriginalKey) -> bool {
        self.is_incomplete
            || self.keys.contains(&key)
            || open_descriptors().into_iter().filter_map(made_by).any(|made| made == key)
    }
}

/// Files of the last deaths that are known: some for each thread, for several deaths.
const MOST_MADE: usize = 256;

/// The identity of what `descriptor` leads to, if it came from a CREATE: others open nothing with `O_NONBLOCK`. Asks no file
/// server.
fn made_by(descriptor: RawFd) -> Option<OriginalKey> {
    let file = inherited(descriptor).ok()?;
    let flags = rustix::fs::fcntl_getfl(file).ok()?;
    if !flags.contains(OFlags::NONBLOCK) || flags.contains(OFlags::PATH) {
        return None;
    }
    let at = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    let stat = rustix::fs::statx(file, "", at, StatxFlags::TYPE | StatxFlags::INO).ok()?;
    let is_file = FileType::from_raw_mode(stat.stx_mode.into()).is_file();
    is_file.then(|| (rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor), stat.stx_ino))
}

impl Server {
    /// Tells whether what is found as `name` is what an earlier server made for this caller when it was killed: of this kind, not
    /// in use yet, not older than that. A lock file that another process has for longer is none.
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

    /// Whether `name` leads to the node's original; `None` where that is not known.
    pub(crate) fn leads_to(&self, directory: &OwnedFd, name: &[u8], node: Option<Node>) -> Option<bool> {
        let original = self.nodes.original(node?)?;
        match reach(directory, name) {
            Ok(_) => Some(is_same(directory, name, &original)),
            Err(Errno::NOENT) => Some(false),
            Err(_) => None,
        }
    }
}

/// Tells whether `name` leads to this original.
pub(crate) fn is_same(directory: &OwnedFd, name: &[u8], original: &OwnedFd) -> bool {
    let key = rustix::fs::fstat(original).map(|stat| key_of(&stat));
    reach(directory, name).is_ok_and(|(_, stat)| key == Ok(key_of(&stat)))
}

/// A time as seconds since the epoch, and nanoseconds.
type Moment = (i64, u64);

/// Tells whether what was found was made at `since` or later, or changed then where its file system does not tell that.
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
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, Mode};

    use super::*;

    #[test]
    fn a_file_that_was_made_is_known_by_its_descriptor() {
        let directory = tempfile::tempdir().unwrap();
        let open = |name, flags| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | flags;
            let file = rustix::fs::openat(CWD, directory.path().join(name), flags, Mode::RUSR).unwrap();
            (key_of(&rustix::fs::fstat(&file).unwrap()), file)
        };
        let (made, left) = open("made", OFlags::NONBLOCK);
        let (opened, other) = open("opened", OFlags::empty());
        let mut files = MadeFiles::default();
        files.take_in(&[left.as_raw_fd(), other.as_raw_fd()]);
        drop((left, other));
        assert!(files.may_have(made) && !files.may_have(opened));
        files.lose_some();
        assert!(files.may_have(opened));
    }

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
