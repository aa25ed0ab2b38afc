//! The tables of `quell report --csv`.

use super::{Column, optional, served_by, table};
use crate::text::{clean, command};
use quell_analyse::data::{FileData, Sizes};
use quell_analyse::facts::RecordingFacts;
use quell_analyse::phases::PhaseCounts;
use quell_analyse::ranking::{RankedCommand, RankedDirectory, RankedName, RankedPath};
use quell_analyse::searches::{EntryCounts, EntryKey, WantedCounts, WantedKey};
use quell_analyse::{FileSystem, FileSystemCounts, Finding, Latency, Phase, Scope, Summary};
use quell_base::escape;
use quell_trace::{Call, Completeness, Errno, Exit, Nanos};
use std::cmp::Reverse;

/// A table of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportTable {
    /// One row: the whole run in a few numbers.
    Totals,
    /// System calls.
    Syscalls,
    /// Failures by call and error.
    Failures,
    /// File systems.
    FileSystems,
    /// Paths.
    Paths,
    /// Directories.
    Directories,
    /// Names that were missed.
    Names,
    /// Command lines.
    Commands,
    /// Entries of search lists.
    Searches,
    /// What was searched for.
    Wanted,
    /// Files by data.
    Files,
    /// Requests by size.
    RequestSizes,
    /// Findings.
    Findings,
    /// Phases.
    Phases,
    /// Operations over time.
    Activity,
    /// Open files over time.
    OpenFiles,
    /// Recordings.
    Recordings,
}

impl ReportTable {
    /// Every table.
    pub const ALL: [Self; 17] = [
        Self::Totals,
        Self::Syscalls,
        Self::Failures,
        Self::FileSystems,
        Self::Paths,
        Self::Directories,
        Self::Names,
        Self::Commands,
        Self::Searches,
        Self::Wanted,
        Self::Files,
        Self::RequestSizes,
        Self::Findings,
        Self::Phases,
        Self::Activity,
        Self::OpenFiles,
        Self::Recordings,
    ];

    /// Its name, and what a row of it is.
    pub const fn described(self) -> (&'static str, &'static str) {
        match self {
            Self::Totals => ("totals", "one row, the whole run"),
            Self::Syscalls => ("syscalls", "a system call: calls, errors, times"),
            Self::Failures => ("failures", "a call and an error other than absence"),
            Self::FileSystems => ("file-systems", "a mount point"),
            Self::Paths => ("paths", "a path that metadata operations were about"),
            Self::Directories => ("directories", "a directory, with the names in it"),
            Self::Names => ("names", "a name that was missed, wherever it was looked for"),
            Self::Commands => ("commands", "a command line"),
            Self::Searches => ("searches", "an entry of a search list"),
            Self::Wanted => ("wanted", "a name that was searched for"),
            Self::Files => ("files", "a file that was opened, read or written"),
            Self::RequestSizes => ("request-sizes", "a file's requests of one direction and size"),
            Self::Findings => ("findings", "a cause of operations, with its remedy"),
            Self::Phases => ("phases", "a phase of the run"),
            Self::Activity => ("activity", "an interval, a class and an outcome of operations"),
            Self::OpenFiles => ("open-files", "an interval, and the most files open in it"),
            Self::Recordings => ("recordings", "a recording"),
        }
    }
}

/// A whole table of a report.
pub fn report(which: ReportTable, summary: &Summary, findings: &[Finding]) -> String {
    match which {
        ReportTable::Totals => totals(summary),
        ReportTable::Syscalls => syscalls(summary),
        ReportTable::Failures => failures(summary),
        ReportTable::FileSystems => file_systems(summary),
        ReportTable::Paths => paths(summary),
        ReportTable::Directories => directories(summary),
        ReportTable::Names => names(summary),
        ReportTable::Commands => commands(summary),
        ReportTable::Searches => searches(summary),
        ReportTable::Wanted => wanted(summary),
        ReportTable::Files => files(summary),
        ReportTable::RequestSizes => request_sizes(summary),
        ReportTable::Findings => causes(findings),
        ReportTable::Phases => phases(summary),
        ReportTable::Activity => activity(summary),
        ReportTable::OpenFiles => open_files(summary),
        ReportTable::Recordings => recordings(summary),
    }
}

fn totals(summary: &Summary) -> String {
    let row = (summary.totals(), summary.served, summary.seconds());
    let columns: &[Column<(quell_analyse::Totals, quell_analyse::Served, Option<f64>)>] = &[
        ("calls", |row| row.0.calls.to_string()),
        ("errors", |row| row.0.errors.to_string()),
        ("metadata_operations", |row| row.0.metadata_operations.to_string()),
        ("missed", |row| row.0.missed.to_string()),
        ("repeated", |row| row.0.repeated.to_string()),
        ("needed", |row| row.0.needed.to_string()),
        ("failed", |row| row.0.failed.to_string()),
        ("unnamed", |row| row.0.unnamed.to_string()),
        ("distinct_paths", |row| row.0.distinct_paths.to_string()),
        ("bytes_read", |row| row.0.bytes_read.0.to_string()),
        ("bytes_written", |row| row.0.bytes_written.0.to_string()),
        ("network", |row| row.1.network.to_string()),
        ("quell", |row| row.1.quell.to_string()),
        ("local", |row| row.1.local.to_string()),
        ("unknown", |row| row.1.unknown.to_string()),
        ("seconds", |row| optional(row.2)),
    ];
    table(columns, [row])
}

fn syscalls(summary: &Summary) -> String {
    type Row = (Call, quell_analyse::CallCounts, Option<Latency>);
    let rows = summary.calls().into_iter().map(|(call, counts)| (call, counts, summary.latency(call)));
    let columns: &[Column<Row>] = &[
        ("name", |row| row.0.name().into()),
        ("class", |row| row.0.class().name().into()),
        ("calls", |row| row.1.calls.to_string()),
        ("errors", |row| row.1.errors.to_string()),
        ("seconds", |row| seconds(row.1.time)),
        ("mean_seconds", |row| optional(row.2.map(|latency| latency.mean.as_seconds()))),
        ("p50_seconds", |row| optional(row.2.map(|latency| latency.p50.as_seconds()))),
        ("p99_seconds", |row| optional(row.2.map(|latency| latency.p99.as_seconds()))),
    ];
    table(columns, rows)
}

fn failures(summary: &Summary) -> String {
    let mut rows: Vec<((Call, Errno), u64)> =
        summary.failures.iter().map(|(key, count)| (*key, *count)).collect();
    rows.sort_by_key(|((call, errno), _)| (call.name(), errno.0));
    let columns: &[Column<((Call, Errno), u64)>] = &[
        ("name", |row| row.0.0.name().into()),
        ("errno", |row| row.0.1.name()),
        ("calls", |row| row.1.to_string()),
    ];
    table(columns, rows)
}

fn file_systems(summary: &Summary) -> String {
    let columns: &[Column<(&FileSystem, FileSystemCounts)>] = &[
        ("mount_point", |row| clean(&row.0.mount_point)),
        ("type", |row| clean(&row.0.kind)),
        ("served_by", |row| row.0.served_by().name().into()),
        ("metadata_operations", |row| row.1.metadata_operations.to_string()),
        ("missed", |row| row.1.missed.to_string()),
        ("calls", |row| row.1.calls.to_string()),
        ("bytes_read", |row| row.1.bytes_read.0.to_string()),
        ("bytes_written", |row| row.1.bytes_written.0.to_string()),
    ];
    table(columns, summary.file_systems())
}

fn paths(summary: &Summary) -> String {
    let columns: &[Column<RankedPath>] = &[
        ("path", |row| row.path.clone()),
        ("served_by", |row| served_by(row.counts.served_by)),
        ("metadata_operations", |row| row.counts.metadata_operations.to_string()),
        ("missed", |row| row.counts.missed.to_string()),
        ("repeated", |row| row.counts.repeated.to_string()),
    ];
    table(columns, summary.top_paths(Scope::All, usize::MAX))
}

fn directories(summary: &Summary) -> String {
    let columns: &[Column<RankedDirectory>] = &[
        ("path", |row| row.path.clone()),
        ("served_by", |row| served_by(row.counts.served_by)),
        ("metadata_operations", |row| row.counts.metadata_operations.to_string()),
        ("missed", |row| row.counts.missed.to_string()),
        ("repeated", |row| row.counts.repeated.to_string()),
        ("names", |row| row.names.to_string()),
        ("absent", |row| row.absent.to_string()),
    ];
    table(columns, summary.top_directories(Scope::All, usize::MAX))
}

fn names(summary: &Summary) -> String {
    let columns: &[Column<RankedName>] = &[
        ("name", |row| row.name.clone()),
        ("missed", |row| row.missed.to_string()),
        ("directories", |row| row.directories.to_string()),
    ];
    table(columns, summary.missed_names(Scope::All, usize::MAX))
}

fn commands(summary: &Summary) -> String {
    let columns: &[Column<RankedCommand<'_>>] = &[
        ("command", |row| command(row.arguments)),
        ("processes", |row| row.counts.processes.to_string()),
        ("calls", |row| row.counts.calls.to_string()),
        ("metadata_operations", |row| row.counts.metadata_operations.to_string()),
        ("missed", |row| row.counts.missed.to_string()),
    ];
    table(columns, summary.top_commands(usize::MAX))
}

fn searches(summary: &Summary) -> String {
    let mut rows: Vec<(&EntryKey, &EntryCounts)> = summary.searches.entries.iter().collect();
    rows.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
    let columns: &[Column<(&EntryKey, &EntryCounts)>] = &[
        ("kind", |row| row.0.kind.name().into()),
        ("origin", |row| clean(&row.0.origin)),
        ("directory", |row| escape(&row.0.directory)),
        ("position", |row| row.1.position.to_string()),
        ("searches", |row| row.1.searches.to_string()),
        ("probes", |row| row.1.probes.to_string()),
        ("missed", |row| row.1.missed.to_string()),
        ("hits", |row| row.1.hits.to_string()),
    ];
    table(columns, rows)
}

fn wanted(summary: &Summary) -> String {
    let mut rows: Vec<(&WantedKey, &WantedCounts)> = summary.searches.wanted.iter().collect();
    rows.sort_by_key(|(_, counts)| Reverse((counts.missed, counts.probes)));
    let columns: &[Column<(&WantedKey, &WantedCounts)>] = &[
        ("kind", |row| row.0.kind.name().into()),
        ("name", |row| escape(&row.0.name)),
        ("asked_by", |row| optional(row.0.asked_by.as_deref().map(escape))),
        ("searches", |row| row.1.searches.to_string()),
        ("probes", |row| row.1.probes.to_string()),
        ("missed", |row| row.1.missed.to_string()),
        ("found", |row| optional(row.1.found.as_deref().map(escape))),
    ];
    table(columns, rows)
}

/// Shape: by bytes moved, most first, then by path.
fn files_by_bytes(summary: &Summary) -> Vec<(&[u8], &FileData)> {
    let mut rows: Vec<(&[u8], &FileData)> =
        summary.data.files.iter().map(|(path, file)| (&**path, file)).collect();
    let moved = |file: &FileData| file.reads.bytes.0.saturating_add(file.writes.bytes.0);
    rows.sort_by(|a, b| moved(b.1).cmp(&moved(a.1)).then_with(|| a.0.cmp(b.0)));
    rows
}

fn files(summary: &Summary) -> String {
    let columns: &[Column<(&[u8], &FileData)>] = &[
        ("path", |row| escape(row.0)),
        ("opens", |row| row.1.opens.to_string()),
        ("open_seconds", |row| seconds(row.1.open_time)),
        ("creates", |row| row.1.creates.to_string()),
        ("mappings", |row| row.1.mappings.to_string()),
        ("reads", |row| row.1.reads.calls.to_string()),
        ("bytes_read", |row| row.1.reads.bytes.0.to_string()),
        ("reads_sequential", |row| row.1.reads.sequential.to_string()),
        ("reads_stripe_sized", |row| row.1.reads.stripe_sized.to_string()),
        ("read_gaps", |row| row.1.reads.gaps.to_string()),
        ("read_gap_bytes", |row| row.1.reads.gap_bytes.0.to_string()),
        ("read_seconds", |row| seconds(row.1.reads.time)),
        ("writes", |row| row.1.writes.calls.to_string()),
        ("bytes_written", |row| row.1.writes.bytes.0.to_string()),
        ("writes_sequential", |row| row.1.writes.sequential.to_string()),
        ("writes_stripe_sized", |row| row.1.writes.stripe_sized.to_string()),
        ("write_gaps", |row| row.1.writes.gaps.to_string()),
        ("write_gap_bytes", |row| row.1.writes.gap_bytes.0.to_string()),
        ("write_seconds", |row| seconds(row.1.writes.time)),
        ("reach", |row| row.1.reach.0.to_string()),
        ("stripe_count", |row| optional(row.1.stripe.map(|(count, _)| count))),
        ("stripe_size", |row| optional(row.1.stripe.map(|(_, size)| size.0))),
        ("reading_ranks", |row| row.1.read_by.len().to_string()),
        ("writing_ranks", |row| row.1.written_by.len().to_string()),
    ];
    table(columns, files_by_bytes(summary))
}

/// Requests of one direction and size on a file.
struct Sized<'a> {
    path: &'a [u8],
    direction: &'static str,
    /// Entry of [`quell_analyse::data::Sizes`].
    power: usize,
    calls: u64,
}

fn request_sizes(summary: &Summary) -> String {
    let rows = files_by_bytes(summary).into_iter().flat_map(sized);
    let columns: &[Column<Sized<'_>>] = &[
        ("path", |row| escape(row.path)),
        ("direction", |row| row.direction.into()),
        ("smallest", |row| ((1u64 << row.power) >> 1).to_string()),
        ("largest", |row| ((1u64 << row.power) - 1).to_string()),
        ("calls", |row| row.calls.to_string()),
    ];
    table(columns, rows)
}

fn sized<'a>((path, file): (&'a [u8], &'a FileData)) -> impl Iterator<Item = Sized<'a>> {
    let of = move |direction, sizes: &'a Sizes| {
        sizes.iter().map(move |(power, calls)| Sized { path, direction, power, calls })
    };
    of("read", &file.reads.sizes).chain(of("write", &file.writes.sizes))
}

fn causes(findings: &[Finding]) -> String {
    let columns: &[Column<&Finding>] = &[
        ("code", |row| row.code.into()),
        ("title", |row| clean(&row.title)),
        ("operations", |row| row.operations.to_string()),
        ("threshold", |row| row.threshold.name.into()),
        ("threshold_value", |row| row.threshold.value.to_string()),
        ("measured", |row| row.measured.to_string()),
        ("unit", |row| row.threshold.unit.into()),
        ("remedy", |row| clean(&row.remedy.text)),
        ("command", |row| clean(&row.remedy.command)),
        ("cost", |row| row.remedy.cost.name().into()),
        ("metadata_operations_after", |row| row.remedy.metadata_operations_after.to_string()),
        ("evidence", |row| clean(&row.evidence.join("; "))),
    ];
    table(columns, findings)
}

fn phases(summary: &Summary) -> String {
    let columns: &[Column<(&Phase, &PhaseCounts)>] = &[
        ("name", |row| row.0.name().into()),
        ("seconds", |row| seconds(row.1.length)),
        ("metadata_operations", |row| row.1.metadata_operations.to_string()),
        ("missed", |row| row.1.missed.to_string()),
    ];
    table(columns, &summary.phases.counts)
}

/// Intervals in which there was nothing are left out. Shape: by time, then by class and outcome.
fn activity(summary: &Summary) -> String {
    type Row = (Nanos, Nanos, &'static str, &'static str, u64);
    let binned = summary.activity.at_most(usize::MAX);
    let intervals = binned.series.iter().map(|series| series.counts.len()).max().unwrap_or(0);
    let rows = (0..intervals).flat_map(|index| {
        let interval = binned.interval;
        binned.series.iter().map(move |series| {
            (begin(index, interval), interval, series.class.name(), series.part.name(), series.counts[index])
        })
    });
    let columns: &[Column<Row>] = &[
        ("begin_seconds", |row| seconds(row.0)),
        ("interval_seconds", |row| seconds(row.1)),
        ("class", |row| row.2.into()),
        ("part", |row| row.3.into()),
        ("metadata_operations", |row| row.4.to_string()),
    ];
    table(columns, rows.filter(|row| row.4 > 0))
}

fn open_files(summary: &Summary) -> String {
    let (interval, most) = summary.data.open_files.at_most(usize::MAX);
    let rows = most.into_iter().enumerate().map(|(index, most)| (begin(index, interval), interval, most));
    let columns: &[Column<(Nanos, Nanos, u64)>] = &[
        ("begin_seconds", |row| seconds(row.0)),
        ("interval_seconds", |row| seconds(row.1)),
        ("most", |row| row.2.to_string()),
    ];
    table(columns, rows)
}

fn recordings(summary: &Summary) -> String {
    let columns: &[Column<&RecordingFacts>] = &[
        ("name", |row| row.name.clone()),
        ("rank", |row| optional(row.rank.map(|rank| rank.0))),
        ("ranks", |row| optional(row.ranks)),
        ("host", |row| clean(&row.host)),
        ("job", |row| optional(row.job.as_deref().map(clean))),
        ("command", |row| command(&row.command)),
        ("exit_status", |row| optional(row.exit.map(Exit::shell_status))),
        ("seconds", |row| optional(row.seconds)),
        ("engine", |row| clean(&row.engine)),
        ("events", |row| row.events.to_string()),
        ("lost", |row| row.lost.to_string()),
        ("partial", |row| (row.completeness == Completeness::Partial).to_string()),
    ];
    table(columns, &summary.recordings)
}

fn seconds(time: Nanos) -> String {
    time.as_seconds().to_string()
}

/// When an interval of a timeline begins.
fn begin(index: usize, interval: Nanos) -> Nanos {
    Nanos(interval.0.saturating_mul(index as u64))
}
