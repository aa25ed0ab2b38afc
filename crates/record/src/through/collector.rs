//! Collects the requests of all connections, makes calls and births of them, and reports these to the observer.

use super::processes::{self, ProcessNews, Processes};
use super::report::ObservedReport;
use super::walks::{NodeKey, OwnedCall, RequestOrigin, WalkStep, Walks, failed};
use crate::engine::Launched;
use quell_base::lock;
use quell_trace::{Call, Class, Nanos, Pid};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The state that all connections of a command share.
#[derive(Debug)]
pub(super) struct Collector {
    began: Instant,
    /// The command runs; what its process asked before is its own preparation.
    is_on: AtomicBool,
    /// `None` when all connections are gone.
    reporter: Mutex<Option<Sender<ObservedReport>>>,
    /// Serving threads.
    serving: AtomicUsize,
    sight: Mutex<Sight>,
}

#[derive(Debug)]
struct Sight {
    walks: Walks,
    processes: Processes,
    /// Threads that opened a program to execute it, and have not been seen to run it yet.
    executing: HashMap<Pid, OwnedCall>,
    /// The command, until its first program runs: that execution is reported beforehand.
    awaited: Option<Pid>,
}

impl Sight {
    /// Looks at a thread that asks.
    fn meet(&mut self, thread: Pid, looks_again: bool, news: &mut Vec<ProcessNews>) {
        self.processes.meet(thread, looks_again, news);
        let awaited = self.awaited;
        let begins =
            |met: &ProcessNews| awaited.is_some_and(|command| *met == ProcessNews::Executed(command));
        if news.iter().any(begins) {
            news.retain(|met| !begins(met));
            self.awaited.take().map(|command| self.executing.remove(&command));
        }
    }
}

impl Collector {
    pub(super) fn new(command: Pid, reporter: Sender<ObservedReport>) -> Self {
        let (walks, processes) = (Walks::default(), Processes::new(command));
        Self {
            began: Instant::now(),
            is_on: AtomicBool::new(false),
            reporter: Mutex::new(Some(reporter)),
            serving: AtomicUsize::new(0),
            sight: Mutex::new(Sight { walks, processes, executing: HashMap::new(), awaited: Some(command) }),
        }
    }

    /// The command is about to be executed.
    pub(super) fn begin(&self) {
        lock(&self.sight).processes.begin();
        self.is_on.store(true, Ordering::Release);
    }

    pub(super) fn now(&self) -> Nanos {
        Nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// All connections are gone.
    pub(super) fn is_over(&self) -> bool {
        self.serving.load(Ordering::Acquire) == 0
    }

    /// Processes that were met and live.
    pub(super) fn living(&self) -> Vec<Pid> {
        lock(&self.sight).processes.living()
    }

    pub(super) fn report(&self, report: ObservedReport) {
        if let Some(reporter) = lock(&self.reporter).as_ref() {
            // The observer takes reports until this sender is dropped.
            _ = reporter.send(report);
        }
    }

    /// Takes a request of a thread.
    pub(super) fn see(&self, asked: RequestOrigin, step: WalkStep) {
        // The kernel itself asks without a number.
        if asked.thread.0 == 0 || !self.is_on.load(Ordering::Acquire) {
            return;
        }
        self.meet(asked, &step);
        let mut sight = lock(&self.sight);
        let Sight { walks, executing, processes, .. } = &mut *sight;
        // A call ends after the birth of its thread, and births are reported in the order of their times.
        let asked =
            RequestOrigin { thread: processes.known_or_command(asked.thread), end: self.now(), ..asked };
        let step = match (step, executing.entry(asked.thread)) {
            (WalkStep::Executable { node, path }, Entry::Vacant(vacant)) => {
                vacant.insert(OwnedCall::new(asked, Call::Execve, path.clone()));
                WalkStep::Executable { node, path }
            }
            // The program's interpreter, which the kernel opens after it.
            (WalkStep::Executable { node, path }, _) => {
                WalkStep::Call { node: Some(node), call: OwnedCall::new(asked, Call::Openat, path) }
            }
            (WalkStep::Call { node, call }, _) => {
                let RequestOrigin { thread, end, .. } = asked;
                WalkStep::Call { node, call: OwnedCall { thread, end, ..call } }
            }
            (step, _) => step,
        };
        walks.take(asked, step, &mut |call| self.report(ObservedReport::Called(call)));
    }

    /// Reports who asks, if that is news.
    fn meet(&self, asked: RequestOrigin, step: &WalkStep) {
        let class = match step {
            WalkStep::Call { call, .. } => Some(call.call.class()),
            _ => None,
        };
        let opens = class == Some(Class::Open);
        // A page fault reads, also in the middle of an execution, when half of the addresses are new.
        let is_settled = class != Some(Class::Read);
        let mut news = Vec::new();
        let mut sight = lock(&self.sight);
        let at = self.now();
        let is_executing = sight.executing.contains_key(&asked.thread);
        sight.meet(asked.thread, opens || (is_executing && is_settled), &mut news);
        let has_executed = news.contains(&ProcessNews::Executed(asked.thread));
        let refused = (opens && !has_executed).then(|| sight.executing.remove(&asked.thread)).flatten();
        let mut executions = Vec::new();
        for met in news {
            match met {
                ProcessNews::Born(thread, place) => {
                    self.report(ObservedReport::Born(place.birth(thread, at)))
                }
                ProcessNews::Executed(process) => {
                    executions.push((process, sight.executing.remove(&process)))
                }
            }
        }
        drop(sight);
        if let Some(call) = refused {
            let call = OwnedCall { end: at, ..call };
            self.report(ObservedReport::Called(failed(call, quell_trace::Errno(libc::ENOEXEC as u16))));
        }
        // A look at `/proc` may wait for the process's memory, so no lock is held.
        for (process, call) in executions {
            self.report_execution(RequestOrigin { thread: process, start: asked.start, end: at }, call);
        }
    }

    fn report_execution(&self, asked: RequestOrigin, call: Option<OwnedCall>) {
        let RequestOrigin { thread, end, .. } = asked;
        let launched = processes::launched(thread).unwrap_or_else(|| named(call.as_ref()));
        let program = launched.program.clone().unwrap_or_default();
        let call = call.unwrap_or_else(|| OwnedCall::new(asked, Call::Execve, program));
        self.report(ObservedReport::Called(OwnedCall { end, ..call }));
        self.report(ObservedReport::Executed { thread, at: end, launched });
    }

    /// The kernel forgot a file.
    pub(super) fn forget(&self, node: NodeKey) {
        lock(&self.sight).walks.forget(node);
    }

    /// A serving thread ends. The last one reports what stayed open.
    fn leave(&self) {
        if self.serving.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let mut sight = lock(&self.sight);
        let Sight { walks, executing, awaited, .. } = &mut *sight;
        walks.finish(&mut |call| self.report(ObservedReport::Called(call)));
        let mut executed: Vec<_> =
            executing.drain().filter(|(thread, _)| Some(*thread) != *awaited).collect();
        executed.sort_by_key(|(thread, _)| thread.0);
        for (thread, call) in executed {
            let (at, launched) = (call.end, named(Some(&call)));
            self.report(ObservedReport::Called(call));
            self.report(ObservedReport::Executed { thread, at, launched });
        }
        lock(&self.reporter).take();
    }
}

/// All that is known of a program that ended before `/proc` was read.
fn named(call: Option<&OwnedCall>) -> Launched {
    let program = call.and_then(|call| call.path.clone());
    let arguments = program.iter().map(quell_base::escape).collect();
    Launched { program, arguments, variables: Vec::new() }
}

/// A thread that serves, until it is dropped: by a panic too.
#[derive(Debug)]
pub(super) struct Serving(Arc<Collector>);

impl Serving {
    pub(super) fn begin(collector: &Arc<Collector>) -> Self {
        collector.serving.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(collector))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.leave();
    }
}
