//! Doubts that a reader must know beside the numbers, as types, with advice.

use crate::{RecordingFacts, Summary, facts::ending};
use quell_trace::{Completeness, Exit, RankId};
use std::collections::BTreeSet;
use std::fmt;

/// A reason to read the numbers with care.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There are no events.
    Empty,
    /// Recorders that were ended early: the last events may be missing.
    Partial {
        /// So many of the recordings.
        recordings: usize,
    },
    /// Events that happened and were not recorded.
    Lost {
        /// Their number.
        events: u64,
    },
    /// The recorder came to a program that ran already.
    Attached,
    /// The command failed, so that its start may not be whole.
    CommandFailed {
        /// Its ending.
        exit: Exit,
    },
    /// Rings for asynchronous input and output: what is asked through them is no system call and is not seen.
    Rings {
        /// Their number.
        rings: u64,
    },
    /// More than [`UNPLACED_SHARE`] of the metadata operations are on no known file system.
    Unplaced {
        /// Their number.
        operations: u64,
        /// Of so many.
        of: u64,
    },
    /// The same run is in the summary more than once.
    CountedTwice {
        /// The name of the second recording of it.
        name: String,
    },
    /// Recordings of different commands are added up.
    CommandsDiffer,
    /// The two runs of a comparison are of unequally many recordings, so that their totals are not of equal work.
    RecordingsDiffer {
        /// Recordings of the first run.
        a: usize,
        /// Recordings of the second run.
        b: usize,
    },
    /// Not every rank of the job recorded, so that totals are not those of the job.
    RanksMissing {
        /// Ranks in the summary.
        recorded: usize,
        /// Ranks of the job.
        ranks: u32,
    },
    /// A log without any variable of the environment: which list a miss belongs to is not known.
    NoVariables,
    /// The recorder's note.
    Note {
        /// One sentence.
        text: String,
    },
}

/// Below it, operations without a file system are the pipes and sockets of any program.
pub const UNPLACED_SHARE: f64 = 0.05;

impl Doubt {
    /// The stable name in JSON.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Partial { .. } => "partial",
            Self::Lost { .. } => "lost-events",
            Self::Attached => "attached",
            Self::CommandFailed { .. } => "command-failed",
            Self::CountedTwice { .. } => "counted-twice",
            Self::CommandsDiffer => "commands-differ",
            Self::RecordingsDiffer { .. } => "recordings-differ",
            Self::RanksMissing { .. } => "ranks-missing",
            Self::Rings { .. } => "asynchronous",
            Self::Unplaced { .. } => "unknown-file-system",
            Self::NoVariables => "no-variables",
            Self::Note { .. } => "note",
        }
    }

    /// The advice; empty where the text says all.
    pub const fn advice(&self) -> &'static str {
        match self {
            Self::Empty => "record again, and check that the command ran",
            Self::Partial { .. } => "record again and let the command end; the counted operations did happen",
            Self::Lost { .. } => "read the counts as lower bounds, or record again",
            Self::Attached => "record its start with `quell record -- CMD`",
            Self::CommandFailed { .. } => "record a run that succeeds before packing",
            Self::CountedTwice { .. } => "name each recording once",
            Self::CommandsDiffer => "report each command by itself",
            Self::RecordingsDiffer { .. } => "compare the same number of ranks of both runs",
            Self::RanksMissing { .. } => "read the totals as those of the ranks that recorded",
            Self::Rings { .. } => "read the counts as lower bounds",
            Self::Unplaced { .. } => "look for chroot, containers or descriptors passed over sockets",
            Self::NoVariables => "log with `strace -v -s 4096`, or record",
            Self::Note { .. } => "",
        }
    }
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "there are no events"),
            Self::Partial { recordings: 1 } => {
                write!(f, "a recording is partial: its last events may be missing")
            }
            Self::Partial { recordings } => {
                write!(f, "{recordings} recordings are partial: their last events may be missing")
            }
            Self::Lost { events: 1 } => write!(f, "1 event was lost"),
            Self::Lost { events } => write!(f, "{events} events were lost"),
            Self::Attached => {
                write!(f, "the recording began in the middle of the run: what came before is unknown")
            }
            Self::CommandFailed { exit } => {
                write!(f, "the command ended with {}: its start may not be whole", ending(*exit))
            }
            Self::CountedTwice { name } => {
                write!(f, "`{name}` is the same run as another recording and is counted twice")
            }
            Self::CommandsDiffer => write!(f, "recordings of different commands are added up"),
            Self::RecordingsDiffer { a, b } => {
                write!(f, "a has {a} and b has {b} recordings: their totals are not of equal work")
            }
            Self::RanksMissing { recorded, ranks } => write!(f, "{recorded} of {ranks} ranks recorded"),
            Self::Rings { rings: 1 } => {
                write!(f, "1 io_uring was set up: operations through it are not seen")
            }
            Self::Rings { rings } => {
                write!(f, "{rings} io_urings were set up: operations through them are not seen")
            }
            Self::Unplaced { operations, of } => {
                write!(f, "{operations} of {of} metadata operations are on no known file system")
            }
            Self::NoVariables => {
                write!(
                    f,
                    "the log has no environment: misses in PATH, LD_LIBRARY_PATH and the like stay unexplained"
                )
            }
            Self::Note { text } => f.write_str(text),
        }
    }
}

impl Summary {
    /// Every reason to read this summary with care. Shape: distinct, in the order of [`Doubt`].
    pub fn doubts(&self) -> Vec<Doubt> {
        let mut doubts = self.doubts_about_events();
        doubts.extend(self.doubts_about_recordings());
        let notes: BTreeSet<&String> = self.recordings.iter().flat_map(|facts| &facts.notes).collect();
        doubts.extend(notes.into_iter().map(|text| Doubt::Note { text: text.clone() }));
        doubts
    }

    fn doubts_about_events(&self) -> Vec<Doubt> {
        let partial = self.recordings.iter().filter(|facts| facts.completeness == Completeness::Partial);
        let (recordings, lost) = (partial.count(), self.lost());
        let (operations, of) = (self.served.unknown, self.totals().metadata_operations);
        let failed = self.exit().filter(|exit| *exit != Exit::Status(0));
        let mut doubts = Vec::new();
        let mut doubt = |applies, doubt| doubts.extend(Some(doubt).filter(|_| applies));
        doubt(self.events() == 0, Doubt::Empty);
        doubt(recordings > 0, Doubt::Partial { recordings });
        doubt(lost > 0, Doubt::Lost { events: lost });
        doubt(self.recordings.iter().any(|facts| facts.attached), Doubt::Attached);
        if let Some(exit) = failed {
            doubt(true, Doubt::CommandFailed { exit });
        }
        doubt(self.rings > 0, Doubt::Rings { rings: self.rings });
        // Of a log without mounts its note says so.
        let is_log = self.file_systems.is_empty() && self.engines() == ["strace"];
        let unplaced = !is_log && operations as f64 > of as f64 * UNPLACED_SHARE;
        doubt(unplaced, Doubt::Unplaced { operations, of });
        doubts
    }

    fn doubts_about_recordings(&self) -> Vec<Doubt> {
        let mut doubts = Vec::new();
        for (index, facts) in self.recordings.iter().enumerate() {
            // Recordings of one rank are neighbours.
            let mut earlier =
                self.recordings[..index].iter().rev().take_while(|other| other.rank == facts.rank);
            if earlier.any(|other| facts.is_same_run(other)) {
                doubts.push(Doubt::CountedTwice { name: facts.name.clone() });
            }
        }
        if self.commands().len() > 1 {
            doubts.push(Doubt::CommandsDiffer);
        }
        let recorded: BTreeSet<RankId> = self.recordings.iter().filter_map(|facts| facts.rank).collect();
        let ranks = self.recordings.iter().filter_map(|facts| facts.ranks).max();
        if let Some(ranks) = ranks.filter(|ranks| recorded.len() < *ranks as usize) {
            doubts.push(Doubt::RanksMissing { recorded: recorded.len(), ranks });
        }
        let is_bare = |facts: &RecordingFacts| facts.engine == "strace" && facts.variables.is_empty();
        if self.totals().missed > 0 && self.recordings.iter().any(is_bare) {
            doubts.push(Doubt::NoVariables);
        }
        doubts
    }
}
