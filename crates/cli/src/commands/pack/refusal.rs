//! Refusals of `quell pack`: targets that must not be replaced, and failures with their hints.

use crate::failure::Failure;
use crate::flags::Pack;
use quell_image::write::WriteError;
use quell_pack::PackError;
use std::path::Path;

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

/// A failure of packing, with its hint.
pub(super) fn explain(error: PackError) -> Failure {
    let hint = match &error {
        PackError::Nothing { .. } => Some("`--root DIR` packs below a directory, whatever its file system"),
        PackError::Root { .. } => Some("`--root` takes a directory that exists"),
        PackError::Closed { .. } => {
            Some("name another directory with `--root`; without `--public` the image is yours alone")
        }
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
    Failure::new(error).context("cannot pack").hints(hint)
}
