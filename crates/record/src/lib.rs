//! Runs a command and records its file-system calls in a trace.
//!
//! ```text
//! record() -> command (PATH) -> engine (ptrace + seccomp, or a mount) -> recorder -> quell_trace::Writer -> NAME.qtrace
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
mod started;
mod sys;
mod terminal;
mod through;

pub use command::find;
pub use engine::{Engine, Observation, Observer};
pub use error::{Barrier, RecordError};
pub use finish::TracePurpose;
pub use ptrace::Scope;
pub use started::{Leftovers, StartLimits};
pub use through::roots::default_roots;

use finish::Asker;
use libc::SIGXFSZ;
use ptrace::Ptrace;
use quell_trace::writer::Ending;
use quell_trace::{Ended, Exit, Header, Nanos, Pid, TraceError, Writer};
use recorder::{Recorder, Remains};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sys::signals::Disposition;
use sys::spawn::Program;
use through::Through;

/// The command to record and the place of its trace.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The command and its arguments. Shape: at least one.
    pub command: Vec<OsString>,
    /// The environment of the command. Its `PATH` is used to find the command.
    pub environment: Vec<(OsString, OsString)>,
    /// The trace to write. It must not exist; its parent must.
    pub directory: PathBuf,
    /// Facts about the run that are known beforehand. `completeness` is partial; [`record`] fills in `recorder.engine`.
    pub header: Header,
    /// The engine to use.
    pub engine: EngineChoice,
    /// The directories in which the mount engine records; empty for its own choice: [`default_roots`].
    pub roots: Vec<PathBuf>,
    /// The part of the run to record.
    pub scope: Scope,
    /// The use of the trace.
    pub purpose: TracePurpose,
}

/// The engine that a recording uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// ptrace, or the mount where ptrace is barred.
    #[default]
    Auto,
    /// ptrace alone.
    Ptrace,
    /// The mount alone.
    Mount,
}

/// A process of the command's that runs on after it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// Its number.
    pub process: Pid,
    /// Its program, as `ps` names it; escaped.
    pub name: String,
}

/// Hears what happens while a command is recorded.
pub trait Listener: Send {
    /// The command ended a second ago, and the recorder waits for these processes. `SIGINT` to the recorder ends the
    /// wait: processes that cannot run on without the recorder are ended.
    fn waits(&mut self, processes: &[Leftover]) {
        _ = processes;
    }

    /// The trace is complete, or will not be for this reason. A command of which only the start was recorded still runs, and is
    /// awaited afterwards.
    fn finished(&mut self, problem: Option<&TraceError>) {
        _ = problem;
    }
}

/// Hears nothing.
impl Listener for () {}

/// The name of the engine that [`record`] uses where it may.
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
    /// The barrier for which the mount engine took ptrace's place.
    pub barrier: Option<Barrier>,
}

/// Runs a command until it and all its descendants have ended, and writes a trace of their calls. With [`Scope::Start`]
/// the trace is complete when the start is over, and then the command's end is awaited alone.
///
/// The command uses the standard streams, working directory, signals and terminal of this process. Signals that would
/// end this process are forwarded to the command.
///
/// # Errors
/// [`RecordError`]; the command has not run, and no trace is left behind.
pub fn record(request: &Recording, listener: &mut dyn Listener) -> Result<Recorded, RecordError> {
    let program = program(request)?;
    let traced = match request.engine {
        EngineChoice::Mount => return record_through(request, program, listener),
        EngineChoice::Auto | EngineChoice::Ptrace => {
            Ptrace::attach(&program, request.scope).and_then(|engine| record_by(engine, request, listener))
        }
    };
    match traced {
        // Inside of another recording the outer one is what the user wants.
        Err(RecordError::Barred { barrier, source })
            if request.engine == EngineChoice::Auto && !matches!(barrier, Barrier::Recorded { .. }) =>
        {
            match record_through(request, program, listener) {
                // Both are barred: the first is what recording needs.
                Err(RecordError::Unmountable { .. }) => Err(RecordError::Barred { barrier, source }),
                recorded => recorded.map(|recorded| Recorded { barrier: Some(barrier), ..recorded }),
            }
        }
        traced => traced,
    }
}

/// Records through a mount: the whole run, since nothing can be taken away from under a running command.
fn record_through(
    request: &Recording,
    program: Program,
    listener: &mut dyn Listener,
) -> Result<Recorded, RecordError> {
    let roots =
        if request.roots.is_empty() { default_roots() } else { through::roots::given(&request.roots)? };
    let program = Program { filter: None, ..program };
    record_by(Through::attach(&program, roots)?, request, listener)
}

/// Records with an engine whose command waits.
fn record_by(
    engine: impl Engine,
    request: &Recording,
    listener: &mut dyn Listener,
) -> Result<Recorded, RecordError> {
    // The command's process exists already, so this affects the recorder alone: exceeding a file-size limit becomes an
    // error like a full disk instead of ending the recorder.
    let _no_signal = Disposition::ignored(SIGXFSZ);
    let mut header = request.header.clone();
    engine.name().clone_into(&mut header.recorder.engine);
    let writer = Writer::create(&request.directory, header.clone())?;
    let (view, notes) = (engine.view(), engine.notes());
    let recorder = Some(Recorder::new(writer, header.user, view));
    let mut watched = Watched { recorder, finished: None, header, notes, purpose: request.purpose, listener };
    let began = Instant::now();
    let exit = engine.run(&mut watched).inspect_err(|_| remove(&request.directory))?;
    let took = Nanos(began.elapsed().as_nanos() as u64);
    watched.finish(Ended::Exit, Some(exit), took);
    let (header, problem) = watched.finished.unwrap_or((watched.header, None));
    Ok(Recorded { exit, header, problem, barrier: None })
}

/// A recording while its command runs.
struct Watched<'a> {
    /// `None` once the trace is finished.
    recorder: Option<Recorder>,
    finished: Option<(Header, Option<TraceError>)>,
    header: Header,
    notes: Vec<String>,
    purpose: TracePurpose,
    listener: &'a mut dyn Listener,
}

impl Watched<'_> {
    /// Finishes the trace, unless that was done.
    fn finish(&mut self, ended: Ended, exit: Option<Exit>, took: Nanos) {
        let Some(recorder) = self.recorder.take() else { return };
        let mut remains = recorder.finish();
        remains.notes.extend(unknown(ended).map(str::to_owned));
        remains.notes.append(&mut self.notes);
        let mut header = self.header.clone();
        header.recorder.events = remains.writer.events();
        header.recorder.lost = remains.lost;
        header.recorder.notes.clone_from(&remains.notes);
        let Remains { writer, lost, notes, problem, striped } = remains;
        let ending = Ending { ended: Some(ended), exit, took: Some(took), lost, notes };
        self.finished = Some(match writer.finish(ending, &mut Asker { striped, purpose: self.purpose }) {
            Ok(header) => (header, problem),
            Err(error) => (header, Some(problem.unwrap_or(error))),
        });
        self.listener.finished(self.finished.as_ref().and_then(|(_, problem)| problem.as_ref()));
    }
}

impl Observer for Watched<'_> {
    fn observe(&mut self, observation: Observation<'_>) {
        match observation {
            // The command runs on meanwhile.
            Observation::LeftAlone { at, ended, exit } => self.finish(ended, exit, at),
            Observation::Waiting { processes } => {
                let leftover = |&process: &Pid| Leftover { process, name: facts::name(process) };
                self.listener.waits(&processes.iter().map(leftover).collect::<Vec<_>>());
            }
            observation => {
                if let Some(recorder) = &mut self.recorder {
                    recorder.observe(observation);
                }
            }
        }
    }
}

/// The sentence on what a trace does not hold because of its end.
fn unknown(ended: Ended) -> Option<&'static str> {
    match ended {
        Ended::Exit => None,
        Ended::Started => Some("only the start was recorded: what the processes did later is unknown"),
        Ended::Limit => Some(
            "the recording was cut short before the start was over: what the processes did later is unknown",
        ),
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
        filter: (request.scope == Scope::Run).then(filter::native),
    })
}

fn c_string(text: &OsStr) -> Result<CString, RecordError> {
    CString::new(text.as_bytes())
        .map_err(|error| RecordError::ZeroByte { text: OsString::from_vec(error.into_vec()) })
}
