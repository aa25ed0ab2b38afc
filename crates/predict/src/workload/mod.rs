//! A trace reduced to what the nodes of a job ask of a shared file system.
//!
//! ```text
//! recording -> Reader -> Script (acts on names, think times) -> Node (kernel's caches, processes, cores) -> Demand (segments)
//! ```
//!
//! The caches of a node are not estimated: its processes are replayed against them, event by event, with the profile's
//! lifetimes (`node.rs`). Only the number of nodes is left to the model.

mod alike;
#[cfg(test)]
pub(crate) mod cluster;
mod deeds;
mod file_bytes;
mod mapped;
mod node;
mod overhead;
mod positions;
mod presence;
mod readahead;
mod reader;
mod script;
mod state;
mod tree;
mod windows;

pub(crate) use alike::Alike;
pub(crate) use file_bytes::FileBytes;
pub use node::{Machine, demand};
pub use script::{Act, Deed, NameFacts, PAGE, StartScript};
pub use tree::{NameId, Roots};
pub(crate) use windows::Windows;

use crate::PerOperation;

/// The demand of one node, cut into segments of its programs' run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Demand {
    /// Shape: in order of time.
    pub segments: Vec<Segment>,
    /// Processes on the node.
    pub processes: f64,
    /// The wait of all nodes before their first segment.
    pub broadcast: Option<Broadcast>,
    /// The other clients with the same demand.
    pub(crate) alike: Alike,
}

/// A file that one node reads and the nodes pass on to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Broadcast {
    /// Until the last node has it. Unit: seconds.
    pub seconds: f64,
    /// Requests of the node that reads it.
    pub asks: PerOperation,
    /// Data that it fetches. Unit: bytes.
    pub bytes: f64,
}

/// A part of the run of a node's processes, which go through it beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Segment {
    /// Computing of one process. Unit: seconds.
    pub think: f64,
    /// Answers that one process gets from its client without waiting for a server.
    pub own_answers: f64,
    /// Requests that one process waits for, one after the other; those that another process of the node sent count
    /// by the part that was left to wait.
    pub waits: PerOperation,
    /// Requests of the whole node.
    pub asks: PerOperation,
    /// Data that the node fetches. Unit: bytes.
    pub bytes: f64,
    /// Data that one process waits for, beside what a request takes that brings little. Unit: bytes.
    pub awaited: f64,
    /// The node's requests to its gateway; what is asked and fetched above is then what the gateway asks of servers for it.
    pub forwarded: ForwardedRequests,
}

/// Requests of a node to its gateway, all 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ForwardedRequests {
    /// Of the whole node.
    pub asks: f64,
    /// Those that one process waits for.
    pub waits: f64,
    /// Data that comes to the node. Unit: bytes.
    pub bytes: f64,
}

impl Demand {
    /// Requests of the whole node.
    pub fn asks(&self) -> PerOperation {
        let mut all = PerOperation::default();
        self.segments.iter().for_each(|segment| all.add_all(&segment.asks, 1.0));
        all
    }

    /// Requests that one process waits for.
    pub fn waits(&self) -> PerOperation {
        let mut all = PerOperation::default();
        self.segments.iter().for_each(|segment| all.add_all(&segment.waits, 1.0));
        all
    }

    /// Changes what is asked and waited for by that of another replay of the same run, part by part.
    fn change_by(&mut self, other: &Self, change: impl Fn(&mut f64, f64)) {
        for (own, other) in self.segments.iter_mut().zip(&other.segments) {
            own.waits.0.iter_mut().zip(other.waits.0).for_each(|(own, other)| change(own, other));
            own.asks.0.iter_mut().zip(other.asks.0).for_each(|(own, other)| change(own, other));
            change(&mut own.bytes, other.bytes);
            change(&mut own.awaited, other.awaited);
        }
        self.alike.and(&other.alike);
    }

    /// Adds another demand.
    pub(crate) fn add(&mut self, other: &Self) {
        self.change_by(other, |own, more| *own += more);
        for (own, more) in self.segments.iter_mut().zip(&other.segments) {
            own.think += more.think;
            own.own_answers += more.own_answers;
        }
    }

    /// Multiplies all but the number of processes.
    pub(crate) fn scale(&mut self, factor: f64) {
        for segment in &mut self.segments {
            let Segment { think, own_answers, waits, asks, bytes, awaited, forwarded } = segment;
            let ForwardedRequests { asks: sent, waits: held, bytes: brought } = forwarded;
            let single = [think, own_answers, bytes, awaited, sent, held, brought];
            let all = single.into_iter().chain(&mut waits.0).chain(&mut asks.0);
            all.for_each(|number| *number *= factor);
        }
    }

    /// Moves what is asked and waited for towards that of another replay. Range of `share`: 0 to 1.
    pub(crate) fn towards(&mut self, other: &Self, share: f64) {
        let line = |own: &mut f64, other: f64| *own += (other - *own) * share;
        self.change_by(other, line);
        for (own, other) in self.segments.iter_mut().zip(&other.segments) {
            line(&mut own.own_answers, other.own_answers);
        }
    }

    /// The demand of a node behind a gateway: what it asks goes to the gateway, which asks the servers for `nodes` of them what `shared`
    /// says of all their processes together.
    pub(crate) fn through(&mut self, shared: &Self, nodes: f64) {
        for (own, shared) in self.segments.iter_mut().zip(&shared.segments) {
            let all = |of: &PerOperation| of.0.iter().sum::<f64>();
            own.forwarded =
                ForwardedRequests { asks: all(&own.asks), waits: all(&own.waits), bytes: own.bytes };
            let least = |own: &PerOperation, shared: &PerOperation, share: f64| {
                PerOperation::of(|operation| own.get(operation).min(shared.get(operation) / share))
            };
            own.asks = least(&own.asks, &shared.asks, nodes);
            own.waits = least(&own.waits, &shared.waits, 1.0);
            own.bytes = own.bytes.min(shared.bytes / nodes);
        }
        self.alike.and(&shared.alike);
    }

    /// Raises what is asked and waited for to that of another replay.
    pub(crate) fn at_least(&mut self, other: &Self) {
        self.change_by(other, |own, least| *own = own.max(least));
    }

    /// Lowers it to that.
    pub(crate) fn at_most(&mut self, other: &Self) {
        self.change_by(other, |own, most| *own = own.min(most));
    }

    /// Answers that one process gets from its client without waiting.
    pub(crate) fn own_answers(&self) -> f64 {
        self.segments.iter().map(|segment| segment.own_answers).sum()
    }

    /// Requests to a gateway that one process waits for.
    pub(crate) fn forwarded_waits(&self) -> f64 {
        self.segments.iter().map(|segment| segment.forwarded.waits).sum()
    }

    /// Data that one process waits for. Unit: bytes.
    pub(crate) fn awaited(&self) -> f64 {
        self.segments.iter().map(|segment| segment.awaited).sum()
    }

    /// Computing of one process. Unit: seconds.
    pub fn think(&self) -> f64 {
        self.segments.iter().map(|segment| segment.think).sum()
    }

    /// Data that the node fetches. Unit: bytes.
    pub fn bytes(&self) -> f64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }
}

#[cfg(test)]
mod tests;
