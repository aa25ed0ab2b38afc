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
mod elsewhere;
pub mod engine;
mod error;
mod facts;
mod filter;
mod finish;
pub mod node;
mod pages;
mod pids;
mod ptrace;
mod python;
mod recorder;
mod started;
mod sys;
mod terminal;
mod through;
mod watch;
mod watched;

pub use command::find;
pub use engine::{Engine, Observation, Observer};
pub use error::{GaveWay, HinderedCall, JoinBarrier, RecordError, TraceBarrier};
pub use finish::TracePurpose;
pub use ptrace::RecordedScope;
pub use ptrace::joining::JoinedScope;
pub use started::{LeftoverPolicy, StartLimits};
pub use through::roots::default_roots;
pub use watch::{Watch, WatchScope};
pub use watched::{OperationCounts, WatchedDirectory, WatchedInterval, WatchedProcess};

use engine::EngineView;
use finish::LinkAsker;
use libc::SIGXFSZ;
use ptrace::Ptrace;
use ptrace::forward::Forwarding;
use python::{ImportHook, ImportWatch};
use quell_counters::{ClientCounters, NodeCounters};
use quell_trace::writer::Ending;
use quell_trace::{Ended, Exit, Header, Nanos, Pid, TraceError, Writer};
use recorder::{Recorder, RecorderRemains};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Instant;
use sys::signals::{Disposition, Mask};
use sys::spawn::SpawnProgram;
use through::MountEngine;

/// The command to record and the place of its trace.
#[derive(Clone, Debug)]
pub struct RecordRequest {
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
    pub scope: RecordedScope,
    /// The use of the trace.
    pub purpose: TracePurpose,
    /// The reports of Python programs.
    pub python: PythonHook,
}

/// Facts that Python programs tell the recorder beside their calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PythonHook {
    /// Nothing: they run as they are.
    #[default]
    None,
    /// Each import, by a module that `PYTHONPATH` makes them load at their start.
    Imports,
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
    pub barrier: Option<TraceBarrier>,
    /// The call for which the recording ended.
    pub gave_way: Option<GaveWay>,
}

/// Runs a command until it and all its descendants have ended, and writes a trace of their calls. With [`RecordedScope::Start`]
/// the trace is complete when the start is over, and then the command's end is awaited alone.
///
/// The command uses the standard streams, working directory, signals and terminal of this process. Signals that would
/// end this process are forwarded to the command.
///
/// # Errors
/// [`RecordError`]; the command has not run, and no trace is left behind.
pub fn record(request: &RecordRequest, listener: &mut dyn Listener) -> Result<Recorded, RecordError> {
    let hook = match request.python {
        PythonHook::None => None,
        PythonHook::Imports => Some(ImportHook::create().map_err(RecordError::Hook)?),
    };
    let program = program(request, hook.as_ref())?;
    let watch = hook.as_ref().map(ImportHook::watch);
    let traced = match request.engine {
        EngineChoice::Mount => return record_through(request, program, watch, listener),
        EngineChoice::Auto | EngineChoice::Ptrace => Ptrace::attach(&program, request.scope)
            .and_then(|engine| record_by(engine, request, watch, listener)),
    };
    match traced {
        // Inside of another recording the outer one is what the user wants.
        Err(RecordError::Barred { barrier, source })
            if request.engine == EngineChoice::Auto && !matches!(barrier, TraceBarrier::Recorded { .. }) =>
        {
            match record_through(request, program, hook.as_ref().map(ImportHook::watch), listener) {
                // Both are barred: the first is what recording needs.
                Err(RecordError::Unmountable { .. }) => Err(RecordError::Barred { barrier, source }),
                recorded => recorded.map(|recorded| Recorded { barrier: Some(barrier), ..recorded }),
            }
        }
        traced => traced,
    }
}

/// The processes to record that run already, and the place of their trace.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// The processes.
    pub scope: JoinedScope,
    /// The trace to write. It must not exist; its parent must.
    pub directory: PathBuf,
    /// Facts that are known beforehand, as in [`RecordRequest`].
    pub header: Header,
}

/// The result of recording processes that ran already.
#[derive(Debug)]
pub struct Joined {
    /// The trace's header as written.
    pub header: Header,
    /// The error that left the trace incomplete, if any.
    pub problem: Option<TraceError>,
    /// The call for which the recording ended.
    pub gave_way: Option<GaveWay>,
}

/// Records processes that run already, until they have ended, the time is over, or a signal asks this process to end. They run on,
/// also when this process is killed.
///
/// # Errors
/// [`RecordError`]; the processes run on, and no trace is left behind.
pub fn join(request: &JoinRequest) -> Result<Joined, RecordError> {
    let _no_signal = Disposition::ignored(SIGXFSZ);
    let header = Header { attached: true, ..request.header.clone() };
    let writer = Writer::create(&request.directory, header.clone())?;
    let recorder = Some(Recorder::new(writer, header.user, EngineView::OfProcess, None));
    let (listener, purpose) = (&mut (), TracePurpose::Any);
    let (finished, notes, gave_way) = (None, Vec::new(), None);
    let counted = CountedRun::begin(&header, purpose);
    let mut watched = Watched { recorder, finished, header, notes, purpose, listener, gave_way, counted };
    let began = Instant::now();
    let exit =
        ptrace::join::run(&request.scope, began, &mut watched).inspect_err(|_| remove(&request.directory))?;
    let took = Nanos(began.elapsed().as_nanos() as u64);
    watched.finish(Ended::Exit, exit, took);
    let (header, problem) = watched.finished.unwrap_or((watched.header, None));
    Ok(Joined { header, problem, gave_way: watched.gave_way })
}

/// Continues in a child, which outlives this process when that is killed: it can then still let the processes go that it
/// records, between two calls. Returns the child's end in this process, and `None` in the child. This process must have one thread.
///
/// # Errors
/// [`RecordError::Start`] where there is no room for another process.
pub fn guard() -> Result<Option<Exit>, RecordError> {
    let start = |source| RecordError::Start { action: "create a process for the recorder", source };
    // A signal that comes before the parent can forward it waits.
    let mask = Mask::block_all();
    let child = sys::spawn::continue_in_child().inspect_err(|_| mask.restore()).map_err(start)?;
    let Some(child) = child else {
        mask.restore();
        return Ok(None);
    };
    let forwarding = Forwarding::begin(child, mask).map_err(start)?;
    forwarding.await_end(child).map(Some).map_err(start)
}

/// The processes of these numbers, each once.
///
/// # Errors
/// [`RecordError::NoProcess`], and [`RecordError::Unjoinable`] for those that cannot be recorded as far as is known.
pub fn joinable(numbers: &[Pid]) -> Result<Vec<Pid>, RecordError> {
    ptrace::join::processes(numbers)
}

/// The command of a process, its working directory, and its name as `ps` shows it, escaped.
pub fn command_of(process: Pid) -> (Vec<OsString>, Option<PathBuf>, String) {
    let thread = facts::living_thread(process).unwrap_or(process);
    let directory = facts::link(thread, "cwd").map(|path| OsString::from_vec(path).into());
    (facts::command(thread), directory, facts::name(process))
}

/// Records through a mount: the whole run, since nothing can be taken away from under a running command.
fn record_through(
    request: &RecordRequest,
    program: SpawnProgram,
    imports: Option<ImportWatch>,
    listener: &mut dyn Listener,
) -> Result<Recorded, RecordError> {
    let roots =
        if request.roots.is_empty() { default_roots() } else { through::roots::given(&request.roots)? };
    let program = SpawnProgram { filter: None, ..program };
    record_by(MountEngine::attach(&program, roots)?, request, imports, listener)
}

/// Records with an engine whose command waits.
fn record_by(
    engine: impl Engine,
    request: &RecordRequest,
    imports: Option<ImportWatch>,
    listener: &mut dyn Listener,
) -> Result<Recorded, RecordError> {
    // The command's process exists already, so this affects the recorder alone: exceeding a file-size limit becomes an
    // error like a full disk instead of ending the recorder.
    let _no_signal = Disposition::ignored(SIGXFSZ);
    let mut header = request.header.clone();
    engine.name().clone_into(&mut header.recorder.engine);
    let writer = Writer::create(&request.directory, header.clone())?;
    let (view, notes) = (engine.view(), engine.notes());
    let recorder = Some(Recorder::new(writer, header.user, view, imports));
    let (finished, purpose, gave_way) = (None, request.purpose, None);
    let counted = CountedRun::begin(&header, purpose);
    let mut watched = Watched { recorder, finished, header, notes, purpose, listener, gave_way, counted };
    let began = Instant::now();
    let exit = engine.run(&mut watched).inspect_err(|_| remove(&request.directory))?;
    let took = Nanos(began.elapsed().as_nanos() as u64);
    watched.finish(Ended::Exit, Some(exit), took);
    let (header, problem) = watched.finished.unwrap_or((watched.header, None));
    Ok(Recorded { exit, header, problem, barrier: None, gave_way: watched.gave_way })
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
    gave_way: Option<GaveWay>,
    counted: Option<CountedRun>,
}

/// The counters of this node's clients before the command.
struct CountedRun {
    node: NodeCounters,
    before: quell_counters::Reading,
}

impl CountedRun {
    /// `None` for ranks other than the first, and for a recording without a reader.
    fn begin(header: &Header, purpose: TracePurpose) -> Option<Self> {
        let is_first = header.rank.is_none_or(|rank| rank.0 == 0);
        let node = (is_first && purpose == TracePurpose::Any).then(NodeCounters::find)?;
        let before = node.read();
        (!node.is_empty()).then_some(Self { node, before })
    }

    fn end(&self) -> ClientCounters {
        ClientCounters::between(&self.before, &self.node.read())
    }
}

impl Watched<'_> {
    /// Finishes the trace, unless that was done.
    fn finish(&mut self, ended: Ended, exit: Option<Exit>, took: Nanos) {
        let Some(recorder) = self.recorder.take() else { return };
        // Before the recorder asks the file systems itself.
        let client_counters = self.counted.take().map(|counted| counted.end());
        let mut remains = recorder.finish();
        remains.notes.extend(unknown(ended, self.header.attached).map(str::to_owned));
        remains.notes.append(&mut self.notes);
        let mut header = self.header.clone();
        header.recorder.events = remains.writer.events();
        header.recorder.lost = remains.lost;
        header.recorder.notes.clone_from(&remains.notes);
        let RecorderRemains { writer, lost, notes, problem, striped } = remains;
        let ending = Ending { ended: Some(ended), exit, took: Some(took), lost, notes, client_counters };
        self.finished =
            Some(match writer.finish(ending, &mut LinkAsker { striped, purpose: self.purpose }) {
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
                if let Observation::GaveWay(gave_way) = observation {
                    self.gave_way = Some(gave_way);
                }
                if let Some(recorder) = &mut self.recorder {
                    recorder.observe(observation);
                }
            }
        }
    }
}

/// The sentence on what a trace does not hold because of its end.
fn unknown(ended: Ended, attached: bool) -> Option<&'static str> {
    match ended {
        Ended::Exit => None,
        Ended::Limit if attached => Some("the processes ran on: what they did later is unknown"),
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

fn program(request: &RecordRequest, hook: Option<&ImportHook>) -> Result<SpawnProgram, RecordError> {
    let name = request.command.first().cloned().unwrap_or_default();
    let path =
        request.environment.iter().find(|(name, _)| name == "PATH").map(|(_, value)| value.as_os_str());
    let file = command::find(&name, path)?;
    let mut environment = request.environment.clone();
    if let Some(hook) = hook {
        hook.add_to(&mut environment);
    }
    let variable = |(name, value): &(OsString, OsString)| {
        let mut text = name.clone();
        text.push("=");
        text.push(value);
        c_string(&text)
    };
    Ok(SpawnProgram {
        file: c_string(file.as_os_str())?,
        arguments: request.command.iter().map(|argument| c_string(argument)).collect::<Result<_, _>>()?,
        environment: environment.iter().map(variable).collect::<Result<_, _>>()?,
        filter: (request.scope == RecordedScope::Run).then(filter::native),
    })
}

fn c_string(text: &OsStr) -> Result<CString, RecordError> {
    CString::new(text.as_bytes())
        .map_err(|error| RecordError::ZeroByte { text: OsString::from_vec(error.into_vec()) })
}
