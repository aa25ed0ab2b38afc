//! What no schedule can beat, and what none exceeds.
//!
//! With `T1` the time of one node alone and `D` what it wants of a station, N nodes take at least `max(T1, N Dmax)` and
//! at most `T1 + (N - 1) sum D`, start skew apart. The knee, where the two meet, is `N* = T1 / Dmax`. Source: Denning and
//! Buzen (1978), asymptotic bounds, here for one job a node instead of a steady state; so the upper bound needs no
//! assumption but that a station is never idle while somebody waits at it.

use super::{Network, Station};

/// Bounds of one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// No less. Unit: seconds.
    pub lower: f64,
    /// No more. Unit: seconds.
    pub upper: f64,
    /// Nodes from which on the busiest station decides; infinite when nothing is shared.
    pub knee: f64,
    /// The busiest station, and what one node wants of it in seconds.
    pub busiest: (Station, f64),
}

impl Bounds {
    /// The bounds of a network.
    pub fn of(network: &Network) -> Self {
        let (alone, demand) = (network.alone(), network.demand());
        let mut busiest = (Station::Metadata, demand[0]);
        for station in Station::ALL {
            if demand[station as usize] > busiest.1 {
                busiest = (station, demand[station as usize]);
            }
        }
        let nodes = network.nodes;
        let others = (nodes - 1.0).max(0.0) * demand.iter().sum::<f64>();
        Self {
            lower: (alone + network.skew * last_start(nodes)).max(nodes * busiest.1),
            upper: alone.max(demand.iter().copied().fold(0.0, f64::max)) + network.skew + others,
            knee: if busiest.1 > 0.0 { alone / busiest.1 } else { f64::INFINITY },
            busiest,
        }
    }

    /// How often the nodes' demand is what the busiest station can do in the time of one node.
    pub fn load(&self, nodes: f64) -> f64 {
        nodes / self.knee
    }
}

/// The share of the skew after which the last node starts. One node does not wait for others.
fn last_start(nodes: f64) -> f64 {
    if nodes > 1.0 { 1.0 } else { 0.0 }
}
