//! New threads and processes: which they are, what they share, and whose they are when nobody says.
//!
//! A child may stop before its parent's stop has reported it. Such a child waits in the [`Nursery`]. Its parent may
//! also be killed before it reports: the child is then adopted, so that nobody waits for ever.

use super::tracee::{Restoration, Tracee, set_first_argument};
use crate::calls::{CLONE3, native};
use crate::engine::{Birth, BirthKind};
use crate::filter::CLONE_UNTRACED;
use crate::sys::memory;
use crate::sys::ptrace::{Change, Entered, Entry, Making, Stopped};
use quell_trace::{Nanos, Pid};
use std::collections::BTreeMap;

/// Source of these: `clone(2)`, `linux/sched.h`.
const CLONE_FS: u64 = 0x200;
const CLONE_FILES: u64 = 0x400;
const CLONE_THREAD: u64 = 0x1_0000;

/// The command's first thread.
pub(super) fn first(thread: Pid) -> Birth {
    Birth {
        thread,
        parent: None,
        kind: BirthKind::Process,
        shares_files: false,
        shares_directory: false,
        at: Nanos(0),
    }
}

/// A thread that its parent reported.
pub(super) fn birth(thread: Pid, parent: Pid, flags: u64, at: Nanos) -> Birth {
    Birth {
        thread,
        parent: Some(parent),
        kind: if flags & CLONE_THREAD == 0 { BirthKind::Process } else { BirthKind::Thread },
        shares_files: flags & CLONE_FILES != 0,
        shares_directory: flags & CLONE_FS != 0,
        at,
    }
}

/// A thread whose parent cannot say any more what it shares.
pub(super) fn orphan(thread: Pid, parent: Pid, at: Nanos) -> Birth {
    let is_process = group_of(thread).is_none_or(|group| group == thread);
    birth(thread, parent, if is_process { 0 } else { CLONE_THREAD | CLONE_FILES | CLONE_FS }, at)
}

/// The flags that a thread in `fork`, `vfork`, `clone` or `clone3` has passed.
pub(super) fn clone_flags(stopped: &Stopped<Making>) -> u64 {
    let Ok(registers) = stopped.registers() else { return 0 };
    let number = registers.call_number();
    if number == u64::from(native::CLONE) {
        return registers.argument(0);
    }
    if number == u64::from(CLONE3) {
        return memory::read_word(stopped.thread(), registers.argument(0)).unwrap_or(0);
    }
    0
}

/// Removes the flag that would hide a child from the recorder, whose calls the filter would then fail. Returns
/// whether there was one; it must be put back when the call returns.
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

/// Threads that were heard of before their parents reported them.
#[derive(Debug, Default)]
pub(super) struct Nursery(BTreeMap<Pid, Change>);

impl Nursery {
    pub(super) fn put(&mut self, thread: Pid, change: Change) {
        self.0.insert(thread, change);
    }

    pub(super) fn take(&mut self, thread: Pid) -> Option<Change> {
        self.0.remove(&thread)
    }

    /// Who waits.
    pub(super) fn waiting(&self) -> Vec<Pid> {
        self.0.keys().copied().collect()
    }
}

/// Whether somebody who can still report this thread lives: of a thread its process, of a process its parent.
/// `None` when nothing is left of the thread itself.
pub(super) fn has_living_parent(thread: Pid, is_traced: impl Fn(Pid) -> bool) -> Option<bool> {
    let status = Status::read(thread)?;
    Some(match status.group == thread {
        false => is_traced(status.group),
        true => is_traced(status.parent),
    })
}

fn group_of(thread: Pid) -> Option<Pid> {
    Status::read(thread).map(|status| status.group)
}

/// What `/proc` says of a thread's relations. Source: `proc_pid_status(5)`.
struct Status {
    group: Pid,
    parent: Pid,
}

impl Status {
    fn read(thread: Pid) -> Option<Self> {
        let text = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
        let number = |field: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(field))?;
            line.trim().parse().ok().map(Pid)
        };
        Some(Self { group: number("Tgid:")?, parent: number("PPid:")? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_say_what_a_child_is() {
        let (child, parent, at) = (Pid(2), Pid(1), Nanos(3));
        let thread = birth(child, parent, CLONE_THREAD | CLONE_FILES | CLONE_FS, at);
        assert_eq!(
            (thread.kind, thread.shares_files, thread.shares_directory),
            (BirthKind::Thread, true, true)
        );
        let process = birth(child, parent, 0, at);
        assert_eq!((process.kind, process.shares_files), (BirthKind::Process, false));
    }

    #[test]
    fn relations_are_read_from_proc() {
        let me = Pid(std::process::id() as i32);
        let parent = Pid(std::os::unix::process::parent_id() as i32);
        assert_eq!(has_living_parent(me, |pid| pid == parent), Some(true));
        assert_eq!(has_living_parent(me, |_| false), Some(false));
        assert_eq!(has_living_parent(Pid(i32::MAX), |_| true), None);
    }
}
