//! Commands of quell inside each other: `quell record -- quell run` and `quell run -- quell record`.

use crate::failure::{Failure, OURS};
use crate::flags::{self, Run};
use crate::settings;
use std::ffi::OsString;
use std::path::Path;

/// The inner command line of `quell record -- quell run IMG -- CMD`, which records the program, not quell.
pub(crate) fn wrapped_run(command: &[OsString]) -> Option<Run> {
    let program = Path::new(command.first()?).file_name()?;
    if program != "quell" {
        return None;
    }
    match settings::parse(command).ok()?.arguments.command {
        flags::Command::Run(inner)
            if !inner.disable
                && !inner.command.is_empty()
                && !inner.auto.auto
                && inner.local.scratch.is_empty()
                && inner.buffers.buffer.is_empty()
                && inner.gathering.gather.is_empty() =>
        {
            Some(inner)
        }
        _ => None,
    }
}

/// A recorder of quell traces this process. It would wait for answers of a server that it has stopped.
pub(super) fn is_recorded() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap_or("0").trim();
    tracer != "0"
        && std::fs::read_to_string(format!("/proc/{tracer}/comm")).is_ok_and(|name| name.trim() == "quell")
}

/// Refuses a flag that would start a server inside of a recording.
pub(super) fn refuse_in_a_recording(flag: &str) -> Result<(), Failure> {
    if !is_recorded() {
        return Ok(());
    }
    let failure = Failure::message(format!(
        "`quell run {flag}` cannot start inside a recording: its server would be recorded too"
    ));
    Err(failure.hint(format!("quell run {flag} DIR -- quell record -o T -- CMD")).status(OURS))
}
