//! The least time and the most, the number of nodes from which a station decides, and its load.
//!
//! With `T1` the time of one node alone and `D` what it wants of a station, N nodes take at least `max(T1, N Dmax)`. A
//! process waits at a station only while that works for others, so it waits no longer than all the others' work there,
//! those of its own node included: N nodes take at most `T1 + sum (N D - what it is served itself)`. That needs no assumption
//! but that a station is never idle while a process waits at it. Source: Denning and Buzen (1978), asymptotic bounds, here for
//! one job a node instead of a steady state.
//!
//! Load of a station = `N D / max(alone, skew)`, over the busiest consecutive parts of the run that hold at least half of the
//! station's demand, so that idle computing before or after cannot lower it. Where `alone` of these parts is longer than `skew`, all
//! nodes are in them together; otherwise nodes come and go at the rate `N / skew`. The knee is N at load 1.

use super::{Network, RunPart, Station};

/// Bounds of one scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// No less. Unit: seconds.
    pub lower: f64,
    /// No more. Unit: seconds.
    pub upper: f64,
}

impl Bounds {
    /// The bounds of a network.
    pub fn of(network: &Network) -> Self {
        let (alone, demand, nodes) = (network.alone(), network.demand(), network.nodes);
        let longest = demand.iter().copied().fold(0.0, f64::max);
        let served: f64 = network.parts.iter().flat_map(|part| part.served).sum();
        let skew = network.skew;
        Self {
            lower: (alone + skew).max(nodes * longest),
            upper: alone + skew + nodes * demand.iter().sum::<f64>() - served,
        }
    }
}

/// Stations that fail requests when they are fully used. Shared cores are none of them: they make a start slow, and nothing fails.
const SERVERS: [Station; 3] = [Station::Metadata, Station::Data, Station::Gateways];

/// The number of nodes at which a shared server, or the shared cores, are fully used; with more nodes, time grows in proportion to
/// their number. Infinite when nothing is shared.
pub fn knee(network: &Network) -> f64 {
    Station::ALL.map(|station| knee_of(network, station)).into_iter().fold(f64::INFINITY, f64::min)
}

/// The load of a server while most of the nodes are there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServerLoad {
    /// The server.
    pub station: Station,
    /// Demand divided by capacity.
    pub load: f64,
}

/// The loads of all servers.
pub fn server_loads(network: &Network) -> [ServerLoad; SERVERS.len()] {
    SERVERS.map(|station| ServerLoad { station, load: network.nodes / knee_of(network, station) })
}

/// The least `max(alone, skew) / demand` of all consecutive parts that hold at least half of a station's demand.
fn knee_of(network: &Network, station: Station) -> f64 {
    let wanted = |part: &RunPart| part.demand[station as usize];
    let all: f64 = network.parts.iter().map(wanted).sum();
    let skew = network.skew;
    let mut least = f64::INFINITY;
    for begin in 0..network.parts.len() {
        let (mut alone, mut demand) = (0.0, 0.0);
        for part in &network.parts[begin..] {
            alone += part.alone;
            demand += wanted(part);
            if demand > 0.0 && demand >= all / 2.0 {
                least = least.min(alone.max(skew) / demand);
            }
        }
    }
    least
}
