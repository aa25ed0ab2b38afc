//! Recordings made up event by event, for tests.
#![allow(dead_code, reason = "every test uses a part")]

use quell_analyse::{Summary, Tally};
use quell_trace::*;

/// The header of a whole recording of a command, on one node without a launcher.
pub(crate) fn header(command: &[&str]) -> Header {
    Header {
        completeness: Completeness::Complete,
        exit: Some(Exit::Status(0)),
        seconds: Some(1.0),
        host: "node".into(),
        ..Header::begun("ptrace", "0", command.iter().map(|word| (*word).to_owned()).collect())
    }
}

/// A mount of the only namespace.
pub(crate) fn mount(point: &str, kind: &str) -> Mount {
    Mount::of_type(0, point, kind)
}

/// A recording being made up: one process with one thread, and what is added.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    /// Name under which it is opened.
    pub(crate) name: String,
    /// Its header.
    pub(crate) header: Header,
    /// Its paths.
    pub(crate) paths: PathTable,
    /// Its context.
    pub(crate) context: Context,
    /// Its events.
    pub(crate) events: Vec<Event>,
    /// The begin of the next event; each takes 10 ns.
    pub(crate) now: u64,
}

impl Recorded {
    /// A recording of the command `app`.
    pub(crate) fn new(rank: Option<u32>) -> Self {
        let header = Header { rank: rank.map(RankId), ..header(&["app"]) };
        let name = format!("app.{}.qtrace", rank.unwrap_or(0));
        let (paths, context) = (PathTable::default(), Context::default());
        let mut recorded = Self { name, header, paths, context, events: Vec::new(), now: 0 };
        recorded.process(None, false);
        recorded
    }

    /// A process that is born now, and its thread.
    pub(crate) fn process(&mut self, parent: Option<u32>, shares_files: bool) -> u32 {
        let number = self.context.processes.len() as u32;
        let (start, process) = (Nanos(self.now), ProcessId(number));
        let born = Process {
            pid: Pid(number as i32 + 1),
            parent: parent.map(ProcessId),
            start,
            end: None,
            exit: None,
        };
        self.context.processes.push(born);
        self.context.threads.push(Thread {
            tid: Pid(number as i32 + 1),
            process,
            parent: parent.map(ThreadId),
            start,
            shares_files,
            shares_directory: false,
        });
        number
    }

    /// The process ends now.
    pub(crate) fn end(&mut self, process: u32) {
        self.context.processes[process as usize].end = Some(Nanos(self.now));
        self.now += 10;
    }

    /// The number of a path.
    pub(crate) fn path(&mut self, path: &str) -> PathId {
        self.paths.intern(path.as_bytes())
    }

    /// A call about a file that succeeds with `value`.
    pub(crate) fn call(&mut self, process: u32, call: Call, target: &str, value: i64) -> &mut Event {
        let target = (!target.is_empty()).then(|| self.path(target));
        let start = Nanos(self.now);
        self.now += 10;
        self.events.push(Event {
            start,
            duration: Nanos(5),
            process: ProcessId(process),
            thread: ThreadId(process),
            outcome: Outcome::from_return_value(value),
            target,
            ..Event::new(call)
        });
        self.events.last_mut().expect("just pushed")
    }

    /// A call by name.
    pub(crate) fn named(&mut self, process: u32, call: Call, path: &str, value: i64) -> &mut Event {
        let id = self.path(path);
        let event = self.call(process, call, path, value);
        event.path = Some(id);
        event
    }

    /// A call about a descriptor.
    pub(crate) fn on(&mut self, process: u32, call: Call, fd: i32, target: &str, value: i64) -> &mut Event {
        let event = self.call(process, call, target, value);
        event.fd = Fd(fd);
        event
    }

    /// Its summary.
    pub(crate) fn summary(&self) -> Summary {
        let mut tally = Tally::new(&self.name, &self.header, &self.paths, &self.context);
        self.events.iter().for_each(|event| tally.add(event));
        tally.finish()
    }
}

/// The summaries of several, merged in this order.
pub(crate) fn merged<'a>(parts: impl IntoIterator<Item = &'a Recorded>) -> Summary {
    let mut summary = Summary::default();
    parts.into_iter().for_each(|part| summary.merge(part.summary()));
    summary
}
