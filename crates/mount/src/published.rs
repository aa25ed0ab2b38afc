//! The outcome of a check, for the other nodes of a job: a small file beside the image.
//!
//! One rank of a job compares. The first rank of every other node waits for the outcome before its node answers anything, and
//! compares for itself if none comes, or if none can come: the directory may not be written to, or others can write to it.
//!
//! The file appears whole. It counts if it is this user's own, names this image and this job, and is hardly older than the
//! rank that reads it. Its name is one of sixteen, by the job, so that files that a killed job left are used again.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quell_base::files::{WalkedPath, directory_of, read_private};
use quell_image::{Attributes, DeviceNumber, FileKind, ImageIdentity, Nid, Timestamp};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::staleness::Staleness;
use crate::stamp::{SKEW, is_private};
use crate::stats::replace_file;

/// The place of a job's outcome.
#[derive(Debug)]
pub(crate) struct Publication<'a> {
    pub(crate) image: &'a Path,
    pub(crate) identity: ImageIdentity,
    pub(crate) job: &'a str,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
struct Outcome {
    version: u32,
    image: String,
    job: String,
    /// Seconds since 1970.
    checked: u64,
    changes: u64,
    altered: Vec<u64>,
    renewed: Vec<(u64, Renewed)>,
    appeared: Vec<(u64, Vec<u8>)>,
}

/// Attributes of a directory.
#[derive(Debug, Serialize, Deserialize)]
struct Renewed {
    permissions: u16,
    uid: u32,
    gid: u32,
    size: u64,
    nlink: u32,
    mtime: (i64, u32),
    ctime: (i64, u32),
    inode: u64,
    device: u64,
}

const VERSION: u32 = 1;

/// No file of an image with fewer than 2^20 changes is longer.
const LENGTH_MAX: u64 = 64 << 20;

/// The longest that a rank waits for another node. A comparison of 60 000 files takes 9 s where an operation takes 1 ms.
const PATIENCE: Duration = Duration::from_secs(30);

/// Between two looks: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

impl Publication<'_> {
    /// Tells whether ranks of all nodes may use the place: both sides ask, and get the same answer.
    pub(crate) fn is_possible(&self) -> bool {
        let writable = || {
            let way = WalkedPath::walk(self.image).ok()?;
            let writable = rustix::fs::accessat(&way.directory, ".", Access::WRITE_OK, AtFlags::EACCESS);
            Some(is_private(&way) && writable.is_ok())
        };
        !self.job.is_empty() && writable() == Some(true)
    }

    /// Publishes an outcome; returns the file's path and inode number.
    pub(crate) fn publish(&self, staleness: &Staleness, now: u64) -> Result<(PathBuf, u64), Errno> {
        let bytes = serde_json::to_vec(&self.outcome(staleness, now)).map_err(|_| Errno::INVAL)?;
        let path = std::path::absolute(self.path()).map_err(|_| Errno::INVAL)?;
        replace_file(&path, Mode::RUSR | Mode::WUSR, &bytes)?;
        let inode = rustix::fs::lstat(&path)?.st_ino;
        Ok((path, inode))
    }

    /// Waits for the outcome that another node publishes. `None` when that takes too long. `now` is when this rank began.
    pub(crate) fn wait(&self, now: u64) -> Option<Staleness> {
        let until = Instant::now() + PATIENCE;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(staleness) = self.read(now) {
                return Some(staleness);
            }
            if Instant::now() > until {
                return None;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn read(&self, now: u64) -> Option<Staleness> {
        // An NFS client asks the server about a directory that is opened, and so learns that a name is not absent any more.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory: OwnedFd =
            rustix::fs::openat(CWD, directory_of(self.image), flags, Mode::empty()).ok()?;
        let bytes = read_private(&directory, self.path().file_name()?, LENGTH_MAX)?;
        let outcome: Outcome = serde_json::from_slice(&bytes).ok()?;
        let counts = outcome.version == VERSION
            && outcome.image == self.identity.to_string()
            && outcome.job == self.job
            && outcome.checked.saturating_add(SKEW) >= now;
        counts.then(|| outcome.into())
    }

    fn path(&self) -> PathBuf {
        let slot = blake3::hash(self.job.as_bytes()).to_hex();
        let mut name = self.image.file_name().unwrap_or_default().to_owned();
        name.push(format!(".verdict-{}", &slot[..1]));
        self.image.with_file_name(name)
    }

    fn outcome(&self, staleness: &Staleness, now: u64) -> Outcome {
        Outcome {
            version: VERSION,
            image: self.identity.to_string(),
            job: self.job.to_owned(),
            checked: now,
            changes: staleness.changes,
            altered: staleness.altered.iter().map(|nid| nid.value()).collect(),
            renewed: staleness.renewed.iter().map(|(nid, now)| (nid.value(), now.into())).collect(),
            appeared: staleness.appeared.iter().map(|(nid, name)| (nid.value(), name.clone())).collect(),
        }
    }
}

impl From<&Attributes> for Renewed {
    fn from(it: &Attributes) -> Self {
        Self {
            permissions: it.permissions,
            uid: it.uid,
            gid: it.gid,
            size: it.size,
            nlink: it.nlink,
            mtime: (it.mtime.seconds, it.mtime.nanoseconds),
            ctime: (it.ctime.seconds, it.ctime.nanoseconds),
            inode: it.inode,
            device: it.device,
        }
    }
}

impl From<Renewed> for Attributes {
    fn from(it: Renewed) -> Self {
        let time = |(seconds, nanoseconds)| Timestamp { seconds, nanoseconds };
        Self {
            kind: FileKind::Directory,
            permissions: it.permissions,
            uid: it.uid,
            gid: it.gid,
            size: it.size,
            nlink: it.nlink,
            rdev: DeviceNumber::default(),
            mtime: time(it.mtime),
            ctime: time(it.ctime),
            inode: it.inode,
            device: it.device,
        }
    }
}

impl From<Outcome> for Staleness {
    fn from(outcome: Outcome) -> Self {
        let named = |(nid, name): (u64, Vec<u8>)| (Nid::new(nid), name);
        Self {
            looks_up_listed: true,
            changes: outcome.changes,
            altered: outcome.altered.into_iter().map(Nid::new).collect(),
            renewed: outcome.renewed.into_iter().map(|(nid, it)| (Nid::new(nid), it.into())).collect(),
            appeared: outcome.appeared.into_iter().map(named).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::tests::identity;
    use quell_image::original::attributes_from;

    #[test]
    fn only_the_outcome_of_the_same_job_counts_while_it_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = Publication { image: &image, identity: identity(), job: "7.0" };
        assert!(place.is_possible() && place.read(1000).is_none());
        let now = attributes_from(&rustix::fs::lstat(directory.path()).unwrap()).unwrap();
        let staleness = Staleness {
            looks_up_listed: true,
            changes: 3,
            altered: [Nid::new(7)].into(),
            renewed: [(Nid::new(8), now)].into(),
            appeared: [(Nid::new(8), b"\xff".to_vec())].into(),
        };
        let (path, inode) = place.publish(&staleness, 1000).unwrap();
        assert_eq!(rustix::fs::lstat(&path).unwrap().st_ino, inode);
        assert_eq!(place.read(1000), Some(staleness.clone()));
        assert_eq!(place.read(1000 + SKEW), Some(staleness));
        assert_eq!(place.read(1001 + SKEW), None, "an earlier run of the same job");
        for job in ["7.1", "7.2", "8.0"] {
            assert_eq!(Publication { job, ..place }.read(1000), None);
        }
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o644 | 0o022)).unwrap();
        assert_eq!(place.read(1000), None, "any user could have written it");
        assert!(!Publication { job: "", ..place }.is_possible());
    }
}
