//! The packer: from recordings and the originals they looked at to an image.
//!
//! ```text
//! events -> observe -> forest of paths -> roots -> gather (reads the originals) -> tree -> write
//!                            '-> outside: what stays with the original
//! ```
//!
//! The trace decides what is looked at, the originals as they are now decide what is packed: bytecode that a
//! first run wrote is there in its final state.

#![forbid(unsafe_code)]

mod added;
mod agreement;
mod changes;
mod error;
mod extents;
mod gather;
mod job;
mod learned;
mod observe;
mod options;
mod outcome;
mod outside;
mod path_tree;
mod polling;
mod refresh;
mod requests;
mod roots;
mod secrets;

use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use quell_image::ImageTree;
use quell_trace::Trace;

use crate::job::{PackJob, keep_directory_of};
use crate::roots::{RootChoice, RootScope};

pub use crate::agreement::{Agreement, Disagreement};
pub use crate::changes::{Alteration, Altered, NAMED};
pub use crate::error::{NothingToPack, PackError};
pub use crate::options::{Hold, PackOptions};
pub use crate::outcome::{ChosenDirectory, LeftOutPath, PackProgress, Packed};
pub use crate::outside::OutsideOperations;
pub use crate::refresh::{RefreshOptions, Refreshed, refresh};

/// Packs what `trace` looked at into an image at `target`.
///
/// **Errors** see [`PackError`]; whatever it is, `target` is as it was.
pub fn pack(
    trace: &Trace,
    target: &Path,
    options: &PackOptions,
    progress: &mut dyn FnMut(PackProgress),
) -> Result<Packed, PackError> {
    let mut forest = observe::observe(trace)?;
    for recording in &trace.recordings {
        keep_directory_of(&mut forest, &recording.directory, "a recording is kept in it");
    }
    let given = options.roots.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
    let within = if given.is_empty() { RootScope::Network } else { RootScope::Given(&given) };
    let command = trace.recordings.first().map(|first| first.header.command.clone()).unwrap_or_default();
    let command = command.into_iter().map(String::into_bytes).collect();
    let directory = trace.recordings.first().map(|first| first.header.working_directory.clone());
    // Escaped where it is not text: such a directory is not remembered.
    let directory = directory.filter(|directory| !directory.contains('\\')).unwrap_or_default();
    let added = added::mark(&mut forest, &options.added)?;
    let job = PackJob {
        within,
        command,
        directory: directory.into_bytes(),
        beyond: options.beyond,
        added,
        target,
        audience: options.audience,
        form: options.form,
        hold: options.hold,
    };
    let mut agreement = None;
    let mut compare = |choices: &[RootChoice], tree: &ImageTree| {
        agreement = agreement::compare(trace, choices, tree)?;
        Ok(())
    };
    let packed = job.run(forest, &mut compare, progress)?;
    Ok(Packed { agreement, ..packed })
}

/// A given root as an absolute path without links, as the trace has paths.
fn absolute(path: &Path) -> Result<Vec<u8>, PackError> {
    match path.canonicalize() {
        Ok(path) => Ok(path.into_os_string().into_vec()),
        Err(source) => Err(PackError::Root { path: path.to_path_buf(), source }),
    }
}
