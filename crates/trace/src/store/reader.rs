//! Parquet files as named columns of plain vectors: the reading side.
//!
//! A small table is read column by column. The table of events has millions of rows: all its columns are read together,
//! some rows at a time, so that the processor's caches still hold the decoded values when they are used.

use super::TraceError;
use super::guard::guarded;
use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::Type;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reads a Parquet file, a group of rows at a time. Pages are read without the readers of `parquet` for files and rows, which
/// decode every type there is: 150 kB of the binary.
pub(crate) struct TableReader {
    path: PathBuf,
    file: Arc<File>,
    metadata: ParquetMetaData,
}

/// One group of rows, its columns found by name.
pub(crate) struct RowGroup<'a> {
    path: &'a Path,
    file: Arc<File>,
    group: &'a RowGroupMetaData,
}

/// One column of a group, from its first row on.
pub(crate) struct ColumnRows<'a, D: DataType> {
    path: &'a Path,
    name: &'static str,
    reader: ColumnReaderImpl<D>,
    values: Vec<D::T>,
    /// The rows that have a value. Shape: empty when the file says that all have.
    levels: Vec<i16>,
    spread: Vec<Option<D::T>>,
}

/// The kind of a column's values, as far as engines must agree on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Signed whole numbers.
    Whole,
    /// UTF-8.
    Text,
    /// Moments without a time zone.
    Time,
    /// Decimal numbers.
    Decimal,
    /// Lists of structures: their fields. Shape: in file order.
    List(Vec<(String, ColumnKind)>),
    /// Anything else.
    Other,
}

/// The columns of a Parquet file. `path` names it in errors. Shape: in file order.
///
/// # Errors
/// [`TraceError::Damaged`] for a file that is not Parquet, or has more than 16 MB of metadata.
pub fn columns_of(file: &File, path: &Path) -> Result<Vec<(String, ColumnKind)>, TraceError> {
    let mut end = [0; 8];
    let size = file.metadata().map_err(TraceError::io("read", path))?.len();
    let tail = size.checked_sub(8).ok_or_else(|| TraceError::damaged(path, "it is shorter than a footer"))?;
    file.read_exact_at(&mut end, tail).map_err(TraceError::io("read", path))?;
    let [length @ .., b'P', b'A', b'R', b'1'] = end else {
        return Err(TraceError::damaged(path, "it does not end as Parquet does"));
    };
    if u32::from_le_bytes(length) > MOST_METADATA {
        return Err(TraceError::damaged(path, "its metadata are too long"));
    }
    guarded(path, || {
        let metadata = ParquetMetaDataReader::new().parse_and_finish(file)?;
        Ok(metadata.file_metadata().schema().get_fields().iter().map(|field| kind_of(field)).collect())
    })
}

fn kind_of(field: &Type) -> (String, ColumnKind) {
    let info = field.get_basic_info();
    let kind = match field {
        Type::GroupType { .. } => list_of(field),
        Type::PrimitiveType { physical_type, .. } => {
            match (physical_type, info.logical_type_ref(), info.converted_type()) {
                (_, Some(LogicalType::Decimal { .. }), _) | (_, None, ConvertedType::DECIMAL) => {
                    ColumnKind::Decimal
                }
                (Physical::BYTE_ARRAY, Some(LogicalType::String), _)
                | (Physical::BYTE_ARRAY, None, ConvertedType::UTF8) => ColumnKind::Text,
                (Physical::INT64, Some(LogicalType::Timestamp(time)), _) if !time.is_adjusted_to_u_t_c => {
                    ColumnKind::Time
                }
                (Physical::INT64, None, ConvertedType::TIMESTAMP_MICROS) => ColumnKind::Time,
                (Physical::INT32 | Physical::INT64, Some(LogicalType::Integer(whole)), _)
                    if whole.is_signed =>
                {
                    ColumnKind::Whole
                }
                (
                    Physical::INT32 | Physical::INT64,
                    None,
                    ConvertedType::NONE | ConvertedType::INT_32 | ConvertedType::INT_64,
                ) => ColumnKind::Whole,
                _ => ColumnKind::Other,
            }
        }
    };
    (info.name().to_owned(), kind)
}

/// A list has a repeated group in it, most often with a group for the element in that.
fn list_of(field: &Type) -> ColumnKind {
    let only = |group: &Type| match group.get_fields() {
        [only] if only.is_group() => Some(Arc::clone(only)),
        _ => None,
    };
    let Some(items) = only(field) else { return ColumnKind::Other };
    let element = only(&items).unwrap_or(items);
    // A field of a list in the list is not looked into: a damaged file may nest them without end.
    let field = |field: &Arc<Type>| match field.is_group() {
        true => (field.name().to_owned(), ColumnKind::Other),
        false => kind_of(field),
    };
    ColumnKind::List(element.get_fields().iter().map(field).collect())
}

/// Bytes of metadata that are read at most. A file of a million groups of rows has less.
const MOST_METADATA: u32 = 16 << 20;

/// Rows per read of a whole column, so that a damaged count cannot cause a large allocation.
const BATCH: usize = 1 << 16;

impl TableReader {
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        let file = File::open(path).map_err(TraceError::io("open", path))?;
        let metadata = guarded(path, || ParquetMetaDataReader::new().parse_and_finish(&file))?;
        Ok(Self { path: path.to_owned(), file: Arc::new(file), metadata })
    }

    /// Shape: in file order.
    pub(crate) fn groups(&self) -> impl Iterator<Item = RowGroup<'_>> {
        let group = |group| RowGroup { path: &self.path, file: Arc::clone(&self.file), group };
        self.metadata.row_groups().iter().map(group)
    }

    /// All rows at once; for the small tables.
    pub(crate) fn for_each_group(
        &self,
        mut each: impl FnMut(RowGroup<'_>) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        self.groups().try_for_each(&mut each)
    }
}

impl RowGroup<'_> {
    /// The number of rows, as the file states it.
    pub(crate) fn rows(&self) -> usize {
        self.group.num_rows().max(0) as usize
    }

    /// A column of 64-bit numbers.
    pub(crate) fn long(&self, name: &'static str) -> Result<Vec<i64>, TraceError> {
        self.column::<Int64Type>(name)?.into_all(self.rows())
    }

    /// The same for a nullable column.
    pub(crate) fn optional_long(&self, name: &'static str) -> Result<Vec<Option<i64>>, TraceError> {
        self.column::<Int64Type>(name)?.into_all_optional(self.rows())
    }

    /// A column of 32-bit numbers.
    pub(crate) fn word(&self, name: &'static str) -> Result<Vec<i32>, TraceError> {
        self.column::<Int32Type>(name)?.into_all(self.rows())
    }

    /// The same for a nullable column.
    pub(crate) fn optional_word(&self, name: &'static str) -> Result<Vec<Option<i32>>, TraceError> {
        self.column::<Int32Type>(name)?.into_all_optional(self.rows())
    }

    /// A column of text.
    pub(crate) fn text(&self, name: &'static str) -> Result<Vec<ByteArray>, TraceError> {
        self.column::<ByteArrayType>(name)?.into_all(self.rows())
    }

    /// The same for a nullable column.
    pub(crate) fn optional_text(&self, name: &'static str) -> Result<Vec<Option<ByteArray>>, TraceError> {
        self.column::<ByteArrayType>(name)?.into_all_optional(self.rows())
    }

    pub(crate) fn strings(&self, name: &'static str) -> Result<Vec<String>, TraceError> {
        Ok(self.text(name)?.iter().map(string).collect())
    }

    pub(crate) fn optional_strings(&self, name: &'static str) -> Result<Vec<Option<String>>, TraceError> {
        Ok(self.optional_text(name)?.iter().map(|value| value.as_ref().map(string)).collect())
    }

    /// A column for reading some rows at a time.
    pub(crate) fn column<D: DataType>(&self, name: &'static str) -> Result<ColumnRows<'_, D>, TraceError> {
        let columns = self.group.columns();
        let column = columns.iter().find(|column| column.column_path().string() == name);
        let damaged = |what: &str| TraceError::damaged(self.path, format!("column `{name}` {what}"));
        let column = column.ok_or_else(|| damaged("is missing"))?;
        if column.column_type() != D::get_physical_type() {
            return Err(damaged("has another type"));
        }
        let reader = guarded(self.path, || {
            let pages = SerializedPageReader::new(Arc::clone(&self.file), column, self.rows(), None)?;
            Ok(ColumnReaderImpl::new(column.column_descr_ptr(), Box::new(pages)))
        })?;
        let (values, levels, spread) = (Vec::new(), Vec::new(), Vec::new());
        Ok(ColumnRows { path: self.path, name, reader, values, levels, spread })
    }
}

impl<D: DataType> ColumnRows<'_, D> {
    /// The next rows of a column in which every row has a value.
    pub(crate) fn next(&mut self, rows: usize) -> Result<&[D::T], TraceError> {
        self.read(rows)?;
        match self.values.len() == rows {
            true => Ok(&self.values),
            false => Err(self.damaged("has gaps")),
        }
    }

    /// The next rows of a nullable column.
    pub(crate) fn next_optional(&mut self, rows: usize) -> Result<&[Option<D::T>], TraceError> {
        self.read(rows)?;
        self.spread.clear();
        let mut values = self.values.drain(..);
        if self.levels.is_empty() {
            self.spread.extend(values.map(Some));
        } else {
            let value = |level: &i16| if *level > 0 { values.next() } else { None };
            self.spread.extend(self.levels.iter().map(value));
        }
        Ok(&self.spread)
    }

    fn into_all(mut self, rows: usize) -> Result<Vec<D::T>, TraceError> {
        self.next(rows)?;
        Ok(self.values)
    }

    fn into_all_optional(mut self, rows: usize) -> Result<Vec<Option<D::T>>, TraceError> {
        self.next_optional(rows)?;
        Ok(self.spread)
    }

    fn read(&mut self, rows: usize) -> Result<(), TraceError> {
        self.values.clear();
        self.levels.clear();
        let mut read = 0;
        while read < rows {
            let most = (rows - read).min(BATCH);
            let (reader, values, levels) = (&mut self.reader, &mut self.values, &mut self.levels);
            let (records, ..) = guarded(self.path, || reader.read_records(most, Some(levels), None, values))?;
            if records == 0 {
                return Err(self.damaged("ends early"));
            }
            read += records;
        }
        // A forged schema may give a row several values, but rows are found by their number.
        let length = if self.levels.is_empty() { self.values.len() } else { self.levels.len() };
        match length == rows {
            true => Ok(()),
            false => Err(self.damaged("has another length")),
        }
    }

    fn damaged(&self, what: &str) -> TraceError {
        TraceError::damaged(self.path, format!("column `{}` {what}", self.name))
    }
}

fn string(bytes: &ByteArray) -> String {
    String::from_utf8_lossy(bytes.data()).into_owned()
}
