//! A node's memory of starts: do programs wait for parts from peers, or did that prove to be in vain?
//!
//! A file in the node's memory, of this user and of this network: the starts in a row in which no part came in time. So nodes that cannot
//! reach each other, or that a launcher starts far apart, lose time at two starts and not at each. A start in which peers come in time
//! ends it. The process that talks with peers judges each start, and programs need not have waited for that.

use quell_base::files::{Durability, OutputMode, OutputPlace, read_private};
use rustix::fs::CWD;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// The memory of one node.
pub(super) struct PeersRecord(PathBuf);

/// The time at which the first part came from a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PeersCame {
    /// While programs would wait.
    InTime,
    /// Later, or never.
    NotInTime,
}

impl PeersRecord {
    pub(super) fn of_node() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let network = std::fs::metadata("/proc/self/ns/net").map_or(0, |network| network.ino());
        Self(format!("/dev/shm/quell-peers-{user}-{network}").into())
    }

    /// True if waiting was in vain too often.
    pub(super) fn is_in_vain(&self) -> bool {
        self.number() >= STARTS_MAX
    }

    /// Notes a start.
    pub(super) fn note(&self, came: PeersCame) {
        let before = self.number();
        match came {
            PeersCame::InTime if before > 0 => _ = std::fs::remove_file(&self.0),
            // Without the file the next start waits.
            PeersCame::NotInTime if before < STARTS_MAX => _ = self.write(before + 1),
            _ => {}
        }
    }

    /// Starts in vain, in a row.
    fn number(&self) -> u32 {
        let text = read_private(CWD, &self.0, 8).ok().map(|(text, _)| text).unwrap_or_default();
        std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn write(&self, number: u32) -> std::io::Result<()> {
        let mut output = OutputPlace::of(&self.0)?.create(OutputMode::Exactly(0o600))?;
        output.file().write_all(format!("{number}\n").as_bytes())?;
        output.publish(Durability::Cached)
    }
}

/// Starts in vain after which programs wait no more: one may be an accident.
const STARTS_MAX: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn two_starts_in_vain_are_enough_and_one_in_time_ends_it() {
        let directory = tempfile::tempdir().unwrap();
        let record = PeersRecord(directory.path().join("record"));
        record.note(PeersCame::InTime);
        record.note(PeersCame::NotInTime);
        assert!(!record.is_in_vain());
        record.note(PeersCame::NotInTime);
        record.note(PeersCame::NotInTime);
        assert!(record.is_in_vain());
        std::fs::set_permissions(&record.0, PermissionsExt::from_mode(0o622)).unwrap();
        assert!(!record.is_in_vain(), "another user may have written it");
        std::fs::set_permissions(&record.0, PermissionsExt::from_mode(0o600)).unwrap();
        record.note(PeersCame::InTime);
        assert!(!record.is_in_vain() && !record.0.exists());
    }
}
