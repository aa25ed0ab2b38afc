//! Other nodes of the job bring an image's parts, by a process of this node that talks with them.
//!
//! ```text
//! elected rank --fork--> (middle, exits) --fork--> quell-peers: joins, fetches, serves, ends when it is of no more use
//!
//! memory of the image <--- parts that are right --- quell-peers
//! `Progress`          <--- which are there, and which a program waits for ---> quell-peers
//! a pipe              tells each side that the other one is gone
//! ```
//!
//! The process takes over the parts that a rank or a server has read by itself, for other nodes.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Stat;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::background::{fork_detached, leave_cores, use_all_descriptors};
use crate::notes::{self, NodeNote};
use crate::peers::{FROM_FILE, FROM_PEERS, OUT_OF_REACH, Peers};
use crate::progress::{LOADING, PRESENT, Progress, Word};
use crate::sys::process::{Forked, SingleThreaded, exit_now, keep_only, reset_signals};

/// The work of the process that talks with other nodes.
#[derive(Clone)]
pub struct PeersTask {
    /// The work.
    pub bring: Arc<dyn Fn(&ImageParts<'_>)>,
    /// The longest that a program waits for a part, or for the first node.
    pub patience: Duration,
    /// True if programs need not wait for the first node: it came late or never before. Asked once a node.
    pub is_in_vain: Arc<dyn Fn() -> bool>,
}

impl std::fmt::Debug for PeersTask {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("PeersTask")
    }
}

/// The place from which parts come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartsFrom {
    /// Another node.
    Peer,
    /// The file system.
    File,
}

/// The facts that tell an image's file from one that took its place. All nodes see the same, unless their file system numbers
/// files on each node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageVersion {
    /// Unit: bytes.
    pub length: u64,
    /// Time of modification: seconds and nanoseconds since 1970.
    pub modified: (i64, i64),
    /// Time of change. A file that was given the length and the time of another one has its own.
    pub changed: (i64, i64),
    /// Its number on the file system.
    pub inode: u64,
}

impl ImageVersion {
    fn of(stat: &Stat) -> Self {
        Self {
            length: stat.st_size.cast_unsigned(),
            modified: (stat.st_mtime, stat.st_mtime_nsec.cast_signed()),
            changed: (stat.st_ctime, stat.st_ctime_nsec.cast_signed()),
            inode: stat.st_ino,
        }
    }
}

/// The state of a part in the memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartStage {
    /// No rank or server has it.
    Absent,
    /// One of them is reading it.
    Coming,
    /// It is there.
    Present,
}

/// The parts of an image, for the process that talks with other nodes. A part has 1 MiB.
#[derive(Debug)]
pub struct ImageParts<'p> {
    progress: &'p Progress,
    file: RawFd,
    copy: File,
    version: ImageVersion,
    /// The end of a pipe whose other end ranks and servers have.
    end: OwnedFd,
}

impl ImageParts<'_> {
    /// A path of the image's file, the very one that was found for the run.
    pub fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file).into()
    }

    /// The memory that the parts belong into.
    pub fn copy(&self) -> &File {
        &self.copy
    }

    /// The version of the file that was found for the run.
    pub fn version(&self) -> ImageVersion {
        self.version
    }

    /// A rank or a server may still ask for parts.
    pub fn are_used(&self) -> bool {
        let mut end = [PollFd::new(&self.end, PollFlags::empty())];
        // A pipe that no process can read has an error.
        let is_alone = poll(&mut end, Some(&Timespec::default())).is_ok_and(|ready| ready > 0);
        !is_alone
    }

    /// Parts come from here, from now on.
    pub fn turn_to(&self, source: PartsFrom) {
        self.progress.set(
            Word::Source,
            match source {
                PartsFrom::Peer => FROM_PEERS,
                PartsFrom::File => FROM_FILE,
            },
        );
    }

    /// No node answers at the places where the first one may be.
    pub fn are_out_of_reach(&self) {
        self.progress.set(Word::Source, OUT_OF_REACH);
    }

    /// A part that a program waits for. Each is told once.
    pub fn wanted(&self) -> Option<u32> {
        u32::try_from(self.progress.take_wanted()?).ok()
    }

    /// The process is about to get this part, unless a rank or a server has it or reads it.
    pub fn begin(&self, part: u32) -> PartStage {
        match self.progress.expect(part as usize) {
            PRESENT => PartStage::Present,
            LOADING => PartStage::Coming,
            _ => PartStage::Absent,
        }
    }

    /// The file system takes so long for a part on the first node.
    pub fn file_takes_elsewhere(&self, part: Duration) {
        self.progress.set(Word::FileTakesElsewhere, part.as_micros() as u64);
    }

    /// The file system takes so long for a part on this node.
    pub fn file_takes(&self, part: Duration) {
        self.progress.set(Word::FileTakes, part.as_micros() as u64);
    }

    /// The time for which programs have waited for peers beyond that.
    pub fn waited(&self) -> Duration {
        Duration::from_micros(self.progress.number(Word::Waited))
    }

    /// Another node got so many bytes.
    pub fn gave(&self, bytes: usize) {
        self.progress.count(Word::ToPeers, bytes);
    }

    /// Another node was left, because it was dead, slow or wrong.
    pub fn left(&self) {
        self.progress.count(Word::Left, 1);
    }

    /// A rank may yet leave a note for other nodes, or wait for one.
    pub fn note_is_due(&self) -> bool {
        self.progress.number(Word::NoteSettled) == 0 && self.are_used()
    }

    /// The note that a rank of this node left for other nodes.
    pub fn note(&self) -> Option<NodeNote> {
        notes::left(self.progress)
    }

    /// A rank of the first node left this note.
    pub fn put_note(&self, note: &NodeNote) {
        notes::leave(self.progress, note);
    }

    /// The part is in the memory, and right.
    pub fn arrive(&self, part: u32, source: PartsFrom) {
        self.progress.receive(part as usize, source == PartsFrom::Peer);
    }
}

/// Starts the process that talks with other nodes, which fills `memory` with parts of `file`.
pub(crate) fn start(
    (file, stat): (BorrowedFd<'_>, &Stat),
    (memory, progress): (&OwnedFd, &Progress),
    task: &PeersTask,
    alone: &SingleThreaded,
) -> Result<Peers, Errno> {
    let (lives, end) = pipe_with(PipeFlags::CLOEXEC)?;
    match fork_detached(alone)? {
        Forked::Parent(_) => Ok(Peers::new(lives, task.patience, !(task.is_in_vain)())),
        Forked::Child => {
            let _name_stays = rustix::thread::set_name(c"quell-peers");
            keep_only(&[file.as_raw_fd(), memory.as_raw_fd(), end.as_raw_fd()]);
            let _root_exists = rustix::process::chdir("/");
            // SIGTERM ends it. Other words of schedulers are for programs.
            reset_signals(&[
                libc::SIGHUP,
                libc::SIGINT,
                libc::SIGPIPE,
                libc::SIGUSR1,
                libc::SIGUSR2,
                libc::SIGXCPU,
            ]);
            // Nodes of a large job come at once.
            use_all_descriptors();
            leave_cores(rustix::thread::sched_getaffinity(None).ok());
            if let Ok(copy) = memory.as_fd().try_clone_to_owned() {
                let version = ImageVersion::of(stat);
                (task.bring)(&ImageParts {
                    progress,
                    file: file.as_raw_fd(),
                    copy: copy.into(),
                    version,
                    end,
                });
            }
            exit_now(0)
        }
    }
}
