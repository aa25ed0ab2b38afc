//! The flat tables: one row a call, with the same columns as CSV and as Parquet.

use crate::error::ExportError;
use crate::rows::{ExportRow, for_each};
use ExportColumn::{Number, Text};
use quell_base::text::inert;
use quell_trace::table::{ColumnValues, TableColumn, TableWriter, column, text};
use quell_trace::{Trace, TraceError};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// The cell of each row in one column. `None`: not known, or the call has no such thing.
enum ExportColumn {
    Number(fn(&ExportRow<'_>) -> Option<i64>),
    Text(fn(&ExportRow<'_>) -> Option<String>),
}

/// Every column with its name. `docs/export.md` gives unit and meaning.
const COLUMNS: &[(&str, ExportColumn)] = &[
    ("recording", Number(|row| i64::try_from(row.number).ok())),
    ("rank", Number(|row| row.recording.header.rank.map(|rank| rank.0.into()))),
    ("host", Text(|row| known(&row.recording.header.host))),
    ("start", Number(|row| bits(row.event.start.0))),
    ("duration", Number(|row| bits(row.event.duration.0))),
    ("pid", Number(|row| Some(row.pid().0.into()))),
    ("tid", Number(|row| Some(row.tid().0.into()))),
    ("command", Text(|row| row.command.map(str::to_owned))),
    ("call", Text(|row| Some(row.event.call.name().to_owned()))),
    ("class", Text(|row| Some(row.event.call.class().name().to_owned()))),
    ("result", Number(|row| row.result())),
    ("error", Text(|row| row.error())),
    ("path", Text(|row| row.text(row.event.path))),
    ("path2", Text(|row| row.text(row.event.path2))),
    ("target", Text(|row| row.text(row.event.target))),
    ("target2", Text(|row| row.text(row.event.target2))),
    ("mount_point", Text(|row| row.mount().map(|mount| mount.mount_point.clone()))),
    ("file_system", Text(|row| row.mount().map(|mount| mount.file_system_type().to_owned()))),
    ("flags", Number(|row| bits(row.event.flags))),
    ("size", Number(|row| bits(row.event.size.0))),
    ("offset", Number(|row| row.event.offset)),
    ("moved", Number(|row| bits(row.event.bytes_moved().0))),
    ("import", Text(|row| row.imports().next_back().map(|import| import.module.clone()))),
];

/// A text that an imported log may lack.
fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// An unsigned value of the kernel keeps its bits, as in the trace.
#[expect(clippy::unnecessary_wraps, reason = "the cell of a column that always has a value")]
fn bits(value: u64) -> Option<i64> {
    Some(value.cast_signed())
}

pub(crate) fn csv(trace: &Trace, file: &File) -> Result<(), ExportError> {
    let mut writer = csv::Writer::from_writer(BufWriter::new(file));
    let written = |written: csv::Result<()>| written.map_err(unwritten);
    written(writer.write_record(COLUMNS.iter().map(|(name, _)| name)))?;
    for_each(trace, |row| {
        let cells = COLUMNS.iter().map(|(_, column)| match column {
            Number(cell) => cell(row).map(|value| value.to_string()).unwrap_or_default(),
            Text(cell) => inert(cell(row).unwrap_or_default()),
        });
        written(writer.write_record(cells))
    })?;
    let mut file = writer.into_inner().map_err(|error| ExportError::Write(error.into_error()))?;
    Ok(file.flush()?)
}

pub(crate) fn parquet(trace: &Trace, file: &File, path: &Path) -> Result<(), ExportError> {
    let mut group = empty();
    let mut rows = 0;
    let file = (file.try_clone()?, path.to_owned());
    let mut table = TableWriter::create(file, &group, &[]).map_err(written)?;
    for_each(trace, |row| {
        for ((_, column), cells) in COLUMNS.iter().zip(&mut group) {
            match (column, &mut cells.values) {
                (Number(cell), ColumnValues::OptionalLong(values)) => values.push(cell(row)),
                (Text(cell), ColumnValues::OptionalText(values)) => values.push(cell(row).map(text)),
                _ => {}
            }
        }
        rows += 1;
        match rows % GROUP {
            0 => table.write(&std::mem::replace(&mut group, empty())).map_err(written),
            _ => Ok(()),
        }
    })?;
    if rows % GROUP > 0 {
        table.write(&group).map_err(written)?;
    }
    table.finish().map_err(written)
}

/// The columns without rows.
fn empty() -> Vec<TableColumn> {
    let values = |of: &ExportColumn| match of {
        Number(_) => ColumnValues::OptionalLong(Vec::new()),
        Text(_) => ColumnValues::OptionalText(Vec::new()),
    };
    COLUMNS.iter().map(|(name, of)| column(name, values(of))).collect()
}

/// The kind of the error stays: a closed pipe and a full disk are told apart by it.
fn unwritten(error: csv::Error) -> ExportError {
    ExportError::Write(match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        kind => std::io::Error::other(format!("{kind:?}")),
    })
}

/// The writer of tables names its file itself.
fn written(error: TraceError) -> ExportError {
    match error {
        TraceError::Io { source, .. } => ExportError::Write(source),
        error => ExportError::Write(std::io::Error::other(error)),
    }
}

/// Rows that are written together: a reader of the table holds one group at a time.
const GROUP: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use quell_trace::resolve::NoFileSystem;
    use quell_trace::writer::Ending;
    use quell_trace::{
        Call, Errno, Event, Execution, Exit, Header, Nanos, Outcome, Pid, Process, ProcessId, Thread, Writer,
    };

    /// A trace of `calls` failing calls.
    fn recorded(directory: &Path, calls: usize) -> Trace {
        let mut writer =
            Writer::create(directory, Header::begun("test", "0", vec!["app".to_owned()])).unwrap();
        writer.process(Process::first(Pid(7))).unwrap();
        writer.thread(Thread::first(Pid(8), ProcessId(0))).unwrap();
        writer
            .execution(Execution::of(0, Nanos(1), vec!["app".to_owned(), "a b".to_owned()]), Vec::new())
            .unwrap();
        for number in 0..calls {
            let path = Some(writer.path(format!("/absent/{}", number % 1000).as_bytes()).unwrap());
            let (start, outcome) = (Nanos(10 + number as u64), Outcome::Failure(Errno(2)));
            writer.event(&Event { start, outcome, path, ..Event::new(Call::Stat) }).unwrap();
        }
        let exit = Some(Exit::Status(0));
        let ending =
            Ending { ended: None, exit, took: None, lost: 0, notes: Vec::new(), client_counters: None };
        writer.finish(ending, &mut NoFileSystem).unwrap();
        Trace::open(&[directory]).unwrap()
    }

    #[test]
    fn both_tables_have_every_row_and_the_documented_columns() {
        let directory = tempfile::tempdir().unwrap();
        let trace = recorded(&directory.path().join("t.qtrace"), GROUP + 10);
        let [table, lines] = ["t.parquet", "t.csv"].map(|name| directory.path().join(name));
        parquet(&trace, &File::create_new(&table).unwrap(), &table).unwrap();
        csv(&trace, &File::create_new(&lines).unwrap()).unwrap();
        let table = SerializedFileReader::new(File::open(table).unwrap()).unwrap();
        let schema = table.metadata().file_metadata().schema_descr();
        let names: Vec<&str> = schema.columns().iter().map(|column| column.name()).collect();
        assert_eq!(names, COLUMNS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        let lines: Vec<String> = ::csv::Reader::from_path(lines)
            .unwrap()
            .records()
            .map(|line| line.unwrap().iter().collect::<Vec<_>>().join("|"))
            .collect();
        let rows: Vec<String> = table.get_row_iter(None).unwrap().map(|row| cells(&row.unwrap())).collect();
        assert_eq!(rows.len(), GROUP + 10);
        assert_eq!(rows, lines);
        let documented = include_str!("../../../docs/export.md");
        for name in names {
            assert!(documented.contains(&format!("| `{name}` |")), "docs/export.md has no column {name}");
        }
    }

    fn cells(row: &parquet::record::Row) -> String {
        use parquet::record::Field;
        let cell = |field: &Field| match field {
            Field::Null => String::new(),
            Field::Str(text) => text.clone(),
            other => other.to_string(),
        };
        row.get_column_iter().map(|(_, field)| cell(field)).collect::<Vec<_>>().join("|")
    }
}
