//! Finds out from `/proc` which processes ask, which process made them, and what they execute.
//!
//! A process is met at its first request. That it executed another program shows in the addresses of its memory, which
//! the kernel chooses anew at each `execve`.
//!
//! The kernel tells nothing of a process that executes a program, and that process may wait for an answer of the
//! recorder meanwhile. So each look at `/proc` while requests wait has an end ([`Asker`]).

use crate::engine::{BirthKind, Launched, ThreadBirth};
use crate::facts;
use quell_base::ProcessStat;
use quell_trace::{Nanos, Pid};
use std::collections::HashMap;
use std::sync::mpsc::{self, Sender};
use std::time::Duration;

/// The processes and threads that were met.
#[derive(Debug)]
pub(super) struct Processes {
    command: Pid,
    known: HashMap<Pid, Known>,
    asker: Asker,
}

#[derive(Clone, Copy, Debug)]
struct Known {
    stat: Stat,
    process: Pid,
}

/// Fields of `/proc/PID/stat`. Source: `proc_pid_stat(5)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: Pid,
    /// Tells a process from an earlier one of the same number.
    started: u64,
    /// Addresses of its code, stack, heap and arguments; no stack where the kernel does not tell. Without randomisation they
    /// differ between programs still.
    memory: [u64; 5],
}

/// News about a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ProcessNews {
    Born(Pid, Birthplace),
    /// The process executes another program than at the last look.
    Executed(Pid),
}

/// The origin of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Birthplace {
    parent: Pid,
    kind: BirthKind,
}

impl Processes {
    pub(super) fn new(command: Pid) -> Self {
        Self { command, known: HashMap::new(), asker: Asker::default() }
    }

    /// The command's first program runs.
    pub(super) fn begin(&mut self) {
        if let Some(stat) = self.stat(self.command) {
            self.known.insert(self.command, Known { stat, process: self.command });
        }
    }

    /// The processes that were met and live. Shape: sorted.
    pub(super) fn living(&self) -> Vec<Pid> {
        let lives = |(pid, known): (&Pid, &Known)| {
            let is_same =
                || stat(*pid).is_some_and(|stat| stat.started == known.stat.started && stat.is_told());
            (known.process == *pid && is_same()).then_some(*pid)
        };
        let mut living: Vec<_> = self.known.iter().filter_map(lives).collect();
        living.sort_unstable();
        living
    }

    /// A thread that was met, or the command in place of one that ended before it could be met.
    pub(super) fn known_or_command(&self, thread: Pid) -> Pid {
        if self.known.contains_key(&thread) { thread } else { self.command }
    }

    /// Looks at a thread that asks, if it is new or if `looks_again`. Shape: ancestors first.
    pub(super) fn meet(&mut self, thread: Pid, looks_again: bool, news: &mut Vec<ProcessNews>) {
        if self.known.contains_key(&thread) && !looks_again {
            return;
        }
        self.look(thread, news);
    }

    fn look(&mut self, thread: Pid, news: &mut Vec<ProcessNews>) {
        let Some(stat) = self.stat(thread) else { return };
        match self.known.get_mut(&thread) {
            Some(known) if known.stat.started == stat.started => {
                let executed = stat.is_told() && known.stat.memory != stat.memory;
                let process = known.process;
                if stat.is_told() {
                    known.stat = stat;
                }
                // All threads of a process have one memory.
                if executed && process == thread {
                    news.push(ProcessNews::Executed(thread));
                }
            }
            _ => self.welcome(thread, stat, news),
        }
    }

    fn welcome(&mut self, thread: Pid, stat: Stat, news: &mut Vec<ProcessNews>) {
        let process = self.asker.ask(move || process_of(thread)).flatten().unwrap_or(thread);
        let is_first = process == thread;
        let parent = if is_first { stat.parent } else { process };
        if !self.known.contains_key(&parent) && self.is_ours(parent) {
            self.look(parent, news);
        }
        let parent = if self.known.contains_key(&parent) { parent } else { self.command };
        self.known.insert(thread, Known { stat, process });
        if thread == self.command {
            return;
        }
        let kind = if is_first { BirthKind::Process } else { BirthKind::Thread };
        news.push(ProcessNews::Born(thread, Birthplace { parent, kind }));
        let before = self.known.get(&parent).map(|parent| parent.stat.memory);
        if is_first && stat.is_told() && before != Some(stat.memory) {
            news.push(ProcessNews::Executed(thread));
        }
    }

    /// True for a descendant of the command; others are its parents by adoption.
    fn is_ours(&mut self, process: Pid) -> bool {
        let mut at = process;
        for _ in 0..MOST_ANCESTORS {
            if at == self.command || self.known.contains_key(&at) {
                return true;
            }
            if at.0 <= 1 {
                return false;
            }
            let Some(stat) = self.stat(at) else { return false };
            at = stat.parent;
        }
        false
    }

    fn stat(&mut self, thread: Pid) -> Option<Stat> {
        self.asker.ask(move || stat(thread)).flatten()
    }
}

/// Asks what may not be answered, in a thread that is left alone then.
#[derive(Debug, Default)]
struct Asker {
    worker: Option<Sender<Question>>,
}

type Question = Box<dyn FnOnce() + Send>;

impl Asker {
    /// The answer; `None` if there was none in time.
    fn ask<T: Send + 'static>(&mut self, question: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let (tell, told) = mpsc::sync_channel(1);
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => Self::worker()?,
        };
        worker.send(Box::new(move || _ = tell.send(question()))).ok()?;
        let answer = told.recv_timeout(LONGEST_LOOK).ok();
        // One that waits ends when it was answered.
        self.worker = answer.is_some().then_some(worker);
        answer
    }

    fn worker() -> Option<Sender<Question>> {
        let (sender, questions) = mpsc::channel::<Question>();
        let work = move || questions.iter().for_each(|question| question());
        let thread = std::thread::Builder::new().name("record-look".to_owned()).stack_size(64 << 10);
        thread.spawn(work).ok().map(|_detached| sender)
    }
}

/// Longer than `/proc` takes on any loaded node, and short for a program that waits.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// More ancestors than a process has, unless the numbers were used again while they were read.
const MOST_ANCESTORS: usize = 1000;

impl Birthplace {
    pub(super) fn birth(self, thread: Pid, at: Nanos) -> ThreadBirth {
        let Self { parent, kind } = self;
        // One table of descriptors for all: the numbers are the recorder's own, and each is used once.
        ThreadBirth {
            thread,
            parent: Some(parent),
            kind,
            shares_files: true,
            shares_directory: false,
            shares_memory: kind == BirthKind::Thread,
            at,
        }
    }
}

/// The program of a process, and what it was started with; `None` when the process is gone.
pub(super) fn launched(process: Pid) -> Option<Launched> {
    let launched = facts::launched(process);
    launched.program.is_some().then_some(launched)
}

fn stat(thread: Pid) -> Option<Stat> {
    let told = ProcessStat::read(thread)?;
    let memory = [26, 27, 28, 47, 48].map(|number| told.field(number).unwrap_or(0));
    Some(Stat { parent: Pid(told.parent()?.try_into().ok()?), started: told.started()?, memory })
}

impl Stat {
    fn is_told(&self) -> bool {
        self.memory[2] != 0
    }
}

/// The process of a thread.
fn process_of(thread: Pid) -> Option<Pid> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?;
    line.trim().parse().ok().map(Pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_that_is_not_answered_delays_no_other() {
        let mut asker = Asker::default();
        let (hold, held) = mpsc::channel::<()>();
        assert_eq!(asker.ask(|| 1), Some(1));
        assert_eq!(asker.ask(move || held.recv().is_ok()), None);
        assert_eq!(asker.ask(|| 2), Some(2));
        drop(hold);
    }

    #[test]
    fn this_process_is_met_once_with_its_parent() {
        let me = facts::ourselves();
        let mut processes = Processes::new(stat(me).unwrap().parent);
        processes.begin();
        let mut news = Vec::new();
        processes.meet(me, false, &mut news);
        assert!(matches!(news[0], ProcessNews::Born(born, _) if born == me), "{news:?}");
        news.clear();
        processes.meet(me, true, &mut news);
        assert_eq!(news, []);
    }
}
