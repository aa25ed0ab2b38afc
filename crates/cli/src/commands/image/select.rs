//! The nodes that paths on a command line of `quell image` mean.

use crate::failure::Failure;
use crate::images::{DAMAGED, OpenedImage};
use quell_image::export::FoundNode;
use quell_image::export::find::{FindError, LastLink, find};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The nodes at `paths`; all that the image covers if there are none.
pub(super) fn starts(
    image: &OpenedImage,
    paths: &[PathBuf],
    last: LastLink,
) -> Result<Vec<FoundNode>, Failure> {
    if paths.is_empty() {
        let roots = image.index().roots();
        return Ok(roots.map(|root| FoundNode { path: root.path.to_vec(), nid: root.nid }).collect());
    }
    paths.iter().map(|path| start(image, path, last)).collect()
}

/// The node at a path that is absolute, below the working directory, or absolute without its slash.
pub(super) fn start(image: &OpenedImage, path: &Path, last: LastLink) -> Result<FoundNode, Failure> {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = find(image, absolute.as_os_str().as_bytes(), last);
    match found {
        Err(FindError::Absent { .. } | FindError::Unknown { .. }) if path.is_relative() => {
            let rooted = Path::new("/").join(path);
            find(image, rooted.as_os_str().as_bytes(), last).or(found).map_err(lost)
        }
        found => found.map_err(lost),
    }
}

fn lost(error: FindError) -> Failure {
    let damaged = matches!(error, FindError::Corrupt(_));
    Failure::new(error).hint(if damaged { DAMAGED } else { "`quell image ls IMG` lists what is in it" })
}
