//! The engine that observes with ptrace and a seccomp filter: two stops for each call of the set, none for others.
//!
//! ```text
//! recorder                                child
//! fork ---------------------------------> waits at a pipe
//! PTRACE_SEIZE
//! release ------------------------------> installs the filter, execve
//! wait: before a call of the set <------- seccomp stop
//!   arguments, paths; PTRACE_SYSCALL ---> the kernel does the call
//! wait: after the call <----------------- stop at its return
//!   result; PTRACE_CONT ----------------> runs at full speed to the next call of the set
//! wait: a thread ends <------------------ stop with its memory still there
//!   of the last: which pages; CONT -----> ends
//! ```
//!
//! The engine refuses no call: a call that it cannot interpret runs on and is counted. Once the filter is installed the
//! recorder must stay until the last process has ended, because without a tracer the kernel fails every call that the
//! filter stops.

mod attach;
mod births;
mod forward;
mod memories;
mod placement;
mod tracee;

use crate::engine::{Birth, BirthKind, Engine, Leave, Loss, Observation, Observer};
use crate::pids::PidMap;
use crate::sys::ptrace::{
    self, Change, Delivery, Entry, Group, Leaving, Making, News, Pause, Replaced, Return, Stop, Stopped,
    Until,
};
use crate::sys::spawn::Program;
use crate::{RecordError, filter};
use attach::Attached;
use births::{Nursery, Orphans};
use forward::Forwarding;
use memories::{Left, Memories, Users};
use placement::Placement;
use quell_trace::{Call, Exit, Nanos, Outcome, Pid};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Instant;
use tracee::{Reader, Tracee};

/// Records a command with ptrace.
#[derive(Debug)]
pub(crate) struct Ptrace {
    attached: Attached,
    program: PathBuf,
    began: Instant,
}

impl Ptrace {
    /// Creates the command's process, which waits, and attaches to it.
    ///
    /// # Errors
    /// [`RecordError::Barred`] where the system forbids ptrace.
    pub(crate) fn attach(program: &Program) -> Result<Self, RecordError> {
        let attached = Attached::new(program)?;
        let file = OsStr::from_bytes(program.file.as_bytes());
        Ok(Self { attached, program: file.into(), began: Instant::now() })
    }
}

impl Engine for Ptrace {
    fn name(&self) -> &'static str {
        "ptrace"
    }

    fn run(self, observer: &mut dyn Observer) -> Result<Exit, RecordError> {
        let Self { attached, program, began } = self;
        let command = attached.command();
        let (forwarding, failure) = attached.release()?;
        let mut run = Run::new(command, began, forwarding, observer);
        let exit = run.until_all_ended().map_err(|source| RecordError::Start { action: "wait", source });
        drop(run);
        attach::explain_failure(failure, &program)?;
        exit
    }
}

/// The running command.
struct Run<'a> {
    command: Pid,
    exit: Option<Exit>,
    began: Instant,
    tracees: PidMap<Tracee>,
    memories: Memories,
    nursery: Nursery,
    /// Adopted threads, which no parent has reported.
    adopted: BTreeSet<Pid>,
    reader: Reader,
    forwarding: Forwarding,
    placement: Placement,
    observer: &'a mut dyn Observer,
}

impl<'a> Run<'a> {
    fn new(command: Pid, began: Instant, forwarding: Forwarding, observer: &'a mut dyn Observer) -> Self {
        let mut run = Self {
            command,
            exit: None,
            began,
            tracees: PidMap::default(),
            memories: Memories::default(),
            nursery: Nursery::default(),
            adopted: BTreeSet::new(),
            reader: Reader::native(),
            forwarding,
            placement: Placement::new(),
            observer,
        };
        let memory = run.memories.begin(command, None);
        run.tracees.insert(command, Tracee::new(command, memory));
        run.observer.observe(Observation::Born(births::first(command)));
        run
    }

    fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    fn until_all_ended(&mut self) -> io::Result<Exit> {
        while let Some((thread, change)) = self.next()? {
            self.change(thread, change)?;
        }
        // The kernel reports the end of every tracee, so the command's exit is known.
        Ok(self.exit.unwrap_or(Exit::Status(125)))
    }

    /// The next change; `None` when all threads have ended.
    fn next(&mut self) -> io::Result<Option<(Pid, Change)>> {
        loop {
            self.adopt(Orphans::Overdue)?;
            match if self.nursery.is_empty() { ptrace::wait()? } else { ptrace::poll()? } {
                News::Changed(thread, change) => return Ok(Some((thread, change))),
                News::AllEnded => return Ok(None),
                // No unread report of a parent is left at this point.
                News::Nothing => {
                    self.adopt(Orphans::Forsaken)?;
                    self.nursery.wait();
                }
            }
        }
    }

    fn change(&mut self, thread: Pid, change: Change) -> io::Result<()> {
        match change {
            Change::Stopped(Stop::Entry(stopped)) => self.entry(stopped),
            Change::Stopped(Stop::Return(stopped)) => self.returned(stopped),
            Change::Stopped(Stop::Leaving(stopped)) => self.leaving(stopped),
            change if !self.knows(thread, &change) => self.unknown(thread, change),
            Change::Ended(exit) => self.ended(thread, exit),
            Change::Stopped(Stop::Making(stopped)) => self.making(stopped),
            Change::Stopped(Stop::Replaced(stopped)) => self.replaced(stopped),
            Change::Stopped(Stop::Delivery(stopped, signal)) => self.delivery(stopped, signal),
            Change::Stopped(Stop::Group(stopped, signal)) => self.group(stopped, signal),
            Change::Stopped(Stop::Pause(stopped)) => self.pause(stopped),
        }
    }

    /// True for a change of a reported thread. A process whose first thread had ended gets the first thread's number
    /// again when another of its threads executes.
    fn knows(&self, thread: Pid, change: &Change) -> bool {
        self.tracees.contains_key(&thread)
            || matches!(change, Change::Stopped(Stop::Replaced(stopped))
            if stopped.former().is_some_and(|former| self.tracees.contains_key(&former)))
    }

    fn entry(&mut self, stopped: Stopped<Entry>) -> io::Result<()> {
        let now = self.now();
        let thread = stopped.thread();
        let Some(tracee) = self.tracees.get_mut(&thread) else {
            return self.unknown(thread, Change::Stopped(Stop::Entry(stopped)));
        };
        let Some(entered) = stopped.entered() else { return Ok(()) };
        if entered.word == filter::AFFINITY {
            self.placement.release();
            return stopped.resume(Until::NextStop);
        }
        if entered.word == filter::END {
            let users = tracee.memory.map(|memory| self.memories.users(memory));
            return self.ending(stopped, users);
        }
        self.placement.stopped(thread);
        if entered.word == filter::FOREIGN {
            self.observer.observe(Observation::Lost(Loss::ForeignArchitecture));
            return stopped.resume(Until::NextStop);
        }
        if self.reader.enter(tracee, &entered, now) {
            let memory = tracee.memory.filter(|_| tracee.executes());
            let users = memory.map(|memory| self.memories.users(memory));
            if matches!(users, Some(Users::Thread | Users::Threads)) {
                self.observer.observe(Observation::Leaving { thread, reason: Leave::Execution });
            }
            return stopped.resume(Until::Return);
        }
        let hides = births::reveal_child(&stopped, &entered, tracee);
        stopped.resume(if hides { Until::Return } else { Until::NextStop })
    }

    fn returned(&mut self, stopped: Stopped<Return>) -> io::Result<()> {
        let now = self.now();
        let thread = stopped.thread();
        let Some(tracee) = self.tracees.get_mut(&thread) else {
            return self.unknown(thread, Change::Stopped(Stop::Return(stopped)));
        };
        let Some(value) = stopped.return_value() else { return Ok(()) };
        tracee.restore(&stopped);
        let outcome = Outcome::from_return_value(value);
        if let Some(call) = tracee.leave(thread, outcome, now) {
            self.observer.observe(Observation::Called(call));
            if outcome.is_success() && matches!(call.call, Call::Execve | Call::Execveat) {
                self.observer.observe(Observation::Executed { thread, at: now });
            }
        }
        stopped.resume(Until::NextStop)
    }

    fn making(&mut self, stopped: Stopped<Making>) -> io::Result<()> {
        let now = self.now();
        let parent = stopped.thread();
        let until = self.tracees.get(&parent).map_or(Until::NextStop, Tracee::until);
        let Some(child) = stopped.made() else { return Ok(()) };
        self.placement.made(parent, child);
        // The report of an adopted thread may come even after its end.
        if self.adopted.remove(&child) || self.tracees.contains_key(&child) {
            return stopped.resume(until);
        }
        let flags = births::clone_flags(&stopped);
        let restoring = self.tracees.get(&parent).and_then(Tracee::restoration);
        let birth = births::birth(child, parent, flags, now);
        stopped.resume(until)?;
        self.born(birth, restoring)
    }

    /// Registers a thread and handles its earlier stop.
    fn born(&mut self, birth: Birth, restoring: Option<tracee::Restoration>) -> io::Result<()> {
        let parent = self.tracees.get(&birth.parent.unwrap_or(self.command));
        let process = match birth.kind {
            BirthKind::Process => birth.thread,
            BirthKind::Thread => parent.map_or(birth.thread, |parent| parent.process),
        };
        let shared = parent.and_then(|parent| parent.memory).filter(|_| birth.shares_memory);
        let memory = self.memories.begin(process, shared);
        let mut tracee = Tracee::new(process, memory);
        tracee.restore_later(restoring);
        self.tracees.insert(birth.thread, tracee);
        self.observer.observe(Observation::Born(birth));
        match self.nursery.take(birth.thread) {
            Some(change) => self.change(birth.thread, change),
            None => Ok(()),
        }
    }

    fn replaced(&mut self, stopped: Stopped<Replaced>) -> io::Result<()> {
        let now = self.now();
        let process = stopped.thread();
        let former = stopped.former().filter(|&former| former != process);
        if let Some(former) = former
            && let Some(caller) = self.tracees.remove(&former)
        {
            if let Some(mut first) = self.tracees.insert(process, caller) {
                self.forget(process, &mut first, Exit::Status(0), now);
            }
            self.placement.renamed(former, process);
            self.observer.observe(Observation::Renamed { from: former, to: process });
        }
        let Some(tracee) = self.tracees.get_mut(&process) else { return stopped.resume(Until::NextStop) };
        if let Some(memory) = tracee.memory.replace(self.memories.begin(process, None)) {
            self.memories.leave(memory, process);
        }
        stopped.resume(tracee.until())
    }

    fn delivery(&mut self, stopped: Stopped<Delivery>, signal: i32) -> io::Result<()> {
        let process = self.tracees.get(&stopped.thread()).map(|tracee| tracee.process);
        if process == Some(self.command) && self.forwarding.is_echo(signal, &stopped) {
            return stopped.resume(Until::NextStop);
        }
        stopped.deliver(signal)
    }

    fn group(&mut self, stopped: Stopped<Group>, signal: i32) -> io::Result<()> {
        let thread = stopped.thread();
        stopped.listen()?;
        if thread == self.command {
            self.forwarding.stop_with(self.command, signal);
        }
        Ok(())
    }

    fn pause(&mut self, stopped: Stopped<Pause>) -> io::Result<()> {
        if let Some(tracee) = self.tracees.get_mut(&stopped.thread()) {
            tracee.restore(&stopped);
        }
        stopped.resume(Until::NextStop)
    }

    /// A thread is about to end its process, which kills the other threads. A thread that is killed while it is resumed
    /// from another stop passes its last stop unseen, so the memory is inspected now.
    fn ending(&mut self, stopped: Stopped<Entry>, users: Option<Users>) -> io::Result<()> {
        if users == Some(Users::Threads) {
            self.observer.observe(Observation::Leaving { thread: stopped.thread(), reason: Leave::End });
        }
        stopped.resume(Until::NextStop)
    }

    /// A thread is about to end. An unreported thread is resumed too, because an `execve` may wait for its end.
    fn leaving(&mut self, stopped: Stopped<Leaving>) -> io::Result<()> {
        let thread = stopped.thread();
        let tracee = self.tracees.get_mut(&thread);
        let left = tracee.and_then(|tracee| Some(self.memories.leave(tracee.memory.take()?, tracee.process)));
        if left == Some(Left::Unused) {
            self.observer.observe(Observation::Leaving { thread, reason: Leave::End });
        }
        stopped.resume(Until::NextStop)
    }

    fn ended(&mut self, thread: Pid, exit: Exit) -> io::Result<()> {
        let now = self.now();
        let Some(mut tracee) = self.tracees.remove(&thread) else { return Ok(()) };
        self.placement.ended(thread);
        self.forget(thread, &mut tracee, exit, now);
        if thread == self.command {
            self.exit = Some(exit);
        }
        if self.forwarding.target() == thread {
            let next = self.tracees.values().map(|tracee| tracee.process).min();
            self.forwarding.aim(next);
        }
        Ok(())
    }

    fn forget(&mut self, thread: Pid, tracee: &mut Tracee, exit: Exit, at: Nanos) {
        if let Some(memory) = tracee.memory.take() {
            self.memories.leave(memory, tracee.process);
        }
        if let Some(call) = tracee.leave(thread, Outcome::Unfinished, at) {
            self.observer.observe(Observation::Called(call));
        }
        self.observer.observe(Observation::Ended { thread, at, exit });
    }

    /// Keeps the stop of a thread until its parent has reported it.
    fn unknown(&mut self, thread: Pid, change: Change) -> io::Result<()> {
        self.nursery.put(thread, change);
        Ok(())
    }

    /// Adopts threads whose parents were killed before they could report them.
    fn adopt(&mut self, which: Orphans) -> io::Result<()> {
        if self.nursery.is_empty() {
            return Ok(());
        }
        for thread in self.nursery.orphans(which) {
            let is_traced = |pid| self.tracees.contains_key(&pid);
            match births::orphan(thread, is_traced, self.command, self.now()) {
                Some(birth) => {
                    self.placement.adopted(thread, birth.parent);
                    self.adopted.insert(thread);
                    self.born(birth, None)?;
                }
                // The thread has ended too, and its number may be reused.
                None => _ = self.nursery.take(thread),
            }
        }
        Ok(())
    }
}
