//! Finds the threads of processes that run already, and stops each once, so that its calls are seen from then on.
//!
//! A thread that was seized reports those that it creates. One that it began to create before is found in `/proc` alone. So
//! `/proc` is read again and again, until it showed no new thread after the first stop of every known one.
//!
//! A stop from outside ends a wait of the thread, which `waits.rs` lets go on.

use super::attach;
use crate::error::{JoinBarrier, TraceBarrier};
use crate::facts;
use crate::sys::ptrace::{self, TraceeFate};
use quell_base::ProcessStat;
use quell_trace::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::parent_id;
use std::time::{Duration, Instant};

/// The time between two looks while a known thread has not stopped, as in an uninterruptible call.
const PAUSE: Duration = Duration::from_millis(250);

/// The processes that were asked for, and the state of their threads.
#[derive(Debug)]
pub(super) struct Joining {
    asked: Vec<Pid>,
    /// Processes that those had started before belong to them.
    with_descendants: bool,
    /// Seized threads that have not stopped yet, and their processes.
    awaited: BTreeMap<Pid, Pid>,
    /// Processes that are not recorded, as those of other users.
    refused: BTreeMap<Pid, JoinBarrier>,
    /// Those of them that were reported.
    reported: BTreeSet<Pid>,
    /// The end of the recording; `None` for none but that of the processes.
    until: Option<Instant>,
    /// The parent of the recorder. Its end is that of the recording.
    parent: u32,
    /// The time of the last look at `/proc`; `None` once it showed all threads.
    looked: Option<Instant>,
}

impl Joining {
    /// Seizes all threads that `/proc` shows. None is stopped unless all processes that were asked for agree.
    ///
    /// # Errors
    /// The first process that refuses, of those that were asked for.
    pub(super) fn begin(
        asked: &[Pid],
        with_descendants: bool,
        until: Option<Instant>,
    ) -> Result<Self, (Pid, io::Error)> {
        let mut joining = Self {
            asked: asked.to_vec(),
            with_descendants,
            awaited: BTreeMap::new(),
            refused: BTreeMap::new(),
            reported: BTreeSet::new(),
            until,
            parent: parent_id(),
            looked: Some(Instant::now()),
        };
        let mut seized = Vec::new();
        for &process in asked {
            seized.append(&mut joining.seize(process, |_| false).map_err(|error| (process, error))?);
        }
        interrupt(&seized);
        interrupt(&joining.seize_descendants(&|_| false));
        Ok(joining)
    }

    /// True for the first process that was asked for.
    pub(super) fn is_first(&self, thread: Pid) -> bool {
        self.asked.first() == Some(&thread)
    }

    /// Threads that have not stopped yet.
    pub(super) fn awaited(&self) -> impl Iterator<Item = Pid> {
        self.awaited.keys().copied()
    }

    /// The process of a thread that has stopped for the first time, and true for the last thread of its process.
    pub(super) fn stopped(&mut self, thread: Pid) -> Option<(Pid, bool)> {
        let process = self.awaited.remove(&thread)?;
        Some((process, !self.awaited.values().any(|&other| other == process)))
    }

    /// Processes that refused since the last time, and their barriers.
    pub(super) fn take_refused(&mut self) -> BTreeMap<Pid, JoinBarrier> {
        let reported = &mut self.reported;
        let mut refused = std::mem::take(&mut self.refused);
        refused.retain(|&process, _| reported.insert(process));
        refused
    }

    /// True when the time is over, or the parent of the recorder was killed.
    pub(super) fn is_over(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() >= until) || self.parent != parent_id()
    }

    /// Seizes the threads of a process that are not known yet, and returns them.
    fn seize(&mut self, process: Pid, is_known: impl Fn(Pid) -> bool) -> io::Result<Vec<Pid>> {
        let mut seized = Vec::new();
        for thread in facts::threads(process) {
            if is_known(thread) || self.awaited.contains_key(&thread) {
                continue;
            }
            match ptrace::seize(thread, TraceeFate::RunOn) {
                Ok(()) => {
                    self.awaited.insert(thread, process);
                    seized.push(thread);
                }
                Err(error) if is_gone(thread, &error) || is_traced_by_us(thread) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(seized)
    }

    /// Seizes the processes that those had started before.
    fn seize_descendants(&mut self, is_known: &dyn Fn(Pid) -> bool) -> Vec<Pid> {
        let descendants = if self.with_descendants { descendants(&self.asked) } else { Vec::new() };
        let mut seized = Vec::new();
        for process in descendants {
            // A descendant that its parent created under the recorder is known, whatever it has opened since.
            let is_new = !is_known(process) && !self.reported.contains(&process);
            if is_new && facts::serves_fuse(process) {
                self.refused.insert(process, JoinBarrier::ServesFuse);
                continue;
            }
            match self.seize(process, is_known) {
                Ok(mut threads) => seized.append(&mut threads),
                Err(error) => _ = self.refused.insert(process, barrier(process, &error)),
            }
        }
        seized
    }

    /// Looks for threads that came to be meanwhile.
    pub(super) fn look(&mut self, is_known: &dyn Fn(Pid) -> bool) {
        let is_settled = self.awaited.is_empty();
        if self.looked.is_none_or(|looked| !is_settled && looked.elapsed() < PAUSE) {
            return;
        }
        self.awaited.retain(|&thread, _| ProcessStat::read(thread).is_some());
        let mut found = Vec::new();
        for process in self.asked.clone() {
            found.append(&mut self.seize(process, is_known).unwrap_or_default());
        }
        found.append(&mut self.seize_descendants(is_known));
        interrupt(&found);
        self.looked = (!found.is_empty() || !is_settled).then(Instant::now);
    }
}

/// Stops threads once, so that their calls stop them from then on.
fn interrupt(threads: &[Pid]) {
    for &thread in threads {
        // It may have been killed since: its end will be reported.
        _ = ptrace::interrupt(thread);
    }
}

/// True for a thread that has ended, which the kernel refuses like a forbidden one.
fn is_gone(thread: Pid, error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH) || ProcessStat::read(thread).is_none_or(|stat| stat.is_dead())
}

/// True for a thread that the kernel attached to this recorder when a traced thread created it: `/proc` may show it before its
/// creator's stop reports it.
fn is_traced_by_us(thread: Pid) -> bool {
    facts::tracer(thread) == Some(Pid(std::process::id() as i32))
}

/// The barrier of a process that refused.
pub(super) fn barrier(process: Pid, error: &io::Error) -> JoinBarrier {
    let user = rustix::process::geteuid().as_raw();
    let owner = facts::field(process, "Uid:").map(|owner| owner as u32);
    match (owner, attach::barrier(process, error)) {
        (_, barrier @ (TraceBarrier::OtherTracer { .. } | TraceBarrier::Recorded { .. })) => barrier.into(),
        (Some(owner), _) if owner != user && user != 0 => JoinBarrier::OtherUser { user: owner },
        (_, TraceBarrier::Unknown) if user != 0 && attach::yama().as_deref() == Some("1") => {
            JoinBarrier::YamaDescendants
        }
        (_, TraceBarrier::Unknown) if user != 0 => JoinBarrier::Undumpable,
        (_, barrier) => barrier.into(),
    }
}

/// All processes that descend from these. Shape: parents first.
fn descendants(processes: &[Pid]) -> Vec<Pid> {
    let all = facts::processes();
    let (mut known, mut found): (BTreeSet<Pid>, Vec<Pid>) = (processes.iter().copied().collect(), Vec::new());
    let mut last: Vec<Pid> = processes.to_vec();
    while !last.is_empty() {
        let children = all.iter().filter(|(child, parent)| last.contains(parent) && !known.contains(child));
        last = children.map(|&(child, _)| child).collect();
        known.extend(&last);
        found.extend(&last);
    }
    found
}
