//! A timeline: every call is a slice on its thread's track.
//!
//! The form is the JSON of the Trace Event Format, which ui.perfetto.dev, chrome://tracing and other viewers open. Times are
//! microseconds since the earliest recording began. Processes of several recordings may have equal numbers, so tracks are
//! numbered here and named after the real ones.

use crate::error::ExportError;
use crate::rows::{ExportRow, for_each};
use quell_trace::{Class, Nanos, Recording, Trace};
use serde::Serialize;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};

/// An event of the format, as far as it is used here.
#[derive(Serialize)]
struct PerfettoEvent<'a> {
    ph: &'static str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cat: Option<&'static str>,
    pid: u32,
    tid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    args: PerfettoArguments<'a>,
}

/// The details of a slice, and the name of a track.
#[derive(Default, Serialize)]
struct PerfettoArguments<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file_system: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
}

/// The numbers of tracks. Range: from 1, because 0 is the idle process to viewers.
#[derive(Default)]
struct Tracks {
    /// By recording and process: the track's number, and the command that named it last.
    processes: HashMap<(usize, u32), (u32, Option<String>)>,
    threads: HashMap<(usize, u32), u32>,
}

pub(crate) fn write(trace: &Trace, file: &File) -> Result<(), ExportError> {
    let mut file = BufWriter::new(file);
    let origin =
        trace.recordings.iter().map(|recording| recording.header.began).fold(f64::INFINITY, f64::min);
    let mut tracks = Tracks::default();
    file.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")?;
    let mut first = true;
    for_each(trace, |row| {
        let (process, thread) = tracks.name(row, &mut file, &mut first)?;
        let event = slice(row, process, thread, origin);
        put(&event, &mut file, &mut first)
    })?;
    file.write_all(b"\n]}\n")?;
    Ok(file.flush()?)
}

fn slice<'a>(row: &'a ExportRow<'_>, pid: u32, tid: u32, origin: f64) -> PerfettoEvent<'a> {
    let event = row.event;
    let moves = matches!(event.call.class(), Class::Read | Class::Write);
    PerfettoEvent {
        ph: "X",
        name: event.call.name(),
        cat: Some(event.call.class().name()),
        pid,
        tid,
        ts: Some(offset(row.recording, origin) + microseconds(event.start)),
        dur: Some(microseconds(event.duration)),
        args: PerfettoArguments {
            path: row.subject(),
            error: row.error(),
            bytes: moves.then(|| event.bytes_moved().0),
            file_system: row.mount().map(quell_trace::Mount::file_system_type),
            command: row.command,
            ..PerfettoArguments::default()
        },
    }
}

/// Microseconds from the earliest recording's begin to this one's.
fn offset(recording: &Recording, origin: f64) -> f64 {
    ((recording.header.began - origin) * 1e6).round()
}

fn microseconds(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

impl Tracks {
    /// The tracks of a call's process and thread; names them when they are new, and when the process runs another command.
    fn name(
        &mut self,
        row: &ExportRow<'_>,
        file: &mut impl std::io::Write,
        first: &mut bool,
    ) -> Result<(u32, u32), ExportError> {
        let next = u32::try_from(self.processes.len() + 1).unwrap_or(u32::MAX);
        let key = (row.number, row.event.process.0);
        let (process, named) = self.processes.entry(key).or_insert((next, None));
        let process = *process;
        let name = title(row);
        if named.as_ref() != Some(&name) {
            put(&track("process_name", process, 0, &name), file, first)?;
            *named = Some(name);
        }
        let next = u32::try_from(self.threads.len() + 1).unwrap_or(u32::MAX);
        let key = (row.number, row.event.thread.0);
        if let Some(thread) = self.threads.get(&key) {
            return Ok((process, *thread));
        }
        self.threads.insert(key, next);
        put(&track("thread_name", process, next, &format!("thread {}", row.tid().0)), file, first)?;
        Ok((process, next))
    }
}

/// The name of a process' track.
fn title(row: &ExportRow<'_>) -> String {
    let rank = row.recording.header.rank.map(|rank| format!("rank {rank}: ")).unwrap_or_default();
    let command: String = row.command.unwrap_or("process").chars().take(TITLE_LENGTH).collect();
    format!("{rank}{command} ({})", row.pid().0)
}

/// Characters of a command line in a title.
const TITLE_LENGTH: usize = 80;

fn track<'a>(kind: &'static str, pid: u32, tid: u32, name: &'a str) -> PerfettoEvent<'a> {
    let args = PerfettoArguments { name: Some(name), ..PerfettoArguments::default() };
    PerfettoEvent { ph: "M", name: kind, cat: None, pid, tid, ts: None, dur: None, args }
}

fn put(
    event: &PerfettoEvent<'_>,
    file: &mut impl std::io::Write,
    first: &mut bool,
) -> Result<(), ExportError> {
    if !std::mem::take(first) {
        file.write_all(b",\n")?;
    }
    serde_json::to_writer(file, event).map_err(|error| ExportError::Write(error.into()))
}
