//! The event table: `events.parquet`, one row a call, in the order in which calls ended.

use super::TraceError;
use super::columns::{ColumnValues, TableColumn, TableWriter, column};
use super::reader::{ColumnRows, RowGroup, TableReader};
use crate::{Bytes, Call, Errno, Event, Fd, MountId, Nanos, Outcome, PathId, ProcessId, ThreadId};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// The file's name.
pub(crate) const NAME: &str = "events.parquet";

/// Rows in a group: a reader holds one group at a time. Not part of the format.
const GROUP: usize = 1 << 18;

#[derive(Debug)]
pub(crate) struct EventWriter {
    table: TableWriter,
    rows: Vec<Event>,
    names: Vec<ByteArray>,
    classes: Vec<ByteArray>,
}

impl EventWriter {
    pub(crate) fn create(file: (File, PathBuf)) -> Result<Self, TraceError> {
        let table = TableWriter::create(file, &columns(&[], &[], &[]), &["start", "duration", "size"])?;
        let name = |call: &Call| ByteArray::from(call.name());
        let class = |call: &Call| ByteArray::from(call.class().name());
        let names = Call::ALL.iter().map(name).collect();
        Ok(Self { table, rows: Vec::new(), names, classes: Call::ALL.iter().map(class).collect() })
    }

    pub(crate) fn write(&mut self, event: &Event) -> Result<(), TraceError> {
        self.rows.push(*event);
        if self.rows.len() == GROUP { self.flush() } else { Ok(()) }
    }

    pub(crate) fn finish(mut self) -> Result<(), TraceError> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        self.table.finish()
    }

    fn flush(&mut self) -> Result<(), TraceError> {
        self.table.write(&columns(&self.rows, &self.names, &self.classes))?;
        self.rows.clear();
        Ok(())
    }
}

/// The columns of these rows: the only definition of an event's layout. `docs/trace.md` explains each.
fn columns(rows: &[Event], names: &[ByteArray], classes: &[ByteArray]) -> Vec<TableColumn> {
    let long = |field: fn(&Event) -> i64| ColumnValues::Long(rows.iter().map(field).collect());
    let word = |field: fn(&Event) -> i32| ColumnValues::Word(rows.iter().map(field).collect());
    let some_word =
        |field: fn(&Event) -> Option<i32>| ColumnValues::OptionalWord(rows.iter().map(field).collect());
    let some_long =
        |field: fn(&Event) -> Option<i64>| ColumnValues::OptionalLong(rows.iter().map(field).collect());
    let named = |table: &[ByteArray]| {
        ColumnValues::Text(rows.iter().map(|row| table[row.call as usize].clone()).collect())
    };
    vec![
        column("start", long(|event| event.start.0 as i64)),
        column("duration", long(|event| event.duration.0 as i64)),
        column("process", word(|event| event.process.0 as i32)),
        column("thread", word(|event| event.thread.0 as i32)),
        column("call", named(names)),
        column("class", named(classes)),
        column(
            "result",
            some_long(|event| match event.outcome {
                Outcome::Success(value) => Some(value),
                Outcome::Failure(_) | Outcome::Unfinished => None,
            }),
        ),
        column("errno", some_word(|event| event.outcome.errno().map(|errno| errno.0.into()))),
        column("fd", some_word(|event| given(event.fd))),
        column("fd2", some_word(|event| given(event.fd2))),
        column("path", some_word(|event| event.path.map(|path| path.0 as i32))),
        column("path2", some_word(|event| event.path2.map(|path| path.0 as i32))),
        column("flags", long(|event| event.flags as i64)),
        column("size", long(|event| event.size.0 as i64)),
        column("offset", some_long(|event| event.offset)),
        column("target", some_word(|event| event.target.map(|path| path.0 as i32))),
        column("target2", some_word(|event| event.target2.map(|path| path.0 as i32))),
        column("file_system", some_word(|event| event.file_system.map(|mount| mount.0.into()))),
    ]
}

fn given(fd: Fd) -> Option<i32> {
    (fd != Fd::NONE).then_some(fd.0)
}

/// Calls `each` for every event of the file, in file order.
pub(crate) fn for_each(path: &Path, mut each: impl FnMut(&Event)) -> Result<(), TraceError> {
    let calls: HashMap<&[u8], Call> = Call::ALL.iter().map(|call| (call.name().as_bytes(), *call)).collect();
    TableReader::open(path)?.for_each_group(|group| {
        let mut events = EventRows::open(&group)?;
        let mut left = group.rows();
        while left > 0 {
            let rows = left.min(AT_ONCE);
            events.next(path, &calls, rows, &mut each)?;
            left -= rows;
        }
        Ok(())
    })
}

/// Rows that are decoded together: this many fit into a processor's second-level cache. Not part of the format.
const AT_ONCE: usize = 1 << 12;

/// The columns of a group, which are read in step.
struct EventRows<'a> {
    start: ColumnRows<'a, Int64Type>,
    duration: ColumnRows<'a, Int64Type>,
    process: ColumnRows<'a, Int32Type>,
    thread: ColumnRows<'a, Int32Type>,
    call: ColumnRows<'a, ByteArrayType>,
    result: ColumnRows<'a, Int64Type>,
    errno: ColumnRows<'a, Int32Type>,
    fd: ColumnRows<'a, Int32Type>,
    fd2: ColumnRows<'a, Int32Type>,
    path: ColumnRows<'a, Int32Type>,
    path2: ColumnRows<'a, Int32Type>,
    flags: ColumnRows<'a, Int64Type>,
    size: ColumnRows<'a, Int64Type>,
    offset: ColumnRows<'a, Int64Type>,
    target: ColumnRows<'a, Int32Type>,
    target2: ColumnRows<'a, Int32Type>,
    file_system: ColumnRows<'a, Int32Type>,
    known: Known,
}

impl<'a> EventRows<'a> {
    fn open(group: &'a RowGroup<'_>) -> Result<Self, TraceError> {
        Ok(Self {
            start: group.column("start")?,
            duration: group.column("duration")?,
            process: group.column("process")?,
            thread: group.column("thread")?,
            call: group.column("call")?,
            result: group.column("result")?,
            errno: group.column("errno")?,
            fd: group.column("fd")?,
            fd2: group.column("fd2")?,
            path: group.column("path")?,
            path2: group.column("path2")?,
            flags: group.column("flags")?,
            size: group.column("size")?,
            offset: group.column("offset")?,
            target: group.column("target")?,
            target2: group.column("target2")?,
            file_system: group.column("file_system")?,
            known: Known::default(),
        })
    }

    fn next(
        &mut self,
        file: &Path,
        calls: &HashMap<&[u8], Call>,
        rows: usize,
        each: &mut impl FnMut(&Event),
    ) -> Result<(), TraceError> {
        let names = self.call.next(rows)?;
        let (start, duration) = (self.start.next(rows)?, self.duration.next(rows)?);
        let (process, thread) = (self.process.next(rows)?, self.thread.next(rows)?);
        let (result, errno) = (self.result.next_optional(rows)?, self.errno.next_optional(rows)?);
        let (fd, fd2) = (self.fd.next_optional(rows)?, self.fd2.next_optional(rows)?);
        let (given, given2) = (self.path.next_optional(rows)?, self.path2.next_optional(rows)?);
        let (flags, size) = (self.flags.next(rows)?, self.size.next(rows)?);
        let offset = self.offset.next_optional(rows)?;
        let (target, target2) = (self.target.next_optional(rows)?, self.target2.next_optional(rows)?);
        let file_system = self.file_system.next_optional(rows)?;
        let id = |id: Option<i32>| id.map(|id| PathId(id as u32));
        self.known.forget();
        for (row, name) in names.iter().enumerate() {
            let call = self.known.call(name, calls).ok_or_else(|| {
                TraceError::damaged(file, format!("unknown call `{}`", name.as_utf8().unwrap_or("?")))
            })?;
            let outcome = match (result[row], errno[row]) {
                (Some(value), _) => Outcome::Success(value),
                (None, Some(errno)) => Outcome::Failure(Errno(errno as u16)),
                (None, None) => Outcome::Unfinished,
            };
            each(&Event {
                start: Nanos(start[row] as u64),
                duration: Nanos(duration[row] as u64),
                process: ProcessId(process[row] as u32),
                thread: ThreadId(thread[row] as u32),
                call,
                outcome,
                fd: fd[row].map_or(Fd::NONE, Fd),
                fd2: fd2[row].map_or(Fd::NONE, Fd),
                path: id(given[row]),
                path2: id(given2[row]),
                flags: flags[row] as u64,
                size: Bytes(size[row] as u64),
                offset: offset[row],
                target: id(target[row]),
                target2: id(target2[row]),
                file_system: file_system[row].map(|mount| MountId(mount as u16)),
            });
        }
        Ok(())
    }
}

/// Calls by the address of their names: a column's dictionary holds each name once.
#[derive(Debug, Default)]
struct Known(Vec<Option<(usize, usize, Call)>>);

impl Known {
    /// A power of two above the number of calls.
    const PLACES: usize = 512;

    /// Clears the map, because addresses may change when more rows are read.
    fn forget(&mut self) {
        self.0.clear();
        self.0.resize(Self::PLACES, None);
    }

    fn call(&mut self, name: &ByteArray, calls: &HashMap<&[u8], Call>) -> Option<Call> {
        let (begin, length) = (name.data().as_ptr().addr(), name.len());
        // Names lie close together: low bits tell most of them apart.
        let place = &mut self.0[begin % Self::PLACES];
        if let Some((known, known_length, call)) = *place
            && (known, known_length) == (begin, length)
        {
            return Some(call);
        }
        let call = *calls.get(name.data())?;
        *place = Some((begin, length, call));
        Some(call)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_several_groups_and_batches_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.parquet");
        let event = |row: usize| Event {
            start: Nanos(row as u64),
            outcome: Outcome::from_return_value(if row.is_multiple_of(3) { -2 } else { row as i64 }),
            path: (!row.is_multiple_of(5)).then_some(PathId(row as u32)),
            ..Event::new(Call::ALL[row / 7 % Call::ALL.len()])
        };
        let rows = GROUP + AT_ONCE + 1;
        let mut writer = EventWriter::create((File::create_new(&path).unwrap(), path.clone())).unwrap();
        (0..rows).for_each(|row| writer.write(&event(row)).unwrap());
        writer.finish().unwrap();
        let mut row = 0;
        for_each(&path, |read| {
            assert_eq!(*read, event(row));
            row += 1;
        })
        .unwrap();
        assert_eq!(row, rows);
    }
}
