//! The event table: `events.parquet`, one row a call, in the order in which calls ended.

use super::TraceError;
use super::columns::{Column, Group, TableReader, TableWriter, Values, column};
use crate::{Bytes, Call, Errno, Event, Fd, MountId, Nanos, Outcome, PathId, ProcessId, ThreadId};
use parquet::data_type::ByteArray;
use std::collections::HashMap;
use std::path::Path;

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
    pub(crate) fn create(path: &Path) -> Result<Self, TraceError> {
        let table = TableWriter::create(path, &columns(&[], &[], &[]), &["start", "duration", "size"])?;
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

/// The columns of these rows: the one place that says how an event is laid out. `docs/trace.md` explains each.
fn columns(rows: &[Event], names: &[ByteArray], classes: &[ByteArray]) -> Vec<Column> {
    let long = |field: fn(&Event) -> i64| Values::Long(rows.iter().map(field).collect());
    let word = |field: fn(&Event) -> i32| Values::Word(rows.iter().map(field).collect());
    let some_word = |field: fn(&Event) -> Option<i32>| Values::OptionalWord(rows.iter().map(field).collect());
    let some_long = |field: fn(&Event) -> Option<i64>| Values::OptionalLong(rows.iter().map(field).collect());
    let named =
        |table: &[ByteArray]| Values::Text(rows.iter().map(|row| table[row.call as usize].clone()).collect());
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
    TableReader::open(path)?.for_each_group(|group| read_group(path, &group, &calls, &mut each))
}

fn read_group(
    path: &Path,
    group: &Group<'_>,
    calls: &HashMap<&[u8], Call>,
    each: &mut impl FnMut(&Event),
) -> Result<(), TraceError> {
    let names = group.text("call")?;
    let (start, duration) = (group.long("start")?, group.long("duration")?);
    let (process, thread) = (group.word("process")?, group.word("thread")?);
    let (result, errno) = (group.optional_long("result")?, group.optional_word("errno")?);
    let (fd, fd2) = (group.optional_word("fd")?, group.optional_word("fd2")?);
    let (given, given2) = (group.optional_word("path")?, group.optional_word("path2")?);
    let (flags, size, offset) = (group.long("flags")?, group.long("size")?, group.optional_long("offset")?);
    let (target, target2) = (group.optional_word("target")?, group.optional_word("target2")?);
    let file_system = group.optional_word("file_system")?;
    let id = |id: Option<i32>| id.map(|id| PathId(id as u32));
    for (row, name) in names.iter().enumerate() {
        let call = calls.get(name.data()).copied();
        let call = call.ok_or_else(|| {
            TraceError::damaged(path, format!("unknown call `{}`", name.as_utf8().unwrap_or("?")))
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
