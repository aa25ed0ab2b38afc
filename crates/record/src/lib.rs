//! Runs a command and records its file-system calls in a trace.
//!
//! ```text
//! record() -> command (PATH) -> engine (ptrace + seccomp) -> recorder -> quell_trace::Writer -> NAME.qtrace
//! ```
//!
//! The command behaves as without quell: its status, output, signals, terminal and descriptors are its own. Calls that
//! cannot be recorded are counted, and the trace says so. The `sys` module holds all unsafe code.

mod calls;
mod command;
pub mod engine;
mod error;
mod facts;
mod filter;
mod finish;
pub mod node;
mod pages;
mod pids;
mod ptrace;
mod recorder;
mod sys;

pub use command::find;
pub use engine::{Engine, Observation, Observer};
pub use error::{Barrier, RecordError};

use finish::Asker;
use libc::SIGXFSZ;
use ptrace::Ptrace;
use quell_trace::writer::Ending;
use quell_trace::{Exit, Header, Nanos, TraceError, Writer};
use recorder::Recorder;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sys::signals::Disposition;
use sys::spawn::Program;

/// The command to record and the place of its trace.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The command and its arguments. Shape: at least one.
    pub command: Vec<OsString>,
    /// The environment of the command. Its `PATH` is used to find the command.
    pub environment: Vec<(OsString, OsString)>,
    /// The trace to write. It must not exist; its parent must.
    pub directory: PathBuf,
    /// Facts about the run that are known beforehand. `completeness` is partial, `recorder.engine` is [`ENGINE`].
    pub header: Header,
}

/// The name of the engine that [`record`] uses.
pub const ENGINE: &str = "ptrace";

/// The result of a recording.
#[derive(Debug)]
pub struct Recorded {
    /// The end of the command.
    pub exit: Exit,
    /// The trace's header as written.
    pub header: Header,
    /// The error that left the trace incomplete, if any. The command ran to its end nevertheless.
    pub problem: Option<TraceError>,
}

/// Runs a command until it and all its descendants have ended, and writes a trace of their calls.
///
/// The command uses the standard streams, working directory, signals and terminal of this process. Signals that would
/// end this process are forwarded to the command.
///
/// # Errors
/// [`RecordError`]; the command has not run, and no trace is left behind.
pub fn record(request: &Recording) -> Result<Recorded, RecordError> {
    let program = program(request)?;
    let engine = Ptrace::attach(&program)?;
    // The command's process exists already, so this affects the recorder alone: exceeding a file-size limit becomes an
    // error like a full disk instead of ending the recorder.
    let _no_signal = Disposition::ignored(SIGXFSZ);
    let writer = Writer::create(&request.directory, request.header.clone())?;
    let mut recorder = Recorder::new(writer, request.header.user);
    let began = Instant::now();
    let exit = engine.run(&mut recorder).inspect_err(|_| remove(&request.directory))?;
    let took = Nanos(began.elapsed().as_nanos() as u64);
    Ok(finish(recorder, request, exit, took))
}

fn finish(recorder: Recorder, request: &Recording, exit: Exit, took: Nanos) -> Recorded {
    let remains = recorder.finish();
    let mut header = request.header.clone();
    header.recorder.events = remains.writer.events();
    header.recorder.lost = remains.lost;
    header.recorder.notes.clone_from(&remains.notes);
    let ending = Ending { exit: Some(exit), took: Some(took), lost: remains.lost, notes: remains.notes };
    match remains.writer.finish(ending, &mut Asker { striped: remains.striped }) {
        Ok(header) => Recorded { exit, header, problem: remains.problem },
        Err(error) => Recorded { exit, header, problem: Some(remains.problem.unwrap_or(error)) },
    }
}

/// Removes the trace of a command that never ran.
fn remove(directory: &Path) {
    // The trace is new and empty. If it cannot be removed, it reads as a partial trace without events.
    _ = std::fs::remove_dir_all(directory);
}

fn program(request: &Recording) -> Result<Program, RecordError> {
    let name = request.command.first().cloned().unwrap_or_default();
    let path =
        request.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let file = command::find(&name, path)?;
    let variable = |(name, value): &(OsString, OsString)| {
        let mut text = name.clone();
        text.push("=");
        text.push(value);
        c_string(&text)
    };
    Ok(Program {
        file: c_string(file.as_os_str())?,
        arguments: request.command.iter().map(|argument| c_string(argument)).collect::<Result<_, _>>()?,
        environment: request.environment.iter().map(variable).collect::<Result<_, _>>()?,
        filter: filter::native(),
    })
}

fn c_string(text: &OsStr) -> Result<CString, RecordError> {
    CString::new(text.as_bytes())
        .map_err(|error| RecordError::ZeroByte { text: OsString::from_vec(error.into_vec()) })
}
