//! The phases of a start-up: loader, initialisation, MPI_Init, steady state; with the rate of each, because a storm is a
//! rate.
//!
//! Every program that a process executes goes through its own phases, and forked children without a program of their own
//! go with their parent. An operation counts in the phase in which its program is:
//!
//! ```text
//! execve -- loader --> | -- initialisation --> [ MPI_Init ] -- initialisation --> | -- steady --> end
//!        until all that    until no new code                                          everything
//!        is needed is      is loaded                                                  else
//!        mapped
//! ```
//!
//! **Loader** is exact where the recording has the headers of programs and libraries: it ends when everything that they
//! name as needed has been mapped. Otherwise (an imported log) it ends with the first call that a loader does not make.
//! A static program has none. `LD_AUDIT` may end it early.
//!
//! **Initialisation** is a judgement: it ends with the last file of code or configuration, told by its name, that the
//! program opens for the first time. When nothing new has been loaded for a second and for as long as it had taken so far,
//! what is loaded later (at the exit, or on demand) is steady state.
//!
//! **MPI_Init** is a judgement by landmarks: names that Open MPI, MPICH, PMIx, UCX, libfabric and hwloc look for only then.
//! It needs an MPI library in the program, or a static program. It begins with the first landmark and ends with the last
//! that no more than a few other operations separate from the one before.
//!
//! The error was measured with programs that mark the borders by calls of their own (glibc 2.36, Python 3.11, Open
//! MPI 4.1, MPICH 4.0; 700 to 900 metadata operations each): the end of the loader, of the imports, and both ends of MPI_Init
//! came out to the operation. Tests allow MPI_Init 2 operations in 100, because neighbours are waited for.

mod loader;
mod names;
mod program;
mod tally;

pub use tally::PhaseTally;

use quell_trace::Nanos;
use std::collections::BTreeMap;

/// A phase of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The dynamic loader maps a program and the libraries that it needs, until the program's own first call.
    Loader,
    /// Imports and configuration, until nothing new is loaded.
    Initialisation,
    /// Between the start and the end of MPI's initialisation.
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

/// The operations of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseCounts {
    /// Metadata operations of programs that were in it.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// The time in which at least one program was in it; the longest of several recordings, zero when none has
    /// times.
    pub length: Nanos,
}

/// The phases of one recording, or of several: operations add up, lengths are the longest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Shape: phases that were met, in the order of a run.
    pub counts: BTreeMap<Phase, PhaseCounts>,
}

impl Phases {
    /// The same of a recording whose events have no times.
    pub(crate) fn without_times(mut self) -> Self {
        self.counts.values_mut().for_each(|counts| counts.length = Nanos(0));
        self
    }

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
