//! A trace reduced to what the nodes of a job ask of a shared file system.
//!
//! ```text
//! recording -> Script (acts on names, think times) -> Node (kernel's caches, processes, cores) -> Demand (segments)
//! ```
//!
//! The caches of a node are not estimated: its processes are replayed against them, event by event, with the profile's
//! lifetimes (`node.rs`). Only the number of nodes is left to the model.

mod node;
mod overhead;
mod script;
mod state;
mod tree;
mod windows;

pub use node::{Machine, demand};
pub use script::{Act, Deed, Facts, Script, WINDOW};
pub use tree::{NameId, Roots};
pub(crate) use windows::Windows;

use crate::PerOperation;

/// What one node asks, cut into segments of its programs' run.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// Shape: in order of time.
    pub segments: Vec<Segment>,
    /// Processes on the node.
    pub processes: f64,
    /// When the last process of the replay ended: what lives longer lives for ever. Unit: seconds; infinite where nobody looked.
    pub ended: f64,
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
}

impl Default for Demand {
    fn default() -> Self {
        Self { segments: Vec::new(), processes: 0.0, ended: f64::INFINITY }
    }
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

    /// Adds another demand, part by part.
    pub(crate) fn add(&mut self, other: &Self) {
        for (own, more) in self.segments.iter_mut().zip(&other.segments) {
            own.think += more.think;
            own.own_answers += more.own_answers;
            own.bytes += more.bytes;
            own.waits.add_all(&more.waits, 1.0);
            own.asks.add_all(&more.asks, 1.0);
        }
        self.ended = self.ended.max(other.ended);
    }

    /// Multiplies all but the number of processes.
    pub(crate) fn scale(&mut self, factor: f64) {
        for segment in &mut self.segments {
            segment.think *= factor;
            segment.own_answers *= factor;
            segment.bytes *= factor;
            segment.waits.0.iter_mut().for_each(|number| *number *= factor);
            segment.asks.0.iter_mut().for_each(|number| *number *= factor);
        }
    }

    /// Moves what is asked and waited for towards that of another replay of the same run. Range of `share`: 0 to 1.
    pub(crate) fn towards(&mut self, other: &Self, share: f64) {
        let line = |own: &mut f64, other: f64| *own += (other - *own) * share;
        for (own, other) in self.segments.iter_mut().zip(&other.segments) {
            own.waits.0.iter_mut().zip(other.waits.0).for_each(|(own, other)| line(own, other));
            own.asks.0.iter_mut().zip(other.asks.0).for_each(|(own, other)| line(own, other));
            line(&mut own.own_answers, other.own_answers);
            line(&mut own.bytes, other.bytes);
        }
        self.ended = self.ended.max(other.ended);
    }

    /// Raises what is asked and waited for to that of another replay of the same run.
    pub(crate) fn at_least(&mut self, other: &Self) {
        for (own, least) in self.segments.iter_mut().zip(&other.segments) {
            own.waits.0.iter_mut().zip(least.waits.0).for_each(|(own, least)| *own = own.max(least));
            own.asks.0.iter_mut().zip(least.asks.0).for_each(|(own, least)| *own = own.max(least));
            own.bytes = own.bytes.max(least.bytes);
        }
        self.ended = self.ended.max(other.ended);
    }

    /// Answers that one process gets from its client without waiting.
    pub(crate) fn own_answers(&self) -> f64 {
        self.segments.iter().map(|segment| segment.own_answers).sum()
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
