//! An exact simulation of single events: the oracle of the fluid, for tests. Every request is one event, so its time
//! grows with their number.
//!
//! Jobs go through steps: a delay of their own, then a visit of a station, where requests wait in the order in which
//! they came and one of its servers works on each.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// One step of a job.
#[derive(Clone, Copy, Debug)]
pub(super) struct JobStep {
    /// Before the visit. Unit: seconds.
    pub(super) delay: f64,
    /// The station.
    pub(super) station: usize,
    /// The work of one of its servers. Unit: seconds.
    pub(super) service: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum ExactEvent {
    Comes,
    IsServed,
}

/// Runs jobs that begin at these times through these steps; `servers` has the servers of each station. Returns when each
/// job ends. Shape: as `begins`.
pub(super) fn run(begins: &[f64], steps: impl Fn(usize) -> Vec<JobStep>, servers: &[usize]) -> Vec<f64> {
    let jobs: Vec<Vec<JobStep>> = (0..begins.len()).map(steps).collect();
    let mut at = vec![0; jobs.len()];
    let mut ends = begins.to_vec();
    let mut free = servers.to_vec();
    let mut queues: Vec<VecDeque<usize>> = vec![VecDeque::new(); servers.len()];
    // Times are bits of positive numbers, which are in the order of the numbers.
    let mut events = BinaryHeap::new();
    let mut come = |events: &mut BinaryHeap<_>, job: usize, step: usize, now: f64| match jobs[job].get(step) {
        Some(step) => events.push(Reverse(((now + step.delay).to_bits(), ExactEvent::Comes, job))),
        None => ends[job] = now,
    };
    (0..jobs.len()).for_each(|job| come(&mut events, job, 0, begins[job]));
    while let Some(Reverse((bits, what, job))) = events.pop() {
        let (now, step) = (f64::from_bits(bits), jobs[job][at[job]]);
        match what {
            ExactEvent::Comes => queues[step.station].push_back(job),
            ExactEvent::IsServed => {
                free[step.station] += 1;
                at[job] += 1;
                come(&mut events, job, at[job], now);
            }
        }
        while free[step.station] > 0 {
            let Some(next) = queues[step.station].pop_front() else { break };
            free[step.station] -= 1;
            let service = jobs[next][at[next]].service;
            events.push(Reverse(((now + service).to_bits(), ExactEvent::IsServed, next)));
        }
    }
    ends
}
