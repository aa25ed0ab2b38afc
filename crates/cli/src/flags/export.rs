//! The flags of `quell export`.

use clap::{Args, ValueEnum};
use quell_export::ExportFormat;
use std::path::PathBuf;

/// Write a recording in a form that another tool reads.
///
/// perfetto is a timeline with a slice for each call, for ui.perfetto.dev. speedscope is a flame graph of directories, by operations and by
/// time, for www.speedscope.app. csv and parquet are one table with a row for each call, for pandas, polars, DuckDB and
/// spreadsheets.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell export app.qtrace --format speedscope\n  \
    quell export rank*.qtrace --format perfetto -o job.json\n  \
    quell export app.qtrace --format csv -o - | head")]
pub struct Export {
    /// Recordings; several are read as one trace.
    #[arg(value_name = "T", required = true)]
    pub traces: Vec<PathBuf>,
    /// The form.
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: ExportForm,
    /// Write to this file; `-` prints [default: named after the first trace, such as app.speedscope.json].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file of the same name.
    #[arg(short, long)]
    pub force: bool,
}

/// The forms of other tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportForm {
    /// A timeline, for Perfetto and chrome://tracing.
    Perfetto,
    /// A flame graph, for speedscope.
    Speedscope,
    /// A table with a row for each call.
    Csv,
    /// The same table as a Parquet file.
    Parquet,
}

impl ExportForm {
    /// The format, and how the names of its files end.
    pub(crate) fn format(self) -> (ExportFormat, &'static str) {
        match self {
            Self::Perfetto => (ExportFormat::Perfetto, "perfetto.json"),
            Self::Speedscope => (ExportFormat::Speedscope, "speedscope.json"),
            Self::Csv => (ExportFormat::Csv, "csv"),
            Self::Parquet => (ExportFormat::Parquet, "parquet"),
        }
    }
}
