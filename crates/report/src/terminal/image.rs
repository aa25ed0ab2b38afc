//! `quell image ls` and `quell image info`.

use crate::number::{bytes, counted};
use crate::text::{finished, quoted};
use crate::view::{ImageEntry, ImageInfoView, ImageListView};
use quell_base::date::utc;
use quell_trace::Bytes;
use std::fmt::Write as _;

/// One line a name; owner and size in columns as wide as their widest.
pub fn image_list(list: &ImageListView) -> String {
    let entries = &list.entries;
    let owner = |entry: &ImageEntry| format!("{}/{}", entry.uid, entry.gid);
    let owners = entries.iter().map(|entry| owner(entry).len()).max().unwrap_or_default();
    let sizes = entries.iter().map(|entry| entry.size.to_string().len()).max().unwrap_or_default();
    let mut text = String::new();
    for entry in entries {
        let target = entry.target.as_ref().map(|target| format!(" -> {target}")).unwrap_or_default();
        // Writing to a string cannot fail.
        _ = writeln!(
            text,
            "{} {:<owners$} {:>sizes$} {} {:<9} {}{target}",
            letters(entry.kind, &entry.mode),
            owner(entry),
            entry.size,
            utc(entry.mtime),
            entry.state.unwrap_or("-"),
            entry.path,
        );
    }
    text
}

/// Kind and permissions as `ls -l` writes them.
/// Type and permissions as `ls -l` shows them. **Parameters** `mode`: octal.
pub(super) fn letters(kind: &str, mode: &str) -> String {
    let mode = u32::from_str_radix(mode, 8).unwrap_or_default();
    let kind = match kind {
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

/// An image: its origin, its contents, the directories that it covers.
pub fn image_info(info: &ImageInfoView) -> String {
    let command: Vec<_> = info.command.iter().map(quoted).collect();
    let (files, directories) = (&info.files, &info.directories);
    let part = match files.part {
        0 => String::new(),
        number => format!(
            ", and {} of the {} of {}",
            bytes(Bytes(files.part_held_bytes)),
            bytes(Bytes(files.part_bytes)),
            counted(number, "other")
        ),
    };
    let rows = [
        ("image", format!("{}, {}", info.image, bytes(Bytes(info.bytes)))),
        ("format", format!("EROFS, with quell's index, version {}", info.index_version)),
        ("checksum", info.identity.clone()),
        ("command", if command.is_empty() { "-".to_owned() } else { command.join(" ") }),
        ("held", format!("{} of {}{part}", counted(files.held, "file"), bytes(Bytes(files.held_bytes)))),
        (
            "original",
            format!(
                "{} of {}, known by attributes only{}",
                counted(files.original, "file"),
                bytes(Bytes(files.original_bytes)),
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
    finished(&text)
}
