//! The holder: keeps what must survive a server, lets ranks in, and forks the next server when one dies.
//!
//! It answers nothing, reads nothing of the image, and has one thread, so that it can fork at any time. It and its server
//! have one table of descriptors ([`super::lifeline`] draws it), so descriptors of one server are there for the next; all
//! else that the next one needs is in shared memory ([`HandoverMemory`](super::handover::HandoverMemory)).
//!
//! ```text
//! server dies --> its lifeline is cut --> the holder closes what no record names, forks the next server
//! holder dies --> the kernel tells its server --> that forks a holder and ends --> the new holder forks the next server
//! ```
//!
//! A server that has replaced its holder ends in favour of another server. Its threads keep it from clone(2), after which
//! the C library's allocator would not be usable; after fork(2) the two tables of descriptors are separate.
//!
//! If both die at once, the connection ends: cached answers of the kernel still work, everything else is `ENOTCONN`.
//!
//! The namespace's descriptors are held only while a rank lives that was let in: they would keep it alive.

use std::collections::HashSet;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quell_base::ProcessStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Pid, WaitOptions, WaitStatus};

use super::door::turn_away;
use super::handover::HandoverFact;
use super::holding::{Door, Holding, NO_THREADS, ServerStart};
use super::lifeline::{Lifeline, LifelinePair};
use super::patience::RetryPatience;
use super::ranks::{Heard, Rank, Watch, is_full};
use super::roll::Roll;
use super::slots::Death;
use crate::counters::{Counters, TakeoverEvent};
use crate::error::{SetupStep, Unavailable};
use crate::message::send;
use crate::rendezvous::is_this_user;
use crate::sys::process::{
    Forked, LONGEST_WAIT_FOR_CORE, SingleThreaded, block_parent_signal, close_all_but, close_each,
    fork_sharing_descriptors, open_descriptors,
};

/// The life of a server process.
pub(crate) type Serve = fn(ServerStart, &SingleThreaded) -> !;

/// The server, as its holder knows it.
#[derive(Debug)]
struct ServerProcess {
    lifeline: Lifeline,
    pid: Pid,
}

/// Holds until the mount is gone, or no server can be had. `before` is a server that is about to end, after which this
/// process has the common table of descriptors for itself.
///
/// In a process that becomes a server, this calls `serve` and does not return.
pub(crate) fn hold(holding: Holding, before: Option<Lifeline>, alone: &SingleThreaded, serve: Serve) {
    block_parent_signal();
    let roll = Roll::attach(Arc::clone(&holding.handover.ranks));
    let mut holder = Holder {
        holding,
        roll,
        patience: RetryPatience::default(),
        progress: 0,
        lacks_threads: false,
        is_full: false,
    };
    let mut death = before.map(|server| {
        holder.holding.made.lose_some();
        // The dead holder may have left us a write end of it.
        holder.close_unknown(Some(&server));
        server.wait();
        Death::Killed
    });
    let _name_stays = rustix::thread::set_name(c"quell-holder");
    loop {
        holder.close_unknown(None);
        let mut running = match start_server(alone) {
            Ok(Started::Holder(server)) => server,
            Ok(Started::Server { lifeline, holder: pid }) => {
                serve(ServerStart { holding: holder.holding, lifeline, holder: pid, death }, alone)
            }
            Err(_) if holder.wait_for_better_times() => continue,
            Err(errno) => return holder.give_up(errno),
        };
        match holder.accompany(&mut running) {
            Over::Ended => return holder.finish(),
            Over::Failed(unavailable) => return holder.fail(&unavailable),
            Over::ServerDied => {}
        }
        let pid = running.pid;
        // Before its descriptors are closed with all others.
        drop(running);
        holder.await_threads();
        // Only now: no thread of the dead server closes a descriptor that this opens.
        let status = status_of_dead(pid);
        holder.lacks_threads = status.and_then(WaitStatus::exit_status) == Some(NO_THREADS);
        death = Some(cause_of_death(status));
        holder.close_left();
        if let Err(errno) = holder.prepare_next() {
            return holder.give_up(errno);
        }
    }
}

/// The number of times, and the pause after which, the status of a dead server is asked for that the kernel holds. Another server's
/// threads are about to end when its lifeline is cut: that takes microseconds where they get a core.
const BURIAL_TRIES: u32 = 50;
const BURIAL_PAUSE: Duration = Duration::from_micros(100);

/// The two sides of the fork.
enum Started {
    Holder(ServerProcess),
    Server { lifeline: LifelinePair, holder: Pid },
}

fn start_server(alone: &SingleThreaded) -> Result<Started, Errno> {
    let (lifeline, holder) = (Lifeline::pair()?, rustix::process::getpid());
    Ok(match fork_sharing_descriptors(alone)? {
        Forked::Parent(pid) => {
            Started::Holder(ServerProcess { lifeline: Lifeline::of_child(lifeline, Watch::of(pid)), pid })
        }
        Forked::Child => Started::Server { lifeline, holder },
    })
}

/// The status of a server whose lifeline is cut. `None` if the kernel holds one of its threads until another server has
/// answered.
fn status_of_dead(server: Pid) -> Option<WaitStatus> {
    let (start, mut held) = (Instant::now(), 0);
    while held < BURIAL_TRIES && start.elapsed() < LONGEST_WAIT_FOR_CORE {
        let status = match rustix::process::waitpid(Some(server), WaitOptions::NOHANG) {
            Ok(None) | Err(Errno::INTR) => None,
            Ok(Some((_, status))) => Some(status),
            Err(_) => return None,
        };
        if status.is_some() {
            return status;
        }
        held = if is_held(server) { held + 1 } else { 0 };
        std::thread::sleep(BURIAL_PAUSE);
    }
    None
}

fn cause_of_death(status: Option<WaitStatus>) -> Death {
    match status.map(|status| (status.terminating_signal(), status.exit_status())) {
        None | Some((Some(libc::SIGKILL), _) | (_, Some(NO_THREADS))) => Death::Killed,
        Some(_) => Death::Crashed,
    }
}

/// Tells whether a thread of a process waits for the kernel, whatever signal it gets.
fn is_held(process: Pid) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", process.as_raw_nonzero()));
    let threads =
        tasks.into_iter().flatten().flatten().filter_map(|thread| thread.file_name().into_string().ok());
    let mut states = threads.filter_map(|thread| ProcessStat::read(thread)?.state());
    states.any(|state| state == 'D')
}

/// The holder while it holds.
#[derive(Debug)]
struct Holder {
    holding: Holding,
    roll: Roll,
    /// The patience with servers that do not start, or die before their first request.
    patience: RetryPatience,
    /// Requests that had been asked when the last server died.
    progress: u64,
    /// The last server ended because the system allowed it too few threads.
    lacks_threads: bool,
    /// A rank at the door could not be let in, for want of descriptors or memory: the door is looked at again after a while.
    is_full: bool,
}

/// The reason for which a server is watched no longer.
enum Over {
    /// The mount is gone.
    Ended,
    ServerDied,
    /// The namespace could not be made.
    Failed(Unavailable),
}

impl Holder {
    /// Lets ranks in and watches over them, until the server is dead or not needed any more.
    fn accompany(&mut self, server: &mut ServerProcess) -> Over {
        loop {
            // First of all: when another holder takes over, all ranks may be dead already, and no event would come any more.
            self.part();
            let ready = self.wait(server);
            self.is_full = false;
            // A short command may be over before its rank's last word was heard.
            for number in ready.connections {
                self.hear_rank(number);
            }
            if ready.ended {
                return Over::Ended;
            }
            if server.lifeline.is_cut() {
                return Over::ServerDied;
            }
            if ready.building
                && let Err(unavailable) = self.open_door()
            {
                return Over::Failed(unavailable);
            }
            if ready.door {
                self.admit();
            }
        }
    }

    /// Waits until something happens.
    fn wait(&self, server: &ServerProcess) -> Ready {
        let holding = &self.holding;
        let mut polled = vec![PollFd::new(&*holding.ended, PollFlags::IN)];
        match &holding.door {
            Door::Building { builder, .. } => polled.push(PollFd::new(builder.connection(), PollFlags::IN)),
            Door::Open { listener, .. } if !self.is_full => polled.push(PollFd::new(listener, PollFlags::IN)),
            Door::Open { .. } | Door::Closed => {}
        }
        let first_rank = polled.len();
        let ranks = holding.ranks.iter().enumerate();
        let connections: Vec<(usize, &OwnedFd)> =
            ranks.filter_map(|(number, rank)| Some((number, rank.connection.as_ref()?))).collect();
        polled.extend(connections.iter().map(|(_, connection)| PollFd::new(connection, PollFlags::IN)));
        polled.extend(server.lifeline.polled());
        polled.extend(holding.watches().filter_map(Watch::poll));
        let unpolled = self.is_full
            || server.lifeline.is_unpolled()
            || holding.watches().any(|watch| watch.poll().is_none());
        let timeout = unpolled.then_some(Timespec { tv_sec: 0, tv_nsec: LOOK_AGAIN_NANOS });
        let _interrupted = poll(&mut polled, timeout.as_ref());
        let is_ready = |at: usize| !polled[at].revents().is_empty();
        Ready {
            ended: is_ready(0),
            building: matches!(holding.door, Door::Building { .. }) && is_ready(1),
            door: matches!(holding.door, Door::Open { .. }) && !self.is_full && is_ready(1),
            connections: (0..connections.len())
                .filter(|at| is_ready(first_rank + at))
                .map(|at| connections[at].0)
                .collect(),
        }
    }

    /// The builder has something to say.
    fn open_door(&mut self) -> Result<(), Unavailable> {
        let Door::Building { listener, builder } = std::mem::replace(&mut self.holding.door, Door::Closed)
        else {
            return Ok(());
        };
        match builder.finish() {
            Ok(namespaces) => {
                self.holding.handover.note_opened(&namespaces);
                self.holding.door = Door::Open { listener, namespaces };
                Ok(())
            }
            Err(unavailable) => {
                turn_away(&listener, &unavailable);
                Err(unavailable)
            }
        }
    }

    /// Lets a rank in that is at the door.
    fn admit(&mut self) {
        let Door::Open { listener, .. } = &self.holding.door else {
            return;
        };
        let connection = match accept_with(listener, SocketFlags::CLOEXEC) {
            Ok(connection) => connection,
            Err(errno) => {
                self.is_full = is_full(errno);
                return;
            }
        };
        if is_this_user(&connection) {
            self.holding.ranks.push(Rank::at(connection));
            self.holding.starter = None;
        }
    }

    /// A rank says something, or has executed its command, or has given up.
    fn hear_rank(&mut self, number: usize) {
        let Some(rank) = self.holding.ranks.get_mut(number) else {
            return;
        };
        let heard = rank.hear();
        // Another holder would know of a rank before the rank knows that it was let in.
        self.roll.note(number, &rank.record());
        if heard == Heard::Report {
            self.holding.write_reported(number);
        }
        let Some(rank) = self.holding.ranks.get_mut(number).filter(|_| heard == Heard::Join) else {
            return;
        };
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
    fn part(&mut self) {
        self.holding.forget_the_dead();
        if self.holding.is_deserted() && matches!(self.holding.door, Door::Open { .. }) {
            // Before it is: afterwards the descriptors' numbers may be those of others.
            self.holding.handover.settle(HandoverFact::Closed);
            self.holding.door = Door::Closed;
        }
    }

    /// Closes the descriptors of a dead server that no record names, and a dead holder's connections to ranks.
    fn close_unknown(&self, server: Option<&Lifeline>) {
        close_all_but(&self.known_descriptors(server).into_iter().collect::<Vec<_>>());
    }

    /// Waits until the threads of a dead server are dead that open and close descriptors. A killed thread that has no core is
    /// in the middle of its last call, which may close a descriptor by its number: until then that number must not be another
    /// file's. A call that takes longer waits for a file system, and names no descriptor any more.
    fn await_threads(&self) {
        let start = Instant::now();
        while !self.holding.handover.are_earlier_threads_dead() && start.elapsed() < LONGEST_WAIT_FOR_CORE {
            std::thread::sleep(BURIAL_PAUSE);
        }
    }

    /// Closes the descriptors of a dead server that no record names, and remembers the files that it had made. A call that
    /// is still carried out may open more: they are closed before the next server is forked, or found by that server.
    fn close_left(&mut self) {
        let known = self.known_descriptors(None);
        let mut left = open_descriptors();
        left.retain(|descriptor| *descriptor > 2 && !known.contains(descriptor));
        self.holding.made.take_in(&left);
        close_each(&left);
    }

    fn known_descriptors(&self, server: Option<&Lifeline>) -> HashSet<RawFd> {
        let mut known: HashSet<RawFd> = self.holding.descriptors().into_iter().collect();
        known.extend(server.map(Lifeline::descriptor));
        known.extend(self.holding.handover.descriptors());
        known
    }

    /// Waits until another server may be forked after one died.
    fn prepare_next(&mut self) -> Result<(), Errno> {
        // Earlier ones that could not be buried when they died.
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        let counters = Counters::attach(&self.holding.handover.counters);
        counters.lost(TakeoverEvent::Takeover);
        let progress = counters.progress();
        if progress != self.progress {
            (self.progress, self.patience) = (progress, RetryPatience::default());
            return Ok(());
        }
        match self.wait_for_better_times() {
            true => Ok(()),
            false => Err(if self.lacks_threads { Errno::AGAIN } else { Errno::CONNABORTED }),
        }
    }

    /// Pauses, unless that was done often enough.
    fn wait_for_better_times(&mut self) -> bool {
        let pause = self.patience.pause(self.holding.door.stage());
        pause.inspect(|pause| std::thread::sleep(*pause)).is_some()
    }

    /// The mount is gone.
    fn finish(&self) {
        self.holding.write_reports();
        self.holding.handover.settle(HandoverFact::Finished);
        self.holding.ranks.iter().for_each(|rank| rank.errands.run());
    }

    /// The namespace could not be made: the ranks that wait were told.
    fn fail(&self, _told: &Unavailable) {
        self.holding.handover.settle(HandoverFact::Finished);
    }

    /// No server can be had any more: the connection ends with us.
    fn give_up(&self, errno: Errno) {
        if let Door::Building { listener, .. } = &self.holding.door {
            turn_away(listener, &Unavailable::new(SetupStep::StartServer, errno));
        }
        self.finish();
    }
}

/// The events that [`Holder::wait`] saw.
#[derive(Debug)]
struct Ready {
    ended: bool,
    building: bool,
    door: bool,
    connections: Vec<usize>,
}

/// The pause between two looks at a process where the kernel has no descriptor for it.
const LOOK_AGAIN_NANOS: i64 = 200_000_000;
