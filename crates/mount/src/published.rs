//! The outcome of a check, for the other nodes of a job: a small file beside the image.
//!
//! ```text
//! absent --claim: made empty, exclusively--> claimed --outcome written--> published --end of the step--> absent
//!                                               `--the claimant fails--> absent
//! ```
//!
//! One rank of a job compares: one of the first node, which claims at once. The first rank of every other node waits for the
//! outcome before its node answers anything. Where no claim comes, it claims and compares itself: a node may start after the
//! first one's part is over, or that part may be another program. It compares for itself where a claim goes without an
//! outcome, and where none can be made: the directory may not be written to, or others can write to it.
//!
//! Nodes that give each other the image pass on the outcome in the same way ([`crate::notes`]), and ask the file system only if
//! none comes so. The file is written nevertheless, for nodes without peers.
//!
//! The file's name is the job's, so that it is no other job's. It counts if it is this user's own, names this image and this
//! job, and is hardly older than the rank that reads it. An outcome that is not whole is none yet. A file that a killed job
//! left is swept by the next job that compares.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use quell_base::files::{WalkedPath, directory_of, read_private};
use quell_image::{ImageIdentity, Nid};
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::notes::{NodeNote, NoteBoard};
use crate::peers::PATIENCE_FOR_PEERS;
use crate::staleness::{RenewedAttributes, Staleness};
use crate::stamp::{SKEW, is_private};

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
    renewed: Vec<(u64, RenewedAttributes)>,
    appeared: Vec<(u64, Vec<u8>)>,
}

const VERSION: u32 = 1;

/// No file of an image with fewer than 2^20 changes is longer.
const LENGTH_MAX: u64 = 64 << 20;

/// The longest that a rank waits for another node that compares. A comparison of 60 000 files takes 9 s where an operation
/// takes 1 ms.
const PATIENCE: Duration = Duration::from_secs(30);

/// The longest that it waits for any to begin. The ranks of a step start within less.
const GRACE: Duration = Duration::from_secs(2);

/// The age at which an outcome or a claim no longer counts. Clocks of nodes differ by less than half of it.
pub(crate) const USE: Duration = Duration::from_secs(2 * SKEW);

/// Between two looks: at first, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The outcome of another node.
#[derive(Debug, PartialEq)]
pub(crate) struct ToldOutcome {
    pub(crate) staleness: Staleness,
    /// The time of the comparison, which a note keeps on its way: each node judges the age of what was compared.
    pub(crate) checked: u64,
}

/// The end of a wait for another node.
#[derive(Debug)]
pub(crate) enum Awaited {
    Told(ToldOutcome),
    /// This rank is to compare for the job.
    Claimed(Claim),
    /// This rank is to compare for its node.
    Untold,
}

/// The state of the file.
#[derive(Debug, PartialEq)]
enum Found {
    Outcome(ToldOutcome),
    /// A rank compares.
    Claim,
    /// A file that does not count any more.
    Leftover,
    Nothing,
}

/// A file without an outcome yet: this rank compares. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    path: PathBuf,
    file: File,
    is_kept: bool,
}

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

    /// Says that this rank compares for the job. A file that is there is another rank's claim, or in the way if `replaces`.
    ///
    /// **Errors** `EXIST` if another rank was faster.
    pub(crate) fn claim(&self, replaces: bool) -> Result<Claim, Errno> {
        let path = std::path::absolute(self.path()).map_err(|_| Errno::INVAL)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let make = || rustix::fs::openat(CWD, &path, flags, Mode::RUSR | Mode::WUSR);
        let file = match make() {
            Err(Errno::EXIST) if replaces => {
                rustix::fs::unlink(&path)?;
                make()
            }
            made => made,
        }?;
        Ok(Claim { path, file: file.into(), is_kept: false })
    }

    /// Publishes the outcome that `claim` promised; returns the file's path and inode number.
    pub(crate) fn publish(
        &self,
        mut claim: Claim,
        staleness: &Staleness,
        now: u64,
    ) -> Option<(PathBuf, u64)> {
        let bytes = serde_json::to_vec(&self.outcome(staleness, now)).ok()?;
        claim.file.write_all(&bytes).ok()?;
        claim.is_kept = true;
        self.sweep();
        Some((claim.path.clone(), claim.file.metadata().ok()?.ino()))
    }

    /// Waits for the outcome that another node tells by its peers, or publishes. `now` is when this rank began.
    pub(crate) fn await_outcome(&self, now: u64, board: Option<&NoteBoard<'_>>) -> Awaited {
        if let Some(told) = board.and_then(|board| self.await_note(now, board)) {
            return told;
        }
        if self.is_possible() { self.wait(now) } else { Awaited::Untold }
    }

    /// The same by peers alone; `None` where nothing comes from them. The file system is not asked meanwhile.
    fn await_note(&self, now: u64, board: &NoteBoard<'_>) -> Option<Awaited> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let news = board.news();
            match board.look() {
                Some(NodeNote::Here(bytes)) => return self.outcome_in(&bytes, now).map(Awaited::Told),
                Some(NodeNote::Withdrawn) => return None,
                None if began.elapsed() > PATIENCE_FOR_PEERS => return None,
                Some(NodeNote::Coming) | None => board.wait(news),
            }
        }
        Some(Awaited::Untold)
    }

    /// The outcome of a comparison at the time `checked` as a note for other nodes.
    pub(crate) fn note(&self, staleness: &Staleness, checked: u64) -> NodeNote {
        serde_json::to_vec(&self.outcome(staleness, checked)).map_or(NodeNote::Withdrawn, NodeNote::Here)
    }

    fn outcome_in(&self, bytes: &[u8], now: u64) -> Option<ToldOutcome> {
        let outcome = serde_json::from_slice::<Outcome>(bytes).ok()?;
        self.counts(&outcome, now).then(|| outcome.into())
    }

    /// Waits for the outcome that another node publishes. `now` is when this rank began.
    pub(crate) fn wait(&self, now: u64) -> Awaited {
        let (began, mut pause, mut is_claimed) = (Instant::now(), FIRST_PAUSE, false);
        while began.elapsed() < PATIENCE {
            let found = self.read(now);
            match found {
                Found::Outcome(told) => return Awaited::Told(told),
                Found::Claim => is_claimed = true,
                // The claimant failed, as others would that claim in its place, or its part of the step is over.
                Found::Nothing if is_claimed => return Awaited::Untold,
                Found::Leftover | Found::Nothing if began.elapsed() > GRACE => {
                    match self.claim(found == Found::Leftover) {
                        Ok(claim) => return Awaited::Claimed(claim),
                        Err(Errno::EXIST | Errno::NOENT) => {}
                        Err(_) => return Awaited::Untold,
                    }
                }
                Found::Leftover | Found::Nothing => {}
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Awaited::Untold
    }

    fn read(&self, now: u64) -> Found {
        // An NFS client asks the server about a directory that is opened, and so learns that a name is not absent any more.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::openat(CWD, directory_of(self.image), flags, Mode::empty());
        let read = |directory: OwnedFd| read_private(&directory, self.file_name(), LENGTH_MAX);
        let (bytes, stat) = match directory.and_then(read) {
            Ok(read) => read,
            Err(Errno::NOENT) => return Found::Nothing,
            Err(_) => return Found::Leftover,
        };
        let outcome = serde_json::from_slice::<Outcome>(&bytes).ok();
        match outcome {
            Some(outcome) if self.counts(&outcome, now) => Found::Outcome(outcome.into()),
            None if stat.st_mtime.cast_unsigned().saturating_add(USE.as_secs()) >= now => Found::Claim,
            _ => Found::Leftover,
        }
    }

    fn counts(&self, outcome: &Outcome, now: u64) -> bool {
        outcome.version == VERSION
            && outcome.image == self.identity.to_string()
            && outcome.job == self.job
            && outcome.checked.saturating_add(SKEW) >= now
    }

    /// Removes files of this image that killed jobs left.
    fn sweep(&self) {
        let prefix = self.name_without_job();
        let is_old = |file: &std::fs::DirEntry| {
            let made = file.metadata().and_then(|found| found.modified());
            made.is_ok_and(|made| made < SystemTime::now() - 2 * USE)
        };
        let files = std::fs::read_dir(directory_of(self.image)).into_iter().flatten().flatten();
        files
            .filter(|file| file.file_name().as_bytes().starts_with(prefix.as_bytes()) && is_old(file))
            .for_each(|file| _ = std::fs::remove_file(file.path()));
    }

    fn path(&self) -> PathBuf {
        self.image.with_file_name(self.file_name())
    }

    fn file_name(&self) -> OsString {
        let mut name = self.name_without_job();
        name.push(&blake3::hash(self.job.as_bytes()).to_hex()[..16]);
        name
    }

    fn name_without_job(&self) -> OsString {
        let mut name = self.image.file_name().unwrap_or(OsStr::new("")).to_owned();
        name.push(".verdict-");
        name
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

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.is_kept {
            let own = self.file.metadata().map(|found| found.ino());
            remove_own(&self.path, own.unwrap_or_default());
        }
    }
}

/// Removes a claim or an outcome, unless another rank has put its own in this place.
pub(crate) fn remove_own(path: &Path, inode: u64) {
    if rustix::fs::lstat(path).is_ok_and(|stat| stat.st_ino == inode) {
        let _gone_already = rustix::fs::unlink(path);
    }
}

impl From<Outcome> for ToldOutcome {
    fn from(outcome: Outcome) -> Self {
        let named = |(nid, name): (u64, Vec<u8>)| (Nid::new(nid), name);
        let staleness = Staleness {
            looks_up_listed: true,
            changes: outcome.changes,
            altered: outcome.altered.into_iter().map(Nid::new).collect(),
            renewed: outcome.renewed.into_iter().map(|(nid, it)| (Nid::new(nid), it.into())).collect(),
            appeared: outcome.appeared.into_iter().map(named).collect(),
        };
        Self { staleness, checked: outcome.checked }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::{FROM_PEERS, Peers};
    use crate::progress::{Progress, Word};
    use crate::stamp::tests::identity;
    use quell_image::original::attributes_from;
    use rustix::pipe::{PipeFlags, pipe_with};

    const NOW: u64 = 1000;

    fn now() -> u64 {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
    }

    fn names(directory: &Path) -> Vec<OsString> {
        std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().file_name()).collect()
    }

    #[test]
    fn only_the_outcome_of_the_same_job_counts_while_it_is_new() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = Publication { image: &image, identity: identity(), job: "7.0" };
        assert!(place.is_possible());
        assert_eq!(place.read(NOW), Found::Nothing);
        let attributes = attributes_from(&rustix::fs::lstat(directory.path()).unwrap()).unwrap();
        let staleness = Staleness {
            looks_up_listed: true,
            changes: 3,
            altered: [Nid::new(7)].into(),
            renewed: [(Nid::new(8), attributes)].into(),
            appeared: [(Nid::new(8), b"\xff".to_vec())].into(),
        };
        let claim = place.claim(false).unwrap();
        assert_eq!(place.read(now()), Found::Claim);
        assert_eq!(place.read(now() + 2 * USE.as_secs()), Found::Leftover, "of a killed job");
        assert_eq!(place.claim(false).unwrap_err(), Errno::EXIST);
        let (path, inode) = place.publish(claim, &staleness, NOW).unwrap();
        assert_eq!(rustix::fs::lstat(&path).unwrap().st_ino, inode);
        let told = || Found::Outcome(ToldOutcome { staleness: staleness.clone(), checked: NOW });
        assert_eq!(place.read(NOW), told());
        assert_eq!(place.read(NOW + SKEW), told(), "relayed, it stays as old as the comparison");
        assert_eq!(place.read(NOW + 1 + SKEW), Found::Leftover, "an earlier run of the same job");
        for job in ["7.1", "7.2", "8.0"] {
            assert_eq!(Publication { job, ..place }.read(NOW), Found::Nothing);
        }
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(place.read(now()), Found::Claim, "{length} bytes are written");
        }
        rustix::fs::chmod(&path, Mode::from_raw_mode(0o644 | 0o022)).unwrap();
        assert_eq!(place.read(NOW), Found::Leftover, "any user could have written it");
        assert!(!Publication { job: "", ..place }.is_possible());
    }

    #[test]
    fn of_nodes_without_a_first_one_one_compares_and_tells_the_others() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let (identity, staleness) = (identity(), Staleness { changes: 1, ..Staleness::default() });
        let awaited = std::thread::scope(|scope| {
            let node = || {
                let place = Publication { image: &image, identity, job: "7.0" };
                match place.wait(now()) {
                    Awaited::Claimed(claim) => _ = place.publish(claim, &staleness, now()).unwrap(),
                    Awaited::Told(_) => return true,
                    Awaited::Untold => panic!("a claim was made"),
                }
                false
            };
            let nodes: Vec<_> = (0..4).map(|_| scope.spawn(node)).collect();
            nodes.into_iter().map(|node| node.join().unwrap()).filter(|is_told| *is_told).count()
        });
        assert_eq!(awaited, 3);
    }

    #[test]
    fn an_outcome_that_peers_bring_asks_the_file_system_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = Publication { image: &image, identity: identity(), job: "7.0" };
        let staleness = Staleness { looks_up_listed: true, changes: 2, ..Staleness::default() };
        let progress = Progress::new(1, 1).unwrap();
        let (lives, end) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let peers = Peers::new(lives, PATIENCE_FOR_PEERS, true);
        let board = NoteBoard::new(&progress, &peers);
        progress.set(Word::Source, FROM_PEERS);
        board.leave(&NodeNote::Coming);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| place.await_outcome(now(), Some(&board)));
            std::thread::sleep(2 * PATIENCE_FOR_PEERS);
            // A file would count, but it is another outcome: it is not looked at.
            place.publish(place.claim(false).unwrap(), &Staleness::default(), now()).unwrap();
            std::thread::sleep(PATIENCE_FOR_PEERS);
            board.leave(&place.note(&staleness, now()));
            let Awaited::Told(told) = waiting.join().unwrap() else { panic!("peers told it") };
            assert_eq!(told.staleness, staleness);
        });
        drop(end);
        // A note of another job counts as none.
        let other = Publication { job: "7.1", ..place };
        other.publish(other.claim(false).unwrap(), &Staleness::default(), now()).unwrap();
        let Awaited::Told(told) = other.await_outcome(now(), Some(&board)) else {
            panic!("the file tells it")
        };
        assert_eq!(told.staleness.changes, 0);
    }

    #[test]
    fn a_claim_that_goes_without_an_outcome_ends_the_wait() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = Publication { image: &image, identity: identity(), job: "7.0" };
        let claim = place.claim(false).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| place.wait(now()));
            std::thread::sleep(GRACE);
            let replacing = place.claim(true).unwrap();
            drop(claim);
            assert_eq!(names(directory.path()).len(), 1, "the claim of another rank stays");
            drop(replacing);
            assert!(matches!(waiting.join().unwrap(), Awaited::Untold));
        });
        assert!(names(directory.path()).is_empty());
    }

    #[test]
    fn files_of_killed_jobs_are_swept() {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("app.qimg");
        let place = Publication { image: &image, identity: identity(), job: "7.0" };
        let old = SystemTime::now() - 3 * USE;
        for name in ["app.qimg.verdict-1", "app.qimg.checked", "other.qimg.verdict-1"] {
            File::create(directory.path().join(name)).unwrap().set_modified(old).unwrap();
        }
        File::create(directory.path().join("app.qimg.verdict-2")).unwrap();
        let (path, _) = place.publish(place.claim(true).unwrap(), &Staleness::default(), NOW).unwrap();
        let mut left = names(directory.path());
        left.sort();
        let own = path.file_name().unwrap();
        let expected: [&OsStr; 4] = [
            "app.qimg.checked".as_ref(),
            "app.qimg.verdict-2".as_ref(),
            own,
            "other.qimg.verdict-1".as_ref(),
        ];
        let mut expected = expected.to_vec();
        expected.sort();
        assert_eq!(left, expected);
    }
}
