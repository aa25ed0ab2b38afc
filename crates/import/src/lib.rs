//! Imports logs that `strace -f -o LOG`, with almost any further option, wrote.
//!
//! ```text
//! source (files) -> lines -> assemble (prefix, line) -> survey: is it a log, who made whom
//!                      `---> merge -> assemble -----> replay (scan, value, call, clock) -> Writer -> NAME.qtrace
//! ```
//!
//! A log is read twice, a line at a time. Information missing from the log stays unknown, and the trace's notes say so:
//! mounts and symbolic links always, times and the working directory often. A file that `-y` printed behind a
//! descriptor is taken as it is; elsewhere descriptors and directories are replayed as for a recording. The file
//! systems of this node are not consulted, unless the caller's [`Finish`] does so.

mod assemble;
mod call;
mod clock;
mod line;
mod lines;
mod merge;
mod number;
mod others;
mod packing;
mod prefix;
mod remarks;
mod replay;
mod scan;
mod sink;
mod source;
mod survey;
mod symbols;
mod value;

pub use others::OtherTool;
pub use sink::LogSink;
pub use source::{ImportError, LogFile, LogSource, LogText};

use quell_base::escape;
use quell_trace::context::NamespaceChange;
use quell_trace::writer::{Ending, Finish};
use quell_trace::{Header, Mount, Nanos, ProcessId, Writer};
use replay::{Begin, Replayed, replay};
use std::path::PathBuf;
use survey::Survey;

/// The name of the engine in the header of an imported log.
pub const ENGINE: &str = "strace";

/// The logs to import, the trace to write, and facts that the log lacks.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// One log, or the files of one `strace -ff`; `-` is standard input.
    pub logs: Vec<PathBuf>,
    /// The directory for copies of logs that come through pipes.
    pub temporary: PathBuf,
    /// The trace to write. It must not exist; its parent must.
    pub directory: PathBuf,
    /// The directory in which the command was started, for relative paths, when the log does not contain it.
    pub working_directory: Option<Vec<u8>>,
    /// The command's mounts. Shape: in the order of mountinfo, all of one namespace; empty when they are unknown.
    pub mounts: Vec<Mount>,
    /// The version of quell.
    pub version: String,
}

/// The result of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The header as written.
    pub header: Header,
    /// The number of processes.
    pub processes: u64,
    /// A sentence on processes that the logs lack, if they do.
    pub lacking: Option<String>,
}

/// Writes a trace of logs.
///
/// # Errors
/// [`ImportError`]; no trace is left behind.
pub fn strace(request: &ImportRequest, ask: &mut dyn Finish) -> Result<Imported, ImportError> {
    if request.directory.exists() {
        return Err(quell_trace::TraceError::Exists { path: request.directory.clone() }.into());
    }
    let sources = request.logs.iter().map(|log| LogFile::of(log, &request.temporary));
    let sources: Vec<LogFile> = sources.collect::<Result<_, _>>()?;
    let survey = Survey::of(&sources)?;
    let writer = Writer::create(&request.directory, header(request, &survey))?;
    write(writer, &sources, survey, request, ask)
        // The directory is new. If it cannot be removed, it reads as a partial trace.
        .inspect_err(|_| _ = std::fs::remove_dir_all(&request.directory))
}

/// Reads logs into a sink. The caller provides the header and the paths of mounts.
///
/// # Errors
/// [`ImportError`]; the calls passed to the sink before it are valid.
pub fn read<S: LogSource>(sources: &[S], sink: &mut dyn LogSink) -> Result<(), ImportError> {
    let survey = Survey::of(sources)?;
    replay(sources, survey, Begin { has_directory: false, has_mounts: false }, sink).map(drop)
}

fn write(
    mut writer: Writer,
    sources: &[LogFile],
    survey: Survey,
    request: &ImportRequest,
    ask: &mut dyn Finish,
) -> Result<Imported, ImportError> {
    let directory = directory(request, &survey);
    if let Some(directory) = &directory {
        let path = writer.path(directory)?;
        writer.working_directory(path)?;
    }
    if let Some(namespace) = request.mounts.first().map(|mount| mount.namespace) {
        writer.mounts(request.mounts.clone())?;
        writer.namespace(NamespaceChange { process: ProcessId(0), at: Nanos(0), namespace })?;
    }
    let begin = Begin { has_directory: directory.is_some(), has_mounts: !request.mounts.is_empty() };
    let lacking = survey.lacking().map(|lacking| lacking.to_string());
    let Replayed { processes, exit, took, lost, notes } = replay(sources, survey, begin, &mut writer)?;
    let header =
        writer.finish(Ending { ended: None, exit, took, lost, notes, client_counters: None }, ask)?;
    Ok(Imported { header, processes, lacking })
}

/// The working directory of the command: from the log, else from the user.
fn directory(request: &ImportRequest, survey: &Survey) -> Option<Vec<u8>> {
    let shown = survey.logs.get(survey.first_log()).and_then(|facts| facts.directory.clone());
    shown.or_else(|| request.working_directory.clone())
}

fn header(request: &ImportRequest, survey: &Survey) -> Header {
    let command = survey.logs.get(survey.first_log()).map(|facts| facts.command.clone());
    Header {
        working_directory: directory(request, survey).map_or(String::new(), |directory| escape(&directory)),
        began: survey.began.map_or(0.0, Nanos::as_seconds),
        user: UNKNOWN_USER,
        ..Header::begun(ENGINE, &request.version, command.unwrap_or_default())
    }
}

/// The user number for an unknown user, because a log does not contain it. Source: `(uid_t)-1` of `setresuid(2)`. Part
/// of the format.
const UNKNOWN_USER: u32 = u32::MAX;
