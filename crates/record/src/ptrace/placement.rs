//! Brings the recorder and the thread that it follows to one processor.
//!
//! A stop wakes the recorder, and resuming wakes the thread. When the two run on different processors each wakes the
//! other by an interrupt, and the processor that waits goes to sleep meanwhile: on an idle machine that costs several
//! times what the stop itself does. So a thread that stops again and again, with no other in between, is kept on the
//! recorder's processor while it does.
//!
//! The command must not notice. A thread is set free as soon as another one stops too, when it makes a thread or
//! process, when it has run for [`PATIENCE`] without a stop, and before anybody asks for an affinity or sets one: the
//! filter stops those calls for that. `/proc/PID/status` alone shows it for as long as it lasts.

use crate::pids::PidMap;
use quell_trace::Pid;
use rustix::process::Pid as KernelPid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So many stops of one thread in a row make it worth two calls to the kernel.
const STREAK: u32 = 4;

/// A thread that computes so long without a stop should be free to move.
const PATIENCE: Duration = Duration::from_millis(20);

/// A thread that is kept on the recorder's processor, and what it and the recorder were allowed before.
#[derive(Debug)]
struct Kept {
    thread: Pid,
    allowed: CpuSet,
    recorder: KernelPid,
    recorder_allowed: CpuSet,
}

/// What a kept thread was held to, and what it was allowed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    only: CpuSet,
    allowed: CpuSet,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Option<Kept>>,
    /// Stops so far: tells the watch whether the kept thread still stops.
    stops: AtomicU64,
    ended: AtomicBool,
}

/// Who is kept where.
#[derive(Debug)]
pub(super) struct Placement {
    shared: Arc<Shared>,
    watch: Option<std::thread::JoinHandle<()>>,
    last: Pid,
    streak: u32,
    /// Threads that are or were kept.
    held: PidMap<Held>,
    /// What those of them that ended were held to. Shape: each once; there are few, as processors and sets are few.
    ended: Vec<Held>,
}

impl Placement {
    pub(super) fn new() -> Self {
        Self {
            shared: Arc::default(),
            watch: None,
            last: Pid(0),
            streak: 0,
            held: PidMap::default(),
            ended: Vec::new(),
        }
    }

    /// A thread has stopped before a call, and is not resumed yet.
    pub(super) fn stopped(&mut self, thread: Pid) {
        self.shared.stops.fetch_add(1, Ordering::Relaxed);
        if thread != self.last {
            self.last = thread;
            self.streak = 0;
            self.release();
        }
        self.streak = self.streak.saturating_add(1);
        if self.streak.is_multiple_of(STREAK) && self.shared.lock().is_none() {
            self.keep(thread);
        }
    }

    /// A thread has made another one, which inherits what it may use; neither is resumed yet. The parent may have
    /// been set free since: then only the child still shows that it was kept.
    pub(super) fn made(&mut self, parent: Pid, child: Pid) {
        let Some(&Held { only, allowed }) = self.held.get(&parent) else { return };
        if self.shared.lock().as_ref().is_some_and(|kept| kept.thread == parent) {
            self.release();
        }
        let parents = allowed_to(parent).unwrap_or(allowed);
        if parents != only && allowed_to(child) == Some(only) {
            allow(child, &parents);
        }
    }

    /// A thread has another number from now on.
    pub(super) fn renamed(&mut self, from: Pid, to: Pid) {
        if let Some(kept) = self.shared.lock().as_mut().filter(|kept| kept.thread == from) {
            kept.thread = to;
        }
        self.held.remove(&to);
        if let Some(held) = self.held.remove(&from) {
            self.held.insert(to, held);
        }
    }

    /// A thread has ended, perhaps before it could report a child that it made while it was kept.
    pub(super) fn ended(&mut self, thread: Pid) {
        if let Some(held) = self.held.remove(&thread) {
            self.release();
            self.ended.retain(|other| *other != held);
            self.ended.push(held);
        }
    }

    /// A thread was found whose parent was killed before it could report it; it is not resumed yet.
    pub(super) fn adopted(&mut self, child: Pid, parent: Option<Pid>) {
        let Some(seen) = allowed_to(child) else { return };
        let parent = parent.and_then(|parent| self.held.get(&parent));
        if let Some(held) = self.ended.iter().chain(parent).rfind(|held| held.only == seen) {
            allow(child, &held.allowed);
        }
    }

    /// Sets free whoever is kept.
    pub(super) fn release(&mut self) {
        self.shared.release();
    }

    fn keep(&mut self, thread: Pid) {
        let recorder = rustix::thread::gettid();
        let (Some(number), Ok(recorder_allowed)) = (KernelPid::from_raw(thread.0), sched_getaffinity(None))
        else {
            return;
        };
        let Ok(allowed) = sched_getaffinity(Some(number)) else { return };
        let here = sched_getcpu();
        let mut only = CpuSet::new();
        if allowed.count() < 2 || !allowed.is_set(here) || !self.is_watched() {
            return;
        }
        only.set(here);
        if sched_setaffinity(Some(recorder), &only).is_err() {
            return;
        }
        *self.shared.lock() = Some(Kept { thread, allowed, recorder, recorder_allowed });
        self.held.insert(thread, Held { only, allowed });
        allow(thread, &only);
    }

    /// Whether somebody watches that a kept thread does not stay so; starts the watch at the first call.
    fn is_watched(&mut self) -> bool {
        if self.watch.is_none() {
            let shared = Arc::clone(&self.shared);
            self.watch = std::thread::Builder::new().stack_size(64 << 10).spawn(move || shared.watch()).ok();
        }
        self.watch.as_ref().inspect(|watch| watch.thread().unpark()).is_some()
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        self.release();
        self.shared.ended.store(true, Ordering::Relaxed);
        if let Some(watch) = self.watch.take() {
            watch.thread().unpark();
            // It holds nothing and cannot panic.
            _ = watch.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn release(&self) {
        if let Some(kept) = self.lock().take() {
            allow(kept.thread, &kept.allowed);
            // What was allowed before is allowed still; if not, the kernel has moved the recorder by itself.
            _ = sched_setaffinity(Some(kept.recorder), &kept.recorder_allowed);
        }
    }

    /// Sets a kept thread free when it has not stopped for a while. Sleeps while there is none.
    fn watch(&self) {
        let mut seen = 0;
        while !self.ended.load(Ordering::Relaxed) {
            if self.lock().is_none() {
                std::thread::park();
                continue;
            }
            std::thread::sleep(PATIENCE);
            let stops = self.stops.load(Ordering::Relaxed);
            if stops == seen {
                self.release();
            }
            seen = stops;
        }
    }
}

/// What a thread may use; `None` when it is gone.
fn allowed_to(thread: Pid) -> Option<CpuSet> {
    sched_getaffinity(Some(KernelPid::from_raw(thread.0)?)).ok()
}

/// A thread that was killed meanwhile needs no place.
fn allow(thread: Pid, cpus: &CpuSet) {
    if let Some(thread) = KernelPid::from_raw(thread.0) {
        _ = sched_setaffinity(Some(thread), cpus);
    }
}
