//! `quell image`: what all its commands need, opening and finding, with the hints that each failure deserves.

mod cat;
mod check;
mod export;
mod extract;
mod info;
mod ls;

use super::run::image_hint;
use crate::failure::Failure;
use crate::flags::ImageCommand;
use crate::printer::Printer;
use quell_base::number::counted;
use quell_base::{escape, shown};
use quell_image::export::find::{FindError, LastLink, find};
use quell_image::export::{ExportError, ExportSelection, FoundNode, LeftOutNode, LeftOutReason};
use quell_image::write::WriteError;
use quell_image::{Image, OpenError};
use quell_mount::{ImageError, View};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn run(command: &ImageCommand, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        ImageCommand::Ls(flags) => ls::run(flags, printer),
        ImageCommand::Info(flags) => info::run(flags, printer),
        ImageCommand::Check(flags) => check::run(flags, printer),
        ImageCommand::Cat(flags) => cat::run(flags, printer),
        ImageCommand::Extract(flags) => extract::run(flags, printer),
        ImageCommand::Export(flags) => export::run(flags, printer),
    }
}

/// An image, mapped.
pub(super) type Opened = Image<View>;

fn open(path: &Path) -> Result<Opened, Failure> {
    quell_mount::view(path).map_err(|error| refuse(path, error))
}

/// Opens an image of which everything is to be taken out, and looks at every byte of it first.
fn open_whole(path: &Path) -> Result<Opened, Failure> {
    sound(path, open(path)?)
}

/// `image`, which lies at `path`, if every byte of it is as it was written.
pub(super) fn sound(path: &Path, image: Opened) -> Result<Opened, Failure> {
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
const DAMAGED: &str = "copy it again, or pack it again with `quell pack TRACE -o IMG --force`";

pub(super) fn refuse(path: &Path, error: ImageError) -> Failure {
    let hint = match &error {
        error if is_damage(error) => DAMAGED,
        error => image_hint(error),
    };
    Failure::new(error).context(format!("image `{}`", shown(path))).hint(hint)
}

/// Tells whether a file that cannot be opened was an image.
fn is_damage(error: &ImageError) -> bool {
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

/// The nodes at `paths`; all that the image covers if there are none.
fn starts(image: &Opened, paths: &[PathBuf], last: LastLink) -> Result<Vec<FoundNode>, Failure> {
    if paths.is_empty() {
        let roots = image.index().roots();
        return Ok(roots.map(|root| FoundNode { path: root.path.to_vec(), nid: root.nid }).collect());
    }
    paths.iter().map(|path| start(image, path, last)).collect()
}

/// The node at a path that is absolute, below the working directory, or absolute without its slash.
fn start(image: &Opened, path: &Path, last: LastLink) -> Result<FoundNode, Failure> {
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

fn explain(error: ExportError) -> Failure {
    let hint = match &error {
        ExportError::Corrupt(_) | ExportError::Tree(_) => Some(DAMAGED),
        ExportError::Occupied { .. } => Some("`--force` writes into it, `-o DIR` writes elsewhere"),
        ExportError::ToolMissing { .. } => {
            Some("install squashfs-tools, or use `--tar` here and `mksquashfs - FILE -tar` elsewhere")
        }
        ExportError::ToolFailed { .. } => {
            Some("squashfs-tools 4.5 or later is needed: `mksquashfs -version`")
        }
        ExportError::Write(WriteError::Output { .. }) => Some("`-o` writes elsewhere"),
        ExportError::Write(WriteError::NoSpace { .. }) => Some("make room, or write elsewhere with `-o`"),
        ExportError::Write(WriteError::Changed { .. }) => {
            Some("export when nothing writes to the originals, or without `--fill`")
        }
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// At most this many names of what was left out; the rest are counted.
const NAMED: usize = 10;

/// Says what was left out, and gives the exit status that tells it.
fn warn_of_left_out(left_out: &[LeftOutNode], printer: &Printer) -> u8 {
    if left_out.is_empty() {
        return 0;
    }
    printer.warn(&format!("{} left out", counted(left_out.len() as u64, "file")));
    for left in left_out.iter().take(NAMED) {
        printer.detail(&format!("{}  ({})", escape(&left.path), left.reason));
    }
    if let Some(more) = left_out.len().checked_sub(NAMED).filter(|more| *more > 0) {
        printer.detail(&format!("and {more} more"));
    }
    let fillable =
        left_out.iter().any(|left| matches!(left.reason, LeftOutReason::NotHeld | LeftOutReason::PartlyHeld));
    if fillable {
        printer.hint("`--fill` reads what is not held from the originals");
    }
    1
}

/// A name that the image does not know is absent from what is taken out, which the original may contradict.
fn warn_of_partly_known(selection: &ExportSelection<'_>, printer: &Printer) {
    let number = selection.partly_known;
    if number > 0 {
        let (noun, them) = if number == 1 { ("directory is", "it") } else { ("directories are", "them") };
        printer.warn(&format!("{number} {noun} not known whole: what else is in {them} is missing"));
        printer.hint("`quell image ls IMG` shows them as partial, uncovered or live");
    }
}
