//! The process that collects the output of a node's ranks (`quell-output`): reads their pipes, and writes the file.
//!
//! ```text
//! rank's command --pipe--> ring --lines, many ranks together--> file
//! rank's parent  --connection: "the command has ended"--> all that was printed by now is written --> "done"
//! ```
//!
//! It has no memory of its own that matters: rings lie in memory of the ranks' parents, and so do copies of the pipes' ends. If it
//! is killed, the parents elect the next one, which finds every byte.
//!
//! A process that has outlived its command keeps the pipe open, and is collected until it closes it.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::Pid;

use super::messages::{FromCollector, Target, ToCollector};
use super::ring::{Awaited, Ring};
use super::sink::Sink;
use crate::background::{fork_detached, leave_cores, use_all_descriptors};
use crate::message::{receive, receive_until, send};
use crate::rendezvous::is_this_user;
use crate::server::ranks::Watch;
use crate::stats::OutputStats;
use crate::sys::process::{Forked, SingleThreaded, exit_now, keep_only, reset_signals};
use crate::sys::wrapper::{Signals, hold_back};

/// The arguments of [`start`].
#[derive(Debug)]
pub(crate) struct Start<'s> {
    /// The meeting place's socket, listening.
    pub(crate) listener: OwnedFd,
    /// Open for appends.
    pub(crate) file: &'s Target,
    /// The process that starts ranks on this node: further ones may come while it lives.
    pub(crate) launcher: Option<Pid>,
}

/// Starts the collector; returns when it is detached. It lets ranks in at the meeting place.
pub(crate) fn start(start: Start<'_>, alone: &SingleThreaded) -> Result<(), Errno> {
    let starter = rustix::process::getpid();
    match fork_detached(alone)? {
        Forked::Parent(_) => Ok(()),
        Forked::Child => {
            // Ranks find out that there is none, and try again.
            let _failed = run(start, starter);
            exit_now(0)
        }
    }
}

fn run(start: Start<'_>, starter: Pid) -> Result<(), Errno> {
    let Target { file, sizes } = start.file;
    keep_only(&[start.listener.as_raw_fd(), file.as_raw_fd(), sizes.as_raw_fd()]);
    let _root_exists = rustix::process::chdir("/");
    // Signals are read, one by one; a limit on the size of files must fail the write.
    reset_signals(&[]);
    let _before = hold_back();
    use_all_descriptors();
    leave_cores(rustix::thread::sched_getaffinity(None).ok());
    let _name_stays = rustix::thread::set_name(c"quell-output");
    let errno = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let mut collector = Collector {
        listener: Some(start.listener),
        signals: Signals::new()?,
        sink: Sink::of(file.try_clone().map_err(errno)?, sizes.try_clone().map_err(errno)?)?,
        streams: Vec::new(),
        starter: Watch::of(starter),
        launcher: start.launcher.and_then(Watch::of),
        flush_at: None,
        hasty_until: None,
        naps: false,
        gone: OutputStats::default(),
    };
    while !collector.is_over() {
        collector.wait();
        collector.flush_if_due();
        collector.dismiss();
    }
    Ok(())
}

/// The output of a rank.
#[derive(Debug)]
struct Stream {
    /// To the rank's parent, until the command has ended.
    connection: Option<OwnedFd>,
    /// Until no process has the other end.
    pipe: Option<OwnedFd>,
    ring: Ring,
    /// The number of the byte up to which all must be in the file before the rank's parent ends.
    report: Option<u64>,
}

impl Stream {
    fn awaited(&self) -> Awaited {
        if self.pipe.is_none() || self.report.is_some() { Awaited::Nothing } else { Awaited::End }
    }

    /// Reads what the pipe has. Returns the number of bytes.
    fn read(&mut self) -> u64 {
        let Some(pipe) = &self.pipe else { return 0 };
        let read = self.ring.fill(pipe).unwrap_or(0);
        if read == 0 && self.ring.room() > 0 && is_closed(pipe.as_fd()) {
            self.pipe = None;
        }
        read
    }

    fn hear(&mut self) {
        let Some(connection) = &self.connection else { return };
        match receive::<ToCollector>(connection) {
            Ok(Some((ToCollector::Ended, _))) => {
                let waiting = self.pipe.as_ref().and_then(|pipe| rustix::io::ioctl_fionread(pipe).ok());
                self.report = Some(self.ring.end() + waiting.unwrap_or(0));
            }
            // The parent was killed, and the command with it.
            _ => (self.connection, self.report) = (None, None),
        }
    }
}

/// Tells whether a pipe has no data and never will.
fn is_closed(pipe: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(pipe, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut polled, Some(&now)).is_ok() && polled[0].revents() == PollFlags::HUP
}

#[derive(Debug)]
struct Collector {
    /// As long as ranks may come.
    listener: Option<OwnedFd>,
    signals: Signals,
    sink: Sink,
    streams: Vec<Stream>,
    /// The rank that started us, until any rank has come.
    starter: Option<Watch>,
    launcher: Option<Watch>,
    /// The time at which lines that are held must be written.
    flush_at: Option<Instant>,
    /// A signal came that announces the end of the job: nothing is held until then.
    hasty_until: Option<Instant>,
    /// Ranks print little: the pipes are not looked at for a moment, so that one look finds more.
    naps: bool,
    /// Totals of streams that have ended.
    gone: OutputStats,
}

/// A descriptor that is waited for.
#[derive(Debug, Clone, Copy)]
enum Source {
    Signals,
    Door,
    Process,
    Connection(usize),
    Pipe(usize),
}

impl Collector {
    fn is_over(&mut self) -> bool {
        self.starter.take_if(|watch| watch.is_over());
        self.launcher.take_if(|watch| watch.is_over());
        self.streams.retain(|stream| {
            let stays = stream.connection.is_some() || stream.pipe.is_some() || stream.ring.held() > 0;
            if !stays {
                self.gone.lines += stream.ring.lines();
                self.gone.bytes += stream.ring.end();
            }
            stays
        });
        let is_expecting = self.starter.is_some() || self.launcher.is_some();
        if !is_expecting && self.streams.iter().all(|stream| stream.connection.is_none()) {
            self.listener = None;
        }
        self.listener.is_none() && self.streams.is_empty()
    }

    fn wait(&mut self) {
        let naps = std::mem::take(&mut self.naps);
        let sources = self.sources(naps);
        let mut polled: Vec<PollFd<'_>> = sources.iter().map(|source| self.polled(*source)).collect();
        let until = [naps.then(|| Instant::now() + NAP), self.look_at()].into_iter().flatten().min();
        let timeout = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let _interrupted = poll(&mut polled, timeout.as_ref());
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        let ready = sources.into_iter().zip(ready).filter_map(|(source, ready)| ready.then_some(source));
        let read: Vec<u64> = ready.map(|source| self.serve(source)).collect();
        self.naps = !naps && read.iter().all(|bytes| *bytes < MUCH) && self.hasty_until.is_none();
        if self.flush_at.is_none() && self.streams.iter().any(|stream| stream.ring.held() > 0) {
            self.flush_at = Some(Instant::now() + HELD_FOR);
        }
    }

    fn sources(&self, naps: bool) -> Vec<Source> {
        let has_room = |stream: &Stream| stream.pipe.is_some() && stream.ring.room() > 0;
        let pipes = (0..self.streams.len()).filter(|at| !naps && has_room(&self.streams[*at]));
        let connections = (0..self.streams.len()).filter(|at| self.streams[*at].connection.is_some());
        let door = self.listener.iter().map(|_| Source::Door);
        let processes = self.processes().filter(|watch| watch.poll().is_some()).map(|_| Source::Process);
        [Source::Signals]
            .into_iter()
            .chain(door)
            .chain(processes.take(1))
            .chain(connections.map(Source::Connection))
            .chain(pipes.map(Source::Pipe))
            .collect()
    }

    /// Processes whose end changes what is waited for.
    fn processes(&self) -> impl Iterator<Item = &Watch> {
        self.starter.iter().chain(&self.launcher)
    }

    fn polled(&self, source: Source) -> PollFd<'_> {
        let of = |descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN);
        let process = || self.processes().find_map(Watch::poll);
        let stream = |at: usize| &self.streams[at];
        let found = match source {
            Source::Signals => None,
            Source::Door => self.listener.as_ref().map(|listener| of(listener.as_fd())),
            Source::Process => process(),
            Source::Connection(at) => stream(at).connection.as_ref().map(|connection| of(connection.as_fd())),
            Source::Pipe(at) => stream(at).pipe.as_ref().map(|pipe| of(pipe.as_fd())),
        };
        found.unwrap_or_else(|| of(self.signals.as_fd()))
    }

    /// The time at which something is to be done, whatever comes.
    fn look_at(&self) -> Option<Instant> {
        let unpolled = self.processes().any(|watch| watch.poll().is_none());
        let look = (unpolled || self.sink.failing.is_some()).then(|| Instant::now() + HELD_FOR);
        self.flush_at.into_iter().chain(look).chain(self.sink.held_until).min()
    }

    /// Returns the number of bytes that were read.
    fn serve(&mut self, source: Source) -> u64 {
        match source {
            Source::Signals => {
                while self.signals.take().is_some() {
                    self.hasty_until = Some(Instant::now() + HASTE);
                }
            }
            Source::Door => self.admit(),
            Source::Process => {}
            Source::Connection(at) => self.streams[at].hear(),
            Source::Pipe(at) => return self.streams[at].read(),
        }
        0
    }

    fn admit(&mut self) {
        let Some(listener) = &self.listener else { return };
        let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) else { return };
        if !is_this_user(&connection) {
            return;
        }
        // A rank says this right after it has connected; one that is slower connects again.
        let said = receive_until::<ToCollector>(&connection, Instant::now() + HELD_FOR);
        let Ok(Some((ToCollector::Join { label }, descriptors))) = said else { return };
        let Ok([pipe, memory]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
        let Ok(mut ring) = Ring::of(&memory, label) else { return };
        if ring.settle(&self.sink.generations) {
            self.sink.held_until = None;
        }
        if send(&connection, &FromCollector::Ready, &self.sink.descriptors()).is_err() {
            return;
        }
        self.starter = None;
        self.streams.push(Stream { connection: Some(connection), pipe: Some(pipe), ring, report: None });
    }

    fn flush_if_due(&mut self) {
        let now = Instant::now();
        self.hasty_until.take_if(|until| *until < now);
        // All that was printed before a report must be read before it is written.
        for stream in self.streams.iter_mut().filter(|stream| stream.report.is_some()) {
            while stream.report.is_some_and(|report| stream.ring.end() < report) && stream.read() > 0 {}
        }
        let reports = |stream: &Stream| stream.report.is_some() || stream.pipe.is_none();
        let is_full = |stream: &Stream| stream.ring.room() < FULL;
        let held: u64 = self.streams.iter().map(|stream| stream.ring.held()).sum();
        let is_due = self.flush_at.is_some_and(|at| at <= now);
        let wants = self.hasty_until.is_some() || held >= MUCH_HELD || self.streams.iter().any(reports);
        let wants = wants || self.streams.iter().any(is_full);
        // A file that takes nothing is tried again after a while, not for each byte.
        self.sink.held_until.take_if(|until| *until < now);
        if self.sink.held_until.is_none() && (is_due || wants && self.sink.failing.is_none()) {
            self.flush_at = None;
            self.sink.write(self.streams.iter_mut().map(|stream| {
                let awaited = stream.awaited();
                (&mut stream.ring, awaited)
            }));
        }
        if self.sink.failing.is_some_and(|since| since.elapsed() > PATIENCE) {
            let is_lost = |stream: &&mut Stream| is_full(stream) || reports(stream);
            self.streams.iter_mut().filter(is_lost).for_each(|stream| stream.ring.lose());
        }
    }

    /// Lets ranks go whose output is in the file, or never will be.
    fn dismiss(&mut self) {
        let is_done = |stream: &Stream| stream.report.is_some_and(|report| stream.ring.start() >= report);
        if !self.streams.iter().any(is_done) {
            return;
        }
        let closed = self.sink.close_once();
        let stays = |stream: &Stream| stream.connection.is_some() && !is_done(stream);
        // The next command opens the file anew.
        if self.launcher.is_none() && !self.streams.iter().any(stays) {
            self.listener = None;
        }
        let (totals, last_error) = (self.totals(), self.sink.last_error);
        for stream in self.streams.iter_mut().filter(|stream| is_done(stream)) {
            let error = closed.err().or(last_error.filter(|_| stream.ring.lost() > 0));
            let done = FromCollector::Done { error: error.map(Errno::raw_os_error), totals };
            if let Some(connection) = stream.connection.take() {
                let _it_was_killed = send(&connection, &done, &[]);
            }
            stream.report = None;
        }
    }

    fn totals(&self) -> OutputStats {
        let rings = || self.streams.iter().map(|stream| &stream.ring);
        OutputStats {
            lines: self.gone.lines + rings().map(Ring::lines).sum::<u64>(),
            bytes: self.gone.bytes + rings().map(Ring::end).sum::<u64>(),
            writes: self.sink.writes,
            bytes_written: self.sink.bytes,
        }
    }
}

/// The longest time for which a whole line is held.
const HELD_FOR: Duration = Duration::from_secs(1);

/// The time for which a file may take nothing before output is given up. Programs wait meanwhile, once their memory is full.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time for which everything is written at once after a signal. Batch systems send SIGKILL after it: Slurm after 30 s.
const HASTE: Duration = Duration::from_secs(60);

/// Between two looks at pipes of which each gives little. A pipe has room for 64 KiB meanwhile.
const NAP: Duration = Duration::from_millis(5);

/// Bytes of one pipe after which the next look comes at once.
const MUCH: u64 = 16 << 10;

/// Bytes of all ranks that are written without waiting for more.
const MUCH_HELD: u64 = 1 << 20;

/// A ring with less room is emptied, so that a full pipe can be read.
const FULL: u64 = 64 << 10;
