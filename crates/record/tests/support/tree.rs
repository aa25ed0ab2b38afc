//! A process tree as both recorders see it. Each process is identified by its executions and its ancestors, because
//! process numbers differ from run to run.

use super::strace::{LIMIT, Log};
use super::{Run, Seen, Threads, assert_same, show};
use quell_base::escape;
use quell_trace::{Call, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// The calls of each thread of a process. Shape: sorted, threads without a call left out.
pub(crate) type Process = Vec<Vec<Seen>>;

/// The processes by their lineage: the programs that a process executed, below those of its parent. Several processes
/// may have the same lineage; these are sorted.
pub(crate) type Tree = BTreeMap<String, Vec<Process>>;

/// A random difference between runs. Names: a part behind `before`, at the start of a path or of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Chance {
    /// This many letters and digits, as `mkstemp(3)` makes them.
    Letters { before: &'static str, count: usize },
    /// As many hexadecimal digits as there are, more than a short name has by chance.
    Hexadecimal { before: &'static str },
    /// The number of a process or thread of this run.
    Number { before: &'static str },
    /// A process that becomes this program may or may not make this call first.
    First { program: &'static str, call: &'static str },
}

/// The input of a tree, from either recorder.
#[derive(Debug, Default)]
pub(crate) struct Seeds {
    pub(crate) threads: Threads,
    /// The process of each thread; a process has the number of its first thread.
    pub(crate) process_of: BTreeMap<i32, i32>,
    pub(crate) parent_of: BTreeMap<i32, i32>,
    /// Successful executions of each process, in order.
    pub(crate) executions: BTreeMap<i32, Vec<Execution>>,
    /// The kernel's numbers of the threads.
    pub(crate) numbers: BTreeSet<i32>,
}

/// The program as passed to `execve`, and its last argument, if any.
#[derive(Clone, Debug)]
pub(crate) struct Execution {
    pub(crate) program: Vec<u8>,
    pub(crate) last: Option<Vec<u8>>,
}

/// The number of bytes of an argument that are compared.
const TOLD_APART: usize = 60;

impl Seeds {
    /// Reads the log of strace.
    pub(crate) fn of_log(log: Log) -> Self {
        let mut seeds = Self { threads: log.threads, executions: log.executions, ..Self::default() };
        for birth in &log.births {
            seeds.numbers.extend([birth.child, birth.parent]);
            match birth.is_thread {
                true => seeds.process_of.insert(birth.child, birth.parent),
                false => seeds.parent_of.insert(birth.child, birth.parent),
            };
        }
        // Follows the chain of creating threads to the first.
        let first = |mut thread: i32| {
            while let Some(&maker) = seeds.process_of.get(&thread) {
                thread = maker;
            }
            thread.abs()
        };
        let process_of = seeds.threads.keys().map(|&thread| (thread, first(thread))).collect();
        let parent_of = seeds.parent_of.iter().map(|(&child, &parent)| (child, first(parent))).collect();
        seeds.numbers.extend(seeds.threads.keys());
        Self { process_of, parent_of, ..seeds }
    }

    /// Reads a recording.
    pub(crate) fn of_run(run: &Run) -> Self {
        let context = &run.recording.context;
        let mut seeds = Self { threads: run.threads(), ..Self::default() };
        for (index, thread) in context.threads.iter().enumerate() {
            seeds.process_of.insert(index as i32, thread.process.0 as i32);
            seeds.numbers.insert(thread.tid.0);
        }
        for (index, process) in context.processes.iter().enumerate() {
            seeds.parent_of.extend(process.parent.map(|parent| (index as i32, parent.0 as i32)));
        }
        let mut programs: BTreeMap<i32, Vec<Vec<u8>>> = BTreeMap::new();
        let is_execution = |event: &quell_trace::Event| {
            matches!(event.call, Call::Execve | Call::Execveat)
                && matches!(event.outcome, Outcome::Success(_))
        };
        run.recording
            .for_each_event(|event| {
                if let Some(path) = event.path.filter(|_| is_execution(event)) {
                    let program = run.recording.paths.bytes(path).to_vec();
                    programs.entry(event.process.0 as i32).or_default().push(program);
                }
            })
            .unwrap();
        for execution in &context.executions {
            let process = execution.process.0 as i32;
            let executions = seeds.executions.entry(process).or_default();
            let program = programs[&process][executions.len()].clone();
            let last = last_argument(&execution.arguments, &escape(&program));
            executions.push(Execution { program, last });
        }
        seeds
    }

    /// The effects of all threads together, with their counts.
    pub(crate) fn effects(self) -> BTreeMap<Seen, usize> {
        tally(self.tree(&[]).values().flatten().flatten().flatten())
    }

    /// The tree, without random differences.
    pub(crate) fn tree(mut self, chances: &[Chance]) -> Tree {
        let numbers = std::mem::take(&mut self.numbers);
        let clean = |text: &mut Vec<u8>| chances.iter().for_each(|chance| chance.clean(text, &numbers));
        for seen in self.threads.values_mut().flatten() {
            seen.file.iter_mut().for_each(|file| own(file, &numbers));
            seen.paths.iter_mut().flatten().chain(&mut seen.file).for_each(clean);
        }
        let mut processes: BTreeMap<i32, Process> = BTreeMap::new();
        for (thread, calls) in std::mem::take(&mut self.threads) {
            let process = self.process_of.get(&thread).copied().unwrap_or(thread);
            processes.entry(process).or_default().extend((!calls.is_empty()).then_some(calls));
        }
        let mut tree = Tree::new();
        for (process, mut threads) in processes {
            let lineage = self.lineage(process, &clean);
            chances.iter().for_each(|chance| chance.drop_first(&lineage, &mut threads));
            threads.sort();
            tree.entry(lineage).or_default().push(threads);
        }
        tree.values_mut().for_each(|processes| processes.sort());
        tree
    }

    fn lineage(&self, process: i32, clean: &dyn Fn(&mut Vec<u8>)) -> String {
        let mut executions = self.executions.get(&process).cloned().unwrap_or_default();
        let own = match executions.is_empty() {
            true => "(child)".to_owned(),
            false => executions.iter_mut().map(|one| one.label(clean)).collect::<Vec<_>>().join(", then "),
        };
        match self.parent_of.get(&process) {
            Some(&parent) => format!("{} > {own}", self.lineage(parent, clean)),
            None => own,
        }
    }
}

/// The last of a program's arguments as the kernel shows them. For a script the kernel shows the interpreter's
/// arguments, among which the script's own name is not counted.
fn last_argument(arguments: &[String], program: &str) -> Option<Vec<u8>> {
    let last = arguments.last().filter(|last| (2..=LIMIT).contains(&arguments.len()) && *last != program);
    last.map(|last| last.clone().into_bytes())
}

impl Execution {
    fn label(&mut self, clean: &dyn Fn(&mut Vec<u8>)) -> String {
        clean(&mut self.program);
        let program = escape(&self.program);
        let Some(last) = &mut self.last else { return program };
        clean(last);
        let last: String = String::from_utf8_lossy(last).chars().take(TOLD_APART).collect();
        format!("{program} ... {last}")
    }
}

impl Chance {
    fn clean(self, text: &mut Vec<u8>, numbers: &BTreeSet<i32>) {
        let (Self::Letters { before, .. } | Self::Hexadecimal { before } | Self::Number { before }) = self
        else {
            return;
        };
        // Names in the working directory also appear as absolute paths.
        let directory = text.iter().rposition(|&byte| byte == b'/').filter(|_| !before.contains('/'));
        let begin = directory.map_or(0, |slash| slash + 1);
        let Some(rest) = text[begin..].strip_prefix(before.as_bytes()) else { return };
        let long = |is: fn(&u8) -> bool| rest.iter().take_while(|byte| is(byte)).count();
        let digits = long(u8::is_ascii_digit);
        let is_number = || {
            std::str::from_utf8(&rest[..digits])
                .unwrap()
                .parse()
                .is_ok_and(|number| numbers.contains(&number))
        };
        let (length, instead, holds) = match self {
            Self::Letters { count, .. } => (count, "??????", long(u8::is_ascii_alphanumeric) >= count),
            Self::Hexadecimal { .. } => {
                let length = long(u8::is_ascii_hexdigit);
                (length, "??????", length >= 8)
            }
            _ => (digits, "<thread>", is_number()),
        };
        if holds {
            let begin = begin + before.len();
            text.splice(begin..begin + length, instead.bytes());
        }
    }

    fn drop_first(self, lineage: &str, threads: &mut Process) {
        let Self::First { program, call } = self else { return };
        if !last_program(lineage).ends_with(program) {
            return;
        }
        for calls in threads.iter_mut().filter(|calls| calls.first().is_some_and(|first| first.name == call))
        {
            calls.remove(0);
        }
    }
}

/// Asserts that a recorded tree equals that of strace in `runs`. Processes of programs in `waking`, whose threads or
/// children wake each other at varying times, are compared by their effects on names and files, in any order. All
/// others are compared call by call.
pub(crate) fn assert_same_tree(what: &str, ours: &Tree, runs: &[Tree], waking: &[&str]) {
    let lineages: BTreeSet<&String> = ours.keys().chain(runs.iter().flat_map(Tree::keys)).collect();
    let none = Vec::new();
    for lineage in lineages {
        let of = |tree: &'_ Tree| tree.get(lineage).unwrap_or(&none).clone();
        let (ours, runs): (_, Vec<_>) = (of(ours), runs.iter().map(of).collect());
        let what = format!("{what}: {lineage}");
        assert!(
            runs.iter().all(|run| run.len() == ours.len()),
            "{what}: {} processes, strace's {:?}",
            ours.len(),
            runs.iter().map(Vec::len).collect::<Vec<_>>()
        );
        if waking.iter().any(|program| last_program(lineage).ends_with(program)) {
            let runs: Vec<_> = runs.iter().map(|run| tally(calls(run))).collect();
            assert_same_effects(&what, &tally(calls(&ours)), &runs);
        } else {
            let same = runs.iter().all(|run| *run == runs[0]);
            assert!(same, "{what}: differs between runs of strace: {}", first_difference(&runs));
            for (ours, theirs) in ours.into_iter().zip(runs[0].clone()) {
                assert_same(&what, ours, theirs);
            }
        }
    }
}

/// Replaces the process's own directory in /proc, which strace names by number, by one name; /proc/net is a link into
/// it.
fn own(file: &mut Vec<u8>, numbers: &BTreeSet<i32>) {
    if file.starts_with(b"/proc/net/") {
        file.splice(.."/proc".len(), *b"/proc/self");
    }
    Chance::Number { before: "/proc/" }.clean(file, numbers);
    if file.starts_with(b"/proc/<thread>") {
        file.splice(b"/proc/".len()..b"/proc/<thread>".len(), *b"self");
    }
}

fn last_program(lineage: &str) -> &str {
    let own = lineage.rsplit(" > ").next().unwrap_or_default();
    let last = own.rsplit(", then ").next().unwrap_or_default();
    last.split(" ... ").next().unwrap_or_default()
}

fn first_difference(runs: &[Vec<Process>]) -> String {
    let tallies: Vec<_> = runs.iter().map(|run| tally(calls(run))).collect();
    let keys: BTreeSet<&Seen> = tallies.iter().flat_map(BTreeMap::keys).collect();
    let counts =
        |key: &Seen| tallies.iter().map(|tally| tally.get(key).copied().unwrap_or(0)).collect::<Vec<_>>();
    let differing = keys.into_iter().find(|key| counts(key).iter().any(|count| *count != counts(key)[0]));
    differing.map_or("in the order of calls".to_owned(), |key| format!("{} {:?}", show(key), counts(key)))
}

fn calls(processes: &[Process]) -> impl Iterator<Item = &Seen> {
    processes.iter().flatten().flatten()
}

/// The number of calls with the same paths, file and error.
fn tally<'a>(calls: impl Iterator<Item = &'a Seen>) -> BTreeMap<Seen, usize> {
    let mut tally = BTreeMap::new();
    for seen in calls {
        *tally.entry(seen.clone()).or_default() += 1;
    }
    tally
}

/// Asserts that calls on names and files equal those of each run. The scheduler decides the number of wake-ups by a
/// pipe or an eventfd, and those calls have neither name nor file.
pub(crate) fn assert_same_effects(what: &str, ours: &BTreeMap<Seen, usize>, runs: &[BTreeMap<Seen, usize>]) {
    let keys: BTreeSet<&Seen> = ours.keys().chain(runs.iter().flat_map(BTreeMap::keys)).collect();
    let differing: Vec<String> = keys
        .into_iter()
        .filter(|key| !key.paths.is_empty() || key.file.is_some())
        .filter_map(|key| {
            let theirs: Vec<usize> = runs.iter().map(|run| run.get(key).copied().unwrap_or(0)).collect();
            let count = ours.get(key).copied().unwrap_or(0);
            theirs
                .iter()
                .any(|one| *one != count)
                .then(|| format!("{}: {count}, strace's {theirs:?}", show(key)))
        })
        .collect();
    assert!(differing.is_empty(), "{what}:\n{}", differing.join("\n"));
}
