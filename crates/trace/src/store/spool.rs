//! The spool: what the recorder appends while the program runs, readable up to its last whole record.
//!
//! ```text
//! magic "QSPOOL01", then records
//!   1 | length u32 | path bytes          its number is how many came before
//!   2 | event, EVENT_LENGTH bytes        little endian, fields in the order of `encode`
//!   3 | length u32 | JSON of a Note
//!   4 | thread u32 | place i32 | path u32    what the next event's call saw: see `SeenFile`
//!   5 | length u32 | process u32, path u32, (offset u64, size u64)*    parts of a file that a process touched
//! ```
//! Readers ignore a record that the recorder's end cut off, and, once the recorder is gone, damage and everything
//! behind it. The spool lives only until the recorder finishes; it is no format for other programs.

use super::TraceError;
use crate::context::{InheritedFd, NamespaceChange};
use crate::{
    Bytes, Call, Errno, Event, Execution, Exit, Extent, Fd, Import, Mount, Nanos, Outcome, PathId, PathTable,
    Process, ProcessId, Thread, ThreadId,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"QSPOOL01";
const PATH: u8 = 1;
const EVENT: u8 = 2;
const NOTE: u8 = 3;
const SEEN: u8 = 4;
const TOUCHED: u8 = 5;
/// Bytes of an encoded observation.
const SEEN_LENGTH: usize = 12;
/// Bytes of an encoded extent.
const EXTENT_LENGTH: usize = 16;
/// Extents in one record: far below [`LONGEST`].
const MOST_EXTENTS: usize = 1 << 16;
/// Bytes of an encoded event.
const EVENT_LENGTH: usize = 76;
/// The length limit of a path or note, above every valid one (`PATH_MAX` is 4096, for `readlink` content too). It stops
/// a damaged length.
const LONGEST: u32 = 64 << 20;
/// An absent path, mount or offset.
const ABSENT: u32 = u32::MAX;
const NO_OFFSET: i64 = i64::MIN;
/// Marks a call that did not return; no call returns this value.
const UNFINISHED: i64 = i64::MIN;

/// All facts except paths and events, in the order in which they became known.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SpoolNote {
    Process(Process),
    Thread(Thread),
    Ended {
        process: ProcessId,
        at: Nanos,
        exit: Option<Exit>,
    },
    Execution(Execution, Vec<(String, String)>),
    Mounts(Vec<Mount>),
    Namespace(NamespaceChange),
    WorkingDirectory(PathId),
    Inherited(InheritedFd),
    /// The identity of the file that the last written event opened.
    Identity {
        device: u64,
        inode: u64,
        mode: u32,
        size: u64,
        modified: i64,
    },
    /// All touched parts of this process have been written.
    Looked(ProcessId),
    /// An import begins.
    Importing(Import),
    /// The innermost import of this thread ends; it loaded this file.
    Imported {
        thread: ThreadId,
        at: Nanos,
        origin: Option<String>,
    },
}

/// A file that an observer saw at the call of the event that follows. It overrides the replayed state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenFile {
    pub(crate) thread: ThreadId,
    pub(crate) place: SeenPlace,
    /// The file; `None` for a file without a path.
    pub(crate) path: Option<PathId>,
}

/// The place behind which an observer saw a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenPlace {
    /// A descriptor of the thread.
    Descriptor(i32),
    /// The working directory of the thread.
    WorkingDirectory,
    /// The root of the thread. Without a path it is in a tree that the recorder does not see.
    Root,
    /// The file of the call.
    First,
    /// The second file of the call.
    Second,
}

/// Places that are no descriptor, below `AT_FDCWD`.
const PLACES: [(i32, SeenPlace); 4] = [
    (Fd::WORKING_DIRECTORY.0, SeenPlace::WorkingDirectory),
    (Fd::NONE.0, SeenPlace::First),
    (Fd::NONE.0 + 1, SeenPlace::Second),
    (Fd::NONE.0 + 2, SeenPlace::Root),
];

impl From<Fd> for SeenPlace {
    /// The place that an argument names; [`Fd::NONE`] stands for the file of the call.
    fn from(fd: Fd) -> Self {
        Self::of(fd.0)
    }
}

impl SeenPlace {
    fn number(self) -> i32 {
        let known = PLACES.iter().find(|(_, place)| *place == self);
        match (self, known) {
            (Self::Descriptor(fd), _) => fd,
            (_, known) => known.map_or(Fd::NONE.0, |(number, _)| *number),
        }
    }

    fn of(number: i32) -> Self {
        let known = PLACES.iter().find(|(other, _)| *other == number);
        known.map_or(Self::Descriptor(number), |(_, place)| *place)
    }
}

/// One record, read back.
#[derive(Debug)]
pub(crate) enum SpoolRecord {
    Event(Event),
    Note(SpoolNote),
    Seen(SeenFile),
    Touched(ProcessId, PathId, Vec<Extent>),
}

#[derive(Debug)]
pub(crate) struct SpoolWriter {
    file: BufWriter<File>,
    path: PathBuf,
    flushed: Nanos,
}

/// The maximum time between flushes to the kernel, measured by the events' own times, so that a killed recorder loses
/// little.
const FLUSH_EVERY: Nanos = Nanos(200_000_000);

impl SpoolWriter {
    /// Begins the spool in a new file.
    pub(crate) fn create((file, path): (File, PathBuf)) -> Result<Self, TraceError> {
        let mut spool = Self { file: BufWriter::with_capacity(1 << 18, file), path, flushed: Nanos(0) };
        spool.put(MAGIC)?;
        // From here on a killed recorder leaves a spool that can be read.
        spool.flush()?;
        Ok(spool)
    }

    pub(crate) fn path(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.put_long(PATH, bytes)
    }

    pub(crate) fn event(&mut self, event: &Event) -> Result<(), TraceError> {
        let mut record = [0; 1 + EVENT_LENGTH];
        record[0] = EVENT;
        encode(event, &mut record[1..]);
        self.put(&record)?;
        if event.end().since(self.flushed) >= FLUSH_EVERY {
            self.flushed = event.end();
            self.flush()?;
        }
        Ok(())
    }

    pub(crate) fn seen(&mut self, seen: SeenFile) -> Result<(), TraceError> {
        let mut record = [SEEN; 1 + SEEN_LENGTH];
        record[1..5].copy_from_slice(&seen.thread.0.to_le_bytes());
        record[5..9].copy_from_slice(&seen.place.number().to_le_bytes());
        record[9..].copy_from_slice(&seen.path.map_or(ABSENT, |path| path.0).to_le_bytes());
        self.put(&record)
    }

    pub(crate) fn touched(
        &mut self,
        process: ProcessId,
        path: PathId,
        extents: &[Extent],
    ) -> Result<(), TraceError> {
        for extents in extents.chunks(MOST_EXTENTS) {
            let mut record = Vec::with_capacity(8 + extents.len() * EXTENT_LENGTH);
            record.extend(process.0.to_le_bytes());
            record.extend(path.0.to_le_bytes());
            for extent in extents {
                record.extend(extent.offset.to_le_bytes());
                record.extend(extent.size.to_le_bytes());
            }
            self.put_long(TOUCHED, &record)?;
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, note: &SpoolNote) -> Result<(), TraceError> {
        let json = serde_json::to_vec(note).map_err(|error| TraceError::damaged(&self.path, error))?;
        self.put_long(NOTE, &json)
    }

    pub(crate) fn flush(&mut self) -> Result<(), TraceError> {
        self.file.flush().map_err(TraceError::io("write", &self.path))
    }

    fn put_long(&mut self, tag: u8, bytes: &[u8]) -> Result<(), TraceError> {
        self.put(&[tag])?;
        self.put(&(bytes.len() as u32).to_le_bytes())?;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), TraceError> {
        self.file.write_all(bytes).map_err(TraceError::io("write", &self.path))
    }
}

/// Reads a spool from its begin; paths go into a table on the way.
#[derive(Debug)]
pub(crate) struct SpoolReader {
    file: BufReader<File>,
    path: PathBuf,
}

impl SpoolReader {
    pub(crate) fn open(path: &Path) -> Result<Self, TraceError> {
        Self::of(File::open(path).map_err(TraceError::io("open", path))?, path)
    }

    /// The spool in an open file, which `path` names in messages.
    pub(crate) fn of(file: File, path: &Path) -> Result<Self, TraceError> {
        let mut reader = Self { file: BufReader::with_capacity(1 << 18, file), path: path.to_owned() };
        let mut magic = [0; 8];
        match reader.fill(&mut magic)? {
            true if &magic == MAGIC => Ok(reader),
            _ => Err(TraceError::damaged(path, "it does not begin with a spool's magic number")),
        }
    }

    /// The next record; `None` at the end, or at a record that was cut off.
    pub(crate) fn next(&mut self, paths: &mut PathTable) -> Result<Option<SpoolRecord>, TraceError> {
        loop {
            let mut tag = [0];
            if !self.fill(&mut tag)? {
                return Ok(None);
            }
            match tag[0] {
                PATH => match self.long()? {
                    Some(bytes) => _ = paths.intern(&bytes),
                    None => return Ok(None),
                },
                EVENT => {
                    let mut bytes = [0; EVENT_LENGTH];
                    if !self.fill(&mut bytes)? {
                        return Ok(None);
                    }
                    let event =
                        decode(&bytes).ok_or_else(|| TraceError::damaged(&self.path, "unknown call"))?;
                    return Ok(Some(SpoolRecord::Event(event)));
                }
                NOTE => {
                    let Some(bytes) = self.long()? else { return Ok(None) };
                    let note = serde_json::from_slice(&bytes)
                        .map_err(|error| TraceError::damaged(&self.path, error))?;
                    return Ok(Some(SpoolRecord::Note(note)));
                }
                TOUCHED => {
                    let Some(bytes) = self.long()? else { return Ok(None) };
                    let touched = decode_touched(&bytes);
                    return match touched {
                        Some((process, path, extents)) => {
                            Ok(Some(SpoolRecord::Touched(process, path, extents)))
                        }
                        None => {
                            Err(TraceError::damaged(&self.path, "a record of touched parts is cut short"))
                        }
                    };
                }
                SEEN => {
                    let mut bytes = [0; SEEN_LENGTH];
                    if !self.fill(&mut bytes)? {
                        return Ok(None);
                    }
                    return Ok(Some(SpoolRecord::Seen(decode_seen(&bytes))));
                }
                other => return Err(TraceError::damaged(&self.path, format!("unknown record {other}"))),
            }
        }
    }

    fn long(&mut self) -> Result<Option<Vec<u8>>, TraceError> {
        let mut length = [0; 4];
        if !self.fill(&mut length)? {
            return Ok(None);
        }
        let length = u32::from_le_bytes(length);
        if length > LONGEST {
            return Err(TraceError::damaged(&self.path, format!("a record of {length} bytes")));
        }
        let mut bytes = Vec::new();
        let read = (&mut self.file).take(u64::from(length)).read_to_end(&mut bytes);
        let read = read.map_err(TraceError::io("read", &self.path))?;
        Ok((read == length as usize).then_some(bytes))
    }

    /// Fills `bytes`; false when the file ends first.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, TraceError> {
        let mut filled = 0;
        while filled < bytes.len() {
            let available = self.file.fill_buf().map_err(TraceError::io("read", &self.path))?;
            if available.is_empty() {
                return Ok(false);
            }
            let take = available.len().min(bytes.len() - filled);
            bytes[filled..filled + take].copy_from_slice(&available[..take]);
            self.file.consume(take);
            filled += take;
        }
        Ok(true)
    }
}

fn encode(event: &Event, bytes: &mut [u8]) {
    let result = match event.outcome {
        Outcome::Success(value) => value,
        Outcome::Failure(errno) => -i64::from(errno.0),
        Outcome::Unfinished => UNFINISHED,
    };
    let id = |id: Option<PathId>| id.map_or(ABSENT, |id| id.0).to_le_bytes();
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&event.start.0.to_le_bytes());
    put(&event.duration.0.to_le_bytes());
    put(&result.to_le_bytes());
    put(&event.flags.to_le_bytes());
    put(&event.size.0.to_le_bytes());
    put(&event.offset.unwrap_or(NO_OFFSET).to_le_bytes());
    put(&event.process.0.to_le_bytes());
    put(&event.thread.0.to_le_bytes());
    put(&(event.call as u32).to_le_bytes());
    put(&event.fd.0.to_le_bytes());
    put(&event.fd2.0.to_le_bytes());
    put(&id(event.path));
    put(&id(event.path2));
}

fn decode_seen(bytes: &[u8; SEEN_LENGTH]) -> SeenFile {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let path = word(8);
    SeenFile {
        thread: ThreadId(word(0)),
        place: SeenPlace::of(word(4) as i32),
        path: (path != ABSENT).then_some(PathId(path)),
    }
}

fn decode_touched(bytes: &[u8]) -> Option<(ProcessId, PathId, Vec<Extent>)> {
    let (process, rest) = bytes.split_first_chunk::<4>()?;
    let (path, rest) = rest.split_first_chunk::<4>()?;
    let (extents, cut) = rest.as_chunks::<EXTENT_LENGTH>();
    let extent = |bytes: &[u8; EXTENT_LENGTH]| {
        let (offset, rest) = bytes.split_first_chunk::<8>()?;
        let (size, _) = rest.split_first_chunk::<8>()?;
        Some(Extent { offset: u64::from_le_bytes(*offset), size: u64::from_le_bytes(*size) })
    };
    let extents = cut.is_empty().then(|| extents.iter().map(extent).collect::<Option<_>>())??;
    Some((ProcessId(u32::from_le_bytes(*process)), PathId(u32::from_le_bytes(*path)), extents))
}

fn decode(bytes: &[u8; EVENT_LENGTH]) -> Option<Event> {
    let mut rest = &bytes[..];
    let mut long = || {
        let (head, tail) = rest.split_first_chunk::<8>()?;
        rest = tail;
        Some(u64::from_le_bytes(*head))
    };
    let (start, duration, result) = (Nanos(long()?), Nanos(long()?), long()? as i64);
    let (flags, size, offset) = (long()?, Bytes(long()?), long()? as i64);
    let mut word = || {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        rest = tail;
        Some(u32::from_le_bytes(*head))
    };
    let (process, thread) = (ProcessId(word()?), ThreadId(word()?));
    let call = *Call::ALL.get(word()? as usize)?;
    let (fd, fd2) = (Fd(word()? as i32), Fd(word()? as i32));
    let id = |word: u32| (word != ABSENT).then_some(PathId(word));
    let (path, path2) = (id(word()?), id(word()?));
    let outcome = match result {
        UNFINISHED => Outcome::Unfinished,
        -4095..=-1 => Outcome::Failure(Errno(-result as u16)),
        value => Outcome::Success(value),
    };
    let offset = (offset != NO_OFFSET).then_some(offset);
    let event = Event::new(call);
    Some(Event {
        start,
        duration,
        process,
        thread,
        outcome,
        fd,
        fd2,
        path,
        path2,
        flags,
        size,
        offset,
        ..event
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_event()(
            times in any::<(u32, u32)>(), call in 0..Call::ALL.len(), result in -4095i64..1 << 40,
            ids in any::<(u32, u32)>(), fds in any::<(i32, i32)>(),
            paths in proptest::option::of((0u32..1 << 20, 0u32..1 << 20)), flags in any::<u64>(),
            size in any::<u64>(), offset in proptest::option::of(0i64..i64::MAX),
        ) -> Event {
            Event {
                start: Nanos(times.0.into()), duration: Nanos(times.1.into()),
                process: ProcessId(ids.0), thread: ThreadId(ids.1),
                outcome: Outcome::from_return_value(result), fd: Fd(fds.0), fd2: Fd(fds.1),
                path: paths.map(|p| PathId(p.0)), path2: paths.map(|p| PathId(p.1)),
                flags, size: Bytes(size), offset, ..Event::new(Call::ALL[call])
            }
        }
    }

    proptest! {
        #[test]
        fn an_event_reads_back_as_written(event in any_event()) {
            let mut bytes = [0; EVENT_LENGTH];
            encode(&event, &mut bytes);
            prop_assert_eq!(decode(&bytes), Some(event));
        }
    }

    #[test]
    fn a_cut_spool_reads_up_to_its_last_whole_record() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("spool");
        let mut spool = SpoolWriter::create((File::create_new(&file).unwrap(), file.clone())).unwrap();
        spool.path(b"/a").unwrap();
        spool.event(&Event::new(Call::Open)).unwrap();
        spool.event(&Event::new(Call::Close)).unwrap();
        spool.flush().unwrap();
        let whole = std::fs::read(&file).unwrap();
        for length in 8..whole.len() {
            std::fs::write(&file, &whole[..length]).unwrap();
            let mut paths = PathTable::default();
            let mut reader = SpoolReader::open(&file).unwrap();
            let mut events = 0;
            while reader.next(&mut paths).unwrap().is_some() {
                events += 1;
            }
            assert_eq!(events, length.saturating_sub(8 + 7) / (1 + EVENT_LENGTH), "cut at {length}");
        }
    }
}
