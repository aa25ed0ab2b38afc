//! The packer: from recordings and the originals they looked at to an image.
//!
//! ```text
//! events -> observe -> tree of paths -> roots -> gather (reads the originals) -> tree -> write
//!                            '-> outside: operations that stay with the originals
//! ```
//!
//! The trace decides which paths are packed, the originals their present content: bytecode that a first run wrote is packed
//! in its final state.

mod added;
mod agreement;
mod blank;
mod changes;
mod error;
mod extents;
mod gather;
mod hold;
mod job;
mod learned;
mod observe;
mod options;
mod outcome;
mod outside;
mod path_tree;
mod public;
mod refresh;
mod requests;
mod roots;
mod secrets;

use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use quell_image::ImageTree;
use quell_trace::Trace;

use crate::job::PackJob;
use crate::roots::{RootChoice, RootScope};

pub use crate::agreement::{Agreement, Disagreement};
pub use crate::blank::pack_blank;
pub use crate::changes::{Alteration, Altered, NAMED};
pub use crate::error::{NothingToPack, PackError};
pub use crate::extents::{ExtentTracker, UsedExtent};
pub use crate::options::{Hold, PackOptions, RootsBy};
pub use crate::outcome::{ChosenDirectory, LeftOutPath, PackProgress, Packed};
pub use crate::outside::OutsideOperations;
pub use crate::refresh::{RefreshOptions, Refreshed, refresh};
pub use crate::secrets::looks_like_secret;

/// Packs what `trace` looked at into an image at `target`.
///
/// **Errors** see [`PackError`]; whatever it is, `target` is as it was.
pub fn pack(
    trace: &Trace,
    target: &Path,
    options: &PackOptions,
    progress: &mut dyn FnMut(PackProgress),
) -> Result<Packed, PackError> {
    let mut recorded = observe::observe(trace)?;
    let given = options.roots.iter().map(|path| absolute(path)).collect::<Result<Vec<_>, _>>()?;
    let scope = match given.is_empty() {
        true => RootScope::Network,
        false => RootScope::Given(&given, options.roots_by),
    };
    let command = trace.recordings.first().map(|first| first.header.command.clone()).unwrap_or_default();
    let command = command.into_iter().map(String::into_bytes).collect();
    let directory = trace.recordings.first().map(|first| first.header.working_directory.clone());
    // The trace escapes a path that is not text, and no path can be made of that again.
    let directory = directory.filter(|directory| !directory.contains('\\')).unwrap_or_default();
    let added = added::mark(&mut recorded, &options.added)?;
    let job = PackJob {
        scope,
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
    let packed = job.run(recorded, &mut compare, progress)?;
    Ok(Packed { agreement, ..packed })
}

/// A given root as an absolute path without links, as paths are in a trace.
fn absolute(path: &Path) -> Result<Vec<u8>, PackError> {
    match path.canonicalize() {
        Ok(path) => Ok(path.into_os_string().into_vec()),
        Err(source) => Err(PackError::Root { path: path.to_path_buf(), source }),
    }
}
