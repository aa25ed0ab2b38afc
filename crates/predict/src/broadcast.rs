//! The time in which one node reads a file and a job's nodes pass it on, as a closed formula.
//!
//! ```text
//! m parts of P bytes; fan-out k and d levels, as nodes choose them; B link, F file server, T taking: bytes a second
//! L latency, p the time of a place, s the time within which nodes start, f the first byte, r a small read of the file server
//!
//! file = max(P / F, (r + P / F + P / T) / 4)    a part from the file server, of which a node reads four at once
//! pass = max(k P / B, P / T)                    a part to the next level, while others come
//! hop  = k P / B + L + P / T                    the same of a part alone
//!
//! down    = f + P / F + P / T + d hop - s + (m - 1) max(pass, file)   down the tree, from the first node to the last
//! joined  = place + hop + (m - 1) pass - k (k - 1) s / 2 N
//!           to a node that comes when its parent has parts, and the parent's other children have come a little before
//! place   = max(p, N p - s) + 17 L              where the first node gives out places
//!         = max(q, d q - s) + 12 L              where nodes place themselves, q = 5 L and the time of redeeming the key
//! seconds = max(down, joined) + 2 L
//! ```
//!
//! 17 latencies are the messages of a node that joins and then asks its parent, 12 those of a node that knows its place. From
//! [`NUMBERED_MIN`] nodes on they place themselves, under a launcher that tells them the hosts of all. The time counts from the start of the last node.
//!
//! **Assumptions** Links are alike and full duplex, no switch is full, and nodes start evenly spread. None fails, and none of the
//! programs misses a part before it comes. **Range** Under other launchers all nodes must have their places within the 5 s for which
//! they look for one, [`all_find_peers`], and each of many nodes adds [`PLACING`] to the time. The formula is within 15 % of the simulation of the code itself, `quell_spread::simulation`, for links of
//! 0.1 to 10 GB/s and files from 1 MB to 1 GB on up to 64 nodes, to 64 MB on up to 1024. On 4096 nodes 10 MB are compared on all
//! links, and 64 MB on links of 1 GB/s: `tests/broadcast.rs`.

use quell_spread::simulation::{KEY_MESSAGES, MESSAGES, NUMBERED_MESSAGES, PLACING, REDEEMING, TAKING};
use quell_spread::{JOIN, NUMBERED_MIN, PART, READERS, fan_out, levels, numbered_fan_out};

/// A file and the nodes that get it. Unit of rates: bytes a second; of times: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BroadcastJob {
    /// Nodes, with the one that reads. Range: 1 and up.
    pub nodes: f64,
    /// Length of the file.
    pub bytes: f64,
    /// Rate of a node's link, in each direction.
    pub link_rate: f64,
    /// Latency from one node to another.
    pub latency: f64,
    /// Rate at which the first node reads the file.
    pub file_rate: f64,
    /// Time until the first byte of the file has come.
    pub first_byte: f64,
    /// Time of a small read of the file.
    pub small_read: f64,
    /// Time within which all nodes start.
    pub skew: f64,
}

impl BroadcastJob {
    /// From the start of the last node until all have the file. Unit: seconds.
    pub fn seconds(&self) -> f64 {
        let parts = (self.bytes / PART as f64).ceil().max(1.0);
        let part = self.bytes / parts;
        let (alone, taking) = (part / self.file_rate, part / TAKING);
        let file = alone.max((self.small_read + alone + taking) / READERS as f64);
        let first = self.first_byte + alone + taking;
        if self.nodes <= 1.0 {
            return first + (parts - 1.0) * file;
        }
        let nodes = self.nodes.min(f64::from(u32::MAX)) as u32;
        let fan_out = match nodes >= NUMBERED_MIN {
            true => numbered_fan_out(nodes),
            false => fan_out(nodes, parts.min(f64::from(u32::MAX)) as u32),
        };
        let link = f64::from(fan_out).min(self.nodes - 1.0) * part / self.link_rate;
        let (hop, pass) = (link + self.latency + taking, link.max(taking));
        let levels = f64::from(levels(nodes, fan_out));
        let down = first + levels * hop - self.skew + (parts - 1.0) * pass.max(file);
        let coming = (parts - 1.0) * pass - self.head_start_of_siblings(f64::from(fan_out));
        let joined =
            self.last_place(levels) + hop + coming.max((parts - 1.0) * taking.max(part / self.link_rate));
        down.max(joined) + 2.0 * self.latency
    }

    /// The time for which the other children of the last node's parent have had its link to themselves. Unit: seconds.
    fn head_start_of_siblings(&self, fan_out: f64) -> f64 {
        fan_out * (fan_out - 1.0) / 2.0 * self.skew / (self.nodes - 1.0)
    }

    /// The time of the last node until it has a place and has asked for parts. Unit: seconds.
    fn last_place(&self, levels: f64) -> f64 {
        let (times, one, messages) = match self.nodes >= f64::from(NUMBERED_MIN) {
            true => (levels, REDEEMING.as_secs_f64() + KEY_MESSAGES as f64 * self.latency, NUMBERED_MESSAGES),
            false => (self.nodes - 1.0, PLACING.as_secs_f64(), MESSAGES),
        };
        (times * one - self.skew).max(one) + messages as f64 * self.latency
    }
}

/// True if the first node can give all nodes that start within `skew` seconds their places before they give up the search for it. Those
/// that give up read the file by themselves. Nodes that place themselves need not.
pub fn all_find_peers(nodes: f64, skew: f64) -> bool {
    nodes * PLACING.as_secs_f64() - skew < JOIN.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_nodes_the_more_time_they_need_to_join() {
        assert!(all_find_peers(40_000.0, 0.0) && !all_find_peers(100_000.0, 0.0));
        assert!(all_find_peers(100_000.0, 10.0));
    }
}
