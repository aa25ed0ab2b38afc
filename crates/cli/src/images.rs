//! Opening images and naming their changed originals, with the hints that each failure deserves.

use crate::failure::Failure;
use quell_base::shell::quoted_name;
use quell_base::shown;
use quell_image::{Image, OpenError};
use quell_mount::{ImageError, ImageView, OriginalChange, OsError};
use rustix::io::Errno;
use std::path::Path;

/// An image, mapped.
pub(crate) type OpenedImage = Image<ImageView>;

/// Opens an image of any owner: its content is only read.
pub(crate) fn open(path: &Path) -> Result<OpenedImage, Failure> {
    quell_mount::view(path).map_err(|error| refuse(path, error))
}

/// Opens an image for export, after a check of every byte.
pub(crate) fn open_whole(path: &Path) -> Result<OpenedImage, Failure> {
    sound(path, open(path)?)
}

/// `image`, which lies at `path`, if every byte of it is as it was written.
pub(crate) fn sound(path: &Path, image: OpenedImage) -> Result<OpenedImage, Failure> {
    let report = quell_image::check::check(&image);
    match report.findings.first() {
        None => Ok(image),
        Some(finding) => {
            let damaged = Failure::message(format!("image `{}`: damaged: {finding}", shown(path)));
            Err(damaged.hint(DAMAGED))
        }
    }
}

/// Hint where an image is damaged.
pub(crate) const DAMAGED: &str = "copy it again, or pack it again with `quell pack TRACE -o IMG --force`";

/// The failure of opening the image at `path`.
pub(crate) fn refuse(path: &Path, error: ImageError) -> Failure {
    let hint = match &error {
        error if is_damage(error) => DAMAGED,
        error => hint(error),
    };
    Failure::new(error).context(format!("image `{}`", shown(path))).hint(hint)
}

/// Tells whether a file that cannot be opened was an image.
pub(crate) fn is_damage(error: &ImageError) -> bool {
    let ImageError::Invalid(error) = error else { return false };
    matches!(
        error,
        OpenError::TooShort { .. }
            | OpenError::SuperblockChecksum { .. }
            | OpenError::Length { .. }
            | OpenError::IndexChecksum { .. }
            | OpenError::IndexBounds { .. }
            | OpenError::NoFrameTable
            | OpenError::FrameTable { .. }
            | OpenError::Frame { .. }
            | OpenError::Corrupt(_)
    )
}

/// The command or condition that makes the image usable.
pub(crate) fn hint(error: &ImageError) -> &'static str {
    match error {
        error if error.is_distrust() => "`--trust` uses it; every user who can write it decides what you run",
        ImageError::Inflated { .. } => {
            "if you trust it, decompress it where there is room: `zstd -d IMG -o PLAIN`"
        }
        ImageError::Unreadable(OsError(Errno::ACCESS)) => {
            "`quell pack --public` makes an image for every user"
        }
        ImageError::Memory { .. } => {
            "raise `--memory`, or run from a plain image on a local disk, which takes none: `zstd -d IMG -o PLAIN`"
        }
        ImageError::Invalid(OpenError::Newer { .. }) => {
            "run it with the quell that packed it, or a later one"
        }
        ImageError::Invalid(
            OpenError::Length { .. }
            | OpenError::IndexChecksum { .. }
            | OpenError::NoFrameTable
            | OpenError::FrameTable { .. }
            | OpenError::Frame { .. },
        ) => "copy it again, or pack it again with `quell pack TRACE -o IMG --force`",
        _ => "`quell pack TRACE -o IMG` makes an image",
    }
}

/// The command that mends an image whose originals have changed.
pub(crate) fn mending(image: &Path) -> String {
    format!("quell pack --refresh {}", quoted_name(image))
}

/// The first changes of the originals, a line each.
pub(crate) fn first_changes(changes: &[OriginalChange]) -> Vec<String> {
    let named = changes.iter().take(NAMED_CHANGES);
    let named = named.map(|change| format!("{} {}", shown(&change.path), change.difference));
    let more = changes.len().saturating_sub(NAMED_CHANGES);
    named.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// At most this many changes are named; the rest are counted.
const NAMED_CHANGES: usize = 10;
