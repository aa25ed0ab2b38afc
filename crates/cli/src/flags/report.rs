//! The flags of `quell report`, `fix` and `diff`.

use crate::limits;
use crate::limits::Limits;
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use quell_analyse::comparison::IncreaseLimit;
use quell_report::csv::{CsvTable, DIFF_TABLES, REPORT_TABLES};
use quell_report::view::{DiffView, ReportView};
use std::path::PathBuf;

/// Show what a recording holds: the storm in five lines, findings with what removes them, calls and errors, what was
/// needed, repeated and missed, which file system served it, and the paths asked for most.
///
/// Exit status: 0, 1 for a finding of --fail-on, 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell report app.qtrace\n  \
    quell report --html report.html app.qtrace\n  \
    quell report --fail-on any app.qtrace")]
pub struct Report {
    /// Recordings; several are read as one trace.
    #[arg(value_name = "T", required_unless_present = "thresholds")]
    pub traces: Vec<PathBuf>,
    /// Show every table: paths, directories, names, data by file and commands too.
    #[arg(short, long)]
    pub all: bool,
    /// Write a page for a browser to this file instead, with charts and everything in it; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
    /// Print one table as CSV instead: a header line, then every row.
    #[arg(long, value_name = "TABLE")]
    #[arg(value_parser = tables(REPORT_TABLES))]
    pub csv: Option<&'static CsvTable<ReportView>>,
    /// End with status 1 when there is a finding of one of these codes; `any` stands for all.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = limits::codes())]
    pub fail_on: Vec<String>,
    /// Limits of the findings.
    #[command(flatten)]
    pub limits: Limits,
    /// List the limits of all findings instead.
    #[arg(long)]
    pub thresholds: bool,
}

/// Say what to change so that a program asks less: remedies that cost nothing first, best first, each with its command,
/// what it saves, and what is left when it and all before it are applied.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell fix app.qtrace")]
pub struct Fix {
    /// Recordings; several are read as one trace.
    #[arg(value_name = "T", required = true)]
    pub traces: Vec<PathBuf>,
    /// Limits of the findings.
    #[command(flatten)]
    pub limits: Limits,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// Compare two recordings: which operations the network, quell and the node itself served, the calls side by side, and
/// which searches, repeats and paths went away or came.
///
/// A and B are a recording each, or several: a directory with recordings in it (`*.qtrace`), or names with commas between
/// them. The counts of several are added up. Paths whose names change in every run by themselves, such as temporary ones and
/// numbers of processes and jobs, are put together, with `[..]` for what changes.
///
/// Exit status: 0 when no count differs, 1 when one does, 2 for an error; times never count. With --fail-on-increase: 1
/// only when a chosen total grew by more than it may, whatever else differs.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell diff before.qtrace after.qtrace\n  \
    quell diff --fail-on-increase=network=5% before.qtrace after.qtrace")]
pub struct Diff {
    /// The recording before.
    #[arg(value_name = "A")]
    pub before: PathBuf,
    /// The recording after.
    #[arg(value_name = "B")]
    pub after: PathBuf,
    /// Fail only when a total is larger in B than in A, by default metadata_operations: METRIC, METRIC=COUNT or
    /// METRIC=PERCENT% for how much larger it may be. With commas, or several times, for several totals.
    ///
    /// METRIC is metadata_operations, missed, repeated, calls, errors, distinct_paths, bytes_read, bytes_written, or
    /// network: the metadata operations that file systems shared with other nodes served.
    #[arg(long, value_name = "METRIC", num_args = 0..=1, require_equals = true, value_delimiter = ',')]
    #[arg(default_missing_value = "metadata_operations")]
    pub fail_on_increase: Vec<IncreaseLimit>,
    /// Print one table as CSV instead: a header line, then every row.
    #[arg(long, value_name = "TABLE")]
    #[arg(value_parser = tables(DIFF_TABLES))]
    pub csv: Option<&'static CsvTable<DiffView>>,
    /// Print one JSON object instead.
    #[arg(long)]
    pub json: bool,
}

/// The names of tables, each with what a row of it is.
fn tables<V>(all: &'static [CsvTable<V>]) -> impl TypedValueParser<Value = &'static CsvTable<V>> {
    let names = all.iter().map(|table| PossibleValue::new(table.name).help(table.row));
    PossibleValuesParser::new(names).map(move |name| {
        all.iter().find(|table| table.name == name).expect("clap lets none but these names pass")
    })
}
