//! The server process: threads that answer, notify and fetch, and a main thread that stands by for the holder.
//!
//! It begins where the one before it stopped: tables from the [`Estate`](super::estate::Estate), descriptors from the
//! holder, and in each thread's slot the request that may not have been answered. When the holder dies, the main
//! thread forks another one; it knows as much as the old one, which told it.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions};

use super::Server;
use super::estate::Fact;
use super::holder::{Door, Holding, Kept, ServerProcess, hold};
use super::locks::grant_locks;
use super::notifier::{Forget, Notifier, notify};
use super::pusher::push_queued;
use super::ranks::Rank;
use super::slots::{Death, Slot};
use crate::message::{FromHolder, receive};
use crate::namespace::Namespaces;
use crate::sys::process::{
    Forked, SingleThreaded, close_all_but, exit_now, fork_among_threads, keep_for_this_thread,
};

/// What a server begins with.
#[derive(Debug)]
pub(crate) struct Heir {
    pub(crate) holding: Holding,
    /// Descriptors that belong to nodes.
    pub(crate) kept: Vec<Kept>,
    /// To the holder.
    pub(crate) connection: Arc<OwnedFd>,
    /// How the server before this one died, if there was one.
    pub(crate) death: Option<Death>,
}

/// Answers until the mount is gone. This is the process' one thread at first.
pub(crate) fn answer(heir: Heir, alone: &SingleThreaded) {
    let _name_stays = rustix::thread::set_name(c"quell-server");
    let Heir { mut holding, kept, connection, death } = heir;
    // These are the holder's: a rank must see when that one dies.
    holding.ranks.iter_mut().for_each(|rank| rank.connection = None);
    holding.estate.forsake(alone);
    holding.memory.take_over();
    let (notifier, jobs) = Notifier::new();
    drop(kept);
    let server = Arc::new(Server::new(&holding, notifier, death));
    if start_threads(&server, &holding, jobs).is_none() {
        exit_now(NO_THREADS);
    }
    Main { holding, server, connection, holder: None }.stand_by();
}

/// Starts the threads that answer, notify, push and fetch.
///
/// Those that notify and push wait in the kernel for locks that a program may hold while it waits for an answer; killed,
/// they die only after it has one. So they have descriptors of their own: those of all other threads are closed when
/// the process is killed, the connection to the holder among them, which then forks the server that answers.
fn start_threads(
    server: &Arc<Server>,
    holding: &Holding,
    jobs: std::sync::mpsc::Receiver<Forget>,
) -> Option<()> {
    for memory in &holding.estate.slots {
        let (server, ended) = (Arc::clone(server), Arc::clone(&holding.ended));
        let memory = Arc::clone(memory);
        spawn(move || {
            if let Some(slot) = Slot::take(&memory) {
                server.serve(slot);
                let _holder_is_gone = rustix::io::write(&*ended, &1_u64.to_ne_bytes());
            }
        })?;
    }
    let notifying = Arc::clone(server);
    spawn(move || {
        let _dies_with_the_others = keep_for_this_thread(&[notifying.device.descriptor()]);
        notify(&notifying, &jobs);
    })?;
    let pushing = Arc::clone(server);
    spawn(move || {
        let mut descriptors = pushing.memory.descriptors();
        descriptors.push(pushing.device.descriptor());
        let _dies_with_the_others = keep_for_this_thread(&descriptors);
        push_queued(&pushing);
    })?;
    let granting = Arc::clone(server);
    spawn(move || grant_locks(&granting))?;
    for _ in 0..server.memory.fetchers() {
        let memory = Arc::clone(&server.memory);
        spawn(move || memory.fetch_all())?;
    }
    Some(())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Option<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(work).ok().map(|_runs_alone| ())
}

/// Exit status of a server that could not start its threads: no request was the cause.
pub(crate) const NO_THREADS: i32 = 1;

/// Stack of each thread; nothing recurses.
const STACK: usize = 256 << 10;

/// The main thread.
#[derive(Debug)]
struct Main {
    holding: Holding,
    server: Arc<Server>,
    /// To the holder.
    connection: Arc<OwnedFd>,
    /// If it is a child.
    holder: Option<Pid>,
}

impl Main {
    /// Keeps up with the holder and replaces it when it dies. Returns only in a process that became a holder, when
    /// that one has finished.
    fn stand_by(mut self) {
        loop {
            if let Ok(Some((message, descriptors))) = receive::<FromHolder>(&*self.connection) {
                self.follow(message, descriptors);
                continue;
            }
            self.bury_holder();
            if self.holding.estate.is_settled(Fact::Finished) {
                exit_now(0);
            }
            self = match self.replace_holder() {
                Some(standing_by) => standing_by,
                None => return,
            };
        }
    }

    /// Notes what the holder says.
    fn follow(&mut self, message: FromHolder, descriptors: Vec<OwnedFd>) {
        let holding = &mut self.holding;
        match message {
            FromHolder::Opened => {
                let door = std::mem::replace(&mut holding.door, Door::Closed);
                if let (Door::Building { listener, .. }, Some(namespaces)) =
                    (door, Namespaces::from_descriptors(descriptors))
                {
                    holding.door = Door::Open { listener, namespaces };
                }
            }
            FromHolder::Rank(number, record) => {
                holding.starter = None;
                // They speak in another order than they come in.
                while holding.ranks.len() <= number {
                    holding.ranks.push(Rank::silent());
                }
                holding.ranks[number] = Rank::from_record(record);
            }
            FromHolder::Closed => holding.door = Door::Closed,
        }
    }

    /// Nobody else waits for a holder that this process forked.
    fn bury_holder(&mut self) {
        if let Some(pid) = self.holder.take() {
            let _reaped = rustix::process::waitpid(Some(pid), WaitOptions::empty());
        }
    }

    /// Forks another holder. `None` in that one, when it has finished.
    fn replace_holder(self) -> Option<Self> {
        loop {
            if let Ok(pair) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                && let Ok((forked, connections, kept)) = self.fork_holder(pair)
            {
                return match forked {
                    Forked::Parent(pid) => {
                        Some(Self { connection: connections.0, holder: Some(pid), ..self })
                    }
                    Forked::Child => {
                        self.become_holder(connections, kept);
                        None
                    }
                };
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Forks, while no other thread holds a lock that the child needs.
    #[allow(clippy::type_complexity, reason = "both sides of a fork need all of it")]
    fn fork_holder(
        &self,
        (near, far): (OwnedFd, OwnedFd),
    ) -> Result<(Forked, (Arc<OwnedFd>, OwnedFd), Vec<Kept>), Errno> {
        let near = Arc::new(near);
        // Whoever wants to tell the holder something waits until there is one.
        let kept = Vec::new();
        let quiet = self.holding.memory.pause();
        let forked = fork_among_threads()?;
        drop(quiet);
        Ok((forked, (near, far), kept))
    }

    /// The life of a holder that a server forked. The server's descriptors are closed, but for those that a holder
    /// has; the server itself, which has no threads here, is never touched again.
    fn become_holder(self, (near, far): (Arc<OwnedFd>, OwnedFd), kept: Vec<Kept>) {
        let Self { holding, server, connection, .. } = self;
        std::mem::forget((server, connection, near));
        let mut descriptors = holding.descriptors();
        descriptors.push(far.as_raw_fd());
        descriptors.extend(kept.iter().map(|(_, held)| held.descriptor.as_raw_fd()));
        close_all_but(&descriptors);
        if let Some(alone) = SingleThreaded::verify() {
            hold(holding, kept, Some(ServerProcess { connection: far, pid: None }), &alone);
        }
    }
}

/// Before a fork is tried again that failed.
const PAUSE: Duration = Duration::from_millis(100);
