//! Writing a selection as a squashfs file system: `mksquashfs` (4.5 or later) reads our tar archive from a pipe.
//!
//! squashfs-tools is what Apptainer itself needs, so a site that binds images has it; a writer of our own would have to
//! be as good. Nothing is extracted on the way, and owners are kept without root.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::export::error::ExportError;
use crate::export::select::ExportSelection;
use crate::export::tar;
use crate::write::output::ImageOutput;
use crate::write::{Audience, WriteError};

/// Options that make the same bytes of the same archive, in a form that every kernel in use reads.
const OPTIONS: [&str; 12] = [
    "-tar",
    "-noappend",
    "-no-progress",
    "-quiet",
    "-comp",
    "gzip",
    "-root-mode",
    "755",
    "-root-uid",
    "0",
    "-root-gid",
    "0",
];

/// Writes the file system to `target`, which appears when it is complete and durable. Returns its length.
///
/// `tool` is the program `mksquashfs`, looked for in PATH if it has no slash.
pub fn write(
    selection: &ExportSelection<'_>,
    target: &Path,
    audience: Audience,
    tool: &Path,
) -> Result<u64, ExportError> {
    // Made beforehand, because the tool would make it readable for every user, and find it by a name.
    let output = ImageOutput::create(target, audience, 0)?;
    let needed = tar::length(selection);
    let mut child = start(tool, &output.path_for_others(), newest(selection))?;
    let streamed = feed(selection, &mut child, target, needed);
    let said = finish(child);
    match (said, streamed) {
        (Ok(()), streamed) => streamed?,
        // The original that changed, not that the archive then ended too early.
        (Err(_), Err(error @ (WriteError::Changed { .. } | WriteError::Source { .. }))) => {
            return Err(error.into());
        }
        (Err(said), _) if said.contains("No space left") => {
            let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
            return Err(WriteError::NoSpace { path: target.to_path_buf(), needed, source: full }.into());
        }
        (Err(said), _) => return Err(ExportError::ToolFailed { tool: tool.to_path_buf(), said }),
    }
    let bytes = output
        .file()
        .metadata()
        .map_err(|source| WriteError::of_output("write", target, needed, source))?
        .len();
    output.publish()?;
    Ok(bytes)
}

/// The latest time that anything was modified at. Unit: seconds. The root has no entry in the archive, and 4.5.1 gives it the
/// moment whatever it is told; but no time later than this.
fn newest(selection: &ExportSelection<'_>) -> u32 {
    let times = selection.members.iter().map(|member| member.attributes.mtime.seconds);
    u32::try_from(times.max().unwrap_or_default().max(0)).unwrap_or(u32::MAX)
}

fn start(tool: &Path, output: &Path, newest: u32) -> Result<Child, ExportError> {
    let mut command = Command::new(tool);
    command.arg("-").arg(output).args(OPTIONS).env("SOURCE_DATE_EPOCH", newest.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    command.spawn().map_err(|source| ExportError::ToolMissing { tool: tool.to_path_buf(), source })
}

/// Writes the archive into the pipe and closes it.
fn feed(
    selection: &ExportSelection<'_>,
    child: &mut Child,
    target: &Path,
    needed: u64,
) -> Result<(), WriteError> {
    let Some(mut pipe) = child.stdin.take() else { return Ok(()) };
    let mut sink = |bytes: &[u8]| {
        pipe.write_all(bytes).map_err(|source| WriteError::of_output("write", target, needed, source))
    };
    let streamed = tar::stream(selection, &mut sink);
    if streamed.is_err() {
        // An archive that ends in the middle would be taken for a whole one.
        let _ended_already = child.kill();
    }
    streamed
}

/// Waits for the tool. **Errors** the last line that it said, when it failed.
fn finish(mut child: Child) -> Result<(), String> {
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // It says a few lines at most; what cannot be read is not worth a failure.
        let _partial = stderr.take(SAID_MAX).read_to_end(&mut said);
    }
    match child.wait() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let said = String::from_utf8_lossy(&said);
            let fatal = said.lines().find(|line| line.contains("rror") || line.contains("failed"));
            let line = fatal.or(said.lines().rfind(|line| !line.trim().is_empty()));
            Err(line.map_or(status.to_string(), |line| line.trim().to_owned()))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Bytes of what the tool says that are looked at.
const SAID_MAX: u64 = 64 << 10;
