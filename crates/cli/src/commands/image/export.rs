//! `quell image export`.

use super::select::starts;
use super::taken_out::{explain, warn_of_left_out, warn_of_partly_known};
use crate::failure::Failure;
use crate::flags::ImageExport;
use crate::images::{OpenedImage, open_whole};
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::shell::{quoted, quoted_name};
use quell_base::shown;
use quell_image::export::find::LastLink;
use quell_image::export::{
    ExportError, ExportSelection, FoundNode, LeftOutNode, MissingContent, erofs, select, squashfs, tar,
};
use quell_image::write::{Audience, WriteError};
use quell_pack::looks_like_secret;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The program that makes squashfs file systems.
const MKSQUASHFS: &str = "mksquashfs";

pub(crate) fn run(flags: &ImageExport, printer: &mut Printer) -> Result<u8, Failure> {
    let to_stdout = flags.output.as_os_str() == "-";
    refuse_output(flags, to_stdout)?;
    let image = open_whole(&flags.image)?;
    let audience = audience(&flags.image);
    if flags.erofs {
        return to_erofs(flags, &image, audience, printer);
    }
    let missing = if flags.fill { MissingContent::Fill(looks_like_secret) } else { MissingContent::Leave };
    let starts = starts(&image, &flags.paths, LastLink::Keep)?;
    let selection = select(&image, starts, missing).map_err(|corrupt| explain(corrupt.into()))?;
    let bytes = match (flags.tar, to_stdout) {
        (true, true) => stream(&selection)?,
        (true, false) => tar::write(&selection, &flags.output, audience).map_err(explain)?,
        (false, _) => {
            squashfs::write(&selection, &flags.output, audience, Path::new(MKSQUASHFS)).map_err(explain)?
        }
    };
    say(&flags.output, bytes, selection.files(), printer);
    if flags.squashfs && flags.paths.is_empty() {
        printer.talk(&format!("next: apptainer exec {} ...", binds(&image, &flags.output)));
    }
    warn_of_partly_known(&selection, printer);
    Ok(warn_of_left_out(&selection.left_out, printer))
}

fn refuse_output(flags: &ImageExport, to_stdout: bool) -> Result<(), Failure> {
    let name = shown(&flags.output);
    let refused = |message: String, hint: &str| Err(Failure::message(message).hint(hint));
    if to_stdout {
        return match flags.tar {
            true => Ok(()),
            false => refused("only `--tar` can go to standard output".to_owned(), "`-o FILE` writes a file"),
        };
    }
    if flags.erofs && !flags.paths.is_empty() {
        return refused("`--erofs` takes the whole image".to_owned(), "`--squashfs` takes paths");
    }
    if flags.output.is_dir() {
        return refused(format!("`{name}` is a directory"), "`-o FILE` takes the name of a file");
    }
    if flags.output.exists() && !flags.force {
        return refused(
            format!("`{name}` exists already"),
            "`--force` replaces it, `-o FILE` writes elsewhere",
        );
    }
    Ok(())
}

/// The export of an image that every user may read may be read by every user.
fn audience(image: &Path) -> Audience {
    match std::fs::metadata(image) {
        Ok(metadata) if metadata.permissions().mode() & 0o004 != 0 => Audience::Everyone,
        _ => Audience::Owner,
    }
}

/// Writes the archive to standard output; ends quietly when its reader is gone.
fn stream(selection: &ExportSelection<'_>) -> Result<u64, Failure> {
    let mut stdout = std::io::stdout().lock();
    let mut sink = |bytes: &[u8]| match stdout.write_all(bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => std::process::exit(0),
        outcome => outcome.map_err(|source| WriteError::Output {
            action: "write to",
            path: "standard output".into(),
            source,
        }),
    };
    tar::stream(selection, &mut sink).map_err(|error| explain(error.into()))?;
    stdout.flush()?;
    Ok(tar::length(selection))
}

fn to_erofs(
    flags: &ImageExport,
    image: &OpenedImage,
    audience: Audience,
    printer: &Printer,
) -> Result<u8, Failure> {
    let (bytes, left_out) = match flags.fill {
        true => filled(flags, image, audience, printer).map_err(explain)?,
        false => {
            let left_out = erofs::not_held(image).map_err(|corrupt| explain(corrupt.into()))?;
            let bytes = erofs::copy(image, &flags.output, audience).map_err(|error| explain(error.into()))?;
            (bytes, left_out)
        }
    };
    if !flags.fill {
        say(&flags.output, bytes, held(image).map_err(explain)?, printer);
    }
    Ok(warn_of_left_out(&left_out, printer))
}

/// Writes the image anew with what the originals have.
fn filled(
    flags: &ImageExport,
    image: &OpenedImage,
    audience: Audience,
    printer: &Printer,
) -> Result<(u64, Vec<LeftOutNode>), ExportError> {
    let rebuilt = erofs::rebuild(image, &flags.image, looks_like_secret)?;
    let written = quell_image::write::write(&rebuilt.tree, &flags.output, audience, &mut |_| {})?;
    let (held, held_bytes) = held(image)?;
    let (filled, filled_bytes) = rebuilt.filled;
    say(&flags.output, written.bytes, (held + filled, held_bytes + filled_bytes), printer);
    Ok((written.bytes, rebuilt.left_out))
}

/// Files that an image holds, with those that are empty, and their bytes.
fn held(image: &OpenedImage) -> Result<(u64, u64), ExportError> {
    let all = FoundNode { path: b"/".to_vec(), nid: image.root() };
    Ok(select(image, vec![all], MissingContent::Leave)?.files())
}

fn say(output: &Path, bytes: u64, (files, content): (u64, u64), printer: &Printer) {
    if output.as_os_str() != "-" {
        let (files, content) = (counted(files, "file"), size(content));
        printer.talk(&format!("wrote `{}`: {} with {files} of {content}", shown(output), size(bytes)));
    }
}

/// The flags by which Apptainer puts each root in its place.
fn binds(image: &OpenedImage, output: &Path) -> String {
    let file = quoted_name(output);
    let bind = |root: quell_image::IndexedDirectory<'_>| {
        let root = quoted(root.path);
        format!("--bind {file}:{root}:image-src={root}")
    };
    image.index().roots().map(bind).collect::<Vec<_>>().join(" ")
}
