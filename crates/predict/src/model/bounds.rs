//! What no schedule can beat, what none exceeds, and from how many nodes on a station decides.
//!
//! With `T1` the time of one node alone and `D` what it wants of a station, N nodes take at least `max(T1, N Dmax)`. A
//! process waits at a station only while that works for others, so it waits no longer than all the others' work there,
//! those of its own node included: N nodes take at most `T1 + sum (N D - what it is served itself)`. That needs no assumption
//! but that a station is never idle while somebody waits at it. Source: Denning and Buzen (1978), asymptotic bounds, here for
//! one job a node instead of a steady state.
//!
//! The knee is `N* = alone / D` over the busiest stretch of a run that holds half of what the run wants of the station:
//! computing before and behind the storm makes no storm smaller.

use super::{Network, Part, Station};

/// Bounds of one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// No less. Unit: seconds.
    pub lower: f64,
    /// No more. Unit: seconds.
    pub upper: f64,
    /// Nodes from which on the busiest station is full; infinite when nothing is shared.
    pub knee: f64,
}

impl Bounds {
    /// The bounds of a network.
    pub fn of(network: &Network) -> Self {
        let (alone, demand, nodes) = (network.alone(), network.demand(), network.nodes);
        let longest = demand.iter().copied().fold(0.0, f64::max);
        let served: f64 = network.parts.iter().flat_map(|part| part.served).sum();
        let skew = network.skew * last_start(nodes);
        let knees =
            Station::ALL.map(|station| knee(&network.parts, station as usize, demand[station as usize]));
        Self {
            lower: (alone + skew).max(nodes * longest),
            upper: alone + skew + nodes * demand.iter().sum::<f64>() - served,
            knee: knees.into_iter().fold(f64::INFINITY, f64::min),
        }
    }

    /// How often the nodes' demand is what the busiest station can do in the time of one node's busiest stretch.
    pub fn load(&self, nodes: f64) -> f64 {
        nodes / self.knee
    }
}

/// The least `alone / demand` of all stretches that hold at least half of what is wanted of a station.
fn knee(parts: &[Part], station: usize, all: f64) -> f64 {
    let mut least = f64::INFINITY;
    for begin in 0..parts.len() {
        let (mut alone, mut demand) = (0.0, 0.0);
        for part in &parts[begin..] {
            alone += part.alone;
            demand += part.demand[station];
            if demand > 0.0 && demand >= all / 2.0 {
                least = least.min(alone / demand);
            }
        }
    }
    least
}

/// The share of the skew after which the last node starts. One node does not wait for others.
fn last_start(nodes: f64) -> f64 {
    if nodes > 1.0 { 1.0 } else { 0.0 }
}
