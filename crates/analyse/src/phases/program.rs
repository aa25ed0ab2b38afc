//! One program on its way through its phases.

use super::Phase;
use super::loader::{AbsentLibrary, Libraries, Linkage, Loading};
use super::names::NameKind;
use quell_trace::{Call, Class, Event, Nanos, PathId, PathTable};
use std::ops::AddAssign;

/// Operations of a phase, or operations of which the phase is not decided.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PhaseOperations {
    pub(super) metadata_operations: u64,
    pub(super) missed: u64,
}

impl PhaseOperations {
    pub(super) fn of(event: &Event) -> Self {
        let metadata_operations = event.call.class().is_metadata().into();
        Self { metadata_operations, missed: event.is_miss().into() }
    }
}

impl AddAssign for PhaseOperations {
    fn add_assign(&mut self, other: Self) {
        self.metadata_operations += other.metadata_operations;
        self.missed += other.missed;
    }
}

/// Takes what is decided. Shape: one entry a phase.
#[derive(Debug, Default)]
pub(super) struct Decided {
    pub(super) counts: [PhaseOperations; Phase::ALL.len()],
    /// From, until; of all programs, in the order in which they were decided.
    pub(super) times: [Vec<(Nanos, Nanos)>; Phase::ALL.len()],
}

impl Decided {
    fn add(&mut self, phase: Phase, counts: PhaseOperations, from: Nanos, until: Nanos) {
        self.counts[phase as usize] += counts;
        let times = &mut self.times[phase as usize];
        match times.last_mut() {
            Some(last) if last.1 == from => last.1 = last.1.max(until),
            _ => times.push((from, until.max(from))),
        }
    }
}

/// A program, from its `execve` on.
#[derive(Debug)]
pub(super) struct PhaseProgram {
    loading: Option<Box<Loading>>,
    began: Nanos,
    /// Operations since `decided_until`, whose phase is not known yet.
    pending: PhaseOperations,
    decided_until: Nanos,
    /// The end of its last event.
    last: Nanos,
    /// The time of the last load of something new.
    loaded: Nanos,
    /// Nothing new was loaded for long: what comes is no initialisation.
    settled: bool,
    /// The file of code that is being read.
    current: Option<PathId>,
    mpi: Mpi,
}

/// The progress of the program in MPI.
#[derive(Debug)]
enum Mpi {
    /// It has no library that could initialise.
    None,
    /// It has, and has not.
    Before,
    /// It does.
    Within(Box<WithinInit>),
    After,
}

/// `MPI_Init` so far.
#[derive(Clone, Copy, Debug)]
struct WithinInit {
    counts: PhaseOperations,
    since: Nanos,
    until: Nanos,
    /// The events after the last landmark.
    tail: PhaseOperations,
    /// Operations in it that are not MPI's.
    others: u32,
    absent: AbsentLibrary,
}

/// The meaning of a program's events.
#[derive(Debug)]
pub(super) struct ProgramWorld<'a> {
    pub(super) paths: &'a PathTable,
    pub(super) libraries: &'a Libraries,
    pub(super) decided: &'a mut Decided,
}

impl PhaseProgram {
    /// The program that the event executed, or one that was running before anything was recorded.
    pub(super) fn new(libraries: &Libraries, program: Option<PathId>, event: &Event) -> Self {
        let linkage = libraries.linkage(program);
        let executed = event.call.class() == Class::Exec;
        Self {
            loading: (executed && linkage != Linkage::Static)
                .then(|| Box::new(Loading::new(libraries, program))),
            began: event.start,
            pending: if executed { PhaseOperations::of(event) } else { PhaseOperations::default() },
            decided_until: event.start,
            last: event.end(),
            loaded: event.end(),
            settled: false,
            current: None,
            mpi: if linkage == Linkage::Static { Mpi::Before } else { Mpi::None },
        }
    }

    /// Counts an event. `is_first`: this program has not opened the target before.
    pub(super) fn add(
        &mut self,
        event: &Event,
        kind: NameKind,
        is_first: bool,
        world: &mut ProgramWorld<'_>,
    ) {
        let counts = PhaseOperations::of(event);
        if kind.is_mpi_library() && event.outcome.is_success() && matches!(self.mpi, Mpi::None) {
            self.mpi = Mpi::Before;
        }
        if let Some(loading) = &mut self.loading {
            if loading.takes(event, world.paths, world.libraries) {
                self.pending += counts;
                self.last = self.last.max(event.end());
                return;
            }
            self.end_loading(world.decided);
        }
        let loads = is_first
            && event.call.class() == Class::Open
            && event.outcome.is_success()
            && (kind.is_code() || kind.is_library());
        if !self.initialises_mpi(event, kind, loads, counts, world) {
            self.initialises(event, loads, counts, world.decided);
        }
        self.last = self.last.max(event.end());
    }

    /// The program ended, or was replaced by another.
    pub(super) fn finish(&mut self, at: Option<Nanos>, decided: &mut Decided) {
        self.end_loading(decided);
        self.end_mpi(decided);
        let until = at.unwrap_or(self.last).max(self.last).max(self.decided_until);
        if self.pending != PhaseOperations::default() || until > self.decided_until {
            decided.add(Phase::Steady, self.pending, self.decided_until, until);
        }
        (self.pending, self.decided_until, self.last) = (PhaseOperations::default(), until, until);
    }

    fn end_loading(&mut self, decided: &mut Decided) {
        // A program that loaded nothing is static, or unknown to us.
        if self.loading.take().is_some_and(|loading| loading.has_loaded) {
            self.decide(Phase::Loader, self.last, decided);
        }
        self.loaded = self.loaded.max(self.last);
    }

    fn decide(&mut self, phase: Phase, until: Nanos, decided: &mut Decided) {
        let until = until.max(self.decided_until);
        decided.add(phase, std::mem::take(&mut self.pending), self.decided_until, until);
        self.decided_until = until;
        self.loaded = self.loaded.max(until);
    }

    /// Counts an event of MPI's initialisation; false if it is none.
    fn initialises_mpi(
        &mut self,
        event: &Event,
        kind: NameKind,
        loads: bool,
        counts: PhaseOperations,
        world: &mut ProgramWorld<'_>,
    ) -> bool {
        let marks = kind.is_landmark() && counts.metadata_operations > 0 && !removes(event.call);
        match &mut self.mpi {
            Mpi::Before if marks => {
                self.decide(Phase::Initialisation, event.start, world.decided);
                self.mpi = Mpi::Within(Box::new(WithinInit::begin(event, counts)));
                true
            }
            Mpi::Within(within) => {
                let takes = within.takes(event, kind, marks, loads && kind.is_code(), counts, world.paths);
                if !takes {
                    self.end_mpi(world.decided);
                }
                takes
            }
            Mpi::None | Mpi::Before | Mpi::After => false,
        }
    }

    fn end_mpi(&mut self, decided: &mut Decided) {
        if let Mpi::Within(within) = &self.mpi {
            let WithinInit { counts, since, until, tail, .. } = **within;
            decided.add(Phase::MpiInit, counts, since, until);
            self.pending += tail;
            self.decided_until = self.decided_until.max(until);
            self.loaded = self.loaded.max(until);
            self.mpi = Mpi::After;
        }
    }

    fn initialises(&mut self, event: &Event, loads: bool, counts: PhaseOperations, decided: &mut Decided) {
        self.pending += counts;
        if loads && !self.settled {
            let quiet = event.start.since(self.loaded);
            self.settled = quiet > QUIET.max(self.loaded.since(self.began));
            self.current = event.target;
        }
        let reads = event.path.is_none() && event.target.is_some() && event.target == self.current;
        if !self.settled && (loads || reads) {
            self.decide(Phase::Initialisation, event.end(), decided);
        }
        if event.call == Call::Close && reads {
            self.current = None;
        }
    }
}

impl WithinInit {
    /// It begins with this event, which has these counts.
    fn begin(event: &Event, counts: PhaseOperations) -> Self {
        let (since, until, tail) = (event.start, event.end(), PhaseOperations::default());
        Self { counts, since, until, tail, others: 0, absent: AbsentLibrary::default() }
    }

    /// Counts an event, if it may still be MPI's.
    fn takes(
        &mut self,
        event: &Event,
        kind: NameKind,
        marks: bool,
        loads_code: bool,
        counts: PhaseOperations,
        paths: &PathTable,
    ) -> bool {
        let is_metadata = counts.metadata_operations > 0;
        // The loader looks for a component's libraries in as many directories as the processor has features.
        let class = event.call.class();
        let is_loaders = kind.is_library() || class == Class::Stat && self.absent.lies_below(event, paths);
        let is_neutral = event.target.is_none() || kind.is_system() || is_loaders || kind.is_landmark();
        if class == Class::Open && kind.is_library() && !event.outcome.is_success() {
            self.absent = AbsentLibrary(event.path);
        }
        let follows = self.others == 0 && event.start <= Nanos(self.until.0.saturating_add(NEXT.0));
        if marks || is_metadata && is_neutral && follows {
            let tail = std::mem::take(&mut self.tail);
            self.counts += tail;
            self.counts += counts;
            self.others = 0;
            self.until = self.until.max(event.end());
            return true;
        }
        if loads_code || self.others >= OTHERS {
            return false;
        }
        self.others += u32::from(is_metadata && !is_neutral);
        self.tail += counts;
        true
    }
}

/// A removal at the end is no sign of a begin.
fn removes(call: Call) -> bool {
    matches!(call, Call::Unlink | Call::Unlinkat | Call::Rmdir)
}

/// So long at least nothing new is loaded once a program is initialised. Shorter than any pause that a person would call one,
/// longer than one slow import.
const QUIET: Nanos = Nanos(1_000_000_000);
/// Operations of others that may lie between two landmarks: the ancestors of a session directory.
const OTHERS: u32 = 16;
/// MPI reads files of the kernel within this time after its last landmark.
const NEXT: Nanos = Nanos(10_000_000);
