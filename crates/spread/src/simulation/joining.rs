//! The places of nodes, as the first one gives them.

use super::job::SimulatedJob;
use crate::places::{CONNECTIONS_MAX, NodePlaces, WAITING_MAX, ancestors_of, fan_out, numbered_fan_out};
use std::net::SocketAddr;

/// The first node as nodes that join see it. Unit of times: ns.
#[derive(Debug)]
pub(super) struct FirstNode {
    places: NodePlaces,
    /// Of nodes that place themselves.
    numbered: u32,
    placing: u64,
    free: u64,
    /// Connections of nodes that want a place.
    open: usize,
}

impl FirstNode {
    pub(super) fn new(job: &SimulatedJob, parts: u32) -> Self {
        let fan_out = job.fan_out.unwrap_or_else(|| fan_out(job.nodes, parts));
        let places = NodePlaces::new(job.nodes, fan_out);
        let numbered = job.fan_out.unwrap_or_else(|| numbered_fan_out(job.nodes));
        Self { places, numbered, placing: job.placing.as_nanos() as u64, free: 0, open: 0 }
    }

    /// A node connects, beside so many that fetch. False if it is sent away.
    pub(super) fn opens(&mut self, children: usize) -> bool {
        let opens = self.open + children < CONNECTIONS_MAX + WAITING_MAX;
        self.open += usize::from(opens);
        opens
    }

    /// A node has asked for a place. Returns the time at which it is given.
    pub(super) fn serve(&mut self, now: u64) -> u64 {
        self.free = self.free.max(now) + self.placing;
        self.free
    }

    /// The ancestors of a node that places itself.
    pub(super) fn above(&self, node: u32) -> Vec<u32> {
        ancestors_of(node, self.numbered)
    }

    /// Gives a node its place: its ancestors, the nearest first.
    pub(super) fn place(&mut self, node: u32) -> Vec<u32> {
        self.open -= 1;
        let place = self.places.join(address(node), address(0));
        place.map(|place| place.ancestors.into_iter().map(number).collect()).unwrap_or_default()
    }
}

/// Nodes have their numbers for addresses.
fn address(node: u32) -> SocketAddr {
    (node.to_be_bytes(), 1).into()
}

fn number(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(address) => address.ip().to_bits(),
        SocketAddr::V6(_) => 0,
    }
}
