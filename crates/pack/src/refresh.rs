//! Packs again without a recording: the image has the requested paths, the originals have the present content.
//!
//! Roots, directories that stay the original, and everything asked for below are taken from `/.quell/asked`; then all
//! goes the way of [`pack`](crate::pack). So a refreshed image equals, byte for byte, the one that its recordings would
//! give on the same day, except for roots: a directory beside the old roots that was missing when it was recorded becomes
//! none.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use quell_image::learned::Learned;
use quell_image::write::{Audience, ImageForm};
use quell_image::{Image, ImageTree};

use crate::changes::{Altered, changes};
use crate::error::PackError;
use crate::job::{PackJob, is_directory};
use crate::learned;
use crate::options::RootsBy;
use crate::outcome::{PackProgress, Packed};
use crate::requests::RecordedRequests;
use crate::roots::{RootChoice, RootScope};

/// A refreshed image, with its differences from the old one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refreshed {
    /// The image.
    pub packed: Packed,
    /// Differences from the old image. Shape: sorted.
    pub altered: Vec<Altered>,
    /// Paths that were learned, below the roots.
    pub learned: u64,
}

/// Options of a refresh.
#[derive(Debug, Clone, Default)]
pub struct RefreshOptions {
    /// The audience, if it is not that of the old image.
    pub audience: Option<Audience>,
    /// The form, which an image does not tell.
    pub form: ImageForm,
    /// Requests of runs (`run --learn`), taken in as if they had been recorded.
    pub learned: Vec<Learned>,
}

/// Makes `image` anew, at `target`, from the originals as they are now.
///
/// **Errors** see [`PackError`]; whatever it is, `target` is as it was. [`PackError::RootGone`] when a whole root is
/// missing, which is more often a file system that is not mounted than one that was given up.
pub fn refresh<B: AsRef<[u8]>>(
    image: &Image<B>,
    target: &Path,
    options: &RefreshOptions,
    progress: &mut dyn FnMut(PackProgress),
) -> Result<Refreshed, PackError> {
    let mut asked = image.requests().and_then(RecordedRequests::decode).ok_or(PackError::NoRequests)?;
    if let Some((path, _)) = asked.roots.iter().find(|(path, _)| !is_directory(path)) {
        return Err(PackError::RootGone { path: Path::new(OsStr::from_bytes(path)).into() });
    }
    let learned = learned::take(&mut asked.recorded, &asked.roots, &options.learned);
    let command = image.index().command().map(<[u8]>::to_vec).collect();
    let roots_by = RootsBy::of_reasons(image.index().roots().map(|root| root.reason));
    let job = PackJob {
        scope: RootScope::Again(&asked.roots, roots_by),
        command,
        directory: image.index().directory().to_vec(),
        beyond: image.index().beyond(),
        added: Vec::new(),
        target,
        audience: options.audience.unwrap_or(asked.audience),
        form: options.form,
        hold: asked.hold,
    };
    let mut altered = Vec::new();
    let mut compare = |_: &[RootChoice], tree: &ImageTree| {
        altered = changes(image, tree)?;
        Ok(())
    };
    let packed = job.run(asked.recorded, &mut compare, progress)?;
    Ok(Refreshed { packed, altered, learned })
}
