//! `quell image ls`: the names in an image, as `tar tv` and `unsquashfs -ll` list them, and what the image has of each.

use super::{DAMAGED, Opened, open, starts};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ImageLs;
use crate::printer::Printer;
use quell_base::escape;
use quell_image::export::find::LastLink;
use quell_image::export::{Found, Walk};
use quell_image::{Attributes, Content, Corrupt, Coverage, Kind, OpenError};
use serde::Serialize;
use std::collections::HashSet;
use std::fmt::Write as _;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Listing {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The names: directories before what is in them, siblings by name.
    pub entries: Vec<Entry>,
}

/// A name in an image.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Entry {
    /// Its original path.
    pub path: String,
    /// `file`, `directory`, `link`, `fifo`, `socket`, `character-device` or `block-device`.
    pub kind: &'static str,
    /// What the image has of it: `held`, `part` or `original` for a file; `complete`, `partial`, `uncovered` or `live` for a
    /// directory; null for the rest, which is known whole.
    pub state: Option<&'static str>,
    /// Permissions in octal, with type.
    pub mode: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes, as of the original.
    pub size: u64,
    /// Hard links of the original.
    pub links: u32,
    /// Last modification. Unit: seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds after that second.
    pub mtime_nanoseconds: u32,
    /// What a link points to.
    pub target: Option<String>,
}

/// Version of [`Listing`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Listing`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Listing).to_value()
}

pub(crate) fn run(flags: &ImageLs, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let entries =
        entries(&image, starts).map_err(|corrupt| Failure::new(OpenError::Corrupt(corrupt)).hint(DAMAGED))?;
    let text = match flags.json {
        true => report::json(&Listing { schema_version: SCHEMA_VERSION, entries })?,
        false => describe(&entries),
    };
    printer.data(&text)?;
    Ok(0)
}

fn entries(image: &Opened, starts: Vec<Found>) -> Result<Vec<Entry>, Corrupt> {
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

fn entry(image: &Opened, found: &Found) -> Result<Entry, Corrupt> {
    let attributes = image.attributes(found.nid)?;
    let target = match attributes.kind {
        Kind::Symlink => Some(escape(image.link_target(found.nid)?)),
        _ => None,
    };
    Ok(Entry {
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

/// One line a name; owner and size in columns as wide as their widest.
fn describe(entries: &[Entry]) -> String {
    let owner = |entry: &Entry| format!("{}/{}", entry.uid, entry.gid);
    let owners = entries.iter().map(|entry| owner(entry).len()).max().unwrap_or_default();
    let sizes = entries.iter().map(|entry| entry.size.to_string().len()).max().unwrap_or_default();
    let mut text = String::new();
    for entry in entries {
        let target = entry.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "{} {:<owners$} {:>sizes$} {} {:<9} {}{target}",
            letters(entry),
            owner(entry),
            entry.size,
            quell_base::date::utc(entry.mtime),
            entry.state.unwrap_or("-"),
            entry.path,
        );
    }
    text
}

/// Kind and permissions as `ls -l` writes them.
fn letters(entry: &Entry) -> String {
    let mode = u32::from_str_radix(&entry.mode, 8).unwrap_or_default();
    let kind = match entry.kind {
        "directory" => 'd',
        "link" => 'l',
        "fifo" => 'p',
        "socket" => 's',
        "character-device" => 'c',
        "block-device" => 'b',
        _ => '-',
    };
    let mut letters = String::from(kind);
    for (shift, special, set) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        letters.push(if bits & 4 != 0 { 'r' } else { '-' });
        letters.push(if bits & 2 != 0 { 'w' } else { '-' });
        letters.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => set,
            (true, false) => set.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}
