//! The tables of `quell report --csv`.

use super::{Column, optional, table};
use crate::number::nanos;
use crate::text::{clean, command};
use crate::view::{
    Activity, Command, Directory, Failure, FileData, FileSystem, Finding, MissedName, OpenFiles, PathRow,
    Phase, Recording, ReportView, SearchEntry, Series, Syscall, Wanted,
};
use quell_trace::Nanos;

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
    /// Names that were searched for.
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

/// A whole table of a report, with the rows that the view has.
pub fn report(which: ReportTable, report: &ReportView) -> String {
    match which {
        ReportTable::Totals => totals(report),
        ReportTable::Syscalls => syscalls(report),
        ReportTable::Failures => failures(report),
        ReportTable::FileSystems => file_systems(report),
        ReportTable::Paths => paths(report),
        ReportTable::Directories => directories(report),
        ReportTable::Names => names(report),
        ReportTable::Commands => commands(report),
        ReportTable::Searches => searches(report),
        ReportTable::Wanted => wanted(report),
        ReportTable::Files => files(report),
        ReportTable::RequestSizes => request_sizes(report),
        ReportTable::Findings => causes(report),
        ReportTable::Phases => phases(report),
        ReportTable::Activity => activity(report),
        ReportTable::OpenFiles => open_files(report),
        ReportTable::Recordings => recordings(report),
    }
}

fn totals(report: &ReportView) -> String {
    let columns: &[Column<&ReportView>] = &[
        ("calls", |row| row.totals.calls.to_string()),
        ("errors", |row| row.totals.errors.to_string()),
        ("metadata_operations", |row| row.totals.metadata_operations.to_string()),
        ("missed", |row| row.totals.missed.to_string()),
        ("repeated", |row| row.totals.repeated.to_string()),
        ("needed", |row| row.totals.needed.to_string()),
        ("failed", |row| row.totals.failed.to_string()),
        ("unnamed", |row| row.totals.unnamed.to_string()),
        ("distinct_paths", |row| row.totals.distinct_paths.to_string()),
        ("bytes_read", |row| row.totals.bytes_read.to_string()),
        ("bytes_written", |row| row.totals.bytes_written.to_string()),
        ("network", |row| row.served_by.network.to_string()),
        ("quell", |row| row.served_by.quell.to_string()),
        ("local", |row| row.served_by.local.to_string()),
        ("unknown", |row| row.served_by.unknown.to_string()),
        ("seconds", |row| optional(row.seconds)),
    ];
    table(columns, [report])
}

fn syscalls(report: &ReportView) -> String {
    let columns: &[Column<&Syscall>] = &[
        ("name", |row| row.name.clone()),
        ("class", |row| row.class.into()),
        ("calls", |row| row.calls.to_string()),
        ("errors", |row| row.errors.to_string()),
        ("seconds", |row| row.seconds.to_string()),
        ("mean_seconds", |row| optional(row.latency.map(|latency| latency.mean_seconds))),
        ("p50_seconds", |row| optional(row.latency.map(|latency| latency.p50_seconds))),
        ("p99_seconds", |row| optional(row.latency.map(|latency| latency.p99_seconds))),
    ];
    table(columns, &report.syscalls)
}

fn failures(report: &ReportView) -> String {
    let mut rows: Vec<&Failure> = report.failures.iter().collect();
    rows.sort_by_key(|row| (&row.name, row.order.1.0));
    let columns: &[Column<&Failure>] = &[
        ("name", |row| row.name.clone()),
        ("errno", |row| row.errno.clone()),
        ("calls", |row| row.calls.to_string()),
    ];
    table(columns, rows)
}

fn file_systems(report: &ReportView) -> String {
    let columns: &[Column<&FileSystem>] = &[
        ("mount_point", |row| clean(&row.mount_point)),
        ("type", |row| clean(&row.kind)),
        ("served_by", |row| row.served_by.clone()),
        ("metadata_operations", |row| row.metadata_operations.to_string()),
        ("missed", |row| row.missed.to_string()),
        ("calls", |row| row.calls.to_string()),
        ("bytes_read", |row| row.bytes_read.to_string()),
        ("bytes_written", |row| row.bytes_written.to_string()),
    ];
    table(columns, &report.file_systems)
}

fn paths(report: &ReportView) -> String {
    let columns: &[Column<&PathRow>] = &[
        ("path", |row| row.path.clone()),
        ("served_by", |row| optional(row.served_by.as_ref())),
        ("metadata_operations", |row| row.metadata_operations.to_string()),
        ("missed", |row| row.missed.to_string()),
        ("repeated", |row| row.repeated.to_string()),
    ];
    table(columns, &report.top_paths)
}

fn directories(report: &ReportView) -> String {
    let columns: &[Column<&Directory>] = &[
        ("path", |row| row.path.clone()),
        ("served_by", |row| optional(row.served_by.as_ref())),
        ("metadata_operations", |row| row.metadata_operations.to_string()),
        ("missed", |row| row.missed.to_string()),
        ("repeated", |row| row.repeated.to_string()),
        ("names", |row| row.names.to_string()),
        ("absent", |row| row.absent.to_string()),
    ];
    table(columns, &report.top_directories)
}

fn names(report: &ReportView) -> String {
    let columns: &[Column<&MissedName>] = &[
        ("name", |row| row.name.clone()),
        ("missed", |row| row.missed.to_string()),
        ("directories", |row| row.directories.to_string()),
    ];
    table(columns, &report.missed_names)
}

fn commands(report: &ReportView) -> String {
    let columns: &[Column<&Command>] = &[
        ("command", |row| command(&row.arguments)),
        ("processes", |row| row.processes.to_string()),
        ("calls", |row| row.calls.to_string()),
        ("metadata_operations", |row| row.metadata_operations.to_string()),
        ("missed", |row| row.missed.to_string()),
    ];
    table(columns, &report.commands)
}

fn searches(report: &ReportView) -> String {
    let columns: &[Column<&SearchEntry>] = &[
        ("kind", |row| row.kind.clone()),
        ("origin", |row| clean(&row.origin)),
        ("directory", |row| row.directory.clone()),
        ("position", |row| row.position.to_string()),
        ("searches", |row| row.searches.to_string()),
        ("probes", |row| row.probes.to_string()),
        ("missed", |row| row.missed.to_string()),
        ("hits", |row| row.hits.to_string()),
    ];
    table(columns, &report.searches.entries)
}

fn wanted(report: &ReportView) -> String {
    let columns: &[Column<&Wanted>] = &[
        ("kind", |row| row.kind.clone()),
        ("name", |row| row.name.clone()),
        ("asked_by", |row| optional(row.asked_by.as_ref())),
        ("searches", |row| row.searches.to_string()),
        ("probes", |row| row.probes.to_string()),
        ("missed", |row| row.missed.to_string()),
        ("found", |row| optional(row.found.as_ref())),
    ];
    table(columns, &report.searches.wanted)
}

/// Shape: by bytes moved, most first, then by path.
fn files_by_bytes(report: &ReportView) -> Vec<&FileData> {
    let mut rows: Vec<&FileData> = report.data.files.iter().collect();
    let moved = |file: &FileData| file.reads.bytes.saturating_add(file.writes.bytes);
    rows.sort_by(|a, b| moved(b).cmp(&moved(a)).then_with(|| a.path.cmp(&b.path)));
    rows
}

fn files(report: &ReportView) -> String {
    let columns: &[Column<&FileData>] = &[
        ("path", |row| row.path.clone()),
        ("opens", |row| row.opens.to_string()),
        ("open_seconds", |row| row.open_seconds.to_string()),
        ("creates", |row| row.creates.to_string()),
        ("mappings", |row| row.mappings.to_string()),
        ("reads", |row| row.reads.calls.to_string()),
        ("bytes_read", |row| row.reads.bytes.to_string()),
        ("reads_sequential", |row| row.reads.sequential.to_string()),
        ("reads_stripe_sized", |row| row.reads.stripe_sized.to_string()),
        ("read_gaps", |row| row.reads.gaps.to_string()),
        ("read_gap_bytes", |row| row.reads.gap_bytes.to_string()),
        ("read_seconds", |row| row.reads.seconds.to_string()),
        ("writes", |row| row.writes.calls.to_string()),
        ("bytes_written", |row| row.writes.bytes.to_string()),
        ("writes_sequential", |row| row.writes.sequential.to_string()),
        ("writes_stripe_sized", |row| row.writes.stripe_sized.to_string()),
        ("write_gaps", |row| row.writes.gaps.to_string()),
        ("write_gap_bytes", |row| row.writes.gap_bytes.to_string()),
        ("write_seconds", |row| row.writes.seconds.to_string()),
        ("reach", |row| row.reach.to_string()),
        ("stripe_count", |row| optional(row.stripe_count)),
        ("stripe_size", |row| optional(row.stripe_size)),
        ("reading_ranks", |row| row.reading_ranks.to_string()),
        ("writing_ranks", |row| row.writing_ranks.to_string()),
    ];
    table(columns, files_by_bytes(report))
}

/// Requests of one direction and size on a file: path, direction, power of two, calls.
type Sized<'a> = (&'a str, &'static str, usize, u64);

fn request_sizes(report: &ReportView) -> String {
    let columns: &[Column<Sized<'_>>] = &[
        ("path", |row| row.0.into()),
        ("direction", |row| row.1.into()),
        ("smallest", |row| ((1u64 << row.2) >> 1).to_string()),
        ("largest", |row| ((1u64 << row.2) - 1).to_string()),
        ("calls", |row| row.3.to_string()),
    ];
    table(columns, files_by_bytes(report).into_iter().flat_map(sized))
}

fn sized(file: &FileData) -> impl Iterator<Item = Sized<'_>> {
    [("read", &file.reads), ("write", &file.writes)].into_iter().flat_map(move |(direction, of)| {
        let sizes = of.sizes.iter().copied().enumerate().filter(|(_, calls)| *calls > 0);
        sizes.map(move |(power, calls)| (file.path.as_str(), direction, power, calls))
    })
}

fn causes(report: &ReportView) -> String {
    let columns: &[Column<&Finding>] = &[
        ("code", |row| row.code.clone()),
        ("title", |row| clean(&row.title)),
        ("operations", |row| row.operations.to_string()),
        ("threshold", |row| row.threshold.name.clone()),
        ("threshold_value", |row| row.threshold.value.to_string()),
        ("measured", |row| row.threshold.measured.to_string()),
        ("unit", |row| row.threshold.unit.clone()),
        ("remedy", |row| clean(&row.remedy.text)),
        ("command", |row| clean(&row.remedy.command)),
        ("cost", |row| row.remedy.cost.clone()),
        ("metadata_operations_after", |row| row.remedy.metadata_operations_after.to_string()),
        ("evidence", |row| clean(&row.evidence.join("; "))),
    ];
    table(columns, &report.findings)
}

fn phases(report: &ReportView) -> String {
    let columns: &[Column<&Phase>] = &[
        ("name", |row| row.name.clone()),
        ("seconds", |row| row.seconds.to_string()),
        ("metadata_operations", |row| row.metadata_operations.to_string()),
        ("missed", |row| row.missed.to_string()),
    ];
    table(columns, &report.phases)
}

/// Intervals in which there was nothing are left out. Shape: by time, then by class and outcome.
fn activity(report: &ReportView) -> String {
    type Row<'a> = (usize, f64, &'a Series);
    let Activity { interval_seconds, series } = &report.activity;
    let intervals = series.iter().map(|series| series.operations.len()).max().unwrap_or(0);
    let at = |index| series.iter().map(move |series| (index, *interval_seconds, series));
    let columns: &[Column<Row<'_>>] = &[
        ("begin_seconds", |row| begin(row.0, row.1)),
        ("interval_seconds", |row| row.1.to_string()),
        ("class", |row| row.2.class.clone()),
        ("part", |row| row.2.part.clone()),
        ("metadata_operations", |row| row.2.operations[row.0].to_string()),
    ];
    table(columns, (0..intervals).flat_map(at).filter(|(index, _, series)| series.operations[*index] > 0))
}

fn open_files(report: &ReportView) -> String {
    let OpenFiles { interval_seconds, most, .. } = &report.open_files;
    let rows = most.iter().enumerate().map(|(index, most)| (index, *interval_seconds, *most));
    let columns: &[Column<(usize, f64, u64)>] = &[
        ("begin_seconds", |row| begin(row.0, row.1)),
        ("interval_seconds", |row| row.1.to_string()),
        ("most", |row| row.2.to_string()),
    ];
    table(columns, rows)
}

fn recordings(report: &ReportView) -> String {
    let columns: &[Column<&Recording>] = &[
        ("name", |row| row.name.clone()),
        ("rank", |row| optional(row.rank)),
        ("ranks", |row| optional(row.ranks)),
        ("host", |row| clean(&row.host)),
        ("job", |row| optional(row.job.as_deref().map(clean))),
        ("command", |row| command(&row.command)),
        ("exit_status", |row| optional(row.exit_status)),
        ("seconds", |row| optional(row.seconds)),
        ("engine", |row| clean(&row.engine)),
        ("events", |row| row.events.to_string()),
        ("lost", |row| row.lost.to_string()),
        ("partial", |row| row.partial.to_string()),
    ];
    table(columns, &report.recordings)
}

/// The time at which an interval of a timeline begins. Unit: seconds.
fn begin(index: usize, interval: f64) -> String {
    Nanos(nanos(interval).0.saturating_mul(index as u64)).as_seconds().to_string()
}
