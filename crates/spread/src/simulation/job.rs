//! A job that is simulated, and the result.

use std::time::Duration;

use crate::places::NUMBERED_MIN;
pub use crate::places::TAKING;

/// The time in which the first node gives a place: its part of the messages and proofs of one connection. Half of the processor time
/// of both ends together, 360 us on an AMD EPYC, spread over two cores.
pub const PLACING: Duration = Duration::from_micros(100);

/// The time in which a node has the key from a credential: a process of MUNGE, and its daemon's answer.
pub const REDEEMING: Duration = Duration::from_millis(5);

/// A job that is simulated. Unit of rates: bytes a second.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedJob {
    /// Nodes, with the first. Range: 1 and up.
    pub nodes: u32,
    /// Length of the file.
    pub bytes: u64,
    /// Rate of a node's link, in each direction.
    pub link_rate: f64,
    /// Latency from one node to another.
    pub latency: Duration,
    /// Rate at which the file server sends, to all nodes together.
    pub file_rate: f64,
    /// Latency from a node to the file server.
    pub file_latency: Duration,
    /// Rate at which a node takes parts.
    pub taking: f64,
    /// Time in which the first node gives a place.
    pub placing: Duration,
    /// Time within which all nodes start, evenly spread.
    pub skew: Duration,
    /// Programs on each node wait for the file from its start on, as those of `quell run` do.
    pub has_users: bool,
    /// Nodes place themselves: the launcher tells each its number and the hosts of all.
    pub is_numbered: bool,
    /// Time in which a node redeems the credential of the key, where it places itself.
    pub redeeming: Duration,
    /// Nodes to which each passes on; `None` for the one that real nodes choose.
    pub fan_out: Option<u32>,
    /// Nodes that are not as the others are. Shape: by the number of the node, of which 0 is the first.
    pub faults: Vec<(u32, SimulatedFault)>,
    /// Of all that is random.
    pub seed: u64,
}

impl SimulatedJob {
    /// A job on links of 1 GB/s, with a file server of the same rate, under a launcher that tells the hosts of all nodes.
    pub fn new(nodes: u32, bytes: u64) -> Self {
        Self {
            nodes,
            bytes,
            link_rate: 1e9,
            latency: Duration::from_micros(10),
            file_rate: 1e9,
            file_latency: Duration::from_micros(100),
            taking: TAKING,
            placing: PLACING,
            skew: Duration::ZERO,
            has_users: false,
            is_numbered: nodes >= NUMBERED_MIN,
            redeeming: REDEEMING,
            fan_out: None,
            faults: Vec::new(),
            seed: 1,
        }
    }
}

/// A node that is not as the others are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SimulatedFault {
    /// It says nothing from then on.
    Dies(Duration),
    /// Its link has this rate. Unit: bytes a second.
    SlowLink(f64),
}

/// The result of a run. Dead nodes do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SimulatedRun {
    /// The seed of the run.
    pub seed: u64,
    /// The start of the last node, from that of the first one. Unit: seconds.
    pub last_start: f64,
    /// Until the last node has the file, from the start of the first one. Unit: seconds.
    pub seconds: f64,
    /// The longest time of a node from its own start until it has the file. Unit: seconds.
    pub slowest_node: f64,
    /// The longest time from a node's start to its place. Unit: seconds.
    pub slowest_place: f64,
    /// Bytes that the file server sent.
    pub from_file: u64,
    /// Bytes that came from peers.
    pub from_peers: u64,
    /// Nodes that read the file system, with the first.
    pub readers: u32,
    /// Connections that the first node refused, since it had too many.
    pub refused: u64,
    /// Peers that were left.
    pub left: u64,
}
