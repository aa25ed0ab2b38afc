//! One stream for the output of all ranks of a node (`run --output`): a process of the node reads their pipes, and writes one
//! file in large pieces.
//!
//! ```text
//! quell run (parent) --fork--> the command: standard output and error are one pipe
//!    |  keeps: the pipe's read end, the ring's memory, the file
//!    '--connection--> quell-output: pipes --> rings --> file
//! ```
//!
//! Ranks meet at an abstract socket as for a namespace, and the first one starts the collector. It needs no mount and no namespace.
//! All that it knows lies with the parents: one that finds it dead has the next one started. A parent ends as its command did,
//! after all that was printed until then is in the file.

mod collector;
mod messages;
mod ring;
mod sink;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quell_base::files::OutputPlace;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use thiserror::Error;

use crate::error::{OsError, RunError};
use crate::message::{receive_until, send};
use crate::rendezvous::{Meeting, MeetingPlace};
use crate::stats::OutputStats;
use crate::sys::process::SingleThreaded;
use crate::wrapper::{Vigil, stay_behind};

use messages::{FromCollector, Target, ToCollector};
use ring::{Generations, RingCounts};

/// A rank's wish to have its output collected.
#[derive(Debug, Clone)]
pub struct OutputRequest {
    /// The file of this node: an absolute path.
    pub path: PathBuf,
    /// The use of a file that is there.
    pub existing: Existing,
    /// The beginning of each line of this rank.
    pub label: String,
    /// Job and step: ranks with the same have one collector on each node.
    pub job: String,
    /// The process that starts ranks on this node, by its number: while it lives, further ranks of the step may come.
    pub launcher: Option<i32>,
}

/// The use of a file that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// It is emptied, unless another step is writing to it.
    Truncate,
    /// Lines go to its end.
    Append,
}

/// The end of a rank's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputEnd {
    /// Bytes of this rank that the file does not have.
    pub lost: u64,
    /// The reason.
    pub error: Option<OsError>,
    /// Totals of the node so far; `None` if no collector answers.
    pub totals: Option<OutputStats>,
}

/// The output of this process cannot be collected.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The file cannot be opened.
    #[error("cannot write output to `{path}`")]
    Open {
        /// The file.
        path: PathBuf,
        /// The error of open(2), or [`RefusedLink`](quell_base::files::RefusedLink).
        source: io::Error,
    },
    /// No collector can be had on this node.
    #[error("cannot collect output on this node")]
    Unavailable(#[from] OsError),
    /// See [`RunError::Threads`].
    #[error(transparent)]
    Threads(RunError),
}

/// A rank whose output will be collected.
#[derive(Debug)]
pub struct CollectedOutput {
    link: Link,
    write_end: OwnedFd,
    /// True if the file was not emptied since another step is writing to it.
    pub is_shared: bool,
}

impl CollectedOutput {
    /// Has this node's collector take the output of this rank, which goes on as before until [`begin`](Self::begin).
    ///
    /// # Errors
    /// [`OutputError`].
    pub fn join(request: &OutputRequest) -> Result<Self, OutputError> {
        let os = |errno| OutputError::Unavailable(OsError(errno));
        let (read_end, write_end) = pipe_with(PipeFlags::CLOEXEC).map_err(os)?;
        let memory = ring::new_memory().map_err(os)?;
        let mut link = Link {
            place: place_of(request),
            label: request.label.clone().into_bytes(),
            launcher: request.launcher.and_then(Pid::from_raw),
            counts: RingCounts::of(&memory).map_err(os)?,
            pipe: read_end,
            memory,
            connection: None,
            target: None,
        };
        let (mut is_shared, patient_until) = (false, Instant::now() + LOCK_PATIENCE);
        link.connect(Instant::now() + PATIENCE, &mut || {
            let opened = open(request)?;
            if opened.is_busy && Instant::now() < patient_until {
                return Ok(None);
            }
            is_shared = opened.is_busy && request.existing == Existing::Truncate;
            if request.existing == Existing::Truncate && !opened.is_busy {
                rustix::fs::ftruncate(&opened.file, 0).map_err(os)?;
            }
            Ok(Some(Target { file: opened.file, sizes: Generations::new_memory().map_err(os)? }))
        })?;
        Ok(Self { link, write_end, is_shared })
    }

    /// Goes on in a child, whose standard output and error are collected. This process stays as its parent and ends as it does,
    /// when all that it printed is in the file; `at_the_end` may choose another status than 0.
    ///
    /// # Errors
    /// [`OutputError`], before anything has changed.
    pub fn begin(self, at_the_end: &mut dyn FnMut(OutputEnd) -> Option<u8>) -> Result<(), OutputError> {
        let mut parent = Parent { link: self.link, at_the_end };
        stay_behind(&mut parent).map_err(|error| match error {
            RunError::Unavailable(reason) => OutputError::Unavailable(OsError(reason.errno)),
            error => OutputError::Threads(error),
        })?;
        let redirected = rustix::stdio::dup2_stdout(&self.write_end)
            .and_then(|()| rustix::stdio::dup2_stderr(&self.write_end));
        redirected.map_err(|errno| OutputError::Unavailable(OsError(errno)))
    }
}

/// Directs standard output and error to the file, without a collector.
///
/// # Errors
/// [`OutputError::Open`].
pub fn output_plain(request: &OutputRequest) -> Result<(), OutputError> {
    let Opened { file, .. } = open(request)?;
    let redirected = rustix::stdio::dup2_stdout(&file).and_then(|()| rustix::stdio::dup2_stderr(&file));
    redirected.map_err(|errno| OutputError::Unavailable(OsError(errno)))
}

struct Opened {
    file: OwnedFd,
    /// Another step is writing to it. Or the collector of an earlier command has not ended yet, or this step's has just been killed.
    is_busy: bool,
}

/// Opens the file, and locks it for as long as any process has what was opened: parents and collectors of this step. A file
/// system without locks grants each.
fn open(request: &OutputRequest) -> Result<Opened, OutputError> {
    let failed = |source| OutputError::Open { path: request.path.clone(), source };
    let file = OutputPlace::of(&request.path).and_then(|place| place.append()).map_err(failed)?;
    let lock = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok(Opened { file: file.into(), is_busy: lock == Err(Errno::WOULDBLOCK) })
}

/// The time for which a file may be busy before that counts as another step's doing, and the pause between two looks. Another rank
/// of this step may be elected meanwhile.
const LOCK_PATIENCE: Duration = Duration::from_millis(500);
const LOCK_PAUSE: Duration = Duration::from_millis(5);

fn place_of(request: &OutputRequest) -> MeetingPlace {
    let path = std::os::unix::ffi::OsStrExt::as_bytes(request.path.as_os_str());
    let user = rustix::process::geteuid().as_raw().to_ne_bytes();
    let facts = [&user[..], request.job.as_bytes(), b"\0", path].concat();
    MeetingPlace::from_source(format!("quell-output-{}", &blake3::hash(&facts).to_hex()[..32]))
}

/// A rank's hold on the collector, and everything that the next one needs.
#[derive(Debug)]
struct Link {
    place: MeetingPlace,
    label: Vec<u8>,
    launcher: Option<Pid>,
    counts: RingCounts,
    pipe: OwnedFd,
    memory: OwnedFd,
    connection: Option<OwnedFd>,
    /// As soon as any collector has it open.
    target: Option<Target>,
}

impl Link {
    /// Meets the collector, or starts it.
    fn connect(
        &mut self,
        until: Instant,
        open: &mut dyn FnMut() -> Result<Option<Target>, OutputError>,
    ) -> Result<(), OutputError> {
        let os = |errno| OutputError::Unavailable(OsError(errno));
        self.connection = None;
        while self.connection.is_none() {
            match self.place.meet(until).map_err(os)? {
                Meeting::Joined(connection) => self.connection = self.join(connection, until),
                Meeting::Elected(listener) => {
                    if self.target.is_none() {
                        self.target = open()?;
                    }
                    let Some(file) = &self.target else {
                        drop(listener);
                        std::thread::sleep(LOCK_PAUSE);
                        continue;
                    };
                    let alone = SingleThreaded::verify().ok_or(OutputError::Threads(RunError::Threads))?;
                    let start = collector::Start { listener, file, launcher: self.launcher };
                    collector::start(start, &alone).map_err(os)?;
                }
            }
            if self.connection.is_none() && Instant::now() > until {
                return Err(os(Errno::TIMEDOUT));
            }
        }
        Ok(())
    }

    /// `None` where the collector has just ended.
    fn join(&mut self, connection: OwnedFd, until: Instant) -> Option<OwnedFd> {
        let join = ToCollector::Join { label: self.label.clone() };
        send(&connection, &join, &[self.pipe.as_fd(), self.memory.as_fd()]).ok()?;
        match receive_until::<FromCollector>(&connection, until) {
            Ok(Some((FromCollector::Ready, descriptors))) => {
                let [file, sizes] = <[OwnedFd; 2]>::try_from(descriptors).ok()?;
                self.target = Some(Target { file, sizes });
                Some(connection)
            }
            _ => None,
        }
    }

    /// Meets the collector that takes the place of a dead one.
    fn reconnect(&mut self) {
        let mut gone = || Err(OutputError::Unavailable(OsError(Errno::BADF)));
        let _tried_again = self.connect(Instant::now() + PATIENCE, &mut gone);
    }

    /// Waits until what was printed is in the file.
    fn finish(&mut self) -> OutputEnd {
        let until = Instant::now() + END_PATIENCE;
        while Instant::now() < until {
            let Some(connection) = &self.connection else {
                self.reconnect();
                continue;
            };
            let answer = send(connection, &ToCollector::Ended, &[])
                .and_then(|()| receive_until::<FromCollector>(connection, until));
            if let Ok(Some((FromCollector::Done { error, totals }, _))) = answer {
                let error = error.map(|number| OsError(Errno::from_raw_os_error(number.clamp(1, 4095))));
                return OutputEnd { lost: self.counts.lost(), error, totals: Some(totals) };
            }
            self.connection = None;
        }
        let waiting = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
        let lost = self.counts.lost() + self.counts.waiting() + waiting;
        OutputEnd { lost, error: Some(OsError(Errno::TIMEDOUT)), totals: None }
    }
}

/// The parent of a command whose output is collected.
struct Parent<'a> {
    link: Link,
    at_the_end: &'a mut dyn FnMut(OutputEnd) -> Option<u8>,
}

impl Vigil for Parent<'_> {
    fn kept(&self) -> Vec<RawFd> {
        let link = &self.link;
        let target = link.target.iter().flat_map(|target| [&target.file, &target.sizes]);
        let ours = [&link.pipe, &link.memory].into_iter().chain(&link.connection).chain(target);
        // Standard error, for the line at the end.
        [2].into_iter().chain(ours.map(AsRawFd::as_raw_fd)).collect()
    }

    fn polled(&self) -> Option<BorrowedFd<'_>> {
        self.link.connection.as_ref().map(AsFd::as_fd)
    }

    fn called(&mut self) {
        self.link.reconnect();
    }

    fn ended(&mut self) -> Option<u8> {
        let end = self.link.finish();
        (self.at_the_end)(end)
    }
}

/// The time for which a rank may wait for a collector at the start, and for the next one.
const PATIENCE: Duration = Duration::from_secs(10);

/// The longest time for which the end of a command may be put off. A collector gives a file up that takes nothing for 10 s; a write that
/// hangs keeps it longer.
const END_PATIENCE: Duration = Duration::from_secs(300);
