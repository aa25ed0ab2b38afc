//! The places of nodes in the tree. Pure.
//!
//! Nodes are numbered as they come, the first being the one that reads the file system. Node `n` of a tree with fan-out `k` fetches
//! from node `(n - 1) / k`; where that fails from its parent in turn, and so on up to the first. So sources never go in circles, and
//! the nodes below a dead one load its parent alone.
//!
//! The first node gives out the numbers, in the order in which nodes come: then parents are there. In a large job nodes take those
//! that their launcher gave them, if they can tell their parents' addresses from that.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Most nodes of a tree.
pub(crate) const NODES_MAX: u32 = 1 << 20;

/// Most connections that a node attends to at once, each by a thread.
pub(crate) const CONNECTIONS_MAX: usize = 1024;

/// Most connections beside those, which wait for a thread. A peer that is sent away comes again, or goes to another.
pub(crate) const WAITING_MAX: usize = 16_384;

/// Most children of a node: those of the tree, and those whose parents have died.
pub(crate) const CHILDREN_MAX: usize = 64;

/// Ancestors that a node is told, besides the first node.
const ANCESTORS: usize = 7;

/// The fan-out by which all nodes have the file soonest: a node sends each part to its children beside each other.
/// 1 is a chain.
///
/// **Source** The time of the last node in parts: `k * parts` until the first node has sent all, and for each level below `k`,
/// and `TAKING_TIME` until a node can give on what has come. Links are alike, and carry what a node sends and what it receives at
/// the same time.
pub fn fan_out(nodes: u32, parts: u32) -> u32 {
    let time = |fan_out: u32| {
        let levels = f64::from(levels(nodes.max(1), fan_out));
        f64::from(fan_out) * f64::from(parts) + levels * (f64::from(fan_out) + TAKING_TIME)
    };
    (1..=4).min_by(|one, other| time(*one).total_cmp(&time(*other))).unwrap_or(2)
}

/// Nodes of a job from which on they place themselves, where the launcher tells each its number and the hosts of all: the first node
/// would be busy for longer than the key takes from level to level, and than nodes wait for parents that start later: 0.5 s at most.
pub const NUMBERED_MIN: u32 = 8192;

/// The fan-out of nodes that place themselves: that of a file of usual size, whose length not all of them know.
pub fn numbered_fan_out(nodes: u32) -> u32 {
    fan_out(nodes, 64)
}

/// The ancestors of a node by their numbers, the nearest first. Shape: [`ANCESTORS`] at most, and the first node, which is 0.
pub(crate) fn ancestors_of(number: u32, fan_out: u32) -> Vec<u32> {
    let parent = |number: u32| (number > 0).then(|| (number - 1) / fan_out);
    let above = std::iter::successors(parent(number), |number| parent(*number));
    above.take_while(|number| *number > 0).take(ANCESTORS).chain([0]).collect()
}

/// The nodes of `nodes` that fetch from a node.
pub(crate) fn children_of(number: u32, (nodes, fan_out): (u32, u32)) -> u32 {
    let first = u64::from(number) * u64::from(fan_out) + 1;
    u64::from(nodes).saturating_sub(first).min(fan_out.into()) as u32
}

/// The rate at which a node takes parts: receive, digest and write. Measured on an AMD EPYC in memory: 0.15, 0.16 and 0.45 ms a
/// part. Unit: bytes a second.
pub const TAKING: f64 = 1.4e9;

/// The time in which a node takes a part. Unit: the time in which a link of 1 GB/s sends one.
const TAKING_TIME: f64 = 1e9 / TAKING;

/// Levels of nodes below the first one.
pub fn levels(nodes: u32, fan_out: u32) -> u32 {
    if fan_out == 1 {
        return nodes - 1;
    }
    let (mut depth, mut level, mut all) = (0, 1, 1_u64);
    while all < u64::from(nodes) {
        level *= u64::from(fan_out);
        all += level;
        depth += 1;
    }
    depth
}

/// The place of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodePlace {
    /// Its number.
    pub number: u32,
    /// Peers to fetch from, the nearest first. Shape: not empty.
    pub ancestors: Vec<SocketAddr>,
    /// Nodes that will fetch from it, as far as the number of nodes is known.
    pub children: u32,
}

/// The tree as the first node knows it.
#[derive(Debug)]
pub(crate) struct NodePlaces {
    addresses: Vec<Option<SocketAddr>>,
    fan_out: u32,
    /// Nodes that are expected, with the first; 0 if that is not known.
    expected: u32,
}

impl NodePlaces {
    /// A tree of the first node alone.
    pub(crate) fn new(expected: u32, fan_out: u32) -> Self {
        Self { addresses: vec![None], fan_out: fan_out.max(1), expected }
    }

    /// The children of the first node.
    pub(crate) fn children(&self) -> u32 {
        self.children_of(0)
    }

    /// Nodes that have come, with the first.
    pub(crate) fn nodes(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// A node that listens at `address` comes, and reached the first at `first`. `None` when there are too many.
    pub(crate) fn join(&mut self, address: SocketAddr, first: SocketAddr) -> Option<NodePlace> {
        let number = self.nodes();
        if number >= NODES_MAX {
            return None;
        }
        self.addresses.push(Some(address));
        let above = ancestors_of(number, self.fan_out);
        let ancestors =
            above.into_iter().map(|above| self.addresses[above as usize].unwrap_or(first)).collect();
        Some(NodePlace { number, ancestors, children: self.children_of(number) })
    }

    fn children_of(&self, number: u32) -> u32 {
        children_of(number, (self.expected, self.fan_out))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        ([10, 0, 0, 1], port).into()
    }

    #[test]
    fn few_nodes_are_a_chain_and_many_a_tree() {
        let cases = [
            ((1, 64), 1),
            ((16, 64), 1),
            ((40, 64), 1),
            ((64, 64), 2),
            ((128, 64), 2),
            ((4096, 64), 2),
            ((4096, 1), 4),
        ];
        for ((nodes, parts), expected) in cases {
            assert_eq!(fan_out(nodes, parts), expected, "{nodes} {parts}");
        }
        assert_eq!((levels(1, 2), levels(3, 2), levels(4, 2), levels(7, 2), levels(8, 2)), (0, 1, 2, 2, 3));
    }

    #[test]
    fn every_node_has_the_ancestors_up_to_the_first() {
        let mut places = NodePlaces::new(6, 2);
        assert_eq!(places.children(), 2);
        let joined: Vec<NodePlace> = (1..6).map(|port| places.join(at(port), at(0)).unwrap()).collect();
        let ancestors: Vec<Vec<u16>> =
            joined.iter().map(|place| place.ancestors.iter().map(SocketAddr::port).collect()).collect();
        assert_eq!(ancestors, [vec![0], vec![0], vec![1, 0], vec![1, 0], vec![2, 0]]);
        assert_eq!(joined.iter().map(|place| place.children).collect::<Vec<_>>(), [2, 1, 0, 0, 0]);
        let mut chain = NodePlaces::new(0, 1);
        let last = (1..=20).map(|port| chain.join(at(port), at(0)).unwrap()).last().unwrap();
        let ports: Vec<u16> = last.ancestors.iter().map(SocketAddr::port).collect();
        assert_eq!((ports, last.children), (vec![19, 18, 17, 16, 15, 14, 13, 0], 0));
    }
}
