//! `quell image extract`.

use super::{count, explain, open_whole, shown, size, starts, warn_of_left_out, warn_of_partly_known};
use crate::failure::Failure;
use crate::flags::ImageExtract;
use crate::printer::Printer;
use quell_image::export::directory::{self, Existing};
use quell_image::export::find::LastLink;
use quell_image::export::{Missing, select};

pub(crate) fn run(flags: &ImageExtract, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open_whole(&flags.image)?;
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let missing = if flags.fill { Missing::Fill } else { Missing::Leave };
    let selection = select(&image, starts, missing).map_err(|corrupt| explain(corrupt.into()))?;
    let existing = if flags.force { Existing::Replace } else { Existing::Refuse };
    let written = directory::write(&selection, &flags.output, existing).map_err(explain)?;
    printer.talk(&format!(
        "wrote {} of {} and {} to `{}`",
        count(written.files, "file"),
        size(written.bytes),
        count(written.links, "link"),
        shown(&flags.output),
    ));
    if written.devices_left_out > 0 {
        printer.warn(&format!(
            "{} left out: only root may make them",
            count(written.devices_left_out, "device")
        ));
    }
    if written.xattrs_left_out > 0 {
        let refused = count(written.xattrs_left_out, "extended attribute");
        printer.warn(&format!("{refused} left out: not permitted here, or unknown to this file system"));
    }
    warn_of_partly_known(&selection, printer);
    let status = warn_of_left_out(&selection.left_out, printer);
    Ok(status | u8::from(written.devices_left_out > 0))
}
