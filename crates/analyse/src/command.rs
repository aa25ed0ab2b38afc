//! The command of a process at each time: the one that it executed last, or that of its parent when it
//! was forked.

use quell_trace::{Context, Nanos, ProcessId};
use std::collections::HashMap;

/// The command lines of a recording, and which process ran which of them since when.
#[derive(Debug)]
pub struct CommandTable {
    /// Shape: distinct.
    pub lines: Vec<Vec<String>>,
    /// Shape: one entry a process.
    processes: Vec<History>,
}

#[derive(Debug, Default)]
struct History {
    /// Shape: sorted by time, none at all when nothing is known.
    commands: Vec<(Nanos, usize)>,
    current: usize,
}

impl CommandTable {
    /// The command lines of a recording with this context.
    pub fn new(context: &Context) -> Self {
        let mut lines = Vec::new();
        let mut numbers: HashMap<&[String], usize> = HashMap::new();
        let mut executed: HashMap<ProcessId, Vec<(Nanos, usize)>> = HashMap::new();
        for execution in &context.executions {
            let number = *numbers.entry(&execution.arguments).or_insert_with(|| {
                lines.push(execution.arguments.clone());
                lines.len() - 1
            });
            executed.entry(execution.process).or_default().push((execution.at, number));
        }
        let mut processes: Vec<History> = Vec::new();
        for (index, process) in context.processes.iter().enumerate() {
            let mut commands = executed.remove(&ProcessId(index as u32)).unwrap_or_default();
            commands.sort_by_key(|(at, _)| *at);
            let parent = process.parent.and_then(|parent| processes.get(parent.0 as usize));
            let inherited = parent.and_then(|parent| parent.at(process.start));
            match (inherited, commands.first_mut()) {
                (Some(inherited), _) => commands.insert(0, (process.start, inherited)),
                // Calls of the first process before its first program belong to that program's start.
                (None, Some(first)) => first.0 = process.start,
                (None, None) => {}
            }
            processes.push(History { commands, current: 0 });
        }
        Self { lines, processes }
    }

    /// The command that a process is running at `at`, which does not go back. The call that executes a program is
    /// still its caller's.
    pub fn running(&mut self, process: ProcessId, at: Nanos) -> Option<usize> {
        let history = self.processes.get_mut(process.0 as usize)?;
        while history.commands.get(history.current + 1).is_some_and(|(since, _)| *since <= at) {
            history.current += 1;
        }
        history.commands.get(history.current).map(|(_, command)| *command)
    }

    /// Processes that ran each command. Shape: one entry a command line.
    pub(crate) fn processes_by_line(&self) -> Vec<u64> {
        let mut counts = vec![0; self.lines.len()];
        for history in &self.processes {
            let mut ran: Vec<usize> = history.commands.iter().map(|(_, command)| *command).collect();
            ran.sort_unstable();
            ran.dedup();
            ran.into_iter().for_each(|command| counts[command] += 1);
        }
        counts
    }
}

impl History {
    fn at(&self, time: Nanos) -> Option<usize> {
        let later = self.commands.partition_point(|(since, _)| *since <= time);
        self.commands.get(later.saturating_sub(1)).map(|(_, command)| *command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_trace::{Execution, Pid, Process, ThreadId};

    #[test]
    fn a_process_runs_what_it_executed_or_what_its_parent_ran() {
        let process = |parent: Option<u32>, start| Process {
            pid: Pid(1),
            parent: parent.map(ProcessId),
            start: Nanos(start),
            end: None,
            exit: None,
        };
        let execution = |process, at, name: &str| Execution {
            thread: ThreadId(0),
            ..Execution::of(process, Nanos(at), vec![name.into()])
        };
        let context = Context {
            processes: vec![process(None, 0), process(Some(0), 50), process(Some(1), 60)],
            executions: vec![execution(0, 10, "sh"), execution(1, 70, "ls"), execution(0, 90, "python3")],
            ..Context::default()
        };
        let mut table = CommandTable::new(&context);
        for (process, at, expected) in
            [(0, 5, "sh"), (0, 80, "sh"), (0, 90, "python3"), (1, 55, "sh"), (1, 75, "ls"), (2, 99, "sh")]
        {
            let line = table.running(ProcessId(process), Nanos(at)).expect("a command");
            assert_eq!(table.lines[line], [expected], "process {process} at {at}");
        }
        assert_eq!(table.running(ProcessId(7), Nanos(0)), None);
        assert_eq!(table.processes_by_line(), [3, 1, 1]);
    }
}
