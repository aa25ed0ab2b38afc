//! The server process: how it comes to life, whom it lets in, and when it ends.
//!
//! It is forked from the rank that was elected, before that rank has threads, and detaches itself completely: no
//! terminal, no inherited descriptor, no parent that would have to wait for it. A child of it, the builder, makes the
//! namespace; so neither the command's process nor this one is ever inside it half-way.
//!
//! ```text
//! elected rank --fork--> (middle, exits) --fork--> server --fork--> builder, exits when all is mounted
//!                                                   | lets ranks in while one of them lives
//!                                                   | answers while any process of the namespace lives
//!                                                   ' ENODEV: writes statistics, ends
//! ```
//!
//! The namespace's descriptors are held only while a rank lives that was let in: they would keep it alive.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socketpair, sockopt};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, WaitOptions};
use rustix::thread::CpuSet;

use super::Server;
use super::notifier::{Notifier, notify};
use crate::error::{Step, Unavailable};
use crate::fuse::device::Device;
use crate::memory::LoadedImage;
use crate::message::{FromBuilder, FromRank, FromServer, receive, send};
use crate::namespace::{Layout, Namespaces, Privilege, mount_connection};
use crate::rendezvous::is_this_user;
use crate::stats::{Counters, ImageStats, Membership};
use crate::sys::process::{Forked, SingleThreaded, close_all_but, exit_now, fork, reset_signals};

/// What a server is started with.
#[derive(Debug)]
pub(crate) struct Start {
    /// The meeting place's socket, listening.
    pub(crate) listener: OwnedFd,
    /// The image, opened and verified.
    pub(crate) image: LoadedImage,
    /// What the namespace shows.
    pub(crate) layout: Layout,
}

/// Starts the server process; returns when it is detached, with the image. It lets ranks in at the meeting place when
/// it is ready.
pub(crate) fn start(start: Start, alone: &SingleThreaded) -> Result<LoadedImage, Errno> {
    let starter = rustix::process::getpid();
    let middle = match fork(alone)? {
        Forked::Parent(middle) => middle,
        Forked::Child => run_middle(start, alone, starter),
    };
    loop {
        match rustix::process::waitpid(Some(middle), WaitOptions::empty()) {
            Err(Errno::INTR) => {}
            // Whoever started us has SIGCHLD ignored, so there is nothing to wait for. If no server came to life,
            // nobody will be met.
            Err(Errno::CHILD) => return Ok(start.image),
            Ok(Some((_, status))) if status.exit_status() == Some(0) => return Ok(start.image),
            Ok(_) => return Err(Errno::AGAIN),
            Err(errno) => return Err(errno),
        }
    }
}

/// The process in between: makes a session of its own and a server that init inherits.
fn run_middle(start: Start, alone: &SingleThreaded, starter: Pid) -> ! {
    let _already_leader = rustix::process::setsid();
    match fork(alone) {
        Ok(Forked::Parent(_)) => exit_now(0),
        Ok(Forked::Child) => {
            run_server(start, alone, starter);
            exit_now(0)
        }
        Err(_) => exit_now(1),
    }
}

fn run_server(start: Start, alone: &SingleThreaded, starter: Pid) {
    let starter = Watch::of(starter);
    detach(&start, starter.as_ref());
    let Start { listener, image, layout } = start;
    let built = build(&layout, alone);
    let (device, builder) = match built {
        Ok(mounted) => mounted,
        Err(unavailable) => return turn_away(&listener, &unavailable),
    };
    let counters = Arc::new(Counters::default());
    let totals = image.image.index().totals();
    let image_stats = ImageStats {
        bytes: image.image.length(),
        files: totals.held_files,
        file_bytes: image.memory.file_bytes(),
        ..ImageStats::default()
    };
    let memory = Arc::clone(&image.memory);
    let (notifier, jobs) = Notifier::new();
    let privilege = Privilege::of_this_process();
    let server =
        Arc::new(Server::new(Device::new(device), image, privilege, Arc::clone(&counters), notifier));
    let Some(ended) = start_threads(&server, jobs) else {
        return turn_away(&listener, &Unavailable::new(Step::StartServer, Errno::AGAIN));
    };
    let namespaces = match builder.finish() {
        Ok(namespaces) => namespaces,
        Err(unavailable) => return turn_away(&listener, &unavailable),
    };
    let mut keeper = Keeper { ended, door: Some(Door { listener, namespaces }), ranks: Vec::new(), starter };
    keeper.keep();
    let image_stats = ImageStats { bytes_fetched: memory.bytes_fetched(), ..image_stats };
    for rank in &keeper.ranks {
        if let Some(path) = &rank.stats {
            // There is nobody left to be told that it could not be written.
            let _nobody = counters.snapshot(image_stats, rank.membership, rank.seconds_to_exec).write(path);
        }
    }
}

/// Leaves everything behind that the elected rank's process had: descriptors, streams, directory, signals, mask, core.
fn detach(start: &Start, starter: Option<&Watch>) {
    let mut kept: Vec<RawFd> = start.image.memory.descriptors();
    kept.push(start.listener.as_raw_fd());
    kept.extend(starter.and_then(Watch::descriptor));
    close_all_but(&kept);
    if let Ok(null) = rustix::fs::openat(CWD, "/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        let _streams = rustix::stdio::dup2_stdin(&null);
        let _streams = rustix::stdio::dup2_stdout(&null);
        let _streams = rustix::stdio::dup2_stderr(&null);
    }
    let _root_exists = rustix::process::chdir("/");
    rustix::process::umask(Mode::empty());
    // Schedulers send these to every process of a job so that it can save its state: the server must still answer
    // then. It ends with the namespace, or by SIGKILL. A limit on the size of files must fail the write, not us.
    reset_signals(&[
        libc::SIGHUP,
        libc::SIGINT,
        libc::SIGQUIT,
        libc::SIGTERM,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGALRM,
        libc::SIGXCPU,
        libc::SIGXFSZ,
        libc::SIGPIPE,
    ]);
    use_all_descriptors();
    leave_cores(rustix::thread::sched_getaffinity(None).ok());
}

/// Lets the server have as many files open as the system allows; the usual soft limit is 1024.
fn use_all_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let _enough_as_it_is =
        rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Runs on the job's cores without those that the first rank is bound to, if any are left.
fn leave_cores(taken: Option<CpuSet>) {
    let mut free = CpuSet::new();
    for core in 0..CpuSet::MAX_CPU {
        if !taken.as_ref().is_some_and(|taken| taken.is_set(core)) {
            free.set(core);
        }
    }
    // The kernel takes away what the job's control group does not have; with nothing left it refuses.
    let _stay_where_we_are = rustix::thread::sched_setaffinity(None, &free);
}

/// A builder that has mounted and waits for the server to answer.
#[derive(Debug)]
struct Builder {
    connection: OwnedFd,
    pid: Pid,
}

/// Starts the builder; returns when the connection is mounted.
fn build(layout: &Layout, alone: &SingleThreaded) -> Result<(OwnedFd, Builder), Unavailable> {
    let failed = |errno| Unavailable::new(Step::StartServer, errno);
    let (near, far) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(failed)?;
    let pid = match fork(alone).map_err(failed)? {
        Forked::Parent(pid) => pid,
        Forked::Child => {
            drop(near);
            run_builder(layout, &far);
            exit_now(0)
        }
    };
    drop(far);
    let builder = Builder { connection: near, pid };
    let (message, mut descriptors) = builder.receive()?;
    match (message, descriptors.pop()) {
        (FromBuilder::Mounted, Some(device)) => Ok((device, builder)),
        _ => Err(failed(Errno::BADMSG)),
    }
}

impl Builder {
    /// Waits until everything is in place; the server must answer meanwhile.
    fn finish(self) -> Result<Namespaces, Unavailable> {
        let (message, descriptors) = self.receive()?;
        let _reaped = rustix::process::waitpid(Some(self.pid), WaitOptions::empty());
        match (message, Namespaces::from_descriptors(descriptors)) {
            (FromBuilder::Done, Some(namespaces)) => Ok(namespaces),
            _ => Err(Unavailable::new(Step::StartServer, Errno::BADMSG)),
        }
    }

    fn receive(&self) -> Result<(FromBuilder, Vec<OwnedFd>), Unavailable> {
        match receive(&self.connection) {
            Ok(Some((FromBuilder::Failed(failure), _))) => Err(failure.into()),
            Ok(Some(message)) => Ok(message),
            Ok(None) => Err(Unavailable::new(Step::StartServer, Errno::CONNRESET)),
            Err(errno) => Err(Unavailable::new(Step::StartServer, errno)),
        }
    }
}

/// The builder's whole life. What it cannot tell, the server learns from its end.
fn run_builder(layout: &Layout, server: &OwnedFd) {
    let told = match mount_connection(layout) {
        Ok((device, mounted)) => {
            if send(server, &FromBuilder::Mounted, &[device.as_fd()]).is_err() {
                return;
            }
            drop(device);
            mounted.place()
        }
        Err(unavailable) => Err(unavailable),
    };
    let _server_is_gone = match told {
        Ok(namespaces) => send(server, &FromBuilder::Done, &namespaces.descriptors()),
        Err(unavailable) => send(server, &FromBuilder::Failed(unavailable.into()), &[]),
    };
}

/// Starts the threads that answer, notify and fetch. The descriptor becomes readable when the mount is gone.
fn start_threads(
    server: &Arc<Server>,
    jobs: std::sync::mpsc::Receiver<super::notifier::Forget>,
) -> Option<OwnedFd> {
    let ended = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).ok()?);
    for _ in 0..THREADS {
        let (server, ended) = (Arc::clone(server), Arc::clone(&ended));
        spawn(move || {
            server.serve();
            let _keeper_is_gone = rustix::io::write(&*ended, &1_u64.to_ne_bytes());
        })?;
    }
    let notifying = Arc::clone(server);
    spawn(move || notify(&notifying, &jobs))?;
    for _ in 0..server.memory.fetchers() {
        let memory = Arc::clone(&server.memory);
        spawn(move || memory.fetch_all())?;
    }
    rustix::io::fcntl_dupfd_cloexec(&*ended, 3).ok()
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Option<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(work).ok().map(|_runs_alone| ())
}

/// Threads that answer. What the image knows is answered by whichever has the turn; this bounds the operations on the
/// original that are in flight at once.
const THREADS: usize = 8;

/// Stack of each thread; nothing recurses.
const STACK: usize = 256 << 10;

/// Tells everybody who waits at the door that there is nothing to come in to.
fn turn_away(listener: &OwnedFd, unavailable: &Unavailable) {
    let message = FromServer::Failed(unavailable.clone().into());
    // The starter is on its way here, perhaps with others: wait a little for each of them.
    while readable(listener, TURN_AWAY_PATIENCE) {
        let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) else {
            return;
        };
        // What is left unread when the connection closes would reach the rank before the message does, as an error.
        if readable(&connection, TURN_AWAY_PATIENCE) {
            let _whatever_it_says = receive::<FromRank>(&connection);
        }
        let _gone = send(&connection, &message, &[]);
    }
}

/// How long a failed server waits for one more rank to be told so. Ranks that come later find nobody, and try
/// themselves.
const TURN_AWAY_PATIENCE: Duration = Duration::from_millis(100);

fn readable(descriptor: &OwnedFd, patience: Duration) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// The server's main thread: lets ranks in, watches over them, and waits for the end.
#[derive(Debug)]
struct Keeper {
    /// Readable when the mount is gone.
    ended: OwnedFd,
    /// Open while a rank lives.
    door: Option<Door>,
    /// All ranks that ever came.
    ranks: Vec<Rank>,
    /// The rank that started us, until any rank has come.
    starter: Option<Watch>,
}

#[derive(Debug)]
struct Door {
    listener: OwnedFd,
    namespaces: Namespaces,
}

/// One rank.
#[derive(Debug)]
struct Rank {
    /// Until it executes its command.
    connection: Option<OwnedFd>,
    /// While it lives.
    process: Option<Watch>,
    membership: Membership,
    stats: Option<PathBuf>,
    seconds_to_exec: f64,
}

impl Keeper {
    /// Returns when the last process of the namespace is gone.
    fn keep(&mut self) {
        loop {
            let ready = self.wait();
            if ready.ended {
                return;
            }
            for number in ready.connections {
                self.hear(number);
            }
            if ready.door {
                self.admit();
            }
            self.part();
        }
    }

    /// Waits until something happens.
    fn wait(&self) -> Ready {
        let mut polled = vec![PollFd::new(&self.ended, PollFlags::IN)];
        let door = self.door.as_ref().map(|door| PollFd::new(&door.listener, PollFlags::IN));
        polled.extend(door);
        let door_at = self.door.is_some().then_some(1);
        let first_rank = polled.len();
        let connections: Vec<(usize, &OwnedFd)> = self
            .ranks
            .iter()
            .enumerate()
            .filter_map(|(number, rank)| Some((number, rank.connection.as_ref()?)))
            .collect();
        polled.extend(connections.iter().map(|(_, connection)| PollFd::new(connection, PollFlags::IN)));
        let watches = || self.ranks.iter().filter_map(|rank| rank.process.as_ref()).chain(&self.starter);
        polled.extend(watches().filter_map(Watch::poll));
        let unpolled = watches().any(|watch| watch.poll().is_none());
        let timeout = unpolled.then_some(Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NANOS });
        let _interrupted = poll(&mut polled, timeout.as_ref());
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        Ready {
            ended: is_ready(0),
            door: door_at.is_some_and(is_ready),
            connections: (0..connections.len())
                .filter(|at| is_ready(first_rank + at))
                .map(|at| connections[at].0)
                .collect(),
        }
    }

    /// Somebody is at the door.
    fn admit(&mut self) {
        let Some(door) = &self.door else {
            return;
        };
        let Ok(connection) = accept_with(&door.listener, SocketFlags::CLOEXEC) else {
            return;
        };
        if !is_this_user(&connection) {
            return;
        }
        let process = sockopt::socket_peercred(&connection).ok().and_then(|peer| Watch::of(peer.pid));
        self.ranks.push(Rank {
            connection: Some(connection),
            process,
            membership: Membership::Joined,
            stats: None,
            seconds_to_exec: 0.0,
        });
        self.starter = None;
    }

    /// A rank says something, or has executed its command, or has given up.
    fn hear(&mut self, number: usize) {
        let Some(rank) = self.ranks.get_mut(number) else {
            return;
        };
        let Some(connection) = rank.connection.take() else {
            return;
        };
        match receive::<FromRank>(&connection) {
            Ok(Some((FromRank::Join { created, stats }, _))) => {
                if created {
                    rank.membership = Membership::Created;
                }
                rank.stats = stats.map(|path| std::ffi::OsString::from_vec(path).into());
                let admitted = self
                    .door
                    .as_ref()
                    .map(|door| send(&connection, &FromServer::Ready, &door.namespaces.descriptors()));
                if admitted == Some(Ok(())) {
                    rank.connection = Some(connection);
                }
            }
            Ok(Some((FromRank::Started { seconds_to_exec }, _))) => rank.seconds_to_exec = seconds_to_exec,
            // It went without executing anything, and is no rank any more.
            Ok(None) | Err(_) => (rank.process, rank.stats) = (None, None),
        }
    }

    /// Closes the door when no rank lives.
    fn part(&mut self) {
        let gone = |watch: &mut Option<Watch>| {
            if watch.as_ref().is_some_and(Watch::is_over) {
                *watch = None;
            }
        };
        gone(&mut self.starter);
        self.ranks.iter_mut().for_each(|rank| gone(&mut rank.process));
        let waiting = self.ranks.iter().any(|rank| rank.connection.is_some() || rank.process.is_some());
        if !waiting && self.starter.is_none() {
            self.door = None;
        }
    }
}

/// What [`Keeper::wait`] saw.
#[derive(Debug)]
struct Ready {
    ended: bool,
    door: bool,
    connections: Vec<usize>,
}

/// How often a process is looked at where the kernel has no descriptor for it.
const LOOK_AGAIN_NANOS: i64 = 200_000_000;

/// A process whose end is waited for.
#[derive(Debug)]
enum Watch {
    /// By descriptor (Linux 5.3 and later).
    Descriptor(OwnedFd),
    /// By number and start time.
    Number(Pid, u64),
}

impl Watch {
    /// Watches `pid`; `None` if it is over already.
    fn of(pid: Pid) -> Option<Self> {
        match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
            Ok(descriptor) => Some(Self::Descriptor(descriptor)),
            Err(Errno::SRCH) => None,
            Err(_) => Some(Self::Number(pid, start_time(pid)?)),
        }
    }

    fn descriptor(&self) -> Option<RawFd> {
        match self {
            Self::Descriptor(descriptor) => Some(descriptor.as_raw_fd()),
            Self::Number(..) => None,
        }
    }

    fn poll(&self) -> Option<PollFd<'_>> {
        match self {
            Self::Descriptor(descriptor) => Some(PollFd::new(descriptor, PollFlags::IN)),
            Self::Number(..) => None,
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Self::Descriptor(descriptor) => is_readable_now(descriptor.as_fd()),
            Self::Number(pid, started) => start_time(*pid) != Some(*started),
        }
    }
}

fn is_readable_now(descriptor: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
}

/// When a process started, in clock ticks since boot; `None` if it is over. Source: proc_pid_stat(5), field 22.
fn start_time(pid: Pid) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The command's name may hold spaces and parentheses: fields are counted behind the last one.
    let mut fields = stat.get(stat.rfind(')')? + 2..)?.split(' ');
    let state = fields.next()?;
    if state == "Z" { None } else { fields.nth(18)?.parse().ok() }
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
}
