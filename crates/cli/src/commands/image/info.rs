//! `quell image info`: what an image was made from, and what it knows.

use crate::failure::Failure;
use crate::flags::ImageInfo;
use crate::images::{DAMAGED, OpenedImage, open};
use crate::output;
use crate::printer::Printer;
use quell_base::{escape, shown};
use quell_image::{Beyond, Corrupt, Coverage, FileContent, FileKind, IndexedDirectory, OpenError};
use quell_report::terminal;
use quell_report::view::{ImageDirectories, ImageFiles, ImageInfoView, ImagePlace, SCHEMA_VERSION};

pub(crate) fn run(flags: &ImageInfo, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    let info = info(&image, shown(&flags.image))
        .map_err(|corrupt| Failure::new(OpenError::Corrupt(corrupt)).hint(DAMAGED))?;
    printer.data(&if flags.json { output::json(&info)? } else { terminal::image_info(&info) })?;
    Ok(0)
}

fn info(image: &OpenedImage, name: String) -> Result<ImageInfoView, Corrupt> {
    let index = image.index();
    let mut info = ImageInfoView {
        schema_version: SCHEMA_VERSION,
        image: name,
        bytes: image.length(),
        identity: index.identity().to_string(),
        format: "erofs",
        index_version: index.version(),
        complete: index.beyond() == Beyond::Nothing,
        command: index.command().map(escape).collect(),
        directory: escape(index.directory()),
        roots: index.roots().map(chosen).collect(),
        live_directories: index.live_directories().map(chosen).collect(),
        names: 0,
        files: ImageFiles::default(),
        symbolic_links: 0,
        directories: ImageDirectories::default(),
        absences: 0,
    };
    let start = quell_image::export::FoundNode { path: b"/".to_vec(), nid: image.root() };
    let mut seen = std::collections::HashSet::new();
    for found in quell_image::export::ImageWalk::new(image, start) {
        let nid = found?.nid;
        info.names += 1;
        if seen.insert(nid) {
            add(&mut info, image, nid)?;
        }
    }
    Ok(info)
}

fn add(info: &mut ImageInfoView, image: &OpenedImage, nid: quell_image::Nid) -> Result<(), Corrupt> {
    let attributes = image.attributes(nid)?;
    match attributes.kind {
        FileKind::Symlink => info.symbolic_links += 1,
        FileKind::Directory => {
            info.absences += image.absences(nid)?.len() as u64;
            *match image.coverage(nid)? {
                Coverage::Complete => &mut info.directories.complete,
                Coverage::Partial => &mut info.directories.partial,
                Coverage::Uncovered => &mut info.directories.uncovered,
            } += 1;
        }
        FileKind::Regular => {
            let files = &mut info.files;
            let (number, bytes) = match image.content(nid)? {
                FileContent::Held(_) => (&mut files.held, &mut files.held_bytes),
                FileContent::Part(part) => {
                    files.part_held_bytes = files.part_held_bytes.saturating_add(part.held_bytes());
                    (&mut files.part, &mut files.part_bytes)
                }
                FileContent::Original => (&mut files.original, &mut files.original_bytes),
            };
            *number += 1;
            *bytes = bytes.saturating_add(attributes.size);
        }
        _ => {}
    }
    Ok(())
}

fn chosen(place: IndexedDirectory<'_>) -> ImagePlace {
    ImagePlace {
        path: escape(place.path),
        reason: escape(place.reason.as_bytes()),
        file_system: (!place.file_system.is_empty()).then(|| escape(place.file_system.as_bytes())),
    }
}
