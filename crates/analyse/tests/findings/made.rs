//! A recording that is made up call by call.

use crate::support::{header, mount};
use quell_analyse::searches::{EntryCounts, EntryKey};
use quell_analyse::{SearchKind, Summary, Tally};
use quell_trace::flags::O_CREAT;
use quell_trace::*;

pub(crate) const LUSTRE: Option<MountId> = Some(MountId(0));
pub(crate) const LOCAL: Option<MountId> = Some(MountId(1));
pub(crate) const FOUND: Outcome = Outcome::Success(0);
pub(crate) const ABSENT: Outcome = Outcome::Failure(Errno::ENOENT);
pub(crate) const NO_LINK: Outcome = Outcome::Failure(Errno(22));
pub(crate) const NO_ATTRIBUTE: Outcome = Outcome::Failure(Errno(61));

/// A recording being made up: of a command, on Lustre below `/lustre` and on a local disk.
pub(crate) struct Made {
    pub(crate) header: Header,
    pub(crate) paths: PathTable,
    pub(crate) context: Context,
    pub(crate) events: Vec<Event>,
}

impl Made {
    pub(crate) fn of(command: &[&str]) -> Self {
        let words: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let header = Header { working_directory: "/lustre/home".into(), ..header(command) };
        let context = Context {
            mounts: vec![mount("/lustre", "lustre"), mount("/", "ext4")],
            processes: vec![Process::first(Pid(1))],
            threads: vec![Thread::first(Pid(1), ProcessId(0))],
            executions: vec![Execution::of(0, Nanos(0), words)],
            ..Context::default()
        };
        Self { header, paths: PathTable::default(), context, events: Vec::new() }
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.context.variables.push(Variable { execution: 0, name: name.into(), value: value.into() });
        self.context.variables.sort_by(|a, b| a.name.cmp(&b.name));
        self
    }

    pub(crate) fn rank(mut self, rank: u32, ranks: u32) -> Self {
        (self.header.rank, self.header.ranks) = (Some(RankId(rank)), Some(ranks));
        self
    }

    pub(crate) fn call(&mut self, call: Call, path: &str, outcome: Outcome) -> &mut Event {
        let target = Some(self.paths.intern(path.as_bytes()));
        let file_system = if path.starts_with("/lustre") { LUSTRE } else { LOCAL };
        let by_name = !matches!(call, Call::Fstat | Call::Getdents64 | Call::Write | Call::Read);
        let path = target.filter(|_| by_name);
        self.events.push(Event { target, path, outcome, file_system, ..Event::new(call) });
        self.events.last_mut().expect("just pushed")
    }

    pub(crate) fn repeat(mut self, times: u64, call: Call, path: &str, outcome: Outcome) -> Self {
        (0..times).for_each(|_| _ = self.call(call, path, outcome));
        self
    }

    pub(crate) fn summary(&self) -> Summary {
        let mut tally = Tally::new("app.qtrace", &self.header, &self.paths, &self.context);
        self.events.iter().for_each(|event| tally.add(event));
        let mut summary = Summary::default();
        summary.merge(tally.finish());
        summary
    }
}

/// A file that is made, asked for and removed again.
pub(crate) fn make_and_remove(made: &mut Made, path: &str) {
    made.call(Call::Openat, path, FOUND).flags = O_CREAT;
    made.call(Call::Newfstatat, path, FOUND);
    made.call(Call::Unlink, path, FOUND);
}

/// A summary whose searches found nothing in these entries.
pub(crate) fn searched(made: &Made, kind: SearchKind, origin: &str, directories: &[(&str, u64)]) -> Summary {
    let mut summary = made.summary();
    for (position, (directory, probes)) in directories.iter().enumerate() {
        let key = EntryKey { kind, origin: origin.into(), directory: directory.as_bytes().into() };
        let counts = EntryCounts {
            position: position as u32,
            searches: *probes,
            probes: *probes,
            missed: *probes,
            hits: 0,
        };
        summary.searches.entries.insert(key, counts);
    }
    summary
}

pub(crate) fn missing(mut made: Made, directory: &str, times: u64) -> Made {
    (0..times).for_each(|n| _ = made.call(Call::Openat, &format!("{directory}/lib{n}.so"), ABSENT));
    made
}
