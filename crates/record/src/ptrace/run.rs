//! The loop over a running command's stops: from each change of a thread to what is observed.

use super::births::{self, Nursery, Orphans};
use super::forward::Forwarding;
use super::joining::Joining;
use super::leftovers::LeftoverWait;
use super::memories::{Memories, MemoryLeft, MemoryUsers};
use super::placement::Placement;
use super::tracee::{ArgumentReader, Restoration, Tracee};
use super::waits::{Wait, keep_waiting};
use crate::engine::{BirthKind, LostCall, MemoryEnd, Observation, Observer, ThreadBirth};
use crate::error::{GaveWay, HinderedCall};
use crate::facts;
use crate::filter::{self, Rules};
use crate::pids::PidMap;
use crate::started::{CommandMoment, StartJudge};
use crate::sys::ptrace::{
    self, CallSide, Delivery, Entered, Entry, Group, Leaving, Making, Pause, Replaced, Return, Stopped,
    ThreadChange, ThreadStop, Until, WaitResult,
};
use quell_base::ProcessStat;
use quell_trace::{Call, Ended, Exit, Nanos, Outcome, Pid};
use std::collections::BTreeSet;
use std::io;
use std::time::{Duration, Instant};

/// The time between two looks at the judge. Short against every limit, and too long to cost anything.
pub(super) const TICK: Duration = Duration::from_millis(250);

/// The running command.
pub(super) struct TracedRun<'a> {
    pub(super) command: Pid,
    pub(super) exit: Option<Exit>,
    pub(super) began: Instant,
    pub(super) tracees: PidMap<Tracee>,
    pub(super) memories: Memories,
    pub(super) nursery: Nursery,
    /// Adopted threads, which no parent has reported.
    pub(super) adopted: BTreeSet<Pid>,
    pub(super) reader: ArgumentReader,
    /// Decides which calls are recorded, where no filter does.
    pub(super) rules: Option<Rules>,
    /// The stop to which threads run by default.
    pub(super) onward: Until,
    pub(super) judge: Option<StartJudge>,
    /// A call of the command would fail, or do something else, while it is traced.
    pub(super) is_in_the_way: bool,
    /// The time of the last look at the judge.
    pub(super) looked: Nanos,
    /// A signal stopped the command.
    pub(super) is_stopped: bool,
    pub(super) leftovers: LeftoverWait,
    /// The processes that ran already; `None` where the recorder started a command.
    pub(super) joining: Option<Joining>,
    pub(super) forwarding: &'a mut Forwarding,
    pub(super) placement: Placement,
    pub(super) observer: &'a mut dyn Observer,
}

impl<'a> TracedRun<'a> {
    pub(super) fn new(
        command: Pid,
        began: Instant,
        forwarding: &'a mut Forwarding,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let mut run = Self::without_command(began, forwarding, observer);
        run.command = command;
        let memory = run.memories.begin(command, None);
        run.tracees.insert(command, Tracee::new(command, memory));
        run.observer.observe(Observation::Born(births::first(command)));
        run
    }

    /// Observes no thread yet. No thread has the number 0.
    pub(super) fn without_command(
        began: Instant,
        forwarding: &'a mut Forwarding,
        observer: &'a mut dyn Observer,
    ) -> Self {
        Self {
            command: Pid(0),
            exit: None,
            began,
            tracees: PidMap::default(),
            memories: Memories::default(),
            nursery: Nursery::default(),
            adopted: BTreeSet::new(),
            reader: ArgumentReader::native(),
            rules: None,
            onward: Until::NextStop,
            judge: None,
            is_in_the_way: false,
            looked: Nanos(0),
            is_stopped: false,
            leftovers: LeftoverWait::default(),
            joining: None,
            forwarding,
            placement: Placement::new(),
            observer,
        }
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    pub(super) fn until_all_ended(&mut self) -> io::Result<Exit> {
        _ = self.until_over()?;
        // The kernel reports the end of every tracee, so the command's exit is known.
        Ok(self.exit.unwrap_or(Exit::Status(125)))
    }

    /// Handles changes until the judge says that the start is over; `None` when all threads have ended.
    pub(super) fn until_over(&mut self) -> io::Result<Option<Ended>> {
        loop {
            if let Some(ended) = self.verdict() {
                return Ok(Some(ended));
            }
            self.adopt(Orphans::Overdue)?;
            self.find_threads();
            match if self.nursery.is_empty() { ptrace::wait()? } else { ptrace::poll()? } {
                WaitResult::Changed(thread, change) => self.change(thread, change)?,
                WaitResult::AllEnded => return Ok(None),
                // No unread report of a parent is left at this point.
                WaitResult::Nothing if !self.nursery.is_empty() => {
                    self.adopt(Orphans::Forsaken)?;
                    self.nursery.wait();
                }
                WaitResult::Nothing => {}
            }
        }
    }

    /// The event that ends the recording now, if any.
    pub(super) fn verdict(&mut self) -> Option<Ended> {
        if self.is_wait_over() {
            match self.judge {
                Some(_) => return Some(Ended::Limit),
                None => self.end_leftovers(),
            }
        }
        if self.joining.is_some() && (self.is_in_the_way || self.is_asked_to_leave()) {
            return Some(Ended::Limit);
        }
        let judge = self.judge.as_mut()?;
        let leaves_processes = self.exit.is_some() && !self.tracees.is_empty();
        if self.is_in_the_way || leaves_processes && judge.ends_with_command() {
            return Some(Ended::Limit);
        }
        let now = Nanos(self.began.elapsed().as_nanos() as u64);
        if now.since(self.looked).0 < TICK.as_nanos() as u64 {
            return None;
        }
        self.looked = now;
        let on_a_name_since = self.tracees.values().filter_map(Tracee::on_a_name_since).min();
        let moment = CommandMoment { now, on_a_name_since, is_stopped: self.is_stopped };
        judge.verdict(moment, || self.tracees.keys().any(|&thread| sleeps_uninterruptibly(thread)))
    }

    pub(super) fn change(&mut self, thread: Pid, change: ThreadChange) -> io::Result<()> {
        if thread == self.command {
            self.is_stopped = matches!(change, ThreadChange::Stopped(ThreadStop::Group(..)));
        }
        if !self.join(thread, &change) {
            return Ok(());
        }
        match change {
            ThreadChange::Stopped(ThreadStop::Return(stopped)) if self.sees_both_sides(thread) => {
                self.side(stopped)
            }
            ThreadChange::Stopped(ThreadStop::Entry(stopped)) => self.entry(stopped),
            ThreadChange::Stopped(ThreadStop::Return(stopped)) => self.returned(stopped),
            ThreadChange::Stopped(ThreadStop::Leaving(stopped)) => self.leaving(stopped),
            change if !self.knows(thread, &change) => self.unknown(thread, change),
            ThreadChange::Ended(exit) => self.ended(thread, exit),
            ThreadChange::Stopped(ThreadStop::Making(stopped)) => self.making(stopped),
            ThreadChange::Stopped(ThreadStop::Replaced(stopped)) => self.replaced(stopped),
            ThreadChange::Stopped(ThreadStop::Delivery(stopped, signal)) => self.delivery(stopped, signal),
            ThreadChange::Stopped(ThreadStop::Group(stopped, signal)) => self.group(stopped, signal),
            ThreadChange::Stopped(ThreadStop::Pause(stopped)) => self.pause(stopped),
        }
    }

    /// True for a change of a reported thread. A process whose first thread had ended gets the first thread's number
    /// again when another of its threads executes.
    pub(super) fn knows(&self, thread: Pid, change: &ThreadChange) -> bool {
        self.tracees.contains_key(&thread)
            || matches!(change, ThreadChange::Stopped(ThreadStop::Replaced(stopped))
            if stopped.former().is_some_and(|former| self.tracees.contains_key(&former)))
    }

    /// True for a thread that stops before and after its call.
    fn sees_both_sides(&self, thread: Pid) -> bool {
        self.rules.is_some() || self.tracees.get(&thread).is_some_and(|tracee| tracee.wait.is_some())
    }

    /// A stop at a call, before it or after it, which no filter asked for.
    pub(super) fn side(&mut self, stopped: Stopped<Return>) -> io::Result<()> {
        let thread = stopped.thread();
        let Some(tracee) = self.tracees.get_mut(&thread) else {
            return self.unknown(thread, ThreadChange::Stopped(ThreadStop::Return(stopped)));
        };
        let Some(side) = stopped.side(tracee.is_inside) else { return Ok(()) };
        tracee.is_inside = matches!(side, CallSide::Begin(..));
        tracee.wait = match &side {
            CallSide::Begin(_, entered) => {
                let again = tracee.wait.and_then(|wait| wait.again(entered.stack));
                again.or_else(|| self.rules.is_some().then(Wait::begin))
            }
            CallSide::End(_, value) => tracee.wait.filter(|_| *value == -i64::from(libc::EINTR)),
        };
        let until = tracee.until(self.onward);
        match side {
            CallSide::Begin(stopped, entered) => match &self.rules {
                Some(rules) => match (facts::hindered(&entered), rules.word(&entered)) {
                    (Some(call), _) => {
                        let gave_way = GaveWay { process: tracee.process, call };
                        self.give_way(gave_way);
                        Ok(())
                    }
                    (None, Some(word)) => self.entered(stopped, Entered { word, ..entered }),
                    (None, None) => stopped.resume(until),
                },
                // The filter stops it once more if it is recorded.
                None => stopped.resume(until),
            },
            CallSide::End(stopped, value) => self.left(stopped, value),
        }
    }

    /// Ends the recording before a call, whose thread stays stopped until then and makes it untraced.
    fn give_way(&mut self, gave_way: GaveWay) {
        self.is_in_the_way = true;
        self.observer.observe(Observation::GaveWay(gave_way));
    }

    pub(super) fn entry(&mut self, stopped: Stopped<Entry>) -> io::Result<()> {
        let thread = stopped.thread();
        if !self.tracees.contains_key(&thread) {
            return self.unknown(thread, ThreadChange::Stopped(ThreadStop::Entry(stopped)));
        }
        match stopped.entered() {
            Some(entered) => self.entered(stopped, entered),
            None => Ok(()),
        }
    }

    pub(super) fn entered(&mut self, stopped: Stopped<Entry>, entered: Entered) -> io::Result<()> {
        let now = self.now();
        let thread = stopped.thread();
        let Some(tracee) = self.tracees.get_mut(&thread) else { return Ok(()) };
        let onward = tracee.until(self.onward);
        if entered.word == filter::AFFINITY {
            self.placement.release();
            return stopped.resume(onward);
        }
        if entered.word == filter::END {
            let users = tracee.memory.map(|memory| self.memories.users(memory));
            return self.ending(stopped, users);
        }
        self.placement.stopped(thread);
        if entered.word == filter::FOREIGN {
            self.observer.observe(Observation::Lost(LostCall::ForeignArchitecture));
            return stopped.resume(onward);
        }
        if self.reader.enter(tracee, &entered, now) {
            if self.joining.is_some() && tracee.opens(b"/dev/fuse") {
                let gave_way = GaveWay { process: tracee.process, call: HinderedCall::ServeFuse };
                self.give_way(gave_way);
                return Ok(());
            }
            let memory = tracee.memory.filter(|_| tracee.executes());
            let users = memory.map(|memory| self.memories.users(memory));
            if matches!(users, Some(MemoryUsers::Thread | MemoryUsers::Threads)) {
                self.observer.observe(Observation::Leaving { thread, reason: MemoryEnd::Execution });
            }
            return stopped.resume(Until::Return);
        }
        let hides = births::reveal_child(&stopped, &entered, tracee);
        stopped.resume(if hides { Until::Return } else { onward })
    }

    pub(super) fn returned(&mut self, stopped: Stopped<Return>) -> io::Result<()> {
        let thread = stopped.thread();
        if !self.tracees.contains_key(&thread) {
            return self.unknown(thread, ThreadChange::Stopped(ThreadStop::Return(stopped)));
        }
        match stopped.return_value() {
            Some(value) => self.left(stopped, value),
            None => Ok(()),
        }
    }

    pub(super) fn left(&mut self, stopped: Stopped<Return>, value: i64) -> io::Result<()> {
        let now = self.now();
        let thread = stopped.thread();
        let Some(tracee) = self.tracees.get_mut(&thread) else { return Ok(()) };
        tracee.restore(&stopped);
        let outcome = Outcome::from_return_value(value);
        if let Some(call) = tracee.leave(thread, outcome, now) {
            if let Some(judge) = &mut self.judge {
                judge.called(&call);
            }
            self.observer.observe(Observation::Called(call));
            if outcome.is_success() && matches!(call.call, Call::Execve | Call::Execveat) {
                self.observer.observe(Observation::Executed { thread, at: now, launched: None });
            }
        }
        stopped.resume(tracee.until(self.onward))
    }

    pub(super) fn making(&mut self, stopped: Stopped<Making>) -> io::Result<()> {
        let now = self.now();
        let parent = stopped.thread();
        let until = self.tracees.get(&parent).map_or(self.onward, |tracee| tracee.until(self.onward));
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
    pub(super) fn born(&mut self, birth: ThreadBirth, restoring: Option<Restoration>) -> io::Result<()> {
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

    pub(super) fn replaced(&mut self, stopped: Stopped<Replaced>) -> io::Result<()> {
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
        let Some(tracee) = self.tracees.get_mut(&process) else { return stopped.resume(self.onward) };
        if let Some(memory) = tracee.memory.replace(self.memories.begin(process, None)) {
            self.memories.leave(memory, process);
        }
        stopped.resume(tracee.until(self.onward))
    }

    pub(super) fn delivery(&mut self, stopped: Stopped<Delivery>, signal: i32) -> io::Result<()> {
        let Some(tracee) = self.tracees.get_mut(&stopped.thread()) else {
            return stopped.deliver(signal, self.onward);
        };
        keep_waiting(&stopped, &mut tracee.wait);
        let (process, until) = (tracee.process, tracee.until(self.onward));
        if process == self.command && self.forwarding.is_echo(signal, &stopped) {
            return stopped.resume(until);
        }
        stopped.deliver(signal, until)
    }

    pub(super) fn group(&mut self, stopped: Stopped<Group>, signal: i32) -> io::Result<()> {
        let thread = stopped.thread();
        stopped.listen()?;
        if thread == self.command {
            self.forwarding.stop_with(self.command, signal);
        }
        Ok(())
    }

    pub(super) fn pause(&mut self, stopped: Stopped<Pause>) -> io::Result<()> {
        let Some(tracee) = self.tracees.get_mut(&stopped.thread()) else {
            return stopped.resume(self.onward);
        };
        tracee.restore(&stopped);
        stopped.resume(tracee.until(self.onward))
    }

    /// A thread is about to end its process, which kills the other threads. A thread that is killed while it is resumed
    /// from another stop passes its last stop unseen, so the memory is inspected now.
    pub(super) fn ending(&mut self, stopped: Stopped<Entry>, users: Option<MemoryUsers>) -> io::Result<()> {
        if users == Some(MemoryUsers::Threads) {
            self.observer.observe(Observation::Leaving { thread: stopped.thread(), reason: MemoryEnd::End });
        }
        stopped.resume(self.onward)
    }

    /// A thread is about to end. An unreported thread is resumed too, because an `execve` may wait for its end.
    pub(super) fn leaving(&mut self, stopped: Stopped<Leaving>) -> io::Result<()> {
        let thread = stopped.thread();
        let tracee = self.tracees.get_mut(&thread);
        let left = tracee.and_then(|tracee| Some(self.memories.leave(tracee.memory.take()?, tracee.process)));
        if left == Some(MemoryLeft::Unused) {
            self.observer.observe(Observation::Leaving { thread, reason: MemoryEnd::End });
        }
        stopped.resume(self.onward)
    }

    pub(super) fn ended(&mut self, thread: Pid, exit: Exit) -> io::Result<()> {
        let now = self.now();
        let Some(mut tracee) = self.tracees.remove(&thread) else { return Ok(()) };
        self.placement.ended(thread);
        self.forget(thread, &mut tracee, exit, now);
        if self.joining.as_ref().is_some_and(|joining| joining.is_first(thread)) {
            self.exit = Some(exit);
        }
        if thread == self.command {
            self.exit = Some(exit);
            self.begin_to_wait();
        }
        if self.forwarding.target() == thread {
            let next = self.tracees.values().map(|tracee| tracee.process).min();
            self.forwarding.aim(next);
        }
        Ok(())
    }

    pub(super) fn forget(&mut self, thread: Pid, tracee: &mut Tracee, exit: Exit, at: Nanos) {
        if let Some(memory) = tracee.memory.take() {
            self.memories.leave(memory, tracee.process);
        }
        if let Some(call) = tracee.leave(thread, Outcome::Unfinished, at) {
            self.observer.observe(Observation::Called(call));
        }
        self.observer.observe(Observation::Ended { thread, at, exit });
    }

    /// Keeps the stop of a thread until its parent has reported it.
    pub(super) fn unknown(&mut self, thread: Pid, change: ThreadChange) -> io::Result<()> {
        self.nursery.put(thread, change);
        Ok(())
    }

    /// Adopts threads whose parents were killed before they could report them.
    pub(super) fn adopt(&mut self, which: Orphans) -> io::Result<()> {
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

/// True while a thread waits in the kernel, as for a page of a mapped file.
pub(super) fn sleeps_uninterruptibly(thread: Pid) -> bool {
    ProcessStat::read(thread).is_some_and(|stat| stat.state() == Some('D'))
}
