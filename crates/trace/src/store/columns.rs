//! Parquet files as named columns of plain vectors: the writing side.
//!
//! Every table of the trace is written here, so that names, types and nullability are defined once, beside the rows.

use super::TraceError;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
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
    /// Microseconds since 1970 in every row: a moment without a time zone, which is UTC.
    Time(Vec<i64>),
    /// Seconds in microseconds, or null: a decimal number of six places.
    OptionalSeconds(Vec<Option<i64>>),
    /// A list of structures in every row, which may be empty.
    List(TableList),
}

/// Lists of structures.
#[derive(Debug, PartialEq)]
pub struct TableList {
    /// The length of each row's list. Shape: one entry a row.
    pub lengths: Vec<usize>,
    /// The fields, as columns of all elements one after the other. Shape: `Long` or `Text`; the sum of `lengths` entries each.
    pub fields: Vec<TableColumn>,
}

/// A column's name and values.
#[derive(Debug, PartialEq)]
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
            Self::Time(values) => values.len(),
            Self::OptionalSeconds(values) => values.len(),
            Self::List(list) => list.lengths.len(),
        }
    }

    fn physical(&self) -> (Physical, Repetition, Option<LogicalType>) {
        let text = Some(LogicalType::String);
        let time = LogicalType::timestamp(false, TimeUnit::MICROS);
        match self {
            Self::Time(_) => (Physical::INT64, Repetition::REQUIRED, Some(time)),
            Self::OptionalSeconds(_) => {
                let decimal = LogicalType::decimal(PLACES, DIGITS);
                (Physical::INT64, Repetition::OPTIONAL, Some(decimal))
            }
            Self::Long(_) => (Physical::INT64, Repetition::REQUIRED, None),
            Self::OptionalLong(_) => (Physical::INT64, Repetition::OPTIONAL, None),
            Self::Word(_) => (Physical::INT32, Repetition::REQUIRED, None),
            Self::OptionalWord(_) => (Physical::INT32, Repetition::OPTIONAL, None),
            Self::Text(_) => (Physical::BYTE_ARRAY, Repetition::REQUIRED, text),
            Self::OptionalText(_) => (Physical::BYTE_ARRAY, Repetition::OPTIONAL, text),
            // Of the list itself: its fields have types of their own.
            Self::List(_) => (Physical::BYTE_ARRAY, Repetition::REPEATED, None),
        }
    }
}

impl TableColumn {
    fn schema(&self) -> parquet::errors::Result<Type> {
        let ColumnValues::List(list) = &self.values else {
            let (physical, repetition, logical) = self.values.physical();
            let field = Type::primitive_type_builder(self.name, physical);
            let field = match &self.values {
                ColumnValues::OptionalSeconds(_) => field.with_scale(PLACES).with_precision(DIGITS),
                _ => field,
            };
            return field.with_repetition(repetition).with_logical_type(logical).build();
        };
        let group = |name, repetition, fields: Vec<Type>| {
            let fields = fields.into_iter().map(Arc::new).collect();
            Type::group_type_builder(name).with_repetition(repetition).with_fields(fields)
        };
        let fields = list.fields.iter().map(Self::schema).collect::<parquet::errors::Result<_>>()?;
        let element = group("element", Repetition::REQUIRED, fields).build()?;
        let items = group("list", Repetition::REPEATED, vec![element]).build()?;
        group(self.name, Repetition::REQUIRED, vec![items]).with_logical_type(Some(LogicalType::List)).build()
    }
}

impl TableList {
    /// Definition and repetition levels: one entry an element, and one for each empty list.
    fn levels(&self) -> (Vec<i16>, Vec<i16>) {
        let row = |&length: &usize| {
            (0..length.max(1)).map(move |index| (i16::from(length > 0), i16::from(index > 0)))
        };
        self.lengths.iter().flat_map(row).unzip()
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
        let field = |column: &TableColumn| column.schema().map(Arc::new);
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
            let (levels, leaves) = match &column.values {
                ColumnValues::List(list) => (Some(list.levels()), list.fields.as_slice()),
                _ => (None, std::slice::from_ref(column)),
            };
            for leaf in leaves {
                let Some(mut writer) = group.next_column()? else { break };
                put(writer.untyped(), &leaf.values, levels.as_ref())?;
                writer.close()?;
            }
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

/// Decimal places of seconds, and digits of a decimal number of 64 bits.
const PLACES: i32 = 6;
const DIGITS: i32 = 18;

/// Below this a table is not compressed. Not part of the format.
const FEW_ROWS: usize = 1000;

/// Shape of `levels_of_list`: those of the definition and of the repetition, for the field of a list.
fn put(
    writer: &mut ColumnWriter<'_>,
    values: &ColumnValues,
    levels_of_list: Option<&(Vec<i16>, Vec<i16>)>,
) -> parquet::errors::Result<()> {
    let (defined, repeated) = levels_of_list.map(|(defined, repeated)| (&**defined, &**repeated)).unzip();
    match (writer, values) {
        (
            ColumnWriter::Int64ColumnWriter(writer),
            ColumnValues::Long(values) | ColumnValues::Time(values),
        ) => writer.write_batch(values, defined, repeated)?,
        (
            ColumnWriter::Int64ColumnWriter(writer),
            ColumnValues::OptionalLong(values) | ColumnValues::OptionalSeconds(values),
        ) => writer.write_batch(&present(values), Some(&levels(values)), None)?,
        (ColumnWriter::Int32ColumnWriter(writer), ColumnValues::Word(values)) => {
            writer.write_batch(values, None, None)?
        }
        (ColumnWriter::Int32ColumnWriter(writer), ColumnValues::OptionalWord(values)) => {
            writer.write_batch(&present(values), Some(&levels(values)), None)?
        }
        (ColumnWriter::ByteArrayColumnWriter(writer), ColumnValues::Text(values)) => {
            writer.write_batch(values, defined, repeated)?
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
