//! Processor time of one request, of everybody on this node together: the program's own, the client's daemon or kernel threads,
//! and where client and server share processors (one machine as a test bed) the server's too.
//!
//! ```text
//! window    rest  load  rest  load ...        each process by itself, from /proc/PID/stat
//! compiler   50    47    60    48             more at rest: something else
//! daemon      1    20     1    21             more under load, each time: works for it
//! ```
//!
//! A process that works for the load takes more processor time under load than just before, in every pair of windows; one that is
//! busy with something else does so by chance, once in two. So a machine that is busy otherwise disturbs little.

use super::leader::{By, Leader, names};
use super::statistics::Summary;
use crate::crew::{Names, Task};
use crate::{LoadError, Operation};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const STEP: &str = "processor time of a request";

/// Pairs of windows. By chance alone one process in 64 is always busier under load.
const PAIRS: u32 = 6;
const REST: Duration = Duration::from_millis(300);
/// Unit: milliseconds.
const LOAD_MS: u64 = 400;

/// Processes of the load: enough to be exact, few enough that they do not wait for each other's processor.
const PROCESSES: u16 = 2;

/// Processor time of each process. Unit: seconds.
type Busy = BTreeMap<Process, f64>;

/// A process by its number and start: numbers come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Process {
    pid: u32,
    /// Unit: ticks after the machine's.
    began: u64,
}

/// A rest, and the load after it.
struct Pair {
    rest: Busy,
    rested: f64,
    load: Busy,
    loaded: f64,
    requests: u64,
}

/// Microseconds of processor time for a request; `None` with a note where `/proc` shows nobody's.
pub(super) fn run(leader: &mut Leader<'_>) -> Result<Option<Summary>, LoadError> {
    let mut pairs = Vec::new();
    for number in 0..PAIRS {
        if !leader.begins(STEP, f64::from(number) / f64::from(PAIRS)) {
            break;
        }
        pairs.push(pair(leader)?);
    }
    let working = working(&pairs);
    let summary = Summary::of(pairs.iter().filter_map(|pair| pair.of_a_request(&working)));
    if summary.is_none() && !pairs.is_empty() {
        leader.notes.push(
            "processor time of a request: not measured, /proc shows no process that works for it".into(),
        );
    }
    Ok(summary)
}

fn pair(leader: &mut Leader<'_>) -> Result<Pair, LoadError> {
    let directory = leader.directory(By::Ours)?;
    let task = |rank: u16| {
        let absent =
            names(Operation::StatAbsent, &directory, &format!("n{rank}."), 0, super::bounds::MOST_ITEMS);
        Task::Names(Names { limit_ms: LOAD_MS, ..absent })
    };
    let width = PROCESSES.min(leader.bounds.processes);
    let (began, at_first) = (Instant::now(), busy());
    leader.sleep(REST)?;
    let (loads, rested) = (Instant::now(), busy());
    let done = leader.unkept((0..width).map(task).collect())?;
    let (ended, loaded) = (Instant::now(), busy());
    Ok(Pair {
        rest: used(&at_first, &rested),
        rested: (loads - began).as_secs_f64(),
        load: used(&rested, &loaded),
        loaded: (ended - loads).as_secs_f64(),
        requests: done.iter().map(|done| done.count).sum(),
    })
}

impl Pair {
    /// What a process took more under load than at rest. Unit: seconds.
    fn more(&self, process: &Process) -> f64 {
        let of = |busy: &Busy| busy.get(process).copied().unwrap_or(0.0);
        of(&self.load) - of(&self.rest) * self.loaded / self.rested.max(1e-3)
    }

    fn of_a_request(&self, working: &[Process]) -> Option<f64> {
        let seconds: f64 = working.iter().map(|process| self.more(process)).sum();
        (self.requests > 0 && seconds > 0.0).then(|| seconds * 1e6 / self.requests as f64)
    }
}

/// Processes that took more under load in every pair.
fn working(pairs: &[Pair]) -> Vec<Process> {
    let Some(first) = pairs.first() else { return Vec::new() };
    let works = |process: &&Process| pairs.iter().all(|pair| pair.more(process) > 0.0);
    first.load.keys().filter(works).copied().collect()
}

/// Between two moments, of the processes that were there at both.
fn used(before: &Busy, after: &Busy) -> Busy {
    let since = |(process, now): (&Process, &f64)| Some((*process, now - before.get(process)?));
    after.iter().filter_map(since).collect()
}

/// Of every process that can be seen, since its start.
fn busy() -> Busy {
    let ticks = rustix::param::clock_ticks_per_second();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Busy::new() };
    let of = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let (began, seconds) = times(&std::fs::read_to_string(entry.path().join("stat")).ok()?, ticks)?;
        Some((Process { pid, began }, seconds))
    };
    entries.flatten().filter_map(of).collect()
}

/// Start in ticks, and processor time of user and kernel in seconds, all threads together. Source: `proc_pid_stat(5)`.
fn times(stat: &str, ticks_per_second: u64) -> Option<(u64, f64)> {
    // The name before may hold anything, blanks and parentheses too.
    let (_, after) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = after.split_whitespace().collect();
    // The state is field 3; utime, stime, starttime are 14, 15, 22.
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let used = field(14)?.checked_add(field(15)?)?;
    Some((field(22)?, used as f64 / ticks_per_second as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> Process {
        Process { pid, began: 7 }
    }

    fn pair(rest: [f64; 2], load: [f64; 2]) -> Pair {
        let busy = |of: [f64; 2]| Busy::from([(process(1), of[0]), (process(2), of[1])]);
        Pair { rest: busy(rest), rested: 0.3, load: busy(load), loaded: 0.3, requests: 1000 }
    }

    #[test]
    fn who_works_for_the_load_is_counted_and_who_is_busy_otherwise_is_not() {
        let pairs = [pair([0.01, 0.2], [0.11, 0.29]), pair([0.0, 0.3], [0.1, 0.21])];
        let working = working(&pairs);
        assert_eq!(working, [process(1)]);
        for pair in &pairs {
            assert!((pair.of_a_request(&working).unwrap_or(0.0) - 100.0).abs() < 1e-9);
        }
        assert_eq!(pairs[0].of_a_request(&[]), None);
    }

    #[test]
    fn a_process_may_have_any_name() {
        let stat = "42 (a) R 1 (b) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0 20 0 3 0 991 1 2";
        assert_eq!(times(stat, 100), Some((991, 0.42)));
        for bad in ["", "42 (a", "42 (a) S 1 2", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x y 13 14 15 16 17 18 991"] {
            assert_eq!(times(bad, 100), None, "{bad}");
        }
    }

    #[test]
    fn this_process_is_seen() {
        let own = busy().into_iter().find(|(process, _)| process.pid == std::process::id());
        assert!(own.is_some());
    }
}
