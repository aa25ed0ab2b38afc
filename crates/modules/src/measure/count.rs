//! Runs of the tool: recorded ones for the calls, plain ones for the CPU time and the answer.

use super::measurement::MeasureRequest;
use super::setup::Setup;
use crate::ModulesError;
use crate::tools::{self, ToolAnswer, User};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quell_trace::context::ServedBy;
use quell_trace::{Event, Recording, TraceError};
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Calls of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeCalls {
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// Calls on each modulepath that its file system had to answer.
    pub(super) on_each_tree: Vec<u64>,
}

/// Makes a directory in which `user` may write, within a directory of this process. From then on only that user reads it:
/// its entries may lead anywhere.
pub(super) fn open_directory(directory: &Path, user: &User) -> Result<(), ModulesError> {
    let make = || {
        fs::create_dir(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
        match &user.credentials {
            Some(credentials) => lchown(directory, Some(credentials.user), Some(credentials.group)),
            None => Ok(()),
        }
    };
    make().map_err(ModulesError::write(directory))
}

/// Records a run and counts its calls.
pub(super) fn record(
    request: &MeasureRequest,
    setup: &Setup,
    question: &[OsString],
    trace: &Path,
) -> Result<TreeCalls, ModulesError> {
    let mut command = Command::new(&request.quell);
    command.args(["record", "--quiet", "-o"]).arg(trace).arg("--").args(setup.words(question));
    command.env_clear().envs(setup.tool.variables(&setup.environment));
    let shown = crate::verify::shown(question);
    let failed = |why: String| ModulesError::Recorder { command: shown.clone(), why };
    let answer = tools::run_over(command, &request.user, &setup.environment.over, tools::PATIENCE)
        .map_err(|error| failed(error.to_string()))?;
    let counted = request.user.act(|| match trace.join("header.json").is_file() {
        true => Ok(Some(count(trace, &setup.trees).map_err(|error| error.to_string()))),
        false => Ok(None),
    });
    match counted.map_err(|error| failed(error.to_string()))? {
        Some(counted) => counted.map_err(failed),
        None => Err(failed(String::from_utf8_lossy(&answer.stderr).trim().replace('\n', "; "))),
    }
}

fn count(trace: &Path, trees: &[Vec<PathBuf>]) -> Result<TreeCalls, TraceError> {
    let recording = Recording::open(trace)?;
    let mut counts = TreeCalls { on_each_tree: vec![0; trees.len()], ..TreeCalls::default() };
    let is_below = |path: &[u8], tree: &PathBuf| {
        path.strip_prefix(tree.as_os_str().as_bytes())
            .is_some_and(|rest| matches!(rest.first(), None | Some(b'/')))
    };
    recording.for_each_event(|event: &Event| {
        counts.calls += 1;
        counts.errors += u64::from(event.outcome.errno().is_some());
        let mount = event.file_system.and_then(|mount| recording.context.mounts.get(usize::from(mount.0)));
        if mount.is_some_and(|mount| mount.served_by() == ServedBy::Quell) {
            return;
        }
        let Some(path) = event.target.or(event.path).map(|path| recording.paths.bytes(path)) else { return };
        let at = trees.iter().position(|tree| tree.iter().any(|tree| is_below(path, tree)));
        if let Some(at) = at {
            counts.on_each_tree[at] += 1;
        }
    })?;
    Ok(counts)
}

/// Runs the tool as a user does.
pub(super) fn run(
    request: &MeasureRequest,
    setup: &Setup,
    question: &[OsString],
) -> Result<ToolAnswer, ModulesError> {
    let words = setup.words(question);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env_clear().envs(setup.tool.variables(&setup.environment));
    tools::run_over(command, &request.user, &setup.environment.over, tools::PATIENCE)
        .map_err(tools::not_run(&setup.tool, &request.user))
}

/// The median CPU time, user and system, of runs without the recorder.
pub(super) fn cpu(
    request: &MeasureRequest,
    setup: &Setup,
    question: &[OsString],
) -> Result<Duration, ModulesError> {
    let mut times = Vec::new();
    for _ in 0..request.runs.max(1) {
        let before = of_children();
        run(request, setup, question)?;
        times.push(of_children().saturating_sub(before));
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// The CPU time of children that have ended.
fn of_children() -> Duration {
    // It fails only for an argument that the kernel does not know.
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return Duration::ZERO };
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Duration::from_micros(micros.max(0) as u64)
}
