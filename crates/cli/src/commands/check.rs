//! `quell check`: an image against its originals, and the stamp that spares ranks the comparison.

use crate::failure::Failure;
use crate::flags::CheckOriginals;
use crate::printer::Printer;
use crate::{host, images, output};
use quell_base::shown;
use quell_mount::stamp::{self, Stamp};
use quell_mount::{Checked, ImageTrust, OriginalChange, OsError};
use quell_report::view::{ChangedOriginal, LeftStamp, SCHEMA_VERSION, SourceCheckView};
use rustix::io::Errno;
use std::path::Path;
use std::time::Instant;

/// Changes that are listed in JSON.
const LISTED: usize = 1000;

pub(crate) fn run(flags: &CheckOriginals, printer: &mut Printer) -> Result<u8, Failure> {
    let (path, name) = (flags.image.as_path(), shown(&flags.image));
    let trust = if flags.trust { ImageTrust::AnyOwner } else { ImageTrust::OwnerOrRoot };
    let refused = |error| {
        let hint = images::hint(&error);
        Failure::new(error).context(format!("image `{name}`")).hint(hint)
    };
    let began = Instant::now();
    // A change during the comparison must not count as compared.
    let checked_at = host::now() as u64;
    let opened = quell_mount::view_trusted(path, trust).map_err(refused)?;
    let checked = quell_mount::check::check(&opened, path, flags.jobs.into()).map_err(refused)?;
    let seconds = began.elapsed().as_secs_f64();
    let left = match checked.changes.is_empty() {
        true if flags.valid_for.0 > 0 && is_compared(&checked) => {
            leave(path, &opened, flags, checked_at, &checked).map(Some)
        }
        true => Ok(None),
        // The stamp of an earlier check no longer holds.
        false => stamp::withdraw(path).map(|()| None).map_err(|error| error.to_string()),
    };
    if flags.json {
        printer.data(&output::json(&comparison(flags, name, &checked, seconds, left))?)?;
        return Ok(u8::from(!checked.changes.is_empty()));
    }
    if !checked.changes.is_empty() {
        return Err(changed(path, &checked.changes));
    }
    printer.data(&match is_compared(&checked) {
        true => format!(
            "{name}: unchanged; {} entries compared in {} operations, at most {} at a time, in {seconds:.1} s\n",
            checked.entries, checked.operations, flags.jobs
        ),
        false => format!("{name}: not compared: this node does not have its originals\n"),
    })?;
    match left {
        Ok(Some(left)) => {
            printer.talk(&format!("ranks trust that for {} (`{}`)", flags.valid_for, left.path))
        }
        Ok(None) => {}
        Err(why) => {
            let stamp = shown(stamp::path_of(path));
            printer
                .warn(&format!("cannot leave `{stamp}`, so the first rank of each job compares too: {why}"));
        }
    }
    Ok(0)
}

/// A complete image without its originals was compared with nothing.
fn is_compared(checked: &Checked) -> bool {
    checked.entries > 0
}

fn changed(path: &Path, changes: &[OriginalChange]) -> Failure {
    let what = match changes.len() {
        1 => "1 original has".to_owned(),
        count => format!("{count} originals have"),
    };
    let message = format!("image `{}`: {what} changed since it was made", shown(path));
    Failure::message(message).facts(images::first_changes(changes)).hint(images::mending(path)).status(1)
}

/// Leaves a stamp beside the image.
fn leave(
    path: &Path,
    opened: &images::OpenedImage,
    flags: &CheckOriginals,
    checked_at: u64,
    checked: &Checked,
) -> Result<LeftStamp, String> {
    if !flags.trust && !stamp::may_count(path) {
        return Err("others can write to the directory, or to one above it".to_owned());
    }
    let stamp = Stamp { checked: checked_at, lifetime: flags.valid_for.0 };
    match stamp::leave(path, opened.index().identity(), stamp, checked) {
        Ok(left) => Ok(LeftStamp { path: shown(&left), until: stamp.checked + stamp.lifetime }),
        Err(OsError(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS))) => {
            Err(format!("{} (the directory may not be written to)", OsError(errno)))
        }
        Err(error) => Err(error.to_string()),
    }
}

fn comparison(
    flags: &CheckOriginals,
    image: String,
    checked: &Checked,
    seconds: f64,
    left: Result<Option<LeftStamp>, String>,
) -> SourceCheckView {
    let listed = checked
        .changes
        .iter()
        .take(LISTED)
        .map(|change| ChangedOriginal { path: shown(&change.path), difference: change.difference.name() });
    let (stamp, stamp_error) = match left {
        Ok(stamp) => (stamp, None),
        Err(error) => (None, Some(error)),
    };
    SourceCheckView {
        schema_version: SCHEMA_VERSION,
        image,
        unchanged: checked.changes.is_empty(),
        compared: is_compared(checked),
        entries: checked.entries,
        operations: checked.operations,
        jobs: flags.jobs,
        seconds,
        changes: listed.collect(),
        omitted: checked.changes.len().saturating_sub(LISTED) as u64,
        stamp,
        stamp_error,
    }
}
