//! `quell image extract`.

use super::select::starts;
use super::taken_out::{explain, warn_of_left_out, warn_of_partly_known};
use crate::failure::Failure;
use crate::flags::ImageExtract;
use crate::images::{OpenedImage, refuse, sound};
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::shown;
use quell_image::export::directory::{self, Existing, Owners};
use quell_image::export::find::LastLink;
use quell_image::export::{MissingContent, select};
use quell_mount::ImageTrust;
use quell_pack::looks_like_secret;

pub(crate) fn run(flags: &ImageExtract, printer: &mut Printer) -> Result<u8, Failure> {
    let (image, owners) = open(flags)?;
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let missing = if flags.fill { MissingContent::Fill(looks_like_secret) } else { MissingContent::Leave };
    let selection = select(&image, starts, missing).map_err(|corrupt| explain(corrupt.into()))?;
    let existing = if flags.force { Existing::Replace } else { Existing::Refuse };
    let written = directory::write(&selection, &flags.output, existing, owners).map_err(explain)?;
    printer.talk(&format!(
        "wrote {} of {} and {} to `{}`",
        counted(written.files, "file"),
        size(written.bytes),
        counted(written.links, "link"),
        shown(&flags.output),
    ));
    if written.devices_left_out > 0 {
        printer.warn(&format!(
            "{} left out: {}",
            counted(written.devices_left_out, "device"),
            of_whom(owners)
        ));
    }
    if written.privileges_left_out > 0 {
        let bits = counted(written.privileges_left_out, "file");
        printer.warn(&format!("{bits} without set-user-ID and set-group-ID bits: {}", of_whom(owners)));
    }
    if written.xattrs_left_out > 0 {
        let refused = counted(written.xattrs_left_out, "extended attribute");
        printer.warn(&format!("{refused} left out: not permitted here, or unknown to this file system"));
    }
    warn_of_partly_known(&selection, printer);
    let status = warn_of_left_out(&selection.left_out, printer);
    Ok(status | u8::from(written.devices_left_out > 0))
}

/// Opens the image; what it says of owners and privileges counts where no other user than root can have written it.
///
/// Trust is asked of the file that is opened, not of its name.
fn open(flags: &ImageExtract) -> Result<(OpenedImage, Owners), Failure> {
    let path = &flags.image;
    let (image, owners) = match quell_mount::view_trusted(path, ImageTrust::OwnerOrRoot) {
        Err(error) if error.is_distrust() => {
            let owners = if flags.trust { Owners::Originals } else { Owners::Caller };
            (quell_mount::view(path), owners)
        }
        outcome => (outcome, Owners::Originals),
    };
    let image = image.map_err(|error| refuse(path, error))?;
    Ok((sound(path, image)?, owners))
}

/// The warning for attributes that give rights, which were left out.
fn of_whom(owners: Owners) -> &'static str {
    match owners {
        _ if !rustix::process::geteuid().is_root() => "only root may make them",
        Owners::Originals => "they could not be made",
        Owners::Caller => "others can change this image, and `--trust` was not given",
    }
}
