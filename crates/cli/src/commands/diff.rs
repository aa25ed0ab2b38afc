//! `quell diff`.

use crate::failure::Failure;
use crate::flags::Diff;
use crate::printer::Printer;
use crate::{output, traces};
use quell_analyse::comparison::increases;
use quell_analyse::{Comparison, Doubt, Summary};
use quell_report::terminal;
use quell_report::view::{self, Rows};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Diff, printer: &mut Printer) -> Result<u8, Failure> {
    output::only_one_on_stdout(&[("--json", flags.json), ("--csv", flags.csv.is_some())])?;
    let comparison = quell_analyse::compare(&summarise(&flags.before)?, &summarise(&flags.after)?);
    let increases = increases(&comparison, &flags.fail_on_increase);
    let view = |rows| view::diff(&comparison, &increases, rows);
    let text = match flags.csv {
        Some(table) => table.text(&view(Rows::Whole)),
        None if flags.json => output::json(&view(Rows::Top))?,
        None => terminal::diff(&view(Rows::Top), printer.style()),
    };
    printer.data(&text)?;
    if flags.fail_on_increase.is_empty() {
        return Ok(u8::from(comparison.differs()));
    }
    warn_of_gaps(&comparison, printer);
    increases.iter().for_each(|increase| printer.warn(&increase.to_string()));
    Ok(u8::from(!increases.is_empty()))
}

/// Warns that a recording lacks events. Its totals are too small, and scripts do not read the table that says so.
fn warn_of_gaps(comparison: &Comparison, printer: &Printer) {
    let is_gap = |doubt: &&Doubt| matches!(doubt, Doubt::Empty | Doubt::Partial { .. } | Doubt::Lost { .. });
    let gaps = comparison.b.doubts.iter().filter(is_gap).map(|doubt| format!("b: {doubt}"));
    let unequal = comparison.doubt().map(|doubt| doubt.to_string());
    gaps.chain(unequal).for_each(|line| printer.warn(&line));
}

fn summarise(side: &Path) -> Result<Summary, Failure> {
    traces::summarise(&recordings(side)?)
}

/// The recordings of one side: what exists under this name goes before a list with commas.
fn recordings(side: &Path) -> Result<Vec<PathBuf>, Failure> {
    let bytes = side.as_os_str().as_bytes();
    if !bytes.contains(&b',') || side.symlink_metadata().is_ok() {
        return within(side);
    }
    let mut recordings = Vec::new();
    for part in bytes.split(|&byte| byte == b',') {
        recordings.extend(within(Path::new(OsStr::from_bytes(part)))?);
    }
    Ok(recordings)
}

/// The recordings in a directory that is none itself; else what was given. Shape: at least one, sorted.
fn within(given: &Path) -> Result<Vec<PathBuf>, Failure> {
    let is_recording = given.join("header.json").symlink_metadata().is_ok();
    if is_recording || !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let failure = |error| Failure::new(error).context(format!("cannot list `{}`", given.display()));
    let mut recordings = Vec::new();
    for entry in given.read_dir().map_err(failure)? {
        let path = entry.map_err(failure)?.path();
        // Judged by the name alone: a directory on a shared file system may hold very many others.
        if path.extension().is_some_and(|extension| extension == "qtrace") {
            recordings.push(path);
        }
    }
    recordings.sort();
    match recordings.is_empty() {
        true => Ok(vec![given.to_owned()]),
        false => Ok(recordings),
    }
}
