//! Programs that look for another program and become it or wait for it: shims of version managers, `poetry run`, `conda run`.
//!
//! A wrapper is told by its words: `bash ~/.pyenv/shims/python3 app.py`, `conda run -n env python app.py`. The program is the
//! first that it or a process of it executes with the words that follow the program's name. All operations until then are the
//! wrapper's, and so are all those of its other processes.

use quell_trace::{Class, Context, Event, Execution, Nanos, PathId, PathTable, ProcessId};
use std::collections::{BTreeMap, HashMap};

/// The wrappers of a run, and what they asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wrappers {
    /// By wrapper and program.
    pub found: BTreeMap<WrapperKey, WrapperCounts>,
}

/// A wrapper with the program that it found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrapperKey {
    /// The shim's path, or words such as `poetry run`.
    pub wrapper: String,
    /// The program's path, as it was executed.
    pub program: Box<[u8]>,
}

/// The starts of a program by a wrapper.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrapperCounts {
    /// Their number.
    pub starts: u64,
    /// Metadata operations of the wrapper, of all starts.
    pub operations: u64,
    /// Those on a path, by it.
    pub paths: HashMap<Box<[u8]>, u64>,
}

impl Wrappers {
    /// Adds those of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        for (key, WrapperCounts { starts, operations, paths }) in other.found {
            let mine = self.found.entry(key).or_default();
            mine.starts += starts;
            mine.operations += operations;
            paths.into_iter().for_each(|(path, count)| *mine.paths.entry(path).or_default() += count);
        }
    }
}

/// Commands that run the program of their last words. Source: their manuals.
const RUNNERS: [&str; 16] = [
    "asdf",
    "bundle",
    "conda",
    "goenv",
    "hatch",
    "mamba",
    "micromamba",
    "mise",
    "nodenv",
    "pdm",
    "pipenv",
    "pixi",
    "poetry",
    "pyenv",
    "rbenv",
    "uv",
];

/// True for the name or path of such a command.
pub(crate) fn is_runner(word: &str) -> bool {
    RUNNERS.contains(&last(word))
}

fn last(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// The wrappers of one recording, being counted.
#[derive(Debug)]
pub(crate) struct WrapperTally<'a> {
    paths: &'a PathTable,
    runs: Vec<WrapperRun>,
    /// The times at which a process was part of a run. Shape: one entry a process.
    windows: Vec<Vec<Window>>,
}

/// One start of a program by a wrapper.
#[derive(Debug)]
struct WrapperRun {
    wrapper: String,
    /// The process that becomes the program.
    process: ProcessId,
    until: Nanos,
    /// The file that this process executed last.
    program: Option<PathId>,
    operations: u64,
    by_path: HashMap<PathId, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    from: Nanos,
    until: Nanos,
    /// Range: index of a run.
    run: usize,
}

impl<'a> WrapperTally<'a> {
    /// The wrappers among the executions of a recording.
    pub(crate) fn new(paths: &'a PathTable, context: &Context) -> Self {
        let mut executed: Vec<Vec<&Execution>> = vec![Vec::new(); context.processes.len()];
        for execution in &context.executions {
            if let Some(of) = executed.get_mut(execution.process.0 as usize) {
                of.push(execution);
            }
        }
        let mut in_time: Vec<&Execution> = context.executions.iter().collect();
        in_time.sort_by_key(|execution| execution.at);
        let mut tally = Self { paths, runs: Vec::new(), windows: Vec::new() };
        for (index, process) in context.processes.iter().enumerate() {
            let id = ProcessId(index as u32);
            let parent = process.parent.and_then(|parent| tally.window(parent, process.start));
            let inherited = parent.map(|Window { run, .. }| {
                let run_of = &tally.runs[run];
                let until = if run_of.process == id { run_of.until } else { Nanos(u64::MAX) };
                Window { from: process.start, until, run }
            });
            tally.windows.push(inherited.into_iter().collect());
            executed[index].sort_by_key(|execution| execution.at);
            for execution in &executed[index] {
                if tally.window(id, execution.at).is_none() {
                    tally.begin(execution, &in_time, context);
                }
            }
        }
        tally
    }

    /// Begins a run if the execution is of a wrapper that found its program before it ended.
    fn begin(&mut self, execution: &Execution, in_time: &[&Execution], context: &Context) {
        let Some(words) = WrapperWords::of(&execution.arguments) else { return };
        let process = &context.processes[execution.process.0 as usize];
        let end = process.end.unwrap_or(Nanos(u64::MAX));
        let first = in_time.partition_point(|program| program.at <= execution.at);
        let mut later = in_time[first..].iter().take_while(|program| program.at <= end);
        let program = later.find(|program| {
            words.lead_to(&program.arguments) && descends(program.process, execution.process, context)
        });
        let Some(program) = program else { return };
        let (from, until, run) = (execution.at, program.at, self.runs.len());
        self.windows[execution.process.0 as usize].push(Window { from, until, run });
        self.runs.push(WrapperRun {
            wrapper: words.name(),
            process: program.process,
            until,
            program: None,
            operations: 0,
            by_path: HashMap::new(),
        });
    }

    fn window(&self, process: ProcessId, at: Nanos) -> Option<Window> {
        let windows = self.windows.get(process.0 as usize)?;
        windows.iter().find(|window| (window.from..window.until).contains(&at)).copied()
    }

    /// Counts an event.
    pub(crate) fn add(&mut self, event: &Event) {
        if self.runs.is_empty() {
            return;
        }
        let Some(window) = self.window(event.process, event.start) else { return };
        let run = &mut self.runs[window.run];
        if event.call.class() == Class::Exec && event.outcome.is_success() && event.process == run.process {
            run.program = event.path;
        }
        if event.call.class().is_metadata() {
            run.operations += 1;
            if let Some(target) = event.target {
                *run.by_path.entry(target).or_default() += 1;
            }
        }
    }

    /// The counts of all runs that led to a program.
    pub(crate) fn finish(self) -> Wrappers {
        let mut wrappers = Wrappers::default();
        for run in self.runs {
            let Some(program) = run.program else { continue };
            let key = WrapperKey { wrapper: run.wrapper, program: self.paths.bytes(program).into() };
            let counts = wrappers.found.entry(key).or_default();
            counts.starts += 1;
            counts.operations += run.operations;
            for (path, count) in run.by_path {
                *counts.paths.entry(self.paths.bytes(path).into()).or_default() += count;
            }
        }
        wrappers
    }
}

/// True for a process and its descendants.
fn descends(mut process: ProcessId, from: ProcessId, context: &Context) -> bool {
    while process != from {
        let parent = context.processes.get(process.0 as usize).and_then(|process| process.parent);
        let Some(parent) = parent else { return false };
        process = parent;
    }
    true
}

/// The words of a wrapper.
#[derive(Debug)]
struct WrapperWords<'a> {
    words: &'a [String],
    /// The word that makes it one.
    named: usize,
    /// Words one of which is the program's name. Shape: at least one.
    programs: std::ops::Range<usize>,
}

impl<'a> WrapperWords<'a> {
    fn of(words: &'a [String]) -> Option<Self> {
        let shim = words.iter().position(|word| word.rsplit('/').nth(1) == Some("shims"));
        if let Some(named) = shim {
            return Some(Self { words, named, programs: named..named + 1 });
        }
        let named = words.iter().position(|word| is_runner(word))?;
        let run = words.iter().skip(named).position(|word| word == "run" || word == "exec")?;
        let programs = named + run + 1..words.len();
        (!programs.is_empty()).then_some(Self { words, named, programs })
    }

    /// True if a program with these words is what the wrapper runs.
    fn lead_to(&self, program: &[String]) -> bool {
        let Some((name, rest)) = program.split_first() else { return false };
        let Some(at) = self.words.len().checked_sub(rest.len() + 1) else { return false };
        self.programs.contains(&at)
            && last(&self.words[at]) == last(name)
            && self.words[at + 1..] == *rest
            // A shim that is executed by another is still the wrapper.
            && name.rsplit('/').nth(1) != Some("shims")
    }

    fn name(&self) -> String {
        let word = &self.words[self.named];
        match self.named == self.programs.start {
            true => word.clone(),
            false => format!("{} {}", last(word), self.words[self.programs.start - 1]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn wrappers_are_told_by_their_words_and_lead_to_their_program() {
        for (wrapper, program, name) in [
            (
                "/usr/bin/env bash /h/.pyenv/shims/python3 a.py",
                "/h/3.11/bin/python3 a.py",
                "/h/.pyenv/shims/python3",
            ),
            ("bash /h/.pyenv/libexec/pyenv exec python3 a.py", "/h/3.11/bin/python3 a.py", "pyenv exec"),
            ("/c/bin/python /c/bin/conda run -n env python a.py", "python a.py", "conda run"),
            ("uv run python", "/v/bin/python", "uv run"),
        ] {
            let (wrapper, program) = (words(wrapper), words(program));
            let found = WrapperWords::of(&wrapper).unwrap();
            assert!(found.lead_to(&program), "{wrapper:?}");
            assert_eq!(found.name(), name);
            let other = [&program[..], &["more".to_owned()]].concat();
            assert!(!found.lead_to(&other), "{other:?}");
        }
        for other in ["srun python a.py", "uv pip install x", "conda run", "python /h/shims.py"] {
            assert!(WrapperWords::of(&words(other)).is_none(), "{other}");
        }
    }
}
