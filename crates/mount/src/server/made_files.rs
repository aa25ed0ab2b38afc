//! Files that killed servers had made when they died, by the descriptors that they left.

use std::os::fd::RawFd;

use rustix::fs::{AtFlags, FileType, OFlags, StatxFlags};

use super::node::OriginalKey;
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
    pub(crate) fn may_have(&self, key: OriginalKey) -> bool {
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use rustix::fs::{CWD, Mode};

    use super::*;
    use crate::server::node::key_of;

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
}
