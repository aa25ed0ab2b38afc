//! `quell pack --refresh`: makes an image anew from its originals.

use super::{outcome, progress, refusal, transport};
use crate::failure::Failure;
use crate::flags::Pack;
use crate::images;
use crate::printer::Printer;
use crate::progress::Progress;
use quell_base::number::counted;
use quell_base::{escape, shown};
use quell_image::frames::CompressionLevel;
use quell_image::learned::{BYTES_MAX, Learned};
use quell_image::write::{Audience, ImageForm};
use quell_mount::ImageTrust;
use quell_pack::{Alteration, Altered, NAMED, RefreshOptions};
use std::fmt::Write as _;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) fn refresh(flags: &Pack, path: &Path, printer: &mut Printer) -> Result<u8, Failure> {
    let opened = match quell_mount::view_trusted(path, ImageTrust::OwnerOrRoot) {
        Ok(opened) => images::sound(path, opened)?,
        Err(error) if error.is_distrust() => {
            let failure = Failure::new(error).context(format!("image `{}`", shown(path)));
            return Err(failure.hint("if you trust it, make a copy of your own and refresh that"));
        }
        Err(error) => return Err(images::refuse(path, error)),
    };
    match &flags.output {
        Some(target) if !is_same(target, path) => refusal::refuse_to_replace(target, flags)?,
        _ => refuse_foreign(path)?,
    }
    let target = flags.output.as_deref().unwrap_or(path);
    let options = RefreshOptions {
        audience: flags.public.then_some(Audience::Everyone),
        form: form(flags, path)?,
        learned: flags.learn.iter().map(|file| learned(file)).collect::<Result<_, _>>()?,
    };
    let mut line = Progress::new(printer);
    let mut show = |progress| progress::show(&mut line, progress);
    let refreshed = quell_pack::refresh(&opened, target, &options, &mut show);
    drop(line);
    let refreshed = refreshed.map_err(refusal::explain)?;
    printer.data(&outcome::describe(&refreshed.packed, target, opened.index().beyond()))?;
    if !options.learned.is_empty() {
        printer.data(&format!("\nlearned: {}\n", counted(refreshed.learned, "path")))?;
    }
    printer.data(&describe(&refreshed.altered))?;
    for (learned, file) in options.learned.iter().zip(&flags.learn).filter(|(learned, _)| learned.omitted > 0)
    {
        printer.warn(&format!(
            "`{}` lacks {}, for which it had no room",
            shown(file),
            counted(learned.omitted, "more path")
        ));
        printer.hint("record so many paths instead: `quell record -- CMD`, then `quell pack`");
    }
    transport::print(flags, &refreshed.packed, target, printer)?;
    Ok(0)
}

/// Reads a file that `quell run --learn` wrote.
fn learned(file: &Path) -> Result<Learned, Failure> {
    let mut text = Vec::new();
    let opened = std::fs::File::open(file).map(|opened| opened.take(BYTES_MAX as u64 + 1));
    let read = opened.and_then(|mut opened| opened.read_to_end(&mut text));
    read.map_err(|error| Failure::new(error).context(format!("cannot read `{}`", shown(file))))?;
    Learned::parse(&text).map_err(|error| {
        let failure = Failure::new(error).context(format!("`{}`", shown(file)));
        failure.hint("`quell run --learn FILE IMG -- CMD` writes one when the command has ended")
    })
}

/// A compressed image stays compressed.
fn form(flags: &Pack, path: &Path) -> Result<ImageForm, Failure> {
    let mut first = Vec::new();
    std::fs::File::open(path)?.take(4).read_to_end(&mut first)?;
    let usual = match quell_image::frames::is_compressed(&first) {
        true => ImageForm::Compressed(CompressionLevel::default()),
        false => ImageForm::Plain,
    };
    Ok(flags.compress.map_or(usual, |compression| compression.0))
}

fn is_same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|metadata| (metadata.dev(), metadata.ino())).ok();
    identity(a).is_some() && identity(a) == identity(b)
}

/// Users who trusted root's image would not trust the one that replaces it.
fn refuse_foreign(path: &Path) -> Result<(), Failure> {
    let owner = path.metadata()?.uid();
    if owner == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let foreign =
        format!("image `{}` belongs to user {owner}, and only that user can replace it", shown(path));
    Err(Failure::message(foreign).hint("`-o IMG` writes one of your own"))
}

/// Differences from the old image: counts, then the first names.
fn describe(altered: &[Altered]) -> String {
    if altered.is_empty() {
        return "\nnothing changed\n".to_owned();
    }
    let counts: Vec<_> = altered.iter().map(|it| format!("{} {}", it.count, word(it.what))).collect();
    let mut text = format!("\nsince the old image: {}\n", counts.join(", "));
    let names = altered.iter().flat_map(|it| it.first.iter().map(move |path| (word(it.what), path)));
    for (word, path) in names.take(NAMED) {
        // Writing to a string cannot fail.
        _ = writeln!(text, "  {word:<8}  {}", escape(path));
    }
    let total: u64 = altered.iter().map(|it| it.count).sum();
    if let Some(more) = total.checked_sub(NAMED as u64).filter(|more| *more > 0) {
        _ = writeln!(text, "  and {more} more");
    }
    text
}

fn word(what: Alteration) -> &'static str {
    match what {
        Alteration::Changed => "changed",
        Alteration::Gone => "gone",
        Alteration::New => "new",
        Alteration::Held => "held",
        Alteration::Released => "released",
        Alteration::Covered => "covered",
    }
}
