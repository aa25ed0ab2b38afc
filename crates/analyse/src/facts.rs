//! The facts of each recording in a summary: command, rank, node, ending, completeness.

use quell_counters::ClientCounters;
use quell_trace::{Completeness, Context, Ended, Exit, Header, NodeId, RankId};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// One recording of a summary.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordingFacts {
    /// The rank, under a launcher.
    pub rank: Option<RankId>,
    /// The name under which it was opened; escaped.
    pub name: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// Its ending; `None` when the recording ended first.
    pub exit: Option<Exit>,
    /// Its duration. Unit: seconds.
    pub seconds: Option<f64>,
    /// Its begin. Unit: seconds since 1970.
    pub began: f64,
    /// The node's name.
    pub host: String,
    /// The node's number in the job.
    pub node: Option<NodeId>,
    /// Ranks of the job.
    pub ranks: Option<u32>,
    /// Job and step.
    pub job: Option<String>,
    /// The engine that recorded it.
    pub engine: String,
    /// Events in it, counted while reading.
    pub events: u64,
    /// Events that happened and are not in it.
    pub lost: u64,
    /// The working directory of the command; escaped.
    pub working_directory: String,
    /// The variables that steer searches, as the first program that had each was started with it.
    pub variables: BTreeMap<String, String>,
    /// Notes of the recorder, one sentence each.
    pub notes: Vec<String>,
    /// Its completeness.
    pub completeness: Completeness,
    /// The event that ended it, where that is known.
    pub ended: Option<Ended>,
    /// The command ran already when it began.
    pub attached: bool,
    /// Counters of the clients of its node.
    pub client_counters: Option<ClientCounters>,
}

impl RecordingFacts {
    /// The facts of a header; events are counted while they are read.
    pub fn new(name: &str, header: &Header) -> Self {
        Self {
            rank: header.rank,
            name: name.to_owned(),
            command: header.command.clone(),
            exit: header.exit,
            seconds: header.seconds,
            began: header.began,
            host: header.host.clone(),
            node: header.node,
            ranks: header.ranks,
            job: header.job.clone(),
            engine: header.recorder.engine.clone(),
            events: 0,
            lost: header.recorder.lost,
            working_directory: header.working_directory.clone(),
            variables: BTreeMap::new(),
            notes: header.recorder.notes.clone(),
            completeness: header.completeness,
            ended: header.ended,
            attached: header.attached,
            client_counters: header.client_counters.clone(),
        }
    }

    /// True where its events have times. A log without any is whole, and yet the duration of the command is unknown.
    pub fn has_times(&self) -> bool {
        self.seconds.is_some() || self.completeness == Completeness::Partial
    }

    pub(crate) fn with_variables(mut self, context: &Context) -> Self {
        // Sorted by execution: the first to have one counts.
        for variable in &context.variables {
            self.variables.entry(variable.name.clone()).or_insert_with(|| variable.value.clone());
        }
        self
    }

    /// The order of recordings in a summary: by rank, name, node and begin, so that the order of merging does not
    /// show.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        (self.rank, &self.name, &self.host)
            .cmp(&(other.rank, &other.name, &other.host))
            .then(self.began.total_cmp(&other.began))
            .then_with(|| (&self.command, self.events).cmp(&(&other.command, other.events)))
    }

    /// True where both are the same run of the same rank, whatever the directory is called.
    pub(crate) fn is_same_run(&self, other: &Self) -> bool {
        (self.rank, self.began.to_bits(), &self.host, &self.command, self.events)
            == (other.rank, other.began.to_bits(), &other.host, &other.command, other.events)
    }
}

/// The ending of a command in words: `status 3`, `signal 11`.
pub fn ending(exit: Exit) -> String {
    match exit {
        Exit::Status(status) => format!("status {status}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    }
}
