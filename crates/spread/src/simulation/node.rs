//! A node of a simulated job.

use super::file::Readers;
use super::link::Link;
use crate::fetching::{Fetching, Pace, Serving};
use crate::join::JoinPauses;
use crate::sources::{Rival, SourceOrder};

/// Unit of times: ns.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) began: u64,
    /// It knows what the file is.
    pub(super) knows: bool,
    pub(super) fetching: Fetching,
    pub(super) order: SourceOrder,
    pub(super) ancestors: Vec<u32>,
    /// The peer that it fetches from.
    pub(super) upstream: Option<u32>,
    /// Number of the connection to a source. What comes over an older one is void.
    pub(super) connection: u32,
    pub(super) heard: u64,
    /// It turned to its source then.
    pub(super) turned: u64,
    pub(super) pace: Pace,
    pub(super) rival: Rival,
    pub(super) asked_whole: bool,
    pub(super) children: Vec<Child>,
    pub(super) link: Link,
    pub(super) readers: Readers,
    /// Its fetching thread works until then.
    pub(super) busy: u64,
    pub(super) pauses: JoinPauses,
    /// Ancestors at which it looks for the key, where it places itself.
    pub(super) near: usize,
    pub(super) has_key: bool,
    /// Nodes that wait for the key.
    pub(super) waiting: Vec<u32>,
    /// It reads the file system, and gives nothing on unless it is the first.
    pub(super) reads: bool,
    pub(super) died: Option<u64>,
    pub(super) done: Option<u64>,
}

/// A peer that fetches from a node.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) node: u32,
    pub(super) connection: u32,
    pub(super) knows: bool,
    pub(super) serving: Serving<u32>,
}

impl Node {
    pub(super) fn new(parts: u32, link: f64, began: u64) -> Self {
        Self {
            began,
            knows: false,
            fetching: Fetching::new(parts),
            order: SourceOrder::new(0),
            ancestors: Vec::new(),
            upstream: None,
            connection: 0,
            heard: 0,
            turned: 0,
            pace: Pace::default(),
            rival: SourceOrder::new(0).rival(),
            asked_whole: false,
            children: Vec::new(),
            link: Link::new(link),
            readers: Readers::default(),
            busy: 0,
            pauses: JoinPauses::default(),
            near: 0,
            has_key: false,
            waiting: Vec::new(),
            reads: false,
            died: None,
            done: None,
        }
    }

    pub(super) fn is_dead_at(&self, now: u64) -> bool {
        self.died.is_some_and(|died| died <= now)
    }
}
