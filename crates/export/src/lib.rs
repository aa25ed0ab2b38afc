//! A trace in the forms of other tools: flat tables for data frames and spreadsheets, a timeline, a flame graph.
//!
//! ```text
//! Trace -> rows (each call with its process, command and paths in words) -> csv, parquet
//!                                                                        -> perfetto: a slice a call
//!                                                                        -> speedscope: a stack a directory
//! ```
//!
//! `docs/export.md` describes the columns.

mod error;
mod perfetto;
mod rows;
mod speedscope;
mod tables;

pub use error::ExportError;

use quell_trace::Trace;
use std::fs::File;
use std::path::Path;

/// A form that another tool reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// JSON of the Trace Event Format, a timeline for ui.perfetto.dev.
    Perfetto,
    /// JSON for speedscope, a flame graph of directories.
    Speedscope,
    /// One row a call, RFC 4180.
    Csv,
    /// The same rows as a Parquet file.
    Parquet,
}

/// Writes a trace to an open file. `path` names it in errors.
///
/// # Errors
/// Those of reading the events and of write(2).
pub fn export(trace: &Trace, format: ExportFormat, file: &File, path: &Path) -> Result<(), ExportError> {
    match format {
        ExportFormat::Perfetto => perfetto::write(trace, file),
        ExportFormat::Speedscope => speedscope::write(trace, file),
        ExportFormat::Csv => tables::csv(trace, file),
        ExportFormat::Parquet => tables::parquet(trace, file, path),
    }
}
