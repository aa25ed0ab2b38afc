//! A few threads that work off a list of jobs, to which jobs add further jobs.

use crate::tools::unless_ended;
use quell_base::lock;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Jobs that wait, and the number of jobs in progress.
struct State<J> {
    waiting: Vec<J>,
    busy: usize,
    stopped: bool,
}

/// A list of jobs. The last job that was added is taken first, so that few directories are open at a time.
pub(super) struct Pool<J> {
    state: Mutex<State<J>>,
    changed: Condvar,
}

/// Runs `first`, and every job that a job adds, on `threads` threads; returns what each thread gathered.
pub(super) fn work<J: Send, G: Default + Send>(
    threads: usize,
    first: J,
    job: impl Fn(J, &Pool<J>, &mut G) + Sync,
) -> Vec<G> {
    let state = State { waiting: vec![first], busy: 0, stopped: false };
    let pool = Pool { state: Mutex::new(state), changed: Condvar::new() };
    let one = || {
        let mut gathered = G::default();
        while let Some(next) = pool.take() {
            // A thread that panics must not leave the others waiting.
            let done = Done(&pool);
            job(next, &pool, &mut gathered);
            drop(done);
        }
        gathered
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, G>| match thread.join() {
            Ok(gathered) => gathered,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        threads.into_iter().map(join).collect()
    })
}

struct Done<'a, J>(&'a Pool<J>);

impl<J> Drop for Done<'_, J> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.changed.notify_all();
    }
}

impl<J> Pool<J> {
    /// Adds jobs.
    pub(super) fn add(&self, jobs: impl IntoIterator<Item = J>) {
        self.lock().waiting.extend(jobs);
        self.changed.notify_all();
    }

    /// Drops the waiting jobs; no further job begins.
    pub(super) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn take(&self) -> Option<J> {
        let mut state = self.lock();
        loop {
            // A tree on a slow file system takes minutes. After an interruption only jobs in progress are waited for.
            if state.stopped || unless_ended().is_err() {
                return None;
            }
            if let Some(job) = state.waiting.pop() {
                state.busy += 1;
                return Some(job);
            }
            if state.busy == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }
}
