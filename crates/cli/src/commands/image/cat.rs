//! `quell image cat`.

use super::select::start;
use crate::failure::Failure;
use crate::flags::ImageCat;
use crate::images::{DAMAGED, OpenedImage, open};
use crate::printer::Printer;
use quell_base::shown;
use quell_image::export::find::LastLink;
use quell_image::{FileContent, FileKind};
use std::path::Path;

pub(crate) fn run(flags: &ImageCat, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    for path in &flags.paths {
        printer.bytes(content(&image, path)?)?;
    }
    Ok(0)
}

fn content<'i>(image: &'i OpenedImage, path: &Path) -> Result<&'i [u8], Failure> {
    let found = start(image, path, LastLink::Follow)?;
    let damaged = |corrupt| Failure::new(quell_image::OpenError::Corrupt(corrupt)).hint(DAMAGED);
    let kind = image.attributes(found.nid).map_err(damaged)?.kind;
    if kind != FileKind::Regular {
        let what = if kind == FileKind::Directory { "is a directory" } else { "is not a regular file" };
        return Err(Failure::message(format!("`{}` {what}", shown(path))).hint("`quell image ls IMG PATH`"));
    }
    match image.content(found.nid).map_err(damaged)? {
        FileContent::Held(content) => Ok(content),
        FileContent::Part(part) => {
            let failure = Failure::message(format!(
                "`{}`: the image holds {} of its {} bytes",
                shown(path),
                part.held_bytes(),
                part.size()
            ));
            Err(failure.hint("the recording used no more of it; the original may still have it"))
        }
        FileContent::Original => {
            let failure = Failure::message(format!(
                "`{}`: the image knows its attributes but does not hold its content",
                shown(path)
            ));
            Err(failure.hint("the recording did not read it; the original may still have it"))
        }
    }
}
