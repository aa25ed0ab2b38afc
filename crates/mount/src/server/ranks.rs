//! The ranks that came, and whether they still live.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::PathBuf;

use quell_base::ProcessStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::process::{Pid, PidfdFlags};

use super::roll::RankRecord;
use crate::errands::Errands;
use crate::message::{FromRank, FromServer, receive, send};
use crate::request::{bytes, path_of};
use crate::stats::Membership;

/// One rank.
#[derive(Debug)]
pub(crate) struct Rank {
    /// Until it executes its command.
    pub(crate) connection: Option<OwnedFd>,
    /// While it lives.
    pub(crate) process: Option<Watch>,
    pub(crate) membership: Membership,
    pub(crate) stats: Option<PathBuf>,
    /// The file for lessons, and the least number of lessons that are written.
    pub(crate) learned: Option<(PathBuf, usize)>,
    pub(crate) seconds_to_exec: f64,
    /// Of its process.
    pub(crate) umask: Mode,
    pub(crate) errands: Errands,
}

/// A message of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// It wants to come in.
    Join,
    /// It executes its command.
    Started,
    /// Its command has ended: it waits for its files.
    Report,
    /// It went without executing anything.
    Gone,
}

impl Rank {
    /// The rank at the other end of `connection`.
    pub(crate) fn at(connection: OwnedFd) -> Self {
        let process = sockopt::socket_peercred(&connection).ok().and_then(|peer| Watch::of(peer.pid));
        Self { connection: Some(connection), process, ..Self::silent() }
    }

    /// One that never said anything.
    pub(crate) fn silent() -> Self {
        Self {
            connection: None,
            process: None,
            membership: Membership::Joined,
            stats: None,
            learned: None,
            seconds_to_exec: 0.0,
            umask: Mode::empty(),
            errands: Errands::default(),
        }
    }

    /// Receives the next message of the rank.
    pub(crate) fn hear(&mut self) -> Heard {
        let said = self.connection.as_ref().map(receive::<FromRank>);
        match said {
            Some(Ok(Some((FromRank::Join { created, stats, learned, umask }, _)))) => {
                if created {
                    self.membership = Membership::Created;
                }
                self.stats = stats.map(path_of);
                self.learned = learned.map(|(path, least)| (path_of(path), least));
                self.umask = Mode::from_raw_mode(umask);
                Heard::Join
            }
            Some(Ok(Some((FromRank::Report, _)))) => Heard::Report,
            Some(Ok(Some((FromRank::Started { seconds_to_exec, errands }, _)))) => {
                self.seconds_to_exec = seconds_to_exec;
                self.errands = errands;
                self.connection = None;
                Heard::Started
            }
            _ => {
                (self.connection, self.process) = (None, None);
                (self.stats, self.learned) = (None, None);
                Heard::Gone
            }
        }
    }

    /// The other connections in `ranks` of the process that came to report: it makes one after the other.
    pub(crate) fn reported<'r>(&self, ranks: &'r [Self]) -> impl Iterator<Item = &'r Self> {
        let identity = self.process.as_ref().map(Watch::identity);
        let process = move |rank: &&'r Self| {
            identity.is_some() && rank.process.as_ref().map(Watch::identity) == identity
        };
        ranks.iter().filter(process)
    }

    /// Tells the rank that its report is written, and ends the connection.
    pub(crate) fn dismiss(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _it_has_gone = send(&connection, &FromServer::Written, &[]);
        }
    }

    /// Tells whether it may still join, or lives.
    pub(crate) fn is_waiting(&self) -> bool {
        self.connection.is_some() || self.process.is_some()
    }

    /// The facts that another holder needs.
    pub(crate) fn record(&self) -> RankRecord {
        RankRecord {
            process: self.process.as_ref().map(Watch::identity),
            membership: self.membership,
            stats: self.stats.clone().map(bytes),
            learned: self.learned.clone().map(|(path, least)| (bytes(path), least)),
            seconds_to_exec: self.seconds_to_exec,
            umask: self.umask.as_raw_mode(),
        }
    }

    /// The rank of such a record, if it is still the same process.
    pub(crate) fn from_record(record: RankRecord) -> Self {
        let process = record.process.and_then(Watch::of_same);
        Self {
            connection: None,
            process,
            membership: record.membership,
            stats: record.stats.map(path_of),
            learned: record.learned.map(|(path, least)| (path_of(path), least)),
            seconds_to_exec: record.seconds_to_exec,
            umask: Mode::from_raw_mode(record.umask),
            errands: Errands::default(),
        }
    }
}

/// A process that is watched until it ends.
#[derive(Debug)]
pub(crate) struct Watch {
    pid: Pid,
    /// Its start time, in clock ticks since boot.
    started: u64,
    /// Linux 5.3 and later.
    descriptor: Option<OwnedFd>,
}

impl Watch {
    /// Watches `pid`; `None` if it is over already.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        let descriptor = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Err(Errno::SRCH) => return None,
            outcome => outcome.ok(),
        };
        let started = match (start_time(pid), &descriptor) {
            (None, None) => return None,
            (started, _) => started.unwrap_or(0),
        };
        Some(Self { pid, started, descriptor })
    }

    /// Watches the process that had this number and start time; `None` if it is over.
    pub(crate) fn of_same((pid, started): (i32, u64)) -> Option<Self> {
        Self::of(Pid::from_raw(pid)?).filter(|watch| watch.started == started)
    }

    /// Number and start time.
    pub(crate) fn identity(&self) -> (i32, u64) {
        (self.pid.as_raw_nonzero().get(), self.started)
    }

    pub(crate) fn descriptor(&self) -> Option<RawFd> {
        self.descriptor.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Readable when the process is over; `None` where the kernel has no descriptor for it.
    pub(crate) fn poll(&self) -> Option<PollFd<'_>> {
        self.descriptor.as_ref().map(|descriptor| PollFd::new(descriptor, PollFlags::IN))
    }

    pub(crate) fn is_over(&self) -> bool {
        match &self.descriptor {
            Some(descriptor) => is_readable_now(descriptor.as_fd()),
            None => start_time(self.pid) != Some(self.started),
        }
    }
}

/// Waits no longer for processes that are over.
pub(crate) fn forget_the_dead(starter: &mut Option<Watch>, ranks: &mut [Rank]) {
    let processes = ranks.iter_mut().map(|rank| &mut rank.process);
    for process in processes.chain([starter]) {
        process.take_if(|watch| watch.is_over());
    }
}

/// Tells whether a rank could not be let in because its holder has no room for another connection.
pub(crate) fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM)
}

/// Tells whether something can be read without waiting.
pub(crate) fn is_readable_now(descriptor: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// The start time of a process, in clock ticks since boot; `None` if it is over.
fn start_time(pid: Pid) -> Option<u64> {
    ProcessStat::read(pid.as_raw_nonzero()).filter(|stat| stat.state() != Some('Z'))?.started()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_time_of_this_process_is_known_and_of_none_is_not() {
        let own = start_time(rustix::process::getpid());
        assert!(own.is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time(Pid::from_raw(i32::MAX).unwrap()), None);
    }

    #[test]
    fn a_rank_is_known_again_by_number_and_start() {
        let watch = Watch::of(rustix::process::getpid()).unwrap();
        let (pid, started) = watch.identity();
        assert!(Watch::of_same((pid, started)).is_some_and(|watch| !watch.is_over()));
        assert!(Watch::of_same((pid, started + 1)).is_none());
    }
}
