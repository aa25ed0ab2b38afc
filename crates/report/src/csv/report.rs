//! The tables of `quell report --csv`.

use super::{CsvCell, CsvColumn, CsvTable, columns, table};
use crate::number::nanos;
use crate::text::{clean, command};
use crate::view::{
    Activity, Command, Directory, Failure, FileData, FileSystem, Finding, ImportView, MissedName, OpenFiles,
    PackageView, PathRow, Phase, Recording, ReportView, SearchEntry, Series, Syscall, Wanted,
};
use quell_trace::Nanos;

/// Every table of a report.
pub const REPORT_TABLES: &[CsvTable<ReportView>] = &[
    CsvTable::new("totals", "one row, the whole run", totals),
    CsvTable::new("syscalls", "a system call: calls, errors, times", syscalls),
    CsvTable::new("failures", "a call and an error other than absence", failures),
    CsvTable::new("file-systems", "a mount point", file_systems),
    CsvTable::new("paths", "a path that metadata operations were about", paths),
    CsvTable::new("directories", "a directory, with the names in it", directories),
    CsvTable::new("names", "a name that was missed, wherever it was looked for", names),
    CsvTable::new("commands", "a command line", commands),
    CsvTable::new("searches", "an entry of a search list", searches),
    CsvTable::new("wanted", "a name that was searched for", wanted),
    CsvTable::new("packages", "a package of a language, such as numpy", packages),
    CsvTable::new("imports", "a module, at its place in the tree of Python's imports", imports),
    CsvTable::new("files", "a file that was opened, read or written", files),
    CsvTable::new("request-sizes", "a file's requests of one direction and size", request_sizes),
    CsvTable::new("findings", "a cause of operations, with its remedy", causes),
    CsvTable::new("phases", "a phase of the run", phases),
    CsvTable::new("activity", "an interval, a class and an outcome of operations", activity),
    CsvTable::new("open-files", "an interval, and the most files open in it", open_files),
    CsvTable::new("recordings", "a recording", recordings),
];

fn totals(report: &ReportView) -> String {
    let columns = columns!(row: ReportView; calls = row.totals.calls, errors = row.totals.errors,
        metadata_operations = row.totals.metadata_operations, missed = row.totals.missed,
        repeated = row.totals.repeated, needed = row.totals.needed, failed = row.totals.failed,
        unnamed = row.totals.unnamed, distinct_paths = row.totals.distinct_paths,
        bytes_read = row.totals.bytes_read, bytes_written = row.totals.bytes_written,
        network = row.served_by.network, quell = row.served_by.quell, local = row.served_by.local,
        unknown = row.served_by.unknown, seconds);
    table(columns, [report])
}

fn syscalls(report: &ReportView) -> String {
    let columns = columns!(row: Syscall; name, class, calls, errors, seconds,
        mean_seconds = row.latency.map(|latency| latency.mean_seconds),
        p50_seconds = row.latency.map(|latency| latency.p50_seconds),
        p99_seconds = row.latency.map(|latency| latency.p99_seconds));
    table(columns, &report.syscalls)
}

fn failures(report: &ReportView) -> String {
    let mut rows: Vec<&Failure> = report.failures.iter().collect();
    rows.sort_by_key(|row| (&row.name, row.order.1.0));
    table(columns!(row: Failure; name, errno, calls), rows)
}

fn file_systems(report: &ReportView) -> String {
    let columns = columns!(row: FileSystem; mount_point = clean(&row.mount_point), type = clean(&row.kind), served_by,
        metadata_operations, missed, calls, bytes_read, bytes_written);
    table(columns, &report.file_systems)
}

fn paths(report: &ReportView) -> String {
    let columns = columns!(row: PathRow; path, served_by, metadata_operations, missed, repeated);
    table(columns, &report.top_paths)
}

fn directories(report: &ReportView) -> String {
    let columns =
        columns!(row: Directory; path, served_by, metadata_operations, missed, repeated, names, absent);
    table(columns, &report.top_directories)
}

fn names(report: &ReportView) -> String {
    table(columns!(row: MissedName; name, missed, directories), &report.missed_names)
}

fn commands(report: &ReportView) -> String {
    let columns = columns!(row: Command; command = command(&row.arguments), processes, calls, metadata_operations, missed);
    table(columns, &report.commands)
}

fn searches(report: &ReportView) -> String {
    let columns = columns!(row: SearchEntry; kind, origin = clean(&row.origin), directory, position, searches, probes,
        missed, hits);
    table(columns, &report.searches.entries)
}

fn wanted(report: &ReportView) -> String {
    let columns = columns!(row: Wanted; kind, name, asked_by, searches, probes, missed, found);
    table(columns, &report.searches.wanted)
}

fn packages(report: &ReportView) -> String {
    let columns = columns!(row: PackageView; language, name = clean(&row.name),
        metadata_operations = row.own.metadata_operations, missed = row.own.missed, opens = row.own.opens,
        seconds = row.own.seconds,
        importing_metadata_operations = row.importing.map(|costs| costs.metadata_operations),
        importing_missed = row.importing.map(|costs| costs.missed),
        importing_opens = row.importing.map(|costs| costs.opens),
        importing_seconds = row.importing.map(|costs| costs.seconds));
    table(columns, &report.packages)
}

fn imports(report: &ReportView) -> String {
    let columns = columns!(row: ImportView; depth, module = clean(&row.module),
        package = row.package.as_deref().map(clean), file = row.file.as_deref().map(clean), line, imports,
        metadata_operations = row.all.metadata_operations, missed = row.all.missed, opens = row.all.opens,
        seconds = row.all.seconds, own_metadata_operations = row.own.metadata_operations,
        own_missed = row.own.missed, own_opens = row.own.opens, own_seconds = row.own.seconds);
    table(columns, &report.imports)
}

/// Shape: by bytes moved, most first, then by path.
fn files_by_bytes(report: &ReportView) -> Vec<&FileData> {
    let mut rows: Vec<&FileData> = report.data.files.iter().collect();
    let moved = |file: &FileData| file.reads.bytes.saturating_add(file.writes.bytes);
    rows.sort_by(|a, b| moved(b).cmp(&moved(a)).then_with(|| a.path.cmp(&b.path)));
    rows
}

fn files(report: &ReportView) -> String {
    let columns = columns!(row: FileData; path, opens, open_seconds, creates, mappings, reads = row.reads.calls,
        bytes_read = row.reads.bytes, reads_sequential = row.reads.sequential,
        reads_stripe_sized = row.reads.stripe_sized, read_gaps = row.reads.gaps, read_gap_bytes = row.reads.gap_bytes,
        read_seconds = row.reads.seconds, writes = row.writes.calls, bytes_written = row.writes.bytes,
        writes_sequential = row.writes.sequential, writes_stripe_sized = row.writes.stripe_sized,
        write_gaps = row.writes.gaps, write_gap_bytes = row.writes.gap_bytes, write_seconds = row.writes.seconds,
        reach, stripe_count, stripe_size, reading_ranks, writing_ranks);
    table(columns, files_by_bytes(report))
}

/// Requests of one direction and size on a file: path, direction, power of two, calls.
type Sized<'a> = (&'a str, &'static str, usize, u64);

fn request_sizes(report: &ReportView) -> String {
    let columns = columns!(row: Sized<'_>; path = row.0, direction = row.1, smallest = (1u64 << row.2) >> 1,
        largest = (1u64 << row.2) - 1, calls = row.3);
    table(columns, files_by_bytes(report).into_iter().flat_map(sized))
}

fn sized(file: &FileData) -> impl Iterator<Item = Sized<'_>> {
    [("read", &file.reads), ("write", &file.writes)].into_iter().flat_map(move |(direction, of)| {
        let sizes = of.sizes.iter().copied().enumerate().filter(|(_, calls)| *calls > 0);
        sizes.map(move |(power, calls)| (file.path.as_str(), direction, power, calls))
    })
}

fn causes(report: &ReportView) -> String {
    let columns = columns!(row: Finding; code, title = clean(&row.title), operations, threshold = row.threshold.name,
        threshold_value = row.threshold.value, measured = row.threshold.measured, unit = row.threshold.unit,
        remedy = clean(&row.remedy.text), command = clean(&row.remedy.command), cost = row.remedy.cost,
        metadata_operations_after = row.remedy.metadata_operations_after,
        evidence = clean(&row.evidence.join("; ")));
    table(columns, &report.findings)
}

fn phases(report: &ReportView) -> String {
    table(columns!(row: Phase; name, seconds, metadata_operations, missed), &report.phases)
}

/// Intervals in which there was nothing are left out. Shape: by time, then by class and outcome.
fn activity(report: &ReportView) -> String {
    type Row<'a> = (usize, f64, &'a Series);
    let Activity { interval_seconds, series } = &report.activity;
    let intervals = series.iter().map(|series| series.operations.len()).max().unwrap_or(0);
    let at = |index| series.iter().map(move |series| (index, *interval_seconds, series));
    let columns = columns!(row: Row<'_>; begin_seconds = begin(row.0, row.1), interval_seconds = row.1, class = row.2.class,
        part = row.2.part, metadata_operations = row.2.operations[row.0]);
    table(columns, (0..intervals).flat_map(at).filter(|(index, _, series)| series.operations[*index] > 0))
}

fn open_files(report: &ReportView) -> String {
    let OpenFiles { interval_seconds, most, .. } = &report.open_files;
    let rows = most.iter().enumerate().map(|(index, most)| (index, *interval_seconds, *most));
    let columns = columns!(row: (usize, f64, u64); begin_seconds = begin(row.0, row.1), interval_seconds = row.1,
        most = row.2);
    table(columns, rows)
}

fn recordings(report: &ReportView) -> String {
    let columns = columns!(row: Recording; name, rank, ranks, host = clean(&row.host), job = row.job.as_deref().map(clean),
        command = command(&row.command), exit_status, seconds, engine = clean(&row.engine), events, lost, partial);
    table(columns, &report.recordings)
}

/// The time at which an interval of a timeline begins. Unit: seconds.
fn begin(index: usize, interval: f64) -> f64 {
    Nanos(nanos(interval).0.saturating_mul(index as u64)).as_seconds()
}
