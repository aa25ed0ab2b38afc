//! The operations of one recording, or of several together.
//!
//! A summary keeps whole tables, not the best few rows: only so merging is exact, associative and free of order.
//! The views in [`crate::ranking`] and [`crate::scale`] choose from them when they are asked.

use crate::counts::{
    CallCounts, CommandCounts, Failures, FileSystemCounts, PathCounts, Served, Totals, add_bytes,
};
use crate::folding::{Fingerprints, Fold};
use crate::live::Live;
use crate::span::Span;
use crate::{Activity, Data, Durations, Latency, Packages, Phases, RecordingFacts, Searches, Wrappers};
use quell_counters::ClientCounters;
use quell_trace::{Call, Exit, Nanos, PathTable, ServedBy};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A file system as a reader names it: the same mount point and type on every node are one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileSystem {
    /// Its mount point; escaped if not text.
    pub mount_point: String,
    /// Its type as mountinfo has it, or `tmpfs.quell` for an image that was extracted into memory.
    pub kind: String,
}

impl FileSystem {
    /// The kind of server that answers for it.
    pub fn served_by(&self) -> ServedBy {
        ServedBy::of_type(&self.kind)
    }
}

/// The counts of one or several recordings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// Shape: sorted by rank, then name.
    pub recordings: Vec<RecordingFacts>,
    /// Metadata operations by who served them.
    pub served: Served,
    /// Metadata operations that failed for another reason than absence.
    pub failures: Failures,
    /// The operations on each file system. Shape: sorted by mount point, without those that were not used.
    pub file_systems: BTreeMap<FileSystem, FileSystemCounts>,
    /// The operations on no known file system: pipes, sockets, paths that could not be resolved.
    pub unplaced: FileSystemCounts,
    /// By command line. Shape: sorted by it.
    pub commands: BTreeMap<Vec<String>, CommandCounts>,
    /// Every path that a metadata operation was about, as bytes.
    pub paths: HashMap<Box<[u8]>, PathCounts>,
    /// Directories in which a recording changed something or waited for something, without those of Python's byte code: what
    /// an image cannot answer for.
    pub changed_directories: BTreeSet<Box<[u8]>>,
    /// Names and directories that were waited for, with the time from the first sign of it on.
    pub awaited: BTreeMap<Box<[u8]>, Nanos>,
    /// RUNPATH, else RPATH, of loaded programs and libraries that have one, unexpanded.
    pub run_paths: BTreeMap<Box<[u8]>, String>,
    /// Metadata operations over time, by class and part.
    pub activity: Activity,
    /// Misses tied to the search that made them.
    pub searches: Searches,
    /// The phases of the run.
    pub phases: Phases,
    /// The data side: requests, file by file.
    pub data: Data,
    /// Operations by package and by import.
    pub packages: Packages,
    /// Programs that only looked for another.
    pub wrappers: Wrappers,
    /// Fingerprints that tell equal recordings.
    pub(crate) fingerprints: Fingerprints,
    /// Rings for asynchronous input and output that were set up: their operations are not seen.
    pub rings: u64,
    pub(crate) span: Option<Span>,
    calls: BTreeMap<Call, CallCounts>,
    /// Durations of calls that returned.
    durations: BTreeMap<Call, Durations>,
    /// Without the number of distinct paths, which does not add up.
    totals: Totals,
}

impl Summary {
    /// Adds the counts of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        self.recordings.extend(other.recordings);
        self.recordings.sort_by(RecordingFacts::order);
        self.add_totals(&other.totals);
        let Served { network, quell, local, unknown } = other.served;
        self.served.add(Some(ServedBy::Network), network);
        self.served.add(Some(ServedBy::Quell), quell);
        self.served.add(Some(ServedBy::Local), local);
        self.served.add(None, unknown);
        other.failures.into_iter().for_each(|(key, count)| *self.failures.entry(key).or_default() += count);
        other.calls.into_iter().for_each(|(call, counts)| *self.calls.entry(call).or_default() += counts);
        self.add_durations(other.durations);
        other.file_systems.into_iter().for_each(|(key, counts)| {
            *self.file_systems.entry(key).or_default() += counts;
        });
        other.commands.into_iter().for_each(|(key, counts)| {
            *self.commands.entry(key).or_default() += counts;
        });
        other.paths.into_iter().for_each(|(path, counts)| *self.paths.entry(path).or_default() += counts);
        self.changed_directories.extend(other.changed_directories);
        for (path, time) in other.awaited {
            let mine = self.awaited.entry(path).or_default();
            mine.0 = mine.0.saturating_add(time.0);
        }
        for (file, list) in other.run_paths {
            // Nodes may differ: the first in byte order, so that the order of merging does not show.
            let mine = self.run_paths.entry(file).or_insert_with(|| list.clone());
            if list < *mine {
                *mine = list;
            }
        }
        self.unplaced += other.unplaced;
        self.activity.merge(other.activity);
        self.searches.merge(other.searches);
        self.phases.merge(other.phases);
        self.data.merge(other.data);
        self.packages.merge(other.packages);
        self.wrappers.merge(other.wrappers);
        self.fingerprints.merge(other.fingerprints);
        self.rings += other.rings;
        self.span = match other.span {
            Some(span) => Some(span.union(self.span)),
            None => self.span,
        };
    }

    /// The whole in a few numbers.
    pub fn totals(&self) -> Totals {
        Totals { distinct_paths: self.paths.len() as u64, ..self.totals }
    }

    /// The counts of one call; zero when it was never called.
    pub fn call(&self, call: Call) -> CallCounts {
        self.calls.get(&call).copied().unwrap_or_default()
    }

    /// Durations of a call; `None` when it never returned.
    pub fn latency(&self, call: Call) -> Option<Latency> {
        self.durations.get(&call)?.latency()
    }

    /// Every call that was called. Shape: sorted by calls, most first, then by name.
    pub fn calls(&self) -> Vec<(Call, CallCounts)> {
        let mut calls: Vec<_> = self.calls.iter().map(|(call, counts)| (*call, *counts)).collect();
        calls.sort_by(|(a, x), (b, y)| y.calls.cmp(&x.calls).then_with(|| a.name().cmp(b.name())));
        calls
    }

    /// Every file system that was asked. Shape: sorted by metadata operations, most first, then by mount point.
    pub fn file_systems(&self) -> Vec<(&FileSystem, FileSystemCounts)> {
        let mut rows: Vec<_> = self.file_systems.iter().map(|(key, counts)| (key, *counts)).collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.metadata_operations, counts.calls)));
        rows
    }

    /// The command that was recorded; that of the first recording when there are several.
    pub fn command(&self) -> &[String] {
        self.recordings.first().map_or(&[], |facts| &facts.command)
    }

    /// The commands that were recorded. Shape: distinct, in the order of the recordings.
    pub fn commands(&self) -> Vec<&[String]> {
        let mut commands: Vec<&[String]> = Vec::new();
        for facts in &self.recordings {
            if !commands.contains(&facts.command.as_slice()) {
                commands.push(&facts.command);
            }
        }
        commands
    }

    /// The ending of the command: the first one that is not status 0, in the order of the recordings; `None` when
    /// the recording ended first.
    pub fn exit(&self) -> Option<Exit> {
        let mut exits = self.recordings.iter().map(|facts| facts.exit);
        let first = exits.clone().next().flatten();
        exits.find(|exit| *exit != Some(Exit::Status(0))).unwrap_or(first)
    }

    /// The duration of the command: the longest of the recordings. Unit: seconds.
    pub fn seconds(&self) -> Option<f64> {
        self.recordings.iter().filter_map(|facts| facts.seconds).max_by(f64::total_cmp)
    }

    /// The counters of clients in the first recording that has them, and the name of its node. Those of another node are not
    /// added: a rank of the first node alone reads them.
    pub fn client_counters(&self) -> Option<(&str, &ClientCounters)> {
        self.recordings.iter().find_map(|facts| Some((facts.host.as_str(), facts.client_counters.as_ref()?)))
    }

    /// Events in the recordings.
    pub fn events(&self) -> u64 {
        self.recordings.iter().map(|facts| facts.events).sum()
    }

    /// Events that happened and are not in the recordings.
    pub fn lost(&self) -> u64 {
        self.recordings.iter().fold(0, |sum, facts| sum.saturating_add(facts.lost))
    }

    /// The engines that recorded. Shape: sorted, distinct.
    pub fn engines(&self) -> Vec<&str> {
        let mut engines: Vec<&str> = self.recordings.iter().map(|facts| facts.engine.as_str()).collect();
        engines.sort_unstable();
        engines.dedup();
        engines
    }

    /// Recordings that did the same, together. Shape: sorted by members, most first, then by the first member's rank.
    pub fn folds(&self) -> Vec<Fold<'_>> {
        self.fingerprints.folds()
    }

    /// Shape of `calls`: one entry a call, by its discriminant.
    pub(crate) fn add_calls(&mut self, calls: &[CallCounts]) {
        for (call, counts) in Call::ALL.iter().zip(calls).filter(|(_, counts)| counts.calls > 0) {
            *self.calls.entry(*call).or_default() += *counts;
        }
    }

    pub(crate) fn add_durations(&mut self, durations: impl IntoIterator<Item = (Call, Durations)>) {
        for (call, durations) in durations {
            self.durations.entry(call).or_default().merge(&durations);
        }
    }

    /// An empty summary of a recording with these run paths.
    pub(crate) fn of_run_paths(run_paths: BTreeMap<Box<[u8]>, String>) -> Self {
        Self { run_paths, ..Self::default() }
    }

    /// Notes what an image must not answer for. Byte code is read by later runs as the first one left it.
    pub(crate) fn add_live(&mut self, live: Live, paths: &PathTable) {
        let bytes = |path| paths.bytes(path);
        let parent = |path: &[u8]| {
            let is_byte_code = path.split(|&byte| byte == b'/').any(|name| name == b"__pycache__");
            let slash = path.iter().rposition(|&byte| byte == b'/').filter(|_| !is_byte_code);
            slash.map(|slash| path[..slash.max(1)].into())
        };
        let directory = match live {
            Live::Parent(path, _) => parent(bytes(path)),
            Live::Itself(path, _) => Some(bytes(path).into()),
            Live::Watched(path) => Some(bytes(path).into()),
            Live::Together(a, b, _) => together(bytes(a), bytes(b)),
        };
        self.changed_directories.extend(directory);
    }

    pub(crate) fn add_totals(&mut self, other: &Totals) {
        let totals = &mut self.totals;
        totals.calls += other.calls;
        totals.errors += other.errors;
        totals.metadata_operations += other.metadata_operations;
        totals.needed += other.needed;
        totals.repeated += other.repeated;
        totals.missed += other.missed;
        totals.failed += other.failed;
        totals.unnamed += other.unnamed;
        add_bytes(&mut totals.bytes_read, other.bytes_read);
        add_bytes(&mut totals.bytes_written, other.bytes_written);
    }
}

/// The smallest directory that holds both names; `None` where they are in the same one.
fn together(a: &[u8], b: &[u8]) -> Option<Box<[u8]>> {
    let directory = |path: &'_ [u8]| path.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    let (a, b) = (&a[..directory(a)], &b[..directory(b)]);
    let shared = a.split(|&byte| byte == b'/').zip(b.split(|&byte| byte == b'/')).take_while(|(a, b)| a == b);
    let length = shared.map(|(name, _)| name.len() + 1).sum::<usize>().saturating_sub(1);
    (a != b).then(|| a[..length.max(1).min(a.len())].into())
}
