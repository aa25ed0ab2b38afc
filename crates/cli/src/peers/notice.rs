//! The file beside an image by which nodes find the first one: `IMG.bcast-N` or `IMG.peers-N`, of mode 0600.
//!
//! The first node writes it and removes it in the end. One that was killed leaves its file, and the user's next job replaces that. Jobs
//! that begin at once replace each other's: a node ignores the notice of another job, and reads the image.

use quell_base::files::{Durability, OutputMode, OutputPlace, read_private};
use quell_cache::{ProcessIdentity, ProcessLife};
use quell_talk::MeetingKey;
use rustix::fs::{AtFlags, CWD, StatxFlags};
use rustix::path::Arg;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// A file that the first node of a job wrote.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Notice {
    /// The secret of the job.
    pub(super) secret: String,
    /// The addresses of the first node.
    pub(super) addresses: Vec<SocketAddr>,
    /// Distinguishes the job, and the version of the image.
    job: String,
    process: ProcessIdentity,
}

/// The place of a job's notice.
pub(super) struct NoticePlace {
    path: PathBuf,
    job: String,
}

impl NoticePlace {
    /// Beside `image`, by the name of the job. `kind` is the use of the image.
    pub(super) fn of(image: &Path, kind: &str, job: &str) -> Self {
        let user = rustix::process::geteuid().as_raw().to_le_bytes();
        let array = ARRAYS.iter().find_map(std::env::var_os).unwrap_or_default();
        let slot = MeetingKey::of(&[&user, array.as_encoded_bytes()]).derive("slot", b"")[0] % SLOTS;
        let mut name = image.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{kind}-{slot:x}"));
        Self { path: image.with_file_name(name), job: MeetingKey::of(&[b"job", job.as_bytes()]).name() }
    }

    /// The notice of this job's first node, which may run.
    pub(super) fn read(&self) -> Option<Notice> {
        let (text, _) = read_private(CWD, &self.path, LENGTH_MAX).ok()?;
        let notice: Notice = serde_json::from_slice(&text).ok()?;
        (notice.job == self.job && notice.process.life() != ProcessLife::Dead).then_some(notice)
    }

    /// Writes the notice of this process. Without it each node reads the image.
    pub(super) fn write(self, secret: String, addresses: Vec<SocketAddr>) -> Option<WrittenNotice> {
        let Self { path, job } = self;
        let notice = Notice { secret, addresses, job, process: ProcessIdentity::own() };
        let text = serde_json::to_vec(&notice).ok()?;
        let mut output = OutputPlace::of(&path).ok()?.create(OutputMode::Exactly(0o600)).ok()?;
        output.file().write_all(&text).ok()?;
        let inode = number(output.as_file(), "")?;
        output.publish(Durability::Cached).ok()?;
        Some(WrittenNotice { path, inode })
    }
}

/// A notice of this process.
pub(super) struct WrittenNotice {
    path: PathBuf,
    /// The file's number: a time may still change when the file system hears of it.
    inode: u64,
}

impl WrittenNotice {
    /// Removes the file, unless another job has put its own in its place.
    pub(super) fn remove(self) {
        if number(CWD, &self.path) == Some(self.inode) {
            // A file that stays does no harm.
            _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The number of a file. It never changes: the file system need not be asked again.
fn number(directory: impl AsFd, path: impl Arg) -> Option<u64> {
    let flags = AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    rustix::fs::statx(directory, path, flags, StatxFlags::INO).ok().map(|found| found.stx_ino)
}

/// Names of notices beside an image, by user and task of an array.
const SLOTS: u8 = 16;

/// The number of a task in its array, as batch systems tell it: Slurm, PBS, LSF, Grid Engine.
const ARRAYS: [&str; 4] = ["SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "LSB_JOBINDEX", "SGE_TASK_ID"];

/// Longest notice. Unit: bytes.
const LENGTH_MAX: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    const SECRET: &str = "0123456789abcdef";

    /// A notice in its file, of a process that `changed` has made another one.
    fn written(image: &Path, job: &str, changed: impl FnOnce(&mut serde_json::Value)) -> PathBuf {
        let place = NoticePlace::of(image, "peers", job);
        let WrittenNotice { path, .. } = place.write(SECRET.to_owned(), Vec::new()).unwrap();
        let mut value: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        changed(&mut value["process"]);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    }

    #[test]
    fn only_the_notice_of_the_same_job_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = |job: &str| NoticePlace::of(&image, "peers", job);
        let addresses = vec![SocketAddr::from(([10, 0, 0, 1], 23_999))];
        place("a job").write(SECRET.to_owned(), addresses.clone()).unwrap();
        let read = place("a job").read().unwrap();
        assert_eq!((read.secret.as_str(), read.addresses), (SECRET, addresses));
        assert_eq!(place("another job").read(), None);
        written(&image, "a job", |process| process["start"] = 1.into());
        assert_eq!(place("a job").read(), None, "its process is dead");
        std::fs::write(place("a job").path, "0123456789abcdef/10.0.0.1:1").unwrap();
        assert_eq!(place("a job").read(), None);
    }

    #[test]
    fn the_next_job_takes_the_place_of_what_a_killed_one_left() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        written(&image, "a job", |process| process["start"] = 1.into());
        NoticePlace::of(&image, "peers", "the next job")
            .write(SECRET.to_owned(), Vec::new())
            .unwrap()
            .remove();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn a_notice_that_another_job_put_there_stays() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = || NoticePlace::of(&image, "peers", "a job");
        let mine = place().write(SECRET.to_owned(), Vec::new()).unwrap();
        let theirs = place().write("another secret of 16".to_owned(), Vec::new()).unwrap();
        mine.remove();
        assert!(theirs.path.exists());
        theirs.remove();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }
}
