//! Nodes with their caches before one server, request by request on a simulated clock: what a start takes where no machine adds
//! anything of its own. The oracle of forecasts, for tests; its time grows with nodes, processes and requests.
//!
//! Every request is under way for a round trip and waits in the server's one queue in the order in which requests were sent. A client
//! sends no more than its limit at once.

use super::StartScript;
use super::state::{ActProgress, CacheEffect, Caches, ProcessNeed};
use crate::ServerOperation;
use crate::parameters::ClientRules;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Nodes that start together, and the server that they share. Unit of times: seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cluster {
    pub(crate) nodes: usize,
    pub(crate) processes: usize,
    /// Requests of a client at once.
    pub(crate) in_flight: usize,
    pub(crate) round_trip: f64,
    /// The server's work on one request.
    pub(crate) service: f64,
}

#[derive(Clone, Debug, Default)]
struct Process {
    node: usize,
    act: usize,
    progress: ActProgress,
    answered: Option<CacheEffect>,
    has_computed: bool,
}

/// The time at which the last process has done its last act.
pub(crate) fn slowest(script: &StartScript, rules: ClientRules, cluster: &Cluster) -> f64 {
    let mut caches: Vec<Caches<'_>> = (0..cluster.nodes).map(|_| Caches::new(script, rules)).collect();
    let mut under_way: Vec<Vec<f64>> = vec![Vec::new(); cluster.nodes];
    let process = |number| Process { node: number / cluster.processes, ..Process::default() };
    let mut processes: Vec<Process> = (0..cluster.nodes * cluster.processes).map(process).collect();
    // Times are bits of positive numbers, which are in the order of the numbers.
    let mut events: BinaryHeap<Reverse<(u64, usize)>> =
        (0..processes.len()).map(|n| Reverse((0, n))).collect();
    let (mut free, mut end) = (0.0_f64, 0.0_f64);
    while let Some(Reverse((bits, number))) = events.pop() {
        let now = f64::from_bits(bits);
        end = end.max(now);
        let process = &mut processes[number];
        let node = process.node;
        let Some(act) = script.acts.get(process.act) else { continue };
        if !process.has_computed {
            process.has_computed = true;
            events.push(Reverse(((now + act.think).to_bits(), number)));
            continue;
        }
        if let Some(effect) = process.answered.take() {
            caches[node].answered(effect, now);
            process.progress.answered(effect, act, script);
        }
        let held: Vec<f64> = under_way[node].iter().copied().filter(|answer| *answer > now).collect();
        under_way[node] = held;
        let before = process.progress;
        let next = match caches[node].need(act, &mut process.progress, now) {
            ProcessNeed::Request(..) if under_way[node].len() >= cluster.in_flight => {
                process.progress = before;
                under_way[node].iter().copied().fold(f64::INFINITY, f64::min)
            }
            ProcessNeed::Request(operation, effect) => {
                let arrives = now + cluster.round_trip;
                let answer = match operation {
                    ServerOperation::Read => arrives,
                    _ => {
                        free = free.max(arrives) + cluster.service;
                        free
                    }
                };
                under_way[node].push(answer);
                caches[node].sent(effect, answer);
                process.answered = Some(effect);
                answer
            }
            ProcessNeed::Own(_) => {
                process.progress.step += 1;
                now
            }
            ProcessNeed::Answer { at, .. } => at.next_up(),
            ProcessNeed::Nothing => {
                *process = Process { node, act: process.act + 1, ..Process::default() };
                now
            }
        };
        events.push(Reverse((next.to_bits(), number)));
    }
    end + script.tail
}
