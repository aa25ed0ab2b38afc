//! Failures of taking files out of an image, and warnings of files that stay behind.

use crate::failure::Failure;
use crate::images::DAMAGED;
use crate::printer::Printer;
use quell_base::escape;
use quell_base::number::counted;
use quell_image::export::{ExportError, ExportSelection, LeftOutNode, LeftOutReason};
use quell_image::write::WriteError;

pub(super) fn explain(error: ExportError) -> Failure {
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
    Failure::new(error).hints(hint)
}

/// At most this many names of what was left out; the rest are counted.
const NAMED: usize = 10;

/// Warns of each file that was left out. Returns the exit status: 1 if there are any.
pub(super) fn warn_of_left_out(left_out: &[LeftOutNode], printer: &Printer) -> u8 {
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

/// Warns that names are missing which the originals may have, because the image does not know the whole directory.
pub(super) fn warn_of_partly_known(selection: &ExportSelection<'_>, printer: &Printer) {
    let number = selection.partly_known;
    if number > 0 {
        let (noun, them) = if number == 1 { ("directory is", "it") } else { ("directories are", "them") };
        printer.warn(&format!("{number} {noun} not known whole: what else is in {them} is missing"));
        printer.hint("`quell image ls IMG` shows them as partial, uncovered or live");
    }
}
