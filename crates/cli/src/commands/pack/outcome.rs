//! The result of packing, as text and warnings.

use crate::printer::Printer;
use quell_base::escape;
use quell_base::number::{noun_for, size};
use quell_image::Beyond;
use quell_image::write::WrittenImage;
use quell_pack::{Agreement, Disagreement, Packed};
use std::fmt::Write as _;
use std::path::Path;

/// At most this many rows of a list; the rest are counted. Secrets are all named.
const ROWS: usize = 10;

/// The result of packing, as text.
pub(super) fn describe(packed: &Packed, target: &Path, beyond: Beyond) -> String {
    let mut text = String::new();
    let totals = &packed.totals;
    let content = match packed.file_bytes == totals.content_bytes {
        true => size(totals.content_bytes),
        false => format!("{} of {}", size(totals.content_bytes), size(packed.file_bytes)),
    };
    // One word of digits each, for scripts.
    let counted = |number: u64, noun| format!("{number} {}", noun_for(number, noun));
    // Writing to a string cannot fail.
    _ = writeln!(
        text,
        "{}: {} with {} of {}, {} in {}, {}",
        target.display(),
        stored(&packed.written),
        counted(totals.held_files, "file"),
        content,
        counted(packed.names, "name"),
        counted(packed.directories, "directory"),
        counted(packed.absences, "absence"),
    );
    let reasons = |list: &[quell_pack::ChosenDirectory]| -> Vec<String> {
        list.iter().map(|chosen| format!("{}  ({})", escape(&chosen.path), chosen.reason)).collect()
    };
    packed.agreement.iter().for_each(|agreement| describe_agreement(&mut text, agreement));
    list(&mut text, "packed below", &reasons(&packed.roots));
    let live = match beyond {
        Beyond::Originals => "stays the original",
        Beyond::Nothing => "stays the original, and is empty and read-only where there is none",
    };
    list(&mut text, live, &reasons(&packed.live));
    let left_out = |list: &[quell_pack::LeftOutPath]| -> Vec<String> {
        list.iter().map(|left| format!("{}  ({})", escape(&left.path), left.reason)).collect()
    };
    let secrets = left_out(&packed.secrets);
    list_first(&mut text, "left out, for they look like secrets", &secrets, secrets.len());
    list(&mut text, "left out", &left_out(&packed.left_out));
    let outside = packed.outside.iter().map(|outside| {
        let remedy = outside.remedy.map(|remedy| format!("  ({remedy})")).unwrap_or_default();
        format!("{:>7} operations  {}{remedy}", outside.operations, escape(&outside.directory))
    });
    list(&mut text, "still asked of the network file system", &outside.collect::<Vec<_>>());
    text
}

/// The disagreements of the recordings.
fn describe_agreement(text: &mut String, agreement: &Agreement) {
    let count = agreement.recordings.len();
    if agreement.apart.is_empty() {
        _ = writeln!(text, "{count} recordings agree: {}", agreement.recordings.join(", "));
        return;
    }
    let row = |apart: &Disagreement| {
        let by: Vec<_> = apart.by.iter().map(|number| agreement.recordings[*number].as_str()).collect();
        let paths = if apart.paths == 1 { "path" } else { "paths" };
        let files = match apart.files {
            0 => String::new(),
            1 => format!(", 1 file of {} among them", size(apart.bytes)),
            files => format!(", {files} files of {} among them", size(apart.bytes)),
        };
        format!("only {}: {} {paths}{files}, in {}", by.join(", "), apart.paths, escape(&apart.directory))
    };
    let rows: Vec<_> = agreement.apart.iter().map(row).collect();
    list(text, &format!("{count} recordings differ; the image covers what any of them asked for"), &rows);
}

/// Warns of names that ranks which were not recorded will ask for by another number.
pub(super) fn warn_of_ranks(agreement: &Agreement, printer: &Printer) {
    if agreement.by_rank.is_empty() {
        return;
    }
    printer
        .warn("names contain the rank's number: the image lacks the names of ranks that were not recorded");
    agreement.by_rank.iter().take(ROWS).for_each(|pattern| printer.detail(&escape(pattern)));
    if let Some(more) = agreement.by_rank.len().checked_sub(ROWS).filter(|more| *more > 0) {
        printer.detail(&format!("and {more} more"));
    }
    printer.hint("the originals answer them; `--add DIR` packs all of a directory");
}

fn list(text: &mut String, title: &str, rows: &[String]) {
    list_first(text, title, rows, ROWS);
}

/// A list of at most `shown` rows.
fn list_first(text: &mut String, title: &str, rows: &[String], shown: usize) {
    if rows.is_empty() {
        return;
    }
    _ = writeln!(text, "\n{title}:");
    rows.iter().take(shown).for_each(|row| _ = writeln!(text, "  {row}"));
    if let Some(more) = rows.len().checked_sub(shown).filter(|more| *more > 0) {
        _ = writeln!(text, "  and {more} more");
    }
}

/// The size of the file, and of the image where it is another.
fn stored(written: &WrittenImage) -> String {
    match written.file_bytes == written.bytes {
        true => size(written.bytes),
        false => {
            format!("{}, decompressed {},", size(written.file_bytes), size(written.bytes))
        }
    }
}
