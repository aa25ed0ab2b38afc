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
use quell_base::{ProcessStat, lock};
use quell_trace::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::unix::process::parent_id;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The processes to record.
#[derive(Clone, Debug, Default)]
pub struct JoinedScope {
    /// The processes to record. If one of them cannot be recorded, none is. A thread stands for its process.
    pub processes: Vec<Pid>,
    /// Record also the processes that these had started before.
    pub with_descendants: bool,
    /// The longest time to record. A time that the clock cannot represent is no limit.
    pub longest: Option<Duration>,
    /// Further processes, which are recorded if possible. The set may grow while the recording runs.
    pub others: Option<Arc<Mutex<BTreeSet<Pid>>>>,
    /// Processes that are left out unless they are among the first.
    pub except: BTreeSet<Pid>,
    /// Ends the recording once it is true.
    pub ends: Arc<AtomicBool>,
}

/// The time between two looks while a known thread has not stopped, as in an uninterruptible call.
const PAUSE: Duration = Duration::from_millis(250);

/// The time between two looks for others while all known threads are recorded.
const SCAN: Duration = Duration::from_millis(250);

/// The processes that were asked for, and the state of their threads.
#[derive(Debug)]
pub(super) struct Joining {
    asked: Vec<Pid>,
    /// Processes that those had started before belong to them.
    with_descendants: bool,
    others: Option<Arc<Mutex<BTreeSet<Pid>>>>,
    ends: Arc<AtomicBool>,
    /// Seized threads that have not stopped yet, and their processes.
    awaited: BTreeMap<Pid, Pid>,
    /// Processes that are not recorded, as those of other users.
    refused: BTreeMap<Pid, JoinBarrier>,
    /// Those of them that were reported. They are left alone from then on.
    reported: BTreeSet<Pid>,
    /// The end of the recording; `None` for none but that of the processes.
    until: Option<Instant>,
    /// The parent of the recorder. Its end is that of the recording.
    parent: u32,
    /// The time of the last look at `/proc`.
    looked: Instant,
    /// The last look showed no new thread.
    is_complete: bool,
}

impl Joining {
    /// Seizes all threads that `/proc` shows. None is stopped unless all processes that were asked for agree.
    ///
    /// # Errors
    /// The first process that refuses, of those that were asked for.
    pub(super) fn begin(
        asked: &[Pid],
        scope: &JoinedScope,
        until: Option<Instant>,
    ) -> Result<Self, (Pid, io::Error)> {
        let mut joining = Self {
            asked: asked.to_vec(),
            with_descendants: scope.with_descendants,
            others: scope.others.clone(),
            ends: Arc::clone(&scope.ends),
            awaited: BTreeMap::new(),
            refused: BTreeMap::new(),
            reported: scope.except.clone(),
            until,
            parent: parent_id(),
            looked: Instant::now(),
            is_complete: false,
        };
        let mut seized = Vec::new();
        for &process in asked {
            seized.append(&mut joining.seize(process, |_| false).map_err(|error| (process, error))?);
        }
        interrupt(&seized);
        interrupt(&joining.seize_others(&|_| false));
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

    /// True when the time is over, or the user ended it, or the parent of the recorder was killed.
    pub(super) fn is_over(&self) -> bool {
        self.ends.load(Ordering::Relaxed)
            || self.until.is_some_and(|until| Instant::now() >= until)
            || self.parent != parent_id()
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

    /// Seizes the others, and the processes that all these had started before.
    fn seize_others(&mut self, is_known: &dyn Fn(Pid) -> bool) -> Vec<Pid> {
        let others = self.others.as_ref().map(|others| lock(others));
        let mut found: Vec<Pid> = others.iter().flat_map(|others| others.iter().copied()).collect();
        drop(others);
        if self.with_descendants {
            found.append(&mut descendants(&[&self.asked[..], &found].concat()));
        }
        let mut seized = Vec::new();
        for process in found {
            // A descendant that its parent created under the recorder is known, whatever it has opened since.
            let is_new = !is_known(process);
            if is_new && self.reported.contains(&process) || !is_new && self.is_complete {
                continue;
            }
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
        let pause = match self.is_complete {
            true if self.others.is_none() || self.with_descendants => return,
            true => SCAN,
            false if is_settled => Duration::ZERO,
            false => PAUSE,
        };
        if self.looked.elapsed() < pause {
            return;
        }
        self.awaited.retain(|&thread, _| ProcessStat::read(thread).is_some());
        // A number that is free again may be that of a process to record.
        self.reported.retain(|&process| ProcessStat::read(process).is_some());
        let mut found = Vec::new();
        let asked = if self.is_complete { Vec::new() } else { self.asked.clone() };
        for process in asked {
            found.append(&mut self.seize(process, is_known).unwrap_or_default());
        }
        found.append(&mut self.seize_others(is_known));
        interrupt(&found);
        self.is_complete = found.is_empty() && is_settled;
        self.looked = Instant::now();
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
    facts::tracer(thread) == Some(facts::ourselves())
}

/// The barrier of a process that refused.
pub(super) fn barrier(process: Pid, error: &io::Error) -> JoinBarrier {
    let user = rustix::process::geteuid().as_raw();
    let owner = facts::owner(process);
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

/// All processes above this one.
pub(crate) fn ancestors(process: Pid) -> BTreeSet<Pid> {
    let mut ancestors = BTreeSet::new();
    let mut next = facts::parent(process);
    while let Some(parent) = next.filter(|&parent| parent.0 > 0 && ancestors.insert(parent)) {
        next = facts::parent(parent);
    }
    ancestors
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
