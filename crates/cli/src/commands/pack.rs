//! `quell pack`.

use super::{refresh, traces, transport};
use crate::failure::Failure;
use crate::flags::Pack;
use crate::host;
use crate::names;
use crate::printer::Printer;
use indicatif::{ProgressBar, ProgressStyle};
use quell_base::escape;
use quell_base::number::size;
use quell_image::Beyond;
use quell_image::frames::CompressionLevel;
use quell_image::write::{Audience, ImageForm, WriteError, WrittenImage};
use quell_pack::{Agreement, Disagreement, Hold, PackError, PackOptions, PackProgress, Packed};
use std::fmt::Write as _;
use std::path::Path;

/// At most this many rows of a list; the rest are counted.
const ROWS: usize = 10;

pub(crate) fn run(flags: &Pack, printer: &mut Printer) -> Result<u8, Failure> {
    if let Some(image) = &flags.refresh {
        return refresh::run(flags, image, printer);
    }
    let trace = traces::open(&flags.traces)?;
    let target = flags.output.clone().unwrap_or_else(|| names::image(&flags.traces[0]));
    refuse_to_replace(&target, flags)?;
    let audience = if flags.public { Audience::Everyone } else { Audience::Owner };
    let hold = if flags.whole_files { Hold::Whole } else { Hold::Used };
    // Complete images are made for transport.
    let usual =
        if flags.complete { ImageForm::Compressed(CompressionLevel::default()) } else { ImageForm::Plain };
    let options = PackOptions {
        roots: flags.roots.clone(),
        audience,
        form: flags.compress.map_or(usual, |compression| compression.0),
        beyond: if flags.complete { Beyond::Nothing } else { Beyond::Originals },
        added: flags.added.clone(),
        hold,
    };
    let bar = progress_bar(printer);
    let packed = quell_pack::pack(&trace, &target, &options, &mut |progress| show(&bar, progress));
    bar.finish_and_clear();
    let packed = packed.map_err(explain)?;
    printer.data(&describe(&packed, &target, options.beyond))?;
    packed.agreement.iter().for_each(|agreement| warn_of_ranks(agreement, printer));
    describe_transport(flags, &packed, &target, printer)?;
    let command = trace.recordings[0].header.command.iter().map(quell_base::shell::quoted);
    printer.talk(&format!(
        "next: quell run {} -- {}",
        target.display(),
        command.collect::<Vec<_>>().join(" ")
    ));
    Ok(0)
}

/// Refuses to write to what is there already.
pub(super) fn refuse_to_replace(target: &Path, flags: &Pack) -> Result<(), Failure> {
    if target.is_dir() {
        let directory = Failure::message(format!("`{}` is a directory", target.display()));
        return Err(directory.hint("`-o IMG` takes the name of a file"));
    }
    if target.exists() && !flags.force {
        let exists = Failure::message(format!("`{}` exists already", target.display()));
        return Err(exists.hint("`--force` replaces it, `-o IMG` writes elsewhere"));
    }
    Ok(())
}

/// Prints the bytes that many nodes will read, with `--nodes`.
pub(super) fn describe_transport(
    flags: &Pack,
    packed: &Packed,
    target: &Path,
    printer: &Printer,
) -> Result<(), Failure> {
    let Some(nodes) = flags.nodes else { return Ok(()) };
    let kind = host::file_system(target);
    printer.data(&transport::describe(target, packed.written.file_bytes, &kind, nodes))
}

pub(super) fn progress_bar(printer: &Printer) -> ProgressBar {
    match printer.draws_progress() {
        true => ProgressBar::new(0),
        false => ProgressBar::hidden(),
    }
}

pub(super) fn show(bar: &ProgressBar, progress: PackProgress) {
    match progress {
        PackProgress::Listing { directories, entries } => {
            bar.set_style(style("{spinner} listing: {msg}"));
            bar.set_message(format!("{directories} directories, {entries} entries"));
            bar.tick();
        }
        PackProgress::Writing(written) => {
            bar.set_style(style("{wide_bar} {bytes}/{total_bytes} {eta}"));
            bar.set_length(written.total);
            bar.set_position(written.done);
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// The result of packing, as text.
pub(super) fn describe(packed: &Packed, target: &Path, beyond: Beyond) -> String {
    let mut text = String::new();
    let totals = &packed.totals;
    let content = match packed.file_bytes == totals.content_bytes {
        true => size(totals.content_bytes),
        false => format!("{} of {}", size(totals.content_bytes), size(packed.file_bytes)),
    };
    // Writing to a string cannot fail.
    _ = writeln!(
        text,
        "{}: {} with {} files of {}, {} names in {} directories, {} absences",
        target.display(),
        stored(&packed.written),
        totals.held_files,
        content,
        totals.nodes,
        packed.directories,
        packed.absences,
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
    let left_out = packed.left_out.iter().map(|left| format!("{}  ({})", escape(&left.path), left.reason));
    list(&mut text, "left out", &left_out.collect::<Vec<_>>());
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
fn warn_of_ranks(agreement: &Agreement, printer: &Printer) {
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
    if rows.is_empty() {
        return;
    }
    _ = writeln!(text, "\n{title}:");
    rows.iter().take(ROWS).for_each(|row| _ = writeln!(text, "  {row}"));
    if let Some(more) = rows.len().checked_sub(ROWS).filter(|more| *more > 0) {
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

pub(super) fn explain(error: PackError) -> Failure {
    let hint = match &error {
        PackError::Nothing { .. } => Some("`--root DIR` packs below a directory, whatever its file system"),
        PackError::Root { .. } => Some("`--root` takes a directory that exists"),
        PackError::RootGone { .. } => {
            Some("refresh where it is mounted; where it was given up, record and pack again")
        }
        PackError::NoRequests => Some("pack it again from its recording"),
        PackError::Added { .. } => Some("`--add` takes a directory that exists and that you may read"),
        PackError::Outside { .. } => Some("`--root DIR` packs below a directory, whatever its file system"),
        PackError::Trace(_) => Some("record again; a copy of a trace needs all its files"),
        PackError::Original(_) => Some("pack on a node that sees the files as the recording did"),
        PackError::Write(WriteError::Output { .. }) => Some("`-o IMG` writes elsewhere"),
        PackError::Write(WriteError::NoSpace { .. }) => Some("make room, or write elsewhere with `-o IMG`"),
        PackError::Write(WriteError::Changed { .. }) => Some("pack when nothing writes to the files"),
        _ => None,
    };
    let failure = Failure::new(error).context("cannot pack");
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
