//! The holder: keeps what must survive a server, lets ranks in, and forks the next server when one dies.
//!
//! It answers nothing, reads nothing of the image, and has one thread, so that it can fork at any time. What it has is
//! a [`Holding`]; the server's main thread keeps the same up to date ([`super::answering`]) and makes another holder
//! when this one dies. Only if both die at once the connection ends, as it did before there was a holder: what the
//! kernel knows still works, everything else is `ENOTCONN`.
//!
//! The namespace's descriptors are held only while a rank lives that was let in: they would keep it alive.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::time::Duration;

use quell_image::Image;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, accept_with, socketpair};
use rustix::process::{Pid, Uid, WaitOptions};

use super::answering::{Heir, NO_THREADS, answer};
use super::builder::Builder;
use super::estate::{Estate, Fact};
use super::custody::Held;
use super::patience::Patience;
use super::ranks::{Heard, Rank, Watch};
use super::slots::Death;
use super::start::turn_away;
use crate::counters::{Counters, Loss};
use crate::error::{Step, Unavailable};
use crate::fuse::device::Device;
use crate::memory::{Memory, Shared};
use crate::message::{FromAnswering, FromHolder, FromServer, receive, send};
use crate::namespace::Namespaces;
use crate::rendezvous::is_this_user;
use crate::stats::{ImageStats, replace_file};
use crate::sys::process::{Forked, SingleThreaded, fork};

/// What survives a server, and a holder.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) estate: Estate,
    pub(crate) image: Arc<Image<Shared>>,
    pub(crate) memory: Arc<Memory>,
    /// Who owns the image's file.
    pub(crate) owner: Uid,
    pub(crate) device: Arc<Device>,
    /// Readable when the mount is gone.
    pub(crate) ended: Arc<OwnedFd>,
    pub(crate) door: Door,
    /// What ranks are told that are let in.
    pub(crate) ready: FromServer,
    /// All ranks that ever came.
    pub(crate) ranks: Vec<Rank>,
    /// The rank that started us, until any rank has come.
    pub(crate) starter: Option<Watch>,
}

/// The way in.
#[derive(Debug)]
pub(crate) enum Door {
    /// The namespace is being made.
    Building { listener: OwnedFd, builder: Builder },
    /// Ranks can come in.
    Open { listener: OwnedFd, namespaces: Namespaces },
    /// No rank lives.
    Closed,
}

/// A descriptor that belongs to a node, which is named as the kernel knows it.
pub(crate) type Kept = (u64, Arc<Held>);

/// The server, as its holder knows it.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    pub(crate) connection: OwnedFd,
    /// If it is a child.
    pub(crate) pid: Option<Pid>,
}

/// Holds until the mount is gone, or no server can be had. `server` is one that is there already.
///
/// In a process that becomes a server, this returns when that one has ended.
pub(crate) fn hold(
    holding: Holding,
    kept: Vec<Kept>,
    mut server: Option<ServerProcess>,
    alone: &SingleThreaded,
) {
    let _name_stays = rustix::thread::set_name(c"quell-holder");
    let mut holder =
        Holder { holding, kept: kept.into_iter().collect(), patience: Patience::default(), progress: 0 };
    let mut death = None;
    loop {
        let running = match server.take() {
            Some(server) => server,
            None => match start_server(alone) {
                Ok(Started::Holder(server)) => server,
                Ok(Started::Server(connection)) => {
                    let kept = holder.kept.into_iter().collect();
                    return answer(Heir { holding: holder.holding, kept, connection, death }, alone);
                }
                Err(_) if holder.wait_for_better_times() => continue,
                Err(errno) => return holder.give_up(errno),
            },
        };
        match holder.accompany(&running) {
            Over::Ended => return holder.finish(),
            Over::Failed(unavailable) => return holder.fail(&unavailable),
            Over::ServerDied => death = Some(cause_of_death(running.pid)),
        }
        if let Err(errno) = holder.prepare_next() {
            return holder.give_up(errno);
        }
    }
}

/// How often, and after which pauses, the status of a dead server is asked for. Its threads are over when its connection
/// is closed, so what is left takes microseconds.
const BURIAL_TRIES: u32 = 50;
const BURIAL_PAUSE: Duration = Duration::from_micros(100);

/// Which side of the fork this is.
enum Started {
    Holder(ServerProcess),
    Server(Arc<OwnedFd>),
}

fn start_server(alone: &SingleThreaded) -> Result<Started, Errno> {
    let (near, far) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok(match fork(alone)? {
        Forked::Parent(pid) => Started::Holder(ServerProcess { connection: near, pid: Some(pid) }),
        Forked::Child => Started::Server(Arc::new(far)),
    })
}

/// How a server died that has closed its connection. Nobody knows it of one that is no child, or that has a thread
/// which the kernel does not let go before another server has answered.
fn cause_of_death(server: Option<Pid>) -> Death {
    let status = server.and_then(|pid| {
        for _ in 0..BURIAL_TRIES {
            match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
                Ok(None) | Err(Errno::INTR) => std::thread::sleep(BURIAL_PAUSE),
                outcome => return outcome.ok().flatten(),
            }
        }
        None
    });
    let Some((_, status)) = status else {
        return Death::Killed;
    };
    match (status.terminating_signal(), status.exit_status()) {
        (Some(libc::SIGKILL), _) | (_, Some(NO_THREADS)) => Death::Killed,
        _ => Death::Crashed,
    }
}

/// The holder while it holds.
#[derive(Debug)]
struct Holder {
    holding: Holding,
    /// By node.
    kept: BTreeMap<u64, Arc<Held>>,
    /// While servers cannot be had, or die without having been asked anything.
    patience: Patience,
    /// Requests that had been asked when the last server died.
    progress: u64,
}

/// Why a server is not accompanied any more.
enum Over {
    /// The mount is gone.
    Ended,
    ServerDied,
    /// The namespace could not be made.
    Failed(Unavailable),
}

impl Holder {
    /// Lets ranks in and watches over them, until the server is dead or not needed any more.
    fn accompany(&mut self, server: &ServerProcess) -> Over {
        loop {
            // First of all: for whoever took over, everybody may be dead already, and nothing will happen any more.
            self.part(server);
            let ready = self.wait(server);
            if ready.server && self.hear_server(server) == Heard::Gone {
                return Over::ServerDied;
            }
            if ready.building
                && let Err(unavailable) = self.open_door(server)
            {
                return Over::Failed(unavailable);
            }
            if ready.ended {
                return Over::Ended;
            }
            for number in ready.connections {
                self.hear_rank(number, server);
            }
            if ready.door {
                self.admit();
            }
        }
    }

    /// Waits until something happens.
    fn wait(&self, server: &ServerProcess) -> Ready {
        let holding = &self.holding;
        let mut polled =
            vec![PollFd::new(&*holding.ended, PollFlags::IN), PollFd::new(&server.connection, PollFlags::IN)];
        match &holding.door {
            Door::Building { builder, .. } => polled.push(PollFd::new(builder.connection(), PollFlags::IN)),
            Door::Open { listener, .. } => polled.push(PollFd::new(listener, PollFlags::IN)),
            Door::Closed => {}
        }
        let first_rank = polled.len();
        let ranks = holding.ranks.iter().enumerate();
        let connections: Vec<(usize, &OwnedFd)> =
            ranks.filter_map(|(number, rank)| Some((number, rank.connection.as_ref()?))).collect();
        polled.extend(connections.iter().map(|(_, connection)| PollFd::new(connection, PollFlags::IN)));
        polled.extend(holding.watches().filter_map(Watch::poll));
        let unpolled = holding.watches().any(|watch| watch.poll().is_none());
        let timeout = unpolled.then_some(Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NANOS });
        let _interrupted = poll(&mut polled, timeout.as_ref());
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        Ready {
            ended: is_ready(0),
            server: is_ready(1),
            building: matches!(holding.door, Door::Building { .. }) && is_ready(2),
            door: matches!(holding.door, Door::Open { .. }) && is_ready(2),
            connections: (0..connections.len())
                .filter(|at| is_ready(first_rank + at))
                .map(|at| connections[at].0)
                .collect(),
        }
    }

    /// The server has something to be kept, or is dead.
    fn hear_server(&mut self, server: &ServerProcess) -> Heard {
        match receive::<FromAnswering>(&server.connection) {
            Ok(Some((FromAnswering::Keep { node, access }, mut descriptors))) => {
                if let Some(descriptor) = descriptors.pop() {
                    self.kept.insert(node, Arc::new(Held { descriptor, access }));
                }
                Heard::Started
            }
            Ok(Some((FromAnswering::GiveUp { node }, _))) => {
                self.kept.remove(&node);
                Heard::Started
            }
            Ok(None) | Err(_) => Heard::Gone,
        }
    }

    /// The builder has something to say.
    fn open_door(&mut self, server: &ServerProcess) -> Result<(), Unavailable> {
        let Door::Building { listener, builder } = std::mem::replace(&mut self.holding.door, Door::Closed)
        else {
            return Ok(());
        };
        match builder.finish() {
            Ok(namespaces) => {
                let _tells_the_next_one =
                    send(&server.connection, &FromHolder::Opened, &namespaces.descriptors());
                self.holding.door = Door::Open { listener, namespaces };
                Ok(())
            }
            Err(unavailable) => {
                turn_away(&listener, &unavailable);
                Err(unavailable)
            }
        }
    }

    /// Somebody is at the door.
    fn admit(&mut self) {
        let Door::Open { listener, .. } = &self.holding.door else {
            return;
        };
        let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) else {
            return;
        };
        if is_this_user(&connection) {
            self.holding.ranks.push(Rank::at(connection));
            self.holding.starter = None;
        }
    }

    /// A rank says something, or has executed its command, or has given up.
    fn hear_rank(&mut self, number: usize, server: &ServerProcess) {
        let Some(rank) = self.holding.ranks.get_mut(number) else {
            return;
        };
        let heard = rank.hear();
        // The server knows of a rank before the rank knows that it was let in.
        let record = FromHolder::Rank(number, rank.record());
        let _next_one_is_forked_from_here = send(&server.connection, &record, &[]);
        if heard != Heard::Join {
            return;
        }
        let admitted = match (&self.holding.door, &rank.connection) {
            (Door::Open { namespaces, .. }, Some(connection)) => {
                send(connection, &self.holding.ready, &namespaces.descriptors())
            }
            _ => Err(Errno::CONNRESET),
        };
        if admitted.is_err() {
            rank.connection = None;
        }
    }

    /// Closes the door when no rank lives.
    fn part(&mut self, server: &ServerProcess) {
        self.holding.forget_the_dead();
        if self.holding.is_deserted() && matches!(self.holding.door, Door::Open { .. }) {
            self.holding.door = Door::Closed;
            let _next_one_is_forked_from_here = send(&server.connection, &FromHolder::Closed, &[]);
        }
    }

    /// Whether, and when, another server is to be forked after one died.
    fn prepare_next(&mut self) -> Result<(), Errno> {
        // Earlier ones that could not be buried when they died.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let counters = Counters::attach(&self.holding.estate.counters);
        counters.lost(Loss::Takeover);
        let progress = counters.progress();
        if progress != self.progress {
            (self.progress, self.patience) = (progress, Patience::default());
            return Ok(());
        }
        if self.wait_for_better_times() { Ok(()) } else { Err(Errno::CONNABORTED) }
    }

    /// Pauses, unless that was done often enough.
    fn wait_for_better_times(&mut self) -> bool {
        let pause = self.patience.pause();
        pause.inspect(|pause| std::thread::sleep(*pause)).is_some()
    }

    /// The mount is gone.
    fn finish(&self) {
        self.holding.write_statistics();
        self.holding.estate.settle(Fact::Finished);
    }

    /// The namespace could not be made: whoever waits was told.
    fn fail(&self, _told: &Unavailable) {
        self.holding.estate.settle(Fact::Finished);
    }

    /// No server can be had any more: the connection ends with us.
    fn give_up(&self, errno: Errno) {
        if let Door::Building { listener, .. } = &self.holding.door {
            turn_away(listener, &Unavailable::new(Step::StartServer, errno));
        }
        self.finish();
    }
}

impl Holding {
    /// All processes that are waited for.
    fn watches(&self) -> impl Iterator<Item = &Watch> {
        self.ranks.iter().filter_map(|rank| rank.process.as_ref()).chain(&self.starter)
    }

    /// Waits no longer for those that are over.
    fn forget_the_dead(&mut self) {
        let gone = |watch: &mut Option<Watch>| {
            if watch.as_ref().is_some_and(Watch::is_over) {
                *watch = None;
            }
        };
        gone(&mut self.starter);
        self.ranks.iter_mut().for_each(|rank| gone(&mut rank.process));
    }

    /// Whether no rank lives that was let in, nor the one that is to be the first.
    fn is_deserted(&self) -> bool {
        self.starter.is_none() && !self.ranks.iter().any(Rank::is_waiting)
    }

    /// Writes what was counted, for each rank that asked for it.
    fn write_statistics(&self) {
        let counters = Counters::attach(&self.estate.counters);
        let image = ImageStats {
            bytes: self.image.length(),
            files: self.image.index().totals().held_files,
            bytes_fetched: self.memory.bytes_fetched(),
            file_bytes: self.memory.file_bytes(),
            ..ImageStats::default()
        };
        for rank in &self.ranks {
            if let Some(path) = &rank.stats {
                // There is nobody left to be told that it could not be written.
                let _nobody = counters.snapshot(image, rank.membership, rank.seconds_to_exec).write(path);
            }
        }
        self.write_learned();
    }

    /// Writes what was learned, for each rank that is to.
    fn write_learned(&self) {
        let mut paths = self.ranks.iter().filter_map(|rank| rank.learned.as_ref()).peekable();
        if paths.peek().is_none() {
            return;
        }
        let learned = self.estate.lessons().learned(self.image.index().identity().to_string());
        let (text, owner_only) = (learned.write(), Mode::RUSR | Mode::WUSR);
        for path in paths {
            let _nobody = replace_file(path, owner_only, text.as_bytes());
        }
    }

    /// The descriptors, for a process that closes all others.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let mut all = self.memory.descriptors();
        all.extend([self.device.descriptor(), self.ended.as_raw_fd()]);
        match &self.door {
            Door::Building { listener, builder } => {
                all.extend([listener.as_raw_fd(), builder.connection().as_raw_fd()]);
            }
            Door::Open { listener, namespaces } => {
                all.push(listener.as_raw_fd());
                all.extend(namespaces.descriptors().iter().map(AsRawFd::as_raw_fd));
            }
            Door::Closed => {}
        }
        all.extend(self.watches().filter_map(Watch::descriptor));
        all
    }
}

/// What [`Holder::wait`] saw.
#[derive(Debug)]
struct Ready {
    ended: bool,
    server: bool,
    building: bool,
    door: bool,
    connections: Vec<usize>,
}

/// How often a process is looked at where the kernel has no descriptor for it.
const LOOK_AGAIN_NANOS: i64 = 200_000_000;
