//! `quell image info`: what an image was made from, and what it knows.

use super::{DAMAGED, Opened, open};
use crate::commands::report;
use crate::failure::Failure;
use crate::flags::ImageInfo;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::{escape, shown};
use quell_image::{Beyond, Content, Corrupt, Coverage, Kind, OpenError, Place};
use serde::Serialize;
use std::fmt::Write as _;

/// What is printed with `--json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Info {
    /// Version of this shape; fields are only added.
    pub schema_version: u32,
    /// The image.
    pub image: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its content: equal for equal images, whoever packed them and when.
    pub identity: String,
    /// What it is: `erofs`, with quell's index.
    pub format: &'static str,
    /// Version of the index.
    pub index_version: u32,
    /// Whether it is all that a run needs: nothing is asked of the originals then.
    pub complete: bool,
    /// The recorded command.
    pub command: Vec<String>,
    /// Where it was started; empty where that is not known.
    pub directory: String,
    /// Directories that it covers.
    pub roots: Vec<Chosen>,
    /// Directories below them that stay the original.
    pub live_directories: Vec<Chosen>,
    /// Names of any kind, without those of quell's index.
    pub names: u64,
    /// Regular files.
    pub files: Files,
    /// Symbolic links.
    pub symbolic_links: u64,
    /// Directories, by how much of their names is known.
    pub directories: Directories,
    /// Names known to be absent, besides all that complete directories do not list.
    pub absences: u64,
}

/// A root or live directory.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub struct Chosen {
    /// Its original path.
    pub path: String,
    /// Why it was chosen.
    pub reason: String,
    /// Type of its file system when it was packed; null where it is not known.
    pub file_system: Option<String>,
}

/// Regular files.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Files {
    /// Whose content is held whole.
    pub held: u64,
    /// Bytes of that content.
    pub held_bytes: u64,
    /// Of whose content a part is held: the blocks that the recorded run touched.
    pub part: u64,
    /// Bytes of those parts.
    pub part_held_bytes: u64,
    /// Bytes that those files have.
    pub part_bytes: u64,
    /// Whose content is read from the original.
    pub original: u64,
    /// Bytes that those had.
    pub original_bytes: u64,
}

/// Directories.
#[derive(Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Directories {
    /// Every name is known.
    pub complete: u64,
    /// Some names and absences are known.
    pub partial: u64,
    /// Nothing but what leads to other directories is known.
    pub uncovered: u64,
}

/// Version of [`Info`].
const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Info`].
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Info).to_value()
}

pub(crate) fn run(flags: &ImageInfo, printer: &mut Printer) -> Result<u8, Failure> {
    let image = open(&flags.image)?;
    let info = info(&image, shown(&flags.image))
        .map_err(|corrupt| Failure::new(OpenError::Corrupt(corrupt)).hint(DAMAGED))?;
    printer.data(&if flags.json { report::json(&info)? } else { describe(&info) })?;
    Ok(0)
}

fn info(image: &Opened, name: String) -> Result<Info, Corrupt> {
    let index = image.index();
    let mut info = Info {
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
        files: Files::default(),
        symbolic_links: 0,
        directories: Directories::default(),
        absences: 0,
    };
    let start = quell_image::export::Found { path: b"/".to_vec(), nid: image.root() };
    let mut seen = std::collections::HashSet::new();
    for found in quell_image::export::Walk::new(image, start) {
        let nid = found?.nid;
        info.names += 1;
        if seen.insert(nid) {
            add(&mut info, image, nid)?;
        }
    }
    Ok(info)
}

fn add(info: &mut Info, image: &Opened, nid: quell_image::Nid) -> Result<(), Corrupt> {
    let attributes = image.attributes(nid)?;
    match attributes.kind {
        Kind::Symlink => info.symbolic_links += 1,
        Kind::Directory => {
            info.absences += image.absences(nid)?.len() as u64;
            *match image.coverage(nid)? {
                Coverage::Complete => &mut info.directories.complete,
                Coverage::Partial => &mut info.directories.partial,
                Coverage::Uncovered => &mut info.directories.uncovered,
            } += 1;
        }
        Kind::Regular => {
            let files = &mut info.files;
            let (number, bytes) = match image.content(nid)? {
                Content::Held(_) => (&mut files.held, &mut files.held_bytes),
                Content::Part(part) => {
                    files.part_held_bytes = files.part_held_bytes.saturating_add(part.held_bytes());
                    (&mut files.part, &mut files.part_bytes)
                }
                Content::Original => (&mut files.original, &mut files.original_bytes),
            };
            *number += 1;
            *bytes = bytes.saturating_add(attributes.size);
        }
        _ => {}
    }
    Ok(())
}

fn chosen(place: Place<'_>) -> Chosen {
    Chosen {
        path: escape(place.path),
        reason: escape(place.reason.as_bytes()),
        file_system: (!place.file_system.is_empty()).then(|| escape(place.file_system.as_bytes())),
    }
}

fn describe(info: &Info) -> String {
    let command: Vec<_> = info.command.iter().map(quell_base::shell::quoted).collect();
    let (files, directories) = (&info.files, &info.directories);
    let part = match files.part {
        0 => String::new(),
        number => format!(
            ", and {} of the {} of {}",
            size(files.part_held_bytes),
            size(files.part_bytes),
            counted(number, "other")
        ),
    };
    let rows = [
        ("image", format!("{}, {}", info.image, size(info.bytes))),
        ("format", format!("EROFS, with quell's index, version {}", info.index_version)),
        ("checksum", info.identity.clone()),
        ("command", if command.is_empty() { "-".to_owned() } else { command.join(" ") }),
        ("held", format!("{} of {}{part}", counted(files.held, "file"), size(files.held_bytes))),
        (
            "original",
            format!(
                "{} of {}, known by attributes only{}",
                counted(files.original, "file"),
                size(files.original_bytes),
                if info.complete { ": complete, so a run cannot read them" } else { "" },
            ),
        ),
        ("names", format!("{}, {} of them symbolic links", info.names, info.symbolic_links)),
        (
            "directories",
            format!(
                "{} complete, {} partial, {} uncovered",
                directories.complete, directories.partial, directories.uncovered
            ),
        ),
        ("absences", format!("{}, and every name that a complete directory lacks", info.absences)),
    ];
    let mut text = String::new();
    for (title, value) in rows {
        // Writing to a string cannot fail.
        _ = writeln!(text, "{title:<11}  {value}");
    }
    for (title, places) in [("covers", &info.roots), ("stays the original", &info.live_directories)] {
        if !places.is_empty() {
            _ = writeln!(text, "\n{title}:");
        }
        for place in places {
            let kind = place.file_system.as_ref().map(|kind| format!("{kind}; ")).unwrap_or_default();
            _ = writeln!(text, "  {}  ({kind}{})", place.path, place.reason);
        }
    }
    text
}
