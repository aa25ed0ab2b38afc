//! `quell image ls`: the names in an image, as `tar tv` and `unsquashfs -ll` list them, and what the image has of each.

use super::select::starts;
use crate::failure::Failure;
use crate::flags::ImageLs;
use crate::images::{DAMAGED, OpenedImage, open};
use crate::output;
use crate::printer::Printer;
use quell_base::escape;
use quell_image::export::find::LastLink;
use quell_image::export::{FoundNode, ImageWalk};
use quell_image::{Attributes, Corrupt, Coverage, FileContent, FileKind, OpenError};
use quell_report::terminal;
use quell_report::view::{ImageEntry, ImageListView, SCHEMA_VERSION};
use std::collections::HashSet;

pub(crate) fn run(flags: &ImageLs, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let entries =
        entries(&image, starts).map_err(|corrupt| Failure::new(OpenError::Corrupt(corrupt)).hint(DAMAGED))?;
    let view = ImageListView { schema_version: SCHEMA_VERSION, entries };
    let text = match flags.json {
        true => output::json(&view)?,
        false => terminal::image_list(&view),
    };
    printer.data(&text)?;
    Ok(0)
}

fn entries(image: &OpenedImage, starts: Vec<FoundNode>) -> Result<Vec<ImageEntry>, Corrupt> {
    let live: HashSet<_> = image.index().live_directories().map(|place| place.nid).collect();
    let mut entries = Vec::new();
    for start in starts {
        for found in ImageWalk::new(image, start) {
            let found = found?;
            let mut entry = entry(image, &found)?;
            if live.contains(&found.nid) {
                entry.state = Some("live");
            }
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn entry(image: &OpenedImage, found: &FoundNode) -> Result<ImageEntry, Corrupt> {
    let attributes = image.attributes(found.nid)?;
    let target = match attributes.kind {
        FileKind::Symlink => Some(escape(image.link_target(found.nid)?)),
        _ => None,
    };
    Ok(ImageEntry {
        path: escape(&found.path),
        kind: kind(attributes.kind),
        state: state(image, found, &attributes)?,
        mode: format!("{:06o}", attributes.mode()),
        uid: attributes.uid,
        gid: attributes.gid,
        size: attributes.size,
        links: attributes.nlink,
        mtime: attributes.mtime.seconds,
        mtime_nanoseconds: attributes.mtime.nanoseconds,
        target,
    })
}

fn state(
    image: &OpenedImage,
    found: &FoundNode,
    attributes: &Attributes,
) -> Result<Option<&'static str>, Corrupt> {
    Ok(match attributes.kind {
        FileKind::Regular => Some(match image.content(found.nid)? {
            FileContent::Held(_) => "held",
            FileContent::Part(_) => "part",
            FileContent::Original => "original",
        }),
        FileKind::Directory => Some(match image.coverage(found.nid)? {
            Coverage::Complete => "complete",
            Coverage::Partial => "partial",
            Coverage::Uncovered => "uncovered",
        }),
        _ => None,
    })
}

fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharacterDevice => "character-device",
        FileKind::BlockDevice => "block-device",
    }
}
