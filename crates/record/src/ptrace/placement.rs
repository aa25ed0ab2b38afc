//! Keeps the recorder and the thread that it follows on one processor.
//!
//! A stop wakes the recorder, and resuming wakes the thread. On different processors each wake-up is an interrupt, and
//! the waiting processor goes to sleep meanwhile: on an idle machine that costs several times as much as the stop
//! itself. So a thread that stops repeatedly, with no other thread's stop in between, is kept on the recorder's
//! processor.
//!
//! The command must not notice. A thread is released as soon as another one stops, when it creates a thread or process,
//! when it has run for [`PATIENCE`] without a stop, and before any thread reads or sets an affinity: the filter stops
//! those calls for that reason. Only `/proc/PID/status` shows the change while it lasts.

use crate::pids::PidMap;
use quell_base::lock;
use quell_trace::Pid;
use rustix::process::Pid as KernelPid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The number of stops of one thread in a row that justifies two calls to the kernel.
const STREAK: u32 = 4;

/// The time without a stop after which a thread is released, because it computes and should be free to move.
const PATIENCE: Duration = Duration::from_millis(20);

/// A thread that is kept on the recorder's processor, and the earlier affinities of both.
#[derive(Debug)]
struct Kept {
    thread: Pid,
    allowed: CpuSet,
    recorder: KernelPid,
    recorder_allowed: CpuSet,
}

/// The affinity of a kept thread, and its affinity before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    only: CpuSet,
    allowed: CpuSet,
}

#[derive(Debug, Default)]
struct Shared {
    kept: Mutex<Option<Kept>>,
    /// The number of stops so far. The watch uses it to see that the kept thread still stops.
    stops: AtomicU64,
    ended: AtomicBool,
}

/// The kept thread, and the affinities of all that were kept.
#[derive(Debug)]
pub(super) struct Placement {
    shared: Arc<Shared>,
    watch: Option<std::thread::JoinHandle<()>>,
    last: Pid,
    streak: u32,
    /// Threads that are or were kept.
    held: PidMap<Held>,
    /// The affinities of kept threads that ended. Shape: each once; there are few, as processors and sets are few.
    ended: Vec<Held>,
    is_disabled: bool,
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
            is_disabled: false,
        }
    }

    /// Keeps no thread from here on. A recorder that may be killed without harm must not leave a thread on one processor.
    pub(super) fn disable(&mut self) {
        self.is_disabled = true;
    }

    /// Handles a thread that stopped before a call and is not resumed yet.
    pub(super) fn stopped(&mut self, thread: Pid) {
        if self.is_disabled {
            return;
        }
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

    /// Handles a new thread, which inherits its parent's affinity; neither is resumed yet. If the parent has been
    /// released since, only the child's affinity still shows that the parent was kept.
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

    /// Moves a thread's entry to its new number.
    pub(super) fn renamed(&mut self, from: Pid, to: Pid) {
        if let Some(kept) = self.shared.lock().as_mut().filter(|kept| kept.thread == from) {
            kept.thread = to;
        }
        self.held.remove(&to);
        if let Some(held) = self.held.remove(&from) {
            self.held.insert(to, held);
        }
    }

    /// Handles the end of a thread, which may have created a child while it was kept and not reported it.
    pub(super) fn ended(&mut self, thread: Pid) {
        if let Some(held) = self.held.remove(&thread) {
            self.release();
            self.ended.retain(|other| *other != held);
            self.ended.push(held);
        }
    }

    /// Handles an adopted child that is not resumed yet.
    pub(super) fn adopted(&mut self, child: Pid, parent: Option<Pid>) {
        let Some(seen) = allowed_to(child) else { return };
        let parent = parent.and_then(|parent| self.held.get(&parent));
        if let Some(held) = self.ended.iter().chain(parent).rfind(|held| held.only == seen) {
            allow(child, &held.allowed);
        }
    }

    /// Releases the kept thread.
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

    /// True when the watch runs, which releases a kept thread in time. The first call starts it.
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
            // The watch holds nothing and cannot panic.
            _ = watch.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Option<Kept>> {
        lock(&self.kept)
    }

    fn release(&self) {
        if let Some(kept) = self.lock().take() {
            allow(kept.thread, &kept.allowed);
            // The earlier affinity is normally still allowed; if not, the kernel has moved the recorder by itself.
            _ = sched_setaffinity(Some(kept.recorder), &kept.recorder_allowed);
        }
    }

    /// Releases a kept thread that has not stopped for a while. Sleeps while no thread is kept.
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

/// The affinity of a thread; `None` when the thread is gone.
fn allowed_to(thread: Pid) -> Option<CpuSet> {
    sched_getaffinity(Some(KernelPid::from_raw(thread.0)?)).ok()
}

/// Sets the affinity of a thread. A thread that was killed meanwhile needs none.
fn allow(thread: Pid, cpus: &CpuSet) {
    if let Some(thread) = KernelPid::from_raw(thread.0) {
        _ = sched_setaffinity(Some(thread), cpus);
    }
}
