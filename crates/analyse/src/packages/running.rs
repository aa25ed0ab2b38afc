//! The imports that run at each moment in each thread.

use quell_trace::{Context, Event, Import, Nanos, ThreadId};
use std::collections::HashMap;

/// Imports within imports that are told apart: Python ends earlier, with its limit on recursion. Calls of those further within belong
/// to the last.
const DEEPEST: usize = 200;

/// The imports of a recording, walked along with its events.
#[derive(Debug)]
pub struct RunningImports<'a> {
    imports: &'a [Import],
    threads: HashMap<ThreadId, ThreadImports>,
}

/// The imports of a thread.
#[derive(Debug, Default)]
struct ThreadImports {
    /// Shape: sorted by begin.
    order: Vec<usize>,
    next: usize,
    /// Shape: the outermost first.
    running: Vec<usize>,
}

impl<'a> RunningImports<'a> {
    /// The imports of a recording with this context.
    pub fn new(context: &'a Context) -> Self {
        let mut threads: HashMap<ThreadId, ThreadImports> = HashMap::new();
        for (index, import) in context.imports.iter().enumerate() {
            threads.entry(import.thread).or_default().order.push(index);
        }
        for thread in threads.values_mut() {
            thread.order.sort_by_key(|&index| context.imports[index].begin);
        }
        Self { imports: &context.imports, threads }
    }

    /// The imports within which an event happened, as places in [`Context::imports`]. Events come in the order of the recording.
    /// Shape: the outermost first.
    pub fn at(&mut self, event: &Event) -> &[usize] {
        let Some(thread) = self.threads.get_mut(&event.thread) else { return &[] };
        let begins = |index: &&usize| self.imports[**index].begin <= event.start;
        while let Some(&index) = thread.order.get(thread.next).filter(begins) {
            thread.next += 1;
            thread.end(self.imports, self.imports[index].begin);
            if thread.running.len() < DEEPEST {
                thread.running.push(index);
            }
        }
        thread.end(self.imports, event.start);
        &thread.running
    }
}

impl ThreadImports {
    /// Removes imports that have ended by then. Those that contain others end last.
    fn end(&mut self, imports: &[Import], by: Nanos) {
        let has_ended = |&index: &usize| imports[index].end.is_some_and(|end| end <= by);
        let first = self.running.iter().position(has_ended).unwrap_or(self.running.len());
        self.running.truncate(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quell_trace::Call;

    #[test]
    fn an_event_is_within_the_imports_that_run_in_its_thread() {
        let import = |thread, begin, end: Option<u64>| Import {
            thread: ThreadId(thread),
            begin: Nanos(begin),
            end: end.map(Nanos),
            module: String::new(),
            file: None,
            line: 0,
            origin: None,
        };
        let imports = vec![
            import(0, 10, Some(50)),
            import(0, 20, Some(30)),
            import(0, 30, Some(40)),
            import(1, 15, None),
            import(0, 60, Some(60)),
        ];
        let context = Context { imports, ..Context::default() };
        let mut running = RunningImports::new(&context);
        for (thread, start, expected) in [
            (0, 5, &[][..]),
            (0, 10, &[0]),
            (0, 25, &[0, 1]),
            (1, 26, &[3]),
            (0, 30, &[0, 2]),
            (0, 45, &[0]),
            (0, 50, &[]),
            (0, 70, &[]),
            (1, 80, &[3]),
            (7, 90, &[]),
        ] {
            let event = Event { thread: ThreadId(thread), start: Nanos(start), ..Event::new(Call::Open) };
            assert_eq!(running.at(&event), expected, "{thread} {start}");
        }
    }
}
