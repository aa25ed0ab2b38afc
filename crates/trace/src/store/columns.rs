//! Parquet files as named columns of plain vectors: the writing side.
//!
//! Every table of the trace is written here, so that names, types and nullability are defined once, beside the rows.

use super::TraceError;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The values of one column in one group of rows. Shape: one entry a row.
#[derive(Debug, PartialEq)]
pub enum ColumnValues {
    /// 64 bits, in every row.
    Long(Vec<i64>),
    /// 64 bits, or null.
    OptionalLong(Vec<Option<i64>>),
    /// 32 bits, in every row.
    Word(Vec<i32>),
    /// 32 bits, or null.
    OptionalWord(Vec<Option<i32>>),
    /// UTF-8, in every row.
    Text(Vec<ByteArray>),
    /// UTF-8, or null.
    OptionalText(Vec<Option<ByteArray>>),
}

/// A column's name and values.
#[derive(Debug)]
pub struct TableColumn {
    /// The name. Shape: distinct in a table.
    pub name: &'static str,
    /// The values of the present group of rows.
    pub values: ColumnValues,
}

/// Shorthand for the tables: a column from its name and values.
pub fn column(name: &'static str, values: ColumnValues) -> TableColumn {
    TableColumn { name, values }
}

/// A value of a text column.
pub fn text(value: impl Into<Vec<u8>>) -> ByteArray {
    ByteArray::from(value.into())
}

impl ColumnValues {
    fn rows(&self) -> usize {
        match self {
            Self::Long(values) => values.len(),
            Self::OptionalLong(values) => values.len(),
            Self::Word(values) => values.len(),
            Self::OptionalWord(values) => values.len(),
            Self::Text(values) => values.len(),
            Self::OptionalText(values) => values.len(),
        }
    }

    fn physical(&self) -> (Physical, Repetition, Option<LogicalType>) {
        let text = Some(LogicalType::String);
        match self {
            Self::Long(_) => (Physical::INT64, Repetition::REQUIRED, None),
            Self::OptionalLong(_) => (Physical::INT64, Repetition::OPTIONAL, None),
            Self::Word(_) => (Physical::INT32, Repetition::REQUIRED, None),
            Self::OptionalWord(_) => (Physical::INT32, Repetition::OPTIONAL, None),
            Self::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, text),
            Self::OptionalText(_) => (Physical::BYTE_ARRAY, Repetition::OPTIONAL, text),
        }
    }
}

/// Writes one Parquet file, a group of rows at a time.
pub struct TableWriter {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
}

impl std::fmt::Debug for TableWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TableWriter").field("path", &self.path).finish_non_exhaustive()
    }
}

impl TableWriter {
    /// Begins a table in a new file. `like` gives names and types; its values are not written. Columns in `ascending` are
    /// stored as differences.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn create(
        (file, path): (File, PathBuf),
        like: &[TableColumn],
        ascending: &[&'static str],
    ) -> Result<Self, TraceError> {
        let damaged = |error| TraceError::damaged(&path, error);
        let field = |column: &TableColumn| {
            let (physical, repetition, logical) = column.values.physical();
            let field = Type::primitive_type_builder(column.name, physical);
            field.with_repetition(repetition).with_logical_type(logical).build().map(Arc::new)
        };
        let fields = like.iter().map(field).collect::<Result<_, _>>().map_err(damaged)?;
        let schema = Type::group_type_builder("quell").with_fields(fields).build().map_err(damaged)?;
        let mut properties = WriterProperties::builder()
            .set_compression(compression(like).map_err(damaged)?)
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_created_by("quell".into());
        for name in ascending {
            let column = ColumnPath::from(*name);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
        }
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()));
        Ok(Self { writer: writer.map_err(|error| io(&path, error))?, path })
    }

    /// Appends a group of rows. The columns are those of `create`, in its order.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn write(&mut self, columns: &[TableColumn]) -> Result<(), TraceError> {
        self.write_group(columns).map_err(|error| io(&self.path, error))
    }

    fn write_group(&mut self, columns: &[TableColumn]) -> parquet::errors::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for column in columns {
            let Some(mut writer) = group.next_column()? else { break };
            put(writer.untyped(), &column.values)?;
            writer.close()?;
        }
        group.close().map(drop)
    }

    /// Writes the footer, without which the file cannot be read.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn finish(self) -> Result<(), TraceError> {
        self.writer.close().map(drop).map_err(|error| io(&self.path, error))
    }
}

/// Leaves tables of a few rows uncompressed, because a compressor costs more than it saves.
fn compression(like: &[TableColumn]) -> parquet::errors::Result<Compression> {
    match like.first().map_or(0, |column| column.values.rows()) {
        1..FEW_ROWS => Ok(Compression::UNCOMPRESSED),
        _ => Ok(Compression::ZSTD(ZstdLevel::try_new(3)?)),
    }
}

/// Below this a table is not compressed. Not part of the format.
const FEW_ROWS: usize = 1000;

fn put(writer: &mut ColumnWriter<'_>, values: &ColumnValues) -> parquet::errors::Result<()> {
    match (writer, values) {
        (ColumnWriter::Int64ColumnWriter(writer), ColumnValues::Long(values)) => {
            writer.write_batch(values, None, None)?
        }
        (ColumnWriter::Int64ColumnWriter(writer), ColumnValues::OptionalLong(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)?
        }
        (ColumnWriter::Int32ColumnWriter(writer), ColumnValues::Word(values)) => {
            writer.write_batch(values, None, None)?
        }
        (ColumnWriter::Int32ColumnWriter(writer), ColumnValues::OptionalWord(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)?
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), ColumnValues::Text(values)) => {
            writer.write_batch(values, None, None)?
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), ColumnValues::OptionalText(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)?
        }
        (_, values) => {
            return Err(parquet::errors::ParquetError::General(format!("a column changed to {values:?}")));
        }
    };
    Ok(())
}

fn present<T: Clone>(values: &[Option<T>]) -> Vec<T> {
    values.iter().flatten().cloned().collect()
}

fn levels<T>(values: &[Option<T>]) -> Vec<i16> {
    values.iter().map(|value| i16::from(value.is_some())).collect()
}

/// Reports an error of the Parquet writer as one of the file below it, most often a full disk.
fn io(path: &Path, error: parquet::errors::ParquetError) -> TraceError {
    let source = match error {
        parquet::errors::ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => *io,
            Err(other) => std::io::Error::other(other),
        },
        other => std::io::Error::other(other),
    };
    TraceError::io("write", path)(source)
}
