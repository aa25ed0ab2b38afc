//! `quell image ls`: the names in an image, as `tar tv` and `unsquashfs -ll` list them, and what the image has of each.

use super::{DAMAGED, Opened, open, starts};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ImageLs;
use crate::printer::Printer;
use quell_image::export::find::LastLink;
use quell_image::export::{Found, Walk};
use quell_image::{Attributes, Content, Corrupt, Coverage, Kind, OpenError};
use quell_report::terminal;
use quell_report::view::{ImageEntry, ImageListView, SCHEMA_VERSION};
use quell_trace::path::escape;
use std::collections::HashSet;

pub(crate) fn run(flags: &ImageLs, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let entries =
        entries(&image, starts).map_err(|corrupt| Failure::new(OpenError::Corrupt(corrupt)).hint(DAMAGED))?;
    let view = ImageListView { schema_version: SCHEMA_VERSION, entries };
    let text = match flags.json {
        true => report::json(&view)?,
        false => terminal::image_list(&view),
    };
    printer.data(&text)?;
    Ok(0)
}

fn entries(image: &Opened, starts: Vec<Found>) -> Result<Vec<ImageEntry>, Corrupt> {
    let live: HashSet<_> = image.index().live_directories().map(|place| place.nid).collect();
    let mut entries = Vec::new();
    for start in starts {
        for found in Walk::new(image, start) {
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

fn entry(image: &Opened, found: &Found) -> Result<ImageEntry, Corrupt> {
    let attributes = image.attributes(found.nid)?;
    let target = match attributes.kind {
        Kind::Symlink => Some(escape(image.link_target(found.nid)?)),
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

fn state(image: &Opened, found: &Found, attributes: &Attributes) -> Result<Option<&'static str>, Corrupt> {
    Ok(match attributes.kind {
        Kind::Regular => Some(match image.content(found.nid)? {
            Content::Held(_) => "held",
            Content::Part(_) => "part",
            Content::Original => "original",
        }),
        Kind::Directory => Some(match image.coverage(found.nid)? {
            Coverage::Complete => "complete",
            Coverage::Partial => "partial",
            Coverage::Uncovered => "uncovered",
        }),
        _ => None,
    })
}

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Regular => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "link",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharacterDevice => "character-device",
        Kind::BlockDevice => "block-device",
    }
}
