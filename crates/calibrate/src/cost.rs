//! The cost of a request and of data to a program: time, and processor time of all processes on this node together: the
//! program's own, the client's daemon or kernel threads, and where client and server share processors (one machine as a
//! test bed) the server's too.
//!
//! ```text
//! window    rest  load  rest  load ...        each process by itself, from /proc/PID/stat
//! compiler   50    47    60    48             more at rest: something else
//! daemon      1    20     1    21             more under load, each time: works for it
//! ```
//!
//! A process that works for the load takes more processor time under load than just before, in every pair of windows; one that is
//! busy with something else does so by chance, once in two. So a machine that is busy otherwise disturbs little.
//!
//! The load computes before each request, as programs do, and then it asks in a row: daemon and server stay awake and in the
//! processor's caches, and a request costs a half to two thirds.

use super::leader::{ClientChoice, Leader, names};
use super::reads::{self, ReadContent};
use super::statistics::SampleSummary;
use crate::error::CalibrateError;
use crate::operation::LoadOperation;
use crate::workers::{DataAccess, DataTransfer, NameOperations, PhaseResult, PhaseTask};
use quell_predict::profile::COMPUTING_US;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const STEP: &str = "what a request costs a program";

/// Pairs of windows of each load. By chance alone one process in 64 is always busier under load.
const PAIRS: u32 = 6;
const REST: Duration = Duration::from_millis(300);
const LOAD: Duration = Duration::from_millis(500);
/// A load in a row has a name for every so long. A load that uses them up sooner is begun again. Unit: microseconds.
const QUICKEST_US: u64 = 50;

/// The costs that were found.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredCosts {
    /// Of a request after [`COMPUTING_US`] of computing.
    pub after_computing: RequestCost,
    /// Of one right after another.
    pub in_a_row: RequestCost,
    /// Processor time of a million bytes that are read in order. Unit: microseconds.
    pub cpu_of_a_megabyte: Option<SampleSummary>,
}

/// The cost of a request. Unit: microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestCost {
    /// From asking to the answer, while no other process asks.
    pub latency: Option<SampleSummary>,
    /// Processor time.
    pub cpu: Option<SampleSummary>,
}

/// Processor time of each process. Unit: seconds.
type Busy = BTreeMap<NumberedProcess, f64>;

/// A process by its number and start: numbers come again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NumberedProcess {
    pid: u32,
    /// Unit: ticks after the machine's.
    began: u64,
}

/// A rest, and the load after it.
struct RestAndLoad {
    rest: Busy,
    rested: f64,
    load: Busy,
    loaded: f64,
    /// The work of the load, in requests or megabytes.
    did: f64,
    /// Computing of the load's own processes. Unit: seconds.
    computed: f64,
}

/// Measures all. A part is `None`, with a note, where `/proc` shows no process that works for it; and that of data where there is no file.
pub(super) fn run(
    leader: &mut Leader<'_>,
    file: Option<&ReadContent>,
) -> Result<MeasuredCosts, CalibrateError> {
    let after_computing = of_requests(leader, 0.0, "a request", COMPUTING_US)?;
    let in_a_row = of_requests(leader, 1.0 / 3.0, "a request in a row", 0)?;
    let megabytes = match file {
        Some(file) => measured(leader, 2.0 / 3.0, "a megabyte", &mut |leader| {
            let bytes = read(leader, file)?.count as f64 * DataAccess::Sequential.bytes() as f64;
            Ok((bytes / 1e6, 0.0))
        })?,
        None => None,
    };
    Ok(MeasuredCosts { after_computing, in_a_row, cpu_of_a_megabyte: megabytes })
}

/// Of requests with so much computing before each.
fn of_requests(
    leader: &mut Leader<'_>,
    done: f64,
    what: &str,
    computing_us: u64,
) -> Result<RequestCost, CalibrateError> {
    let mut latencies = Vec::new();
    let cpu = measured(leader, done, what, &mut |leader| {
        let done = ask(leader, computing_us)?;
        latencies.extend(done.latencies.iter().map(|nanoseconds| *nanoseconds as f64 / 1e3));
        Ok((done.count as f64, done.computed as f64 / 1e9))
    })?;
    Ok(RequestCost { latency: SampleSummary::of(latencies), cpu })
}

/// One process asks for names that are not there, and computes in between.
fn ask(leader: &mut Leader<'_>, computing_us: u64) -> Result<PhaseResult, CalibrateError> {
    let directory = leader.directory(ClientChoice::Ours)?;
    let limit_ms = u64::try_from(LOAD.as_millis()).unwrap_or(u64::MAX);
    let count = 1000 * limit_ms / computing_us.max(QUICKEST_US);
    let absent = names(LoadOperation::StatAbsent, &directory, "n", 0, count);
    leader.one(ClientChoice::Ours, PhaseTask::Names(NameOperations { limit_ms, computing_us, ..absent }))
}

/// One process reads the whole file in order, without pages of it.
fn read(leader: &mut Leader<'_>, file: &ReadContent) -> Result<PhaseResult, CalibrateError> {
    let data = DataTransfer { drop_pages: true, ..reads::data(leader, file, DataAccess::Sequential) };
    leader.read(ClientChoice::Ours, data)
}

/// A load: what it did, and the seconds that its own processes computed.
type Load<'l> = &'l mut dyn FnMut(&mut Leader<'_>) -> Result<(f64, f64), CalibrateError>;

/// Microseconds of processor time for one of what the load does.
fn measured(
    leader: &mut Leader<'_>,
    done: f64,
    what: &str,
    load: Load<'_>,
) -> Result<Option<SampleSummary>, CalibrateError> {
    let mut pairs = Vec::new();
    for number in 0..PAIRS {
        if !leader.begins(STEP, done + f64::from(number) / f64::from(3 * PAIRS)) {
            break;
        }
        pairs.push(pair(leader, load)?);
    }
    let working = working(&pairs);
    let summary = SampleSummary::of(pairs.iter().filter_map(|pair| pair.of_one(&working)));
    if summary.is_none() && !pairs.is_empty() {
        leader.notes.push(format!(
            "processor time of {what}: not measured, /proc shows no process that works for it"
        ));
    }
    Ok(summary)
}

/// The load goes on for as long as a window lasts.
fn pair(leader: &mut Leader<'_>, load: Load<'_>) -> Result<RestAndLoad, CalibrateError> {
    let (began, at_first) = (Instant::now(), busy());
    leader.sleep(REST)?;
    let (loads, rested) = (Instant::now(), busy());
    let (mut did, mut computed) = (0.0, 0.0);
    while loads.elapsed() < LOAD {
        let (more, of_its_own) = load(leader)?;
        (did, computed) = (did + more, computed + of_its_own);
    }
    let (ended, loaded) = (Instant::now(), busy());
    Ok(RestAndLoad {
        rest: used(&at_first, &rested),
        rested: (loads - began).as_secs_f64(),
        load: used(&rested, &loaded),
        loaded: (ended - loads).as_secs_f64(),
        did,
        computed,
    })
}

impl RestAndLoad {
    /// The processor time of a process under load beyond that at rest. Unit: seconds.
    fn more(&self, process: &NumberedProcess) -> f64 {
        let of = |busy: &Busy| busy.get(process).copied().unwrap_or(0.0);
        of(&self.load) - of(&self.rest) * self.loaded / self.rested.max(1e-3)
    }

    fn of_one(&self, working: &[NumberedProcess]) -> Option<f64> {
        let seconds = working.iter().map(|process| self.more(process)).sum::<f64>() - self.computed;
        (self.did > 0.0 && seconds > 0.0).then(|| seconds * 1e6 / self.did)
    }
}

/// Processes that took more under load in every pair.
fn working(pairs: &[RestAndLoad]) -> Vec<NumberedProcess> {
    let Some(first) = pairs.first() else { return Vec::new() };
    let works = |process: &&NumberedProcess| pairs.iter().all(|pair| pair.more(process) > 0.0);
    first.load.keys().filter(works).copied().collect()
}

/// Between two moments, of the processes that were there at both.
fn used(before: &Busy, after: &Busy) -> Busy {
    let since = |(process, now): (&NumberedProcess, &f64)| Some((*process, now - before.get(process)?));
    after.iter().filter_map(since).collect()
}

/// Of every process that can be seen, since its start.
fn busy() -> Busy {
    let ticks = rustix::param::clock_ticks_per_second();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Busy::new() };
    let of = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let (began, seconds) = times(&std::fs::read_to_string(entry.path().join("stat")).ok()?, ticks)?;
        Some((NumberedProcess { pid, began }, seconds))
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

    fn process(pid: u32) -> NumberedProcess {
        NumberedProcess { pid, began: 7 }
    }

    fn pair(rest: [f64; 2], load: [f64; 2]) -> RestAndLoad {
        let busy = |of: [f64; 2]| Busy::from([(process(1), of[0]), (process(2), of[1])]);
        RestAndLoad {
            rest: busy(rest),
            rested: 0.3,
            load: busy(load),
            loaded: 0.3,
            did: 1000.0,
            computed: 0.0,
        }
    }

    #[test]
    fn who_works_for_the_load_is_counted_and_who_is_busy_otherwise_is_not() {
        let pairs = [pair([0.01, 0.2], [0.11, 0.29]), pair([0.0, 0.3], [0.1, 0.21])];
        let working = working(&pairs);
        assert_eq!(working, [process(1)]);
        for pair in &pairs {
            assert!((pair.of_one(&working).unwrap_or(0.0) - 100.0).abs() < 1e-9);
        }
        assert_eq!(pairs[0].of_one(&[]), None);
        let computing = RestAndLoad { computed: 0.06, ..pair([0.01, 0.2], [0.11, 0.29]) };
        assert!((computing.of_one(&working).unwrap_or(0.0) - 40.0).abs() < 1e-9);
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
