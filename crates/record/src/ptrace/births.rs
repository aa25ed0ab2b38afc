//! New threads and processes: their parents, and the state that they share.
//!
//! A child may stop before its parent's stop has reported it. Such a child waits in the [`Nursery`]. The parent may
//! also be killed before it reports: the recorder then adopts the child, so that it does not wait for ever.

use super::tracee::{Restoration, Tracee, set_first_argument};
use crate::calls::{CLONE3, native};
use crate::engine::{BirthKind, ThreadBirth};
use crate::filter::CLONE_UNTRACED;
use crate::sys::memory;
use crate::sys::ptrace::{Entered, Entry, Making, Stopped, ThreadChange};
use quell_base::ProcessStat;
use quell_trace::flags::{CLONE_FILES, CLONE_FS, CLONE_THREAD, CLONE_VM};
use quell_trace::{Nanos, Pid};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The command's first thread.
pub(crate) fn first(thread: Pid) -> ThreadBirth {
    ThreadBirth {
        thread,
        parent: None,
        kind: BirthKind::Process,
        shares_files: false,
        shares_directory: false,
        shares_memory: false,
        at: Nanos(0),
    }
}

/// A thread that its parent reported.
pub(super) fn birth(thread: Pid, parent: Pid, flags: u64, at: Nanos) -> ThreadBirth {
    ThreadBirth {
        thread,
        parent: Some(parent),
        kind: if flags & CLONE_THREAD == 0 { BirthKind::Process } else { BirthKind::Thread },
        shares_files: flags & CLONE_FILES != 0,
        shares_directory: flags & CLONE_FS != 0,
        shares_memory: flags & CLONE_VM != 0,
        at,
    }
}

/// A thread whose parent can no longer report the state that they share. `None` when the thread is gone.
pub(super) fn orphan(
    thread: Pid,
    is_traced: impl Fn(Pid) -> bool,
    command: Pid,
    at: Nanos,
) -> Option<ThreadBirth> {
    let relations = Relations::read(thread)?;
    let parent = Some(relations.reporter(thread)).filter(|&parent| is_traced(parent)).unwrap_or(command);
    let is_process = relations.group == thread;
    Some(birth(thread, parent, if is_process { 0 } else { WHOLE_THREAD }, at))
}

/// The state that every thread of a C library shares.
const WHOLE_THREAD: u64 = CLONE_THREAD | CLONE_VM | CLONE_FILES | CLONE_FS;

/// The flags that a thread passed to `fork`, `vfork`, `clone` or `clone3`.
pub(super) fn clone_flags(stopped: &Stopped<Making>) -> u64 {
    let Ok(registers) = stopped.registers() else { return 0 };
    let number = registers.call_number();
    if number == u64::from(native::CLONE) {
        return registers.argument(0);
    }
    if number == u64::from(CLONE3) {
        return memory::read_word(stopped.thread(), registers.argument(0)).unwrap_or(0);
    }
    if native::VFORK.is_some_and(|vfork| number == u64::from(vfork)) { CLONE_VM } else { 0 }
}

/// Removes the flag that would hide a child from the recorder; without a tracer the filter would fail the child's
/// calls. Returns true if the flag was set. It must be restored when the call returns.
pub(super) fn reveal_child(stopped: &Stopped<Entry>, entered: &Entered, tracee: &mut Tracee) -> bool {
    let hidden = u64::from(CLONE_UNTRACED);
    let argument = entered.arguments[0];
    let restoration = if entered.number == u64::from(native::CLONE) {
        set_first_argument(stopped, argument & !hidden).then_some(Restoration::Argument(argument))
    } else {
        memory::read_word(entered.thread, argument).filter(|word| word & hidden != 0).and_then(|word| {
            memory::write(entered.thread, argument, &(word & !hidden).to_le_bytes())
                .then_some(Restoration::Memory { address: argument, word })
        })
    };
    tracee.restore_later(restoration);
    restoration.is_some()
}

/// The waiting threads to adopt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Orphans {
    /// Threads past the longest wait. Reports of other parents may still be unread.
    Overdue,
    /// Also threads whose parents are not running. Valid only when all reports have been read.
    Forsaken,
}

/// Threads that stopped before their parents reported them.
#[derive(Debug, Default)]
pub(super) struct Nursery {
    waiting: BTreeMap<Pid, Waiting>,
    rounds: u32,
}

#[derive(Debug)]
struct Waiting {
    change: ThreadChange,
    since: Instant,
    /// The time of the next check that the parent may still report it.
    look: Instant,
}

/// A parent reports right after it created the child. The report is late only when the parent gets no processor, and
/// never comes when the parent was killed. A parent that is not running after this time will not report.
const PATIENCE: Duration = Duration::from_millis(10);
/// The longest wait for a report.
const LONGEST_PATIENCE: Duration = Duration::from_secs(1);
/// The first rounds of waiting only yield, because most reports arrive within microseconds.
const YIELDING_ROUNDS: u32 = 20;
const PAUSE: Duration = Duration::from_micros(200);

impl Nursery {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn put(&mut self, thread: Pid, change: ThreadChange) {
        let since = self.waiting.get(&thread).map_or_else(Instant::now, |earlier| earlier.since);
        self.waiting.insert(thread, Waiting { change, since, look: since + PATIENCE });
    }

    pub(super) fn take(&mut self, thread: Pid) -> Option<ThreadChange> {
        self.rounds = 0;
        self.waiting.remove(&thread).map(|waiting| waiting.change)
    }

    /// Waits briefly for a parent's report.
    pub(super) fn wait(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds <= YIELDING_ROUNDS {
            std::thread::yield_now();
        } else {
            std::thread::sleep(PAUSE);
        }
    }

    /// The threads whose parents' reports are given up.
    pub(super) fn orphans(&mut self, which: Orphans) -> Vec<Pid> {
        let now = Instant::now();
        let mut orphans = Vec::new();
        for (&thread, waiting) in self.waiting.iter_mut().filter(|(_, waiting)| waiting.look <= now) {
            let is_overdue = now.duration_since(waiting.since) >= LONGEST_PATIENCE;
            if !is_overdue && which == Orphans::Overdue {
                continue;
            }
            waiting.look = now + PATIENCE;
            if is_overdue || !may_be_reported(thread) {
                orphans.push(thread);
            }
        }
        orphans
    }
}

/// True while a thread that could report this one is running: one of its process for a thread, one of its parent for a
/// process.
fn may_be_reported(thread: Pid) -> bool {
    let Some(relations) = Relations::read(thread) else { return false };
    let reporter = relations.reporter(thread);
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{reporter}/task")) else { return false };
    tasks.flatten().any(|task| {
        let task = ProcessStat::read(format_args!("{reporter}/task/{}", task.file_name().display()));
        task.is_some_and(|task| task.state() == Some('R'))
    })
}

/// A thread's relations in `/proc`. Source: `proc_pid_status(5)`.
struct Relations {
    group: Pid,
    parent: Pid,
}

impl Relations {
    fn read(thread: Pid) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let number = |field: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(field))?;
            line.trim().parse().ok().map(Pid)
        };
        Some(Self { group: number("Tgid:")?, parent: number("PPid:")? })
    }

    /// The process that created the thread, as far as known: children of a parent that ended have a new parent.
    fn reporter(&self, thread: Pid) -> Pid {
        if self.group == thread { self.parent } else { self.group }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_a_child_is() {
        let (child, parent, at) = (Pid(2), Pid(1), Nanos(3));
        let thread = birth(child, parent, WHOLE_THREAD, at);
        assert_eq!(
            (thread.kind, thread.shares_files, thread.shares_directory),
            (BirthKind::Thread, true, true)
        );
        let process = birth(child, parent, 0, at);
        assert_eq!((process.kind, process.shares_files), (BirthKind::Process, false));
        assert_eq!((thread.shares_memory, process.shares_memory), (true, false));
    }

    #[test]
    fn an_orphan_belongs_to_whom_it_was_handed_on() {
        let (me, command) = (crate::facts::ourselves(), Pid(1));
        let parent = Pid(std::os::unix::process::parent_id() as i32);
        let adopted = |is_traced: bool| orphan(me, |_| is_traced, command, Nanos(0)).unwrap();
        assert_eq!((adopted(true).parent, adopted(true).kind), (Some(parent), BirthKind::Process));
        assert_eq!(adopted(false).parent, Some(command));
        assert!(orphan(Pid(i32::MAX), |_| true, command, Nanos(0)).is_none());
    }

    #[test]
    fn an_early_thread_waits_for_its_parent_but_not_for_ever() {
        let (mut nursery, gone) = (Nursery::default(), Pid(i32::MAX));
        nursery.put(gone, ThreadChange::Ended(quell_trace::Exit::Status(0)));
        assert!(!nursery.is_empty() && nursery.orphans(Orphans::Forsaken).is_empty());
        std::thread::sleep(PATIENCE);
        assert!(nursery.orphans(Orphans::Overdue).is_empty());
        assert_eq!(nursery.orphans(Orphans::Forsaken), [gone]);
        assert!(nursery.take(gone).is_some() && nursery.is_empty());
    }
}
