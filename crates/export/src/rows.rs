//! The rows of an export: each call with what its numbers stand for.

use crate::error::ExportError;
use quell_analyse::command::CommandTable;
use quell_analyse::packages::RunningImports;
use quell_base::text::escape;
use quell_trace::{Event, Import, Mount, Outcome, PathId, Pid, Recording, Trace};

/// One call.
#[derive(Debug)]
pub(crate) struct ExportRow<'a> {
    /// The place of the recording among those of the trace.
    pub(crate) number: usize,
    pub(crate) recording: &'a Recording,
    pub(crate) event: &'a Event,
    /// The command line that the process ran, if it is known.
    pub(crate) command: Option<&'a str>,
    /// The imports that ran in its thread, as places among those of the recording. Shape: the outermost first.
    pub(crate) importing: &'a [usize],
}

impl ExportRow<'_> {
    pub(crate) fn pid(&self) -> Pid {
        let processes = &self.recording.context.processes;
        processes.get(self.event.process.0 as usize).map_or(Pid(0), |process| process.pid)
    }

    pub(crate) fn tid(&self) -> Pid {
        let threads = &self.recording.context.threads;
        threads.get(self.event.thread.0 as usize).map_or(Pid(0), |thread| thread.tid)
    }

    pub(crate) fn mount(&self) -> Option<&Mount> {
        self.recording.context.mounts.get(self.event.file_system?.0 as usize)
    }

    /// The file that the call is about: resolved, or else as the program named it.
    pub(crate) fn subject(&self) -> Option<String> {
        self.text(self.event.target.or(self.event.path))
    }

    pub(crate) fn text(&self, path: Option<PathId>) -> Option<String> {
        path.map(|path| self.recording.paths.display(path))
    }

    /// The imports that ran in its thread. Shape: the outermost first.
    pub(crate) fn imports(&self) -> impl DoubleEndedIterator<Item = &Import> {
        self.importing.iter().filter_map(|&import| self.recording.context.imports.get(import))
    }

    /// The name of the error; `None` for a call that succeeded or did not return.
    pub(crate) fn error(&self) -> Option<String> {
        self.event.outcome.errno().map(quell_trace::Errno::name)
    }

    pub(crate) fn result(&self) -> Option<i64> {
        match self.event.outcome {
            Outcome::Success(value) => Some(value),
            Outcome::Failure(_) | Outcome::Unfinished => None,
        }
    }
}

/// Calls `each` for every call, recording by recording, in the order in which calls ended.
pub(crate) fn for_each(
    trace: &Trace,
    mut each: impl FnMut(&ExportRow<'_>) -> Result<(), ExportError>,
) -> Result<(), ExportError> {
    for (number, recording) in trace.recordings.iter().enumerate() {
        let mut commands = CommandTable::new(&recording.context);
        let lines: Vec<String> = commands.lines.iter().map(|words| escape(words.join(" "))).collect();
        let mut running_imports = RunningImports::new(&recording.context);
        let mut outcome = Ok(());
        let read = recording.for_each_event(|event| {
            if outcome.is_ok() {
                let running = commands.running(event.process, event.start);
                let command = running.map(|line| lines[line].as_str());
                let importing = running_imports.at(event);
                outcome = each(&ExportRow { number, recording, event, command, importing });
            }
        });
        outcome?;
        read.map_err(ExportError::Read)?;
    }
    Ok(())
}
