//! The destination of imported calls.

use quell_trace::{
    Event, Execution, Exit, Fd, Nanos, PathId, Process, ProcessId, Thread, ThreadId, TraceError, Writer,
};

/// Receives the events of a log, in order. A [`Writer`] writes a trace of them. Each function matches the writer's of
/// the same name.
pub trait LogSink {
    /// The number of a path.
    fn path(&mut self, bytes: &[u8]) -> Result<PathId, TraceError>;
    /// A new process; the first is the command itself.
    fn process(&mut self, process: Process) -> Result<ProcessId, TraceError>;
    /// A new thread, also the first of each process.
    fn thread(&mut self, thread: Thread) -> Result<ThreadId, TraceError>;
    /// The file that the log shows behind a descriptor at the call of the next event.
    fn seen(&mut self, thread: ThreadId, place: Fd, path: Option<PathId>) -> Result<(), TraceError>;
    /// A call that ended.
    fn event(&mut self, event: &Event) -> Result<(), TraceError>;
    /// A successful `execve`.
    fn execution(&mut self, execution: Execution, variables: Vec<(String, String)>)
    -> Result<(), TraceError>;
    /// A process ended.
    fn ended(&mut self, process: ProcessId, at: Nanos, exit: Option<Exit>) -> Result<(), TraceError>;
}

impl LogSink for Writer {
    fn path(&mut self, bytes: &[u8]) -> Result<PathId, TraceError> {
        Self::path(self, bytes)
    }

    fn process(&mut self, process: Process) -> Result<ProcessId, TraceError> {
        Self::process(self, process)
    }

    fn thread(&mut self, thread: Thread) -> Result<ThreadId, TraceError> {
        Self::thread(self, thread)
    }

    fn seen(&mut self, thread: ThreadId, place: Fd, path: Option<PathId>) -> Result<(), TraceError> {
        Self::seen(self, thread, place.into(), path)
    }

    fn event(&mut self, event: &Event) -> Result<(), TraceError> {
        Self::event(self, event)
    }

    fn execution(
        &mut self,
        execution: Execution,
        variables: Vec<(String, String)>,
    ) -> Result<(), TraceError> {
        Self::execution(self, execution, variables)
    }

    fn ended(&mut self, process: ProcessId, at: Nanos, exit: Option<Exit>) -> Result<(), TraceError> {
        Self::ended(self, process, at, exit)
    }
}
