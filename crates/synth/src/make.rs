//! Makes the trace of a shape, and its files.

use super::error::{MOST_BYTES, MOST_CALLS, SynthError};
use super::request::{Stop, SynthRequest};
use super::script::Script;
use super::tree;

/// The sizes of a trace and its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynthMade {
    /// Calls in the trace.
    pub calls: u64,
    /// Files of the shape.
    pub files: u64,
    /// Their content. Unit: bytes.
    pub bytes: u64,
}

/// Makes the trace, and the files before it if they are wanted. `stop` is asked often.
///
/// # Errors
/// See [`SynthError`]; nothing is left behind then.
pub fn make(request: &SynthRequest, stop: Stop<'_>) -> Result<SynthMade, SynthError> {
    let calls = request.shape.calls();
    if calls > MOST_CALLS {
        return Err(SynthError::TooLarge { calls });
    }
    let mut script = Script::new(&request.root);
    request.shape.play(&mut script);
    let (files, bytes) = script.size();
    if bytes > MOST_BYTES {
        return Err(SynthError::TooManyBytes { bytes });
    }
    let write = |directory| tree::write(directory, script.files(), stop);
    let tree = request.tree.as_deref().map(write).transpose()?;
    let written = script.write(request, stop);
    if let (Err(_), Some(tree)) = (&written, &tree) {
        tree.undo();
    }
    Ok(SynthMade { calls: written?, files, bytes })
}
