//! Finds the phases of one recording, event by event.

use super::loader::Libraries;
use super::names::{NameKind, NameKinds};
use super::program::{Decided, PhaseProgram, ProgramWorld};
use super::{Phase, PhaseCounts, Phases};
use quell_trace::{Class, Context, Event, Nanos, PathId, PathTable, Process, ProcessId};

/// The phases of one recording being found.
#[derive(Debug)]
pub struct PhaseTally<'a> {
    paths: &'a PathTable,
    processes: Vec<Process>,
    libraries: Libraries,
    kinds: NameKinds,
    /// Shape: one entry a path: the program that opened it last, plus 1.
    opened: Vec<u32>,
    /// Shape: one entry a process: the programs that it will execute, the next one at the end.
    executed: Vec<Vec<Option<PathId>>>,
    /// Shape: one entry a process that was born: its program.
    running: Vec<Option<u32>>,
    programs: Vec<PhaseProgram>,
    /// Shape: one entry a program: processes that run it.
    users: Vec<u32>,
    decided: Decided,
}

impl<'a> PhaseTally<'a> {
    /// A tally of the recording that has these paths and this context.
    pub fn new(paths: &'a PathTable, context: &Context) -> Self {
        let mut executed = vec![Vec::new(); context.processes.len()];
        for execution in context.executions.iter().rev() {
            if let Some(programs) = executed.get_mut(execution.process.0 as usize) {
                programs.push(execution.program);
            }
        }
        Self {
            paths,
            processes: context.processes.clone(),
            libraries: Libraries::new(context),
            kinds: NameKinds::new(paths),
            opened: vec![0; paths.len()],
            executed,
            running: Vec::new(),
            programs: Vec::new(),
            users: Vec::new(),
            decided: Decided::default(),
        }
    }

    /// Looks at an event. Events come in the order of the recording.
    pub fn add(&mut self, event: &Event) {
        self.add_children(event);
        if event.call.class() == Class::Exec && event.outcome.is_success() {
            return self.execute(event);
        }
        let Some(number) = self.program(event) else { return };
        let kind = event.target.map_or(NameKind::default(), |target| self.kinds.of(self.paths, target));
        let is_first = self.is_first(event, number);
        let mut world =
            ProgramWorld { paths: self.paths, libraries: &self.libraries, decided: &mut self.decided };
        self.programs[number as usize].add(event, kind, is_first, &mut world);
    }

    /// The phases that were found.
    pub fn finish(mut self) -> Phases {
        let mut ends: Vec<Option<Nanos>> = vec![None; self.programs.len()];
        for (process, number) in self.processes.iter().zip(&self.running) {
            if let Some(number) = number {
                let end = &mut ends[*number as usize];
                *end = process.end.max(*end);
            }
        }
        for (program, end) in self.programs.iter_mut().zip(ends) {
            program.finish(end, &mut self.decided);
        }
        let Decided { counts, times } = self.decided;
        let phases = Phase::ALL.iter().zip(counts).zip(times).filter(|(_, times)| !times.is_empty());
        let counts = phases.map(|((phase, counts), times)| {
            let length = covered(times);
            (
                *phase,
                PhaseCounts {
                    metadata_operations: counts.metadata_operations,
                    missed: counts.missed,
                    length,
                },
            )
        });
        Phases { counts: counts.collect() }
    }

    /// Children run their parent's program until they execute one.
    fn add_children(&mut self, event: &Event) {
        while let Some(process) = self.processes.get(self.running.len()) {
            if process.start > event.end() {
                break;
            }
            let parent = process.parent.and_then(|ProcessId(parent)| self.running.get(parent as usize));
            let program = parent.copied().flatten();
            if let Some(program) = program {
                self.users[program as usize] += 1;
            }
            self.running.push(program);
        }
    }

    fn execute(&mut self, event: &Event) {
        let process = event.process.0 as usize;
        let path = self.executed.get_mut(process).and_then(Vec::pop).flatten();
        let Some(old) = self.running.get(process).copied() else { return };
        if let Some(old) = old.map(|old| old as usize) {
            self.users[old] -= 1;
            if self.users[old] == 0 {
                self.programs[old].finish(Some(event.start), &mut self.decided);
            }
        }
        self.running[process] = Some(self.start(path, event));
    }

    fn start(&mut self, path: Option<PathId>, event: &Event) -> u32 {
        self.programs.push(PhaseProgram::new(&self.libraries, path, event));
        self.users.push(1);
        (self.programs.len() - 1) as u32
    }

    /// The program of an event; one that was running before anything was recorded is made up.
    fn program(&mut self, event: &Event) -> Option<u32> {
        let process = event.process.0 as usize;
        match *self.running.get(process)? {
            Some(number) => Some(number),
            None => {
                let number = self.start(None, event);
                self.running[process] = Some(number);
                Some(number)
            }
        }
    }

    fn is_first(&mut self, event: &Event, number: u32) -> bool {
        if event.call.class() != Class::Open || !event.outcome.is_success() {
            return false;
        }
        let opened = event.target.and_then(|target| self.opened.get_mut(target.0 as usize));
        opened.is_some_and(|opened| std::mem::replace(opened, number + 1) != number + 1)
    }
}

/// The time that these cover together.
fn covered(mut times: Vec<(Nanos, Nanos)>) -> Nanos {
    times.sort_unstable();
    let (mut sum, mut reached) = (0u64, 0u64);
    for (from, until) in times {
        let from = from.0.max(reached);
        sum = sum.saturating_add(until.0.saturating_sub(from));
        reached = reached.max(until.0);
    }
    Nanos(sum)
}
