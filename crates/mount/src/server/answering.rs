//! The server process: threads that answer, notify and fetch, and one that stands by for the holder.
//!
//! It begins where the one before it stopped: tables and the numbers of descriptors from the
//! [`HandoverMemory`](super::handover::HandoverMemory), and in each thread's slot the request that may not have been
//! answered. When the holder dies, the thread that stands by forks another one and ends the server; [`super::holder`] says
//! why.
//!
//! The process' first thread only keeps the lifeline, see [`super::lifeline`].

use std::convert::Infallible;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, set_parent_process_death_signal};

use super::frozen::parts::push_queued;
use super::handover::HandoverFact;
use super::holder::hold;
use super::holding::{Holding, MountStage, NO_THREADS, ServerStart};
use super::lifeline::{Lifeline, keep_alone};
use super::live::locks::grant_locks;
use super::notifier::{Forget, Notifier};
use super::notifying::notify;
use super::serving::Server;
use super::slots::{Death, Slot};
use crate::lock;
use crate::sys::process::{
    Forked, PARENT_DIED, SingleThreaded, exit_now, fork_among_threads, keep_for_this_thread,
    wait_for_parent_signal,
};

/// Answers until the mount is gone. This is the process' one thread at first, and does nothing but start another one: the
/// C library does not know its number, see [`fork_sharing_descriptors`](crate::sys::process::fork_sharing_descriptors).
pub(crate) fn answer(start: ServerStart, alone: &SingleThreaded) -> ! {
    let _name_stays = rustix::thread::set_name(c"quell-server");
    let ServerStart { holding, lifeline: (read_end, write_end), holder, death } = start;
    holding.handover.release_slots(alone);
    let (settled, is_settled) = channel();
    let lifeline = Lifeline::of_server(read_end);
    if spawn(move || begin(holding, lifeline, holder, death, &is_settled)).is_none() {
        exit_now(NO_THREADS);
    }
    if keep_alone(&write_end).is_err() || settled.send(()).is_err() {
        exit_now(NO_THREADS);
    }
    loop {
        rustix::event::pause();
    }
}

/// The life of the thread that stands by: it starts all others.
fn begin(holding: Holding, lifeline: Lifeline, holder: Pid, death: Option<Death>, is_settled: &Receiver<()>) {
    // The kernel may keep a thread of ours from ending. None starts before the holder can see how this server fares.
    let _first_thread_lives = is_settled.recv();
    holding.handover.wait_for_earlier_threads();
    holding.memory.take_over();
    let (notifier, jobs) = Notifier::new();
    let server = Arc::new(Server::new(&holding, notifier, death));
    holding.handover.slots.iter().for_each(|slot| server.expect_left(slot));
    if start_threads(works(&server, &holding, jobs), holding.door.stage()).is_none() {
        exit_now(NO_THREADS);
    }
    StandBy { holding, server, lifeline }.until_the_death_of(holder);
}

/// The life of a thread.
type Work = Box<dyn FnOnce() + Send>;

/// Threads that answer, fetch, free memory, notify, push and grant locks. With the first alone, most requests are answered.
///
/// Those that notify and push wait in the kernel for locks that a program may hold while it waits for an answer; killed,
/// they die only after it has one. So they have descriptors of their own, since descriptors that the next server closes
/// would otherwise stay open.
fn works(server: &Arc<Server>, holding: &Holding, jobs: Receiver<Forget>) -> Vec<Work> {
    let mut works: Vec<Work> = Vec::new();
    let slots = holding.handover.slots.iter().zip(&holding.handover.tenures);
    let mut answering = slots.map(|(memory, tenure)| -> Work {
        let (server, ended) = (Arc::clone(server), Arc::clone(&holding.ended));
        let (memory, tenure) = (Arc::clone(memory), tenure.clone());
        Box::new(move || {
            tenure.take();
            if let Some(slot) = Slot::take(&memory) {
                server.serve(slot);
                let _holder_is_gone = rustix::io::write(&*ended, &1_u64.to_ne_bytes());
            }
        })
    });
    works.extend(answering.next());
    for _ in 0..server.packed.memory.fetchers() {
        let memory = Arc::clone(&server.packed.memory);
        works.push(Box::new(move || memory.fetch_all()));
    }
    if server.packed.memory.fetchers() > 0 {
        let (memory, tenure) = (Arc::clone(&server.packed.memory), holding.handover.dismissing.clone());
        works.push(Box::new(move || {
            tenure.take();
            memory.dismiss_given();
        }));
    }
    let notifying = Arc::clone(server);
    works.push(Box::new(move || {
        let _dies_with_the_others = keep_for_this_thread(&[notifying.device.descriptor()]);
        notify(&notifying, &jobs);
    }));
    let (pushing, device) = (Arc::clone(&server.frozen), Arc::clone(&server.device));
    let mut descriptors = server.packed.memory.descriptors();
    descriptors.push(device.descriptor());
    works.push(Box::new(move || {
        let _dies_with_the_others = keep_for_this_thread(&descriptors);
        push_queued(&pushing);
    }));
    let (granting, tenure) = (Arc::clone(&server.live), holding.handover.granting.clone());
    works.push(Box::new(move || {
        tenure.take();
        grant_locks(&granting);
    }));
    works.extend(answering);
    works
}

/// Starts a thread for each work. Returns once all have begun; `None` where one that is needed cannot be had.
///
/// Before commands use the mount, all are needed, and none works before all have begun: an answer would let a command start
/// below a mount whose server cannot be replaced. Afterwards the first is needed, and the others follow when the system
/// allows them.
fn start_threads(works: Vec<Work>, stage: MountStage) -> Option<()> {
    let needs_all = stage == MountStage::BeforeCommands;
    let gate = Arc::new(RwLock::new(()));
    let closed = needs_all.then(|| gate.write());
    let (begun, all_have_begun) = channel::<Infallible>();
    for (number, work) in works.into_iter().enumerate() {
        let work = Arc::new(Mutex::new(Some(work)));
        loop {
            let (work, gate, begun) = (Arc::clone(&work), Arc::clone(&gate), begun.clone());
            let thread = spawn(move || {
                drop(begun);
                drop(gate.read());
                let work = lock(&work).take();
                work.into_iter().for_each(|work| work());
            });
            match thread {
                Some(()) => break,
                None if needs_all || number == 0 => return None,
                None => std::thread::sleep(PAUSE),
            }
        }
    }
    drop(begun);
    // The caller forks after this: a thread that begins holds a lock of the standard library, which would stay locked in the
    // child.
    _ = all_have_begun.recv();
    drop(closed);
    Some(())
}

fn spawn(work: impl FnOnce() + Send + 'static) -> Option<()> {
    std::thread::Builder::new().stack_size(STACK).spawn(work).ok().map(|_runs_alone| ())
}

/// Stack of each thread; nothing recurses.
const STACK: usize = 256 << 10;

/// The things that a thread needs to replace the holder. Nothing of it is ever dropped here: the descriptors are the holder's too.
#[derive(Debug)]
struct StandBy {
    holding: Holding,
    server: Arc<Server>,
    lifeline: Lifeline,
}

impl StandBy {
    /// Waits for the holder's death, and ends this process then: in favour of another holder, unless all is over.
    ///
    /// This thread asks for the signal, because it asks for the parent when the signal comes. When a process dies, the kernel gives the
    /// threads of its children another parent one by one, and signals each thread that asked right after that: an answer to another
    /// thread's signal could still be the dead parent. Source: `forget_original_parent` in the kernel's `kernel/exit.c`.
    fn until_the_death_of(self, holder: Pid) -> ! {
        let _looked_at_once_more = set_parent_process_death_signal(Some(PARENT_DIED));
        while rustix::process::getppid() == Some(holder) {
            wait_for_parent_signal();
        }
        if self.holding.handover.is_settled(HandoverFact::Finished) {
            exit_now(0);
        }
        loop {
            if self.fork_holder().is_ok() {
                self.become_holder();
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Forks, while no other thread holds a lock that the child needs, and no descriptor comes or goes that a record
    /// names: the child has copies of those that are open at this moment. Returns in the child only.
    fn fork_holder(&self) -> Result<(), Errno> {
        let _descriptors = self.server.pause_records();
        let _quiet = self.holding.memory.pause();
        match fork_among_threads()? {
            Forked::Parent(_) => exit_now(0),
            Forked::Child => Ok(()),
        }
    }

    /// The life of a holder that a server forked. The server itself, which has no threads here, is never touched again.
    fn become_holder(self) -> ! {
        let Self { holding, server, lifeline } = self;
        std::mem::forget(server);
        if let Some(alone) = SingleThreaded::verify() {
            hold(holding.inherit(), Some(lifeline), &alone, answer);
        }
        exit_now(0)
    }
}

/// The pause before a failed fork, or a thread that cannot be had, is tried again.
const PAUSE: Duration = Duration::from_millis(100);
