//! Processor time of one request, of everybody on this node together: the program's own, the client's, and where client
//! and server share processors (one machine as a test bed) the server's too.
//!
//! `/proc/stat` counts the whole machine in hundredths of a second, so half a second of requests is needed, and a steady
//! machine: what it does without the load is measured before and after, and subtracted.

use super::leader::{By, Leader, names};
use super::statistics::Summary;
use crate::crew::{Names, Task};
use crate::{LoadError, Operation};
use std::time::{Duration, Instant};

const STEP: &str = "processor time of a request";

/// Processes of the load: enough to be exact, few enough that they do not wait for each other's processor.
const PROCESSES: u16 = 2;

/// Where what else the machine does changes by more than this part of the load's own time, the figure tells nothing.
const UNSURE: f64 = 0.25;

/// Microseconds of processor time for a request; `None` with a note where this machine is too busy or has no `/proc/stat`.
pub(super) fn run(leader: &mut Leader<'_>) -> Result<Option<Summary>, LoadError> {
    let mut measured = Vec::new();
    for number in 0..leader.bounds.iterations {
        if !leader.begins(STEP, f64::from(number) / f64::from(leader.bounds.iterations)) {
            break;
        }
        measured.extend(once(leader)?);
    }
    let summary = Summary::of(measured);
    if summary.is_none() {
        leader.notes.push(
            "processor time of a request: not measured, this machine is unsteadily busy with something else"
                .into(),
        );
    }
    Ok(summary)
}

fn once(leader: &mut Leader<'_>) -> Result<Option<f64>, LoadError> {
    let directory = leader.directory(By::Ours)?;
    let rest = leader.bounds.phase.max(Duration::from_millis(300));
    let before = idle(leader, rest)?;
    let (began, busy) = (Instant::now(), busy_seconds());
    let each = super::bounds::MOST_ITEMS;
    let task = |rank: u16| {
        let absent = names(Operation::StatAbsent, &directory, &format!("n{rank}."), 0, each);
        Task::Names(Names { limit_ms: 500, ..absent })
    };
    let width = PROCESSES.min(leader.bounds.processes);
    let done = leader.unkept((0..width).map(task).collect())?;
    let (seconds, used) = (began.elapsed().as_secs_f64(), busy_seconds());
    let after = idle(leader, rest)?;
    let (Some(before), Some(after), Some(busy), Some(used)) = (before, after, busy, used) else {
        return Ok(None);
    };
    let count: u64 = done.iter().map(|done| done.count).sum();
    let own = used - busy - (before + after) / 2.0 * seconds;
    let unsure = (before - after).abs() / 2.0 * seconds;
    Ok((count > 0 && own > 0.0 && unsure < UNSURE * own).then(|| own * 1e6 / count as f64))
}

/// Processors that are busy while we do nothing.
fn idle(leader: &Leader<'_>, rest: Duration) -> Result<Option<f64>, LoadError> {
    let before = busy_seconds();
    leader.sleep(rest)?;
    let after = busy_seconds();
    Ok(before.zip(after).map(|(before, after)| (after - before) / rest.as_secs_f64()))
}

fn busy_seconds() -> Option<f64> {
    busy(&std::fs::read_to_string("/proc/stat").ok()?, rustix::param::clock_ticks_per_second())
}

/// Seconds that all processors together were not idle since the machine started. Source: `proc_stat(5)`.
fn busy(stat: &str, ticks_per_second: u64) -> Option<f64> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are in user already.
    let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else { return None };
    Some((user + nice + system + irq + softirq) as f64 / ticks_per_second as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_and_other_guests_are_not_busy() {
        let stat = "cpu  100 20 30 90000 500 7 3 44 0 0\ncpu0 1 2 3\n";
        assert_eq!(busy(stat, 100), Some(1.6));
        for bad in ["", "cpu", "cpu  1 2 3", "intr 5"] {
            assert_eq!(busy(bad, 100), None, "{bad}");
        }
    }
}
