//! The importer of strace logs: any bytes give calls that hang together, or an error.
//!
//! An input is one log; behind each `\0\0` begins another one, so that the files of `strace -ff` are met too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quell_import::{LogSink, LogSource, read};
use quell_trace::{
    Event, Execution, Exit, Fd, Nanos, PathId, PathTable, Process, ProcessId, Thread, ThreadId, TraceError,
};
use std::io::{Cursor, Result};
use std::path::{Path, PathBuf};

struct Log {
    name: PathBuf,
    text: Vec<u8>,
}

impl LogSource for Log {
    type Reader = Cursor<Vec<u8>>;

    fn path(&self) -> &Path {
        &self.name
    }

    fn open(&self) -> Result<Self::Reader> {
        Ok(Cursor::new(self.text.clone()))
    }
}

/// Checks that every number that comes is one that was given out, and that time goes on.
#[derive(Default)]
struct Checker {
    paths: PathTable,
    processes: u32,
    threads: u32,
    last: Nanos,
}

impl Checker {
    fn knows(&self, path: Option<PathId>) -> bool {
        path.is_none_or(|path| (path.0 as usize) < self.paths.len())
    }
}

impl LogSink for Checker {
    fn path(&mut self, bytes: &[u8]) -> std::result::Result<PathId, TraceError> {
        Ok(self.paths.intern(bytes))
    }

    fn process(&mut self, process: Process) -> std::result::Result<ProcessId, TraceError> {
        assert!(process.parent.is_none_or(|parent| parent.0 < self.processes));
        assert_eq!(process.parent.is_none(), self.processes == 0, "the command alone has no parent");
        self.processes += 1;
        Ok(ProcessId(self.processes - 1))
    }

    fn thread(&mut self, thread: Thread) -> std::result::Result<ThreadId, TraceError> {
        assert!(thread.process.0 < self.processes);
        assert!(thread.parent.is_none_or(|parent| parent.0 <= self.threads));
        assert!(thread.start > self.last, "a thread begins after everything before");
        self.threads += 1;
        Ok(ThreadId(self.threads - 1))
    }

    fn seen(&mut self, thread: ThreadId, _: Fd, path: Option<PathId>) -> std::result::Result<(), TraceError> {
        assert!(thread.0 < self.threads && self.knows(path));
        Ok(())
    }

    fn event(&mut self, event: &Event) -> std::result::Result<(), TraceError> {
        assert!(event.thread.0 < self.threads && event.process.0 < self.processes);
        assert!(self.knows(event.path) && self.knows(event.path2));
        assert!(event.end() > self.last && event.start <= event.end(), "events end one after the other");
        self.last = event.end();
        Ok(())
    }

    fn execution(&mut self, execution: Execution, _: Vec<(String, String)>) -> std::result::Result<(), TraceError> {
        assert!(execution.thread.0 < self.threads && self.knows(execution.program));
        Ok(())
    }

    fn ended(&mut self, process: ProcessId, at: Nanos, _: Option<Exit>) -> std::result::Result<(), TraceError> {
        assert!(process.0 < self.processes && at > self.last);
        Ok(())
    }
}

fuzz_target!(|input: &[u8]| {
    let mut logs = vec![Vec::new()];
    for (index, &byte) in input.iter().enumerate() {
        if byte == 0 && input.get(index + 1) == Some(&0) && logs.len() < 4 {
            logs.push(Vec::new());
        } else {
            logs.last_mut().unwrap().push(byte);
        }
    }
    let is_one = logs.len() == 1;
    let name = |index: usize| if is_one { "log".into() } else { format!("log.{}", index + 7).into() };
    let logs: Vec<_> = logs.into_iter().enumerate().map(|(index, text)| Log { name: name(index), text }).collect();
    let _refused = read(&logs, &mut Checker::default());
});
