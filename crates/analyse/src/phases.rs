//! The phases of a start-up: loader, initialisation, MPI_Init, steady state; with the rate of each, because a storm is
//! a rate.

use quell_trace::{Context, Event, Nanos, PathTable};
use std::collections::BTreeMap;

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The dynamic loader maps a program and the libraries that it needs, until the program's own first call.
    Loader,
    /// Imports and configuration, until nothing new is loaded.
    Initialisation,
    /// Between the begin and the end of MPI's initialisation.
    MpiInit,
    /// Everything later.
    Steady,
}

impl Phase {
    /// Every phase, in the order of a run.
    pub const ALL: [Self; 4] = [Self::Loader, Self::Initialisation, Self::MpiInit, Self::Steady];

    /// Its name in reports and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Initialisation => "initialisation",
            Self::MpiInit => "mpi-init",
            Self::Steady => "steady",
        }
    }
}

/// What was asked in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Metadata operations that began in it.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// How long it took; the longest of several recordings.
    pub length: Nanos,
}

/// The phases of one recording, or of several: operations add up, lengths are the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Shape: phases that were met, in the order of a run.
    pub counts: BTreeMap<Phase, PhaseCounts>,
}

impl Phases {
    /// Adds the phases of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (phase, counts) in other.counts {
            let mine = self.counts.entry(phase).or_default();
            mine.metadata_operations += counts.metadata_operations;
            mine.missed += counts.missed;
            mine.length = mine.length.max(counts.length);
        }
    }
}

/// The phases of one recording being found.
#[derive(Debug, Default)]
pub struct PhaseTally {
    phases: Phases,
}

impl PhaseTally {
    /// A tally of the recording that has these paths and this context.
    pub fn new(_paths: &PathTable, _context: &Context) -> Self {
        Self::default()
    }

    /// Looks at an event. Events come in the order of the recording.
    pub fn add(&mut self, _event: &Event) {}

    /// The phases that were found.
    pub fn finish(self) -> Phases {
        self.phases
    }
}
