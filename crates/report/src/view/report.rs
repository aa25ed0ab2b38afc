//! The object of `quell report --json`.

use super::activity::{Activity, OpenFiles, Phase, activity, open_files, phases};
use super::counters::CountersView;
use super::data::{Data, data};
use super::findings::Finding;
use super::folds::{FoldRow, folds};
use super::headline::{Headline, headline};
use super::packages::{self, ImportView, PackageView};
use super::parts::{Doubt, Latency, Totals};
use super::searches::{Searches, searches};
use super::{Rows, SCREEN};
use crate::number::seconds;
use quell_analyse::facts::{RecordingFacts, ending};
use quell_analyse::ranking::{RankedDirectory, RankedName, RankedPath};
use quell_analyse::{Diagnosis, FileSystemCounts, RankingScope, Summary};
use quell_trace::{Call, Completeness, Ended, Errno, Exit};
use schemars::JsonSchema;
use serde::Serialize;

/// The operations of a program on its file systems.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReportView {
    /// The version of this object.
    pub schema_version: u32,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// Its status as a shell shows it: 128 + N for signal N. Null when the recording ended first.
    pub exit_status: Option<i32>,
    /// Its duration. Unit: seconds.
    pub seconds: Option<f64>,
    /// The whole in a sentence, and what to do next.
    pub headline: Headline,
    /// The recorder.
    pub recorder: Recorder,
    /// The whole in a few numbers.
    pub totals: Totals,
    /// Metadata operations by who answers for the file system; their sum is `totals.metadata_operations`.
    pub served_by: Served,
    /// The time in which nearly all metadata operations came. Null when there were none.
    pub start_up: Option<StartUp>,
    /// Operations over time.
    pub activity: Activity,
    /// In the order of a run.
    pub phases: Vec<Phase>,
    /// Sorted by calls, most first, then by name.
    pub syscalls: Vec<Syscall>,
    /// Metadata operations that failed for another reason than absence. Sorted by name and errno.
    pub failures: Vec<Failure>,
    /// Sorted by metadata operations, most first, then by mount point.
    pub file_systems: Vec<FileSystem>,
    /// Operations by the counters that clients keep, on the node of the first recording that has them. Null where there are none.
    pub client_counters: Option<CountersView>,
    /// The paths with most metadata operations, at most 1000.
    pub top_paths: Vec<PathRow>,
    /// The directories with most metadata operations on names in them, at most 1000.
    pub top_directories: Vec<Directory>,
    /// The directories with most misses, at most 1000.
    pub missed_directories: Vec<Directory>,
    /// The names with most misses, at most 1000.
    pub missed_names: Vec<MissedName>,
    /// The lists that were searched, with their cost.
    pub searches: Searches,
    /// The packages of languages with most metadata operations, at most 1000. Sorted by them, most first, or by those while
    /// the package was imported where they are more.
    pub packages: Vec<PackageView>,
    /// The tree of Python's imports, where `quell record --python` recorded them: each row before those within it, those
    /// with most metadata operations first. Of more than 1000 rows those that cost most.
    pub imports: Vec<ImportView>,
    /// Requests, file by file.
    pub data: Data,
    /// Files open over time.
    pub open_files: OpenFiles,
    /// The command lines with most metadata operations, at most 1000.
    pub commands: Vec<Command>,
    /// Recordings that did the same, together. Sorted by recordings, most first.
    pub folds: Vec<FoldRow>,
    /// Sorted by rank, then name.
    pub recordings: Vec<Recording>,
    /// Reasons to read the numbers with care.
    pub doubts: Vec<Doubt>,
    /// Causes and remedies. Those with a free remedy that saves a tenth first, the sum of all causes last; among
    /// equals sorted by operations, most first.
    pub findings: Vec<Finding>,
    /// Operations on no known file system.
    #[serde(skip)]
    pub unplaced: Option<FileSystem>,
    /// Recorded commands besides the first.
    #[serde(skip)]
    pub other_commands: u64,
    /// The words for the first ending that is not status 0; `None` when the recording ended first.
    #[serde(skip)]
    pub ended: Option<String>,
    /// The first rows of the paths that the terminal shows: those on network file systems, where the run asked any.
    #[serde(skip)]
    pub screen: PathTables,
}

/// Tables of paths.
#[derive(Clone, Debug, PartialEq)]
pub struct PathTables {
    /// Only network file systems are in it.
    pub is_network: bool,
    /// The paths with most metadata operations.
    pub paths: Vec<PathRow>,
    /// The directories with most metadata operations on names in them.
    pub directories: Vec<Directory>,
    /// The directories with most misses.
    pub missed_directories: Vec<Directory>,
    /// The names with most misses.
    pub missed_names: Vec<MissedName>,
}

/// The recorder of all recordings together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Recorder {
    /// The engine; several are joined by a plus sign.
    pub engine: String,
    /// Events recorded.
    pub events: u64,
    /// Events that happened and were not recorded.
    pub lost: u64,
}

/// Metadata operations by who answers for the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Served {
    /// File systems that other nodes share.
    pub network: u64,
    /// Images mounted by quell.
    pub quell: u64,
    /// File systems of the node alone.
    pub local: u64,
    /// On no known file system: pipes, sockets, unresolved paths.
    pub unknown: u64,
}

/// The time in which nearly all metadata operations came.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StartUp {
    /// From the first metadata operation until 95 % of them had begun. Unit: seconds.
    pub seconds: f64,
    /// Those that had begun by then.
    pub metadata_operations: u64,
    /// Their number by that time.
    pub metadata_operations_per_second: f64,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Syscall {
    /// The kernel's name.
    pub name: String,
    /// Calls.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Time in it, the recorder's work inside. Unit: seconds.
    pub seconds: f64,
    /// Its class.
    #[serde(skip)]
    pub class: &'static str,
    /// Its durations; null when it never returned.
    #[serde(skip)]
    pub latency: Option<Latency>,
}

/// A reason for which a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Failure {
    /// The call.
    pub name: String,
    /// The symbolic name of the error.
    pub errno: String,
    /// Their number.
    pub calls: u64,
    /// Call and error in the order of their numbers.
    #[serde(skip)]
    pub order: (Call, Errno),
}

/// A file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FileSystem {
    /// Its mount point.
    pub mount_point: String,
    /// Its type, as mountinfo names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// `network`, `quell` or `local`.
    pub served_by: String,
    /// Calls on names or attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Calls of every class.
    pub calls: u64,
    /// Bytes that read calls returned.
    pub bytes_read: u64,
    /// Bytes that write calls took.
    pub bytes_written: u64,
}

/// A path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathRow {
    /// The path; bytes that are not text are escaped.
    pub path: String,
    /// `network`, `quell`, `local`, or null when unknown.
    pub served_by: Option<String>,
    /// Calls on the name or its attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Those that had succeeded before.
    #[serde(skip)]
    pub repeated: u64,
}

/// A directory, with the names directly in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Directory {
    /// The directory.
    pub path: String,
    /// `network`, `quell`, `local`, or null when unknown.
    pub served_by: Option<String>,
    /// Calls on its names or their attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Names that were asked for.
    pub names: u64,
    /// Names that were never found.
    pub absent: u64,
    /// Those that had succeeded before.
    #[serde(skip)]
    pub repeated: u64,
}

/// A name that was looked for and not found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MissedName {
    /// The last component.
    pub name: String,
    /// Metadata operations that failed because it was absent.
    pub missed: u64,
    /// Directories in which it was missed.
    pub directories: u64,
}

/// A command line with what its processes did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Command {
    /// Its arguments, its name first.
    pub arguments: Vec<String>,
    /// Processes that ran it.
    pub processes: u64,
    /// Their calls.
    pub calls: u64,
    /// Their calls on names or attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
}

/// A recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recording {
    /// The name under which it was opened.
    pub name: String,
    /// The rank, under a launcher.
    pub rank: Option<u32>,
    /// The node's name.
    pub host: String,
    /// Its status as a shell shows it.
    pub exit_status: Option<i32>,
    /// Its duration. Unit: seconds.
    pub seconds: Option<f64>,
    /// Events in it.
    pub events: u64,
    /// Events that happened and are not in it.
    pub lost: u64,
    /// The recorder was ended early.
    pub partial: bool,
    /// The event that ended it: `exit`, `started`, `limit`. After the latter two the command ran on.
    pub ended: Option<&'static str>,
    /// It began in the middle of the run.
    pub attached: bool,
    /// Ranks of the job.
    #[serde(skip)]
    pub ranks: Option<u32>,
    /// Job and step.
    #[serde(skip)]
    pub job: Option<String>,
    /// The command with its arguments.
    #[serde(skip)]
    pub command: Vec<String>,
    /// The engine that recorded it.
    #[serde(skip)]
    pub engine: String,
}

impl ReportView {
    /// A recording ended while its command ran on.
    pub fn is_cut(&self) -> bool {
        let cut = [Ended::Started, Ended::Limit].map(|ended| Some(ended.name()));
        self.recordings.iter().any(|recording| cut.contains(&recording.ended))
    }

    /// The part of the run that the recordings are of, where that is not all up to the end: `its first 3.0 s`.
    pub(crate) fn part(&self, article: &str) -> Option<String> {
        let took = seconds(self.seconds?);
        let attached = self.recordings.iter().any(|recording| recording.attached);
        match (attached, self.is_cut()) {
            (false, true) if self.exit_status.is_none() => Some(format!("{article} first {took}")),
            (false, _) => None,
            (true, true) => Some(format!("{took} from {article} middle")),
            (true, false) => Some(format!("{article} last {took}")),
        }
    }
}

/// The object of `quell report --json`.
pub fn report(summary: &Summary, diagnosis: &Diagnosis, rows: Rows) -> ReportView {
    let served = summary.served;
    let start = summary.start_up().map(|start| StartUp {
        seconds: start.length.as_seconds(),
        metadata_operations: start.operations,
        metadata_operations_per_second: start.rate.0,
    });
    let recorder =
        Recorder { engine: summary.engines().join("+"), events: summary.events(), lost: summary.lost() };
    let all = tables(summary, RankingScope::All, rows.most());
    let packages = packages::tables(&summary.packages, rows);
    ReportView {
        schema_version: super::SCHEMA_VERSION,
        command: summary.command().to_vec(),
        other_commands: summary.commands().len().saturating_sub(1) as u64,
        exit_status: summary.exit().map(Exit::shell_status),
        seconds: summary.seconds(),
        headline: headline(summary, diagnosis),
        recorder,
        totals: summary.totals().into(),
        served_by: Served {
            network: served.network,
            quell: served.quell,
            local: served.local,
            unknown: served.unknown,
        },
        start_up: start,
        activity: activity(&summary.activity, rows),
        phases: phases(&summary.phases),
        syscalls: syscalls(summary),
        failures: failures(summary),
        file_systems: file_systems(summary),
        client_counters: CountersView::of(summary.client_counters()),
        top_paths: all.paths,
        top_directories: all.directories,
        missed_directories: all.missed_directories,
        missed_names: all.missed_names,
        searches: searches(&summary.searches, rows),
        packages: packages.packages,
        imports: packages.imports,
        data: data(&summary.data, rows),
        open_files: open_files(&summary.data, rows),
        commands: commands(summary, rows.most()),
        folds: folds(summary),
        recordings: summary.recordings.iter().map(Recording::from).collect(),
        doubts: summary.doubts().iter().map(Doubt::from).collect(),
        findings: diagnosis.findings.iter().map(Finding::from).collect(),
        unplaced: (summary.unplaced.calls > 0)
            .then(|| file_system("(none known)", "", "unknown", summary.unplaced)),
        ended: summary.exit().map(ending),
        screen: tables(summary, summary.scope(), SCREEN),
    }
}

/// The paths of these file systems.
fn tables(summary: &Summary, scope: RankingScope, rows: usize) -> PathTables {
    let directories = |rows: Vec<RankedDirectory>| rows.into_iter().map(Directory::from).collect();
    PathTables {
        is_network: scope == RankingScope::Network,
        paths: summary.top_paths(scope, rows).into_iter().map(PathRow::from).collect(),
        directories: directories(summary.top_directories(scope, rows)),
        missed_directories: directories(summary.missed_directories(scope, rows)),
        missed_names: summary.missed_names(scope, rows).into_iter().map(MissedName::from).collect(),
    }
}

fn syscalls(summary: &Summary) -> Vec<Syscall> {
    let row = |(call, counts): (Call, quell_analyse::CallCounts)| Syscall {
        name: call.name().into(),
        calls: counts.calls,
        errors: counts.errors,
        seconds: counts.time.as_seconds(),
        class: call.class().name(),
        latency: summary.latency(call).map(Latency::from),
    };
    summary.calls().into_iter().map(row).collect()
}

fn failures(summary: &Summary) -> Vec<Failure> {
    let row = |(&(call, errno), &calls): (&(Call, Errno), &u64)| Failure {
        name: call.name().into(),
        errno: errno.name(),
        calls,
        order: (call, errno),
    };
    let mut rows: Vec<Failure> = summary.failures.iter().map(row).collect();
    rows.sort_by(|a, b| (&a.name, &a.errno).cmp(&(&b.name, &b.errno)));
    rows
}

fn file_systems(summary: &Summary) -> Vec<FileSystem> {
    let row = |(key, counts): (&quell_analyse::FileSystem, FileSystemCounts)| {
        file_system(&key.mount_point, &key.kind, key.served_by().name(), counts)
    };
    summary.file_systems().into_iter().map(row).collect()
}

fn file_system(mount_point: &str, kind: &str, served_by: &str, counts: FileSystemCounts) -> FileSystem {
    FileSystem {
        mount_point: mount_point.into(),
        kind: kind.into(),
        served_by: served_by.into(),
        metadata_operations: counts.metadata_operations,
        missed: counts.missed,
        calls: counts.calls,
        bytes_read: counts.bytes_read.0,
        bytes_written: counts.bytes_written.0,
    }
}

fn commands(summary: &Summary, rows: usize) -> Vec<Command> {
    let row = |row: quell_analyse::ranking::RankedCommand<'_>| Command {
        arguments: row.arguments.to_vec(),
        processes: row.counts.processes,
        calls: row.counts.calls,
        metadata_operations: row.counts.metadata_operations,
        missed: row.counts.missed,
    };
    summary.top_commands(rows).into_iter().map(row).collect()
}

impl From<RankedPath> for PathRow {
    fn from(row: RankedPath) -> Self {
        Self {
            path: row.path,
            served_by: row.counts.served_by.map(|by| by.name().into()),
            metadata_operations: row.counts.metadata_operations,
            missed: row.counts.missed,
            repeated: row.counts.repeated,
        }
    }
}

impl From<RankedDirectory> for Directory {
    fn from(row: RankedDirectory) -> Self {
        Self {
            path: row.path,
            served_by: row.counts.served_by.map(|by| by.name().into()),
            metadata_operations: row.counts.metadata_operations,
            missed: row.counts.missed,
            names: row.names,
            absent: row.absent,
            repeated: row.counts.repeated,
        }
    }
}

impl From<RankedName> for MissedName {
    fn from(row: RankedName) -> Self {
        Self { name: row.name, missed: row.missed, directories: row.directories }
    }
}

impl From<&RecordingFacts> for Recording {
    fn from(facts: &RecordingFacts) -> Self {
        Self {
            name: facts.name.clone(),
            rank: facts.rank.map(|rank| rank.0),
            host: facts.host.clone(),
            exit_status: facts.exit.map(Exit::shell_status),
            seconds: facts.seconds,
            events: facts.events,
            lost: facts.lost,
            partial: facts.completeness == Completeness::Partial,
            ended: facts.ended.map(Ended::name),
            attached: facts.attached,
            ranks: facts.ranks,
            job: facts.job.clone(),
            command: facts.command.clone(),
            engine: facts.engine.clone(),
        }
    }
}
