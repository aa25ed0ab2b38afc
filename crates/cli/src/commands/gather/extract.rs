//! `quell gather extract`.

use super::opened::{NAMED, Opened, open, warn};
use crate::failure::Failure;
use crate::flags::GatherExtract;
use crate::printer::Printer;
use quell_base::number::{counted, size};
use quell_base::parallel::DEFAULT_PARALLELISM;
use quell_base::{escape, shown};
use quell_gather::{ExtractOptions, Extracted, Replacing, View, extract};
use rustix::fs::{CWD, Mode, OFlags};
use std::io;
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &GatherExtract, printer: &Printer) -> Result<u8, Failure> {
    let Opened { view, status } = open(&flags.containers, printer)?;
    let target = match &flags.output {
        Some(output) => output.clone(),
        None => around(&view)?,
    };
    let opened =
        rustix::fs::openat(CWD, &target, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
    let opened = opened.map_err(|errno| {
        let failure = Failure::new(io::Error::from(errno)).context(format!("`{}`", shown(&target)));
        failure.hint(format!("mkdir -p {}", quell_base::shell::quoted_name(&target)))
    })?;
    let options = ExtractOptions {
        replacing: if flags.force { Replacing::Everything } else { Replacing::Nothing },
        synchronises: flags.fsync,
        threads: DEFAULT_PARALLELISM,
    };
    let outcome = extract(&view, &opened, options);
    let conflicts = warn(&view, printer);
    tell(&target, &outcome, printer);
    let is_whole =
        [&outcome.occupied, &outcome.unchanged, &outcome.remaining, &outcome.newer, &outcome.reserved]
            .iter()
            .all(|paths| paths.is_empty());
    Ok(conflicts.max(status).max(u8::from(!is_whole || !outcome.failed.is_empty())))
}

/// The directory in which all containers lie.
fn around(view: &View) -> Result<PathBuf, Failure> {
    let parents = view.containers.iter().map(|open| match open.path.parent() {
        Some(parent) if parent != Path::new("") => parent.to_owned(),
        _ => PathBuf::from("."),
    });
    let mut parents: Vec<_> = parents.collect();
    parents.dedup();
    match &parents[..] {
        [one] => Ok(one.clone()),
        _ => Err(Failure::message("the containers lie in several directories")
            .hint("`-o DIR` names the directory to write to")),
    }
}

fn tell(target: &Path, outcome: &Extracted, printer: &Printer) {
    let same = (outcome.same > 0).then(|| format!(", {} there already", outcome.same));
    let removed = (outcome.removed > 0).then(|| format!(", {} removed", outcome.removed));
    let more: String = same.into_iter().chain(removed).collect();
    let (files, bytes) = (counted(outcome.files, "file"), size(outcome.bytes));
    printer.talk(&format!("`{}`: {files} of {bytes} written{more}", shown(target)));
    for (path, error) in outcome.failed.iter().take(NAMED) {
        printer.warn(&format!("`{}`: {error}", escape(path)));
    }
    more_than(outcome.failed.len(), "further failure", printer);
    for path in outcome.occupied.iter().take(NAMED) {
        printer.warn(&format!("`{}` is there already, and is not what the container has", escape(path)));
    }
    more_than(outcome.occupied.len(), "further name that is there already", printer);
    for path in outcome.unchanged.iter().take(NAMED) {
        let path = if path.is_empty() { shown(target).to_string() } else { escape(path) };
        printer.warn(&format!("directory `{path}` keeps its attributes; a program of the run changed them"));
    }
    more_than(outcome.unchanged.len(), "further directory with attributes that programs changed", printer);
    for path in outcome.remaining.iter().take(NAMED) {
        printer.warn(&format!("`{}` was removed by a program of the run, and is still there", escape(path)));
    }
    more_than(outcome.remaining.len(), "further name that programs removed", printer);
    for path in outcome.newer.iter().take(NAMED) {
        printer.warn(&format!(
            "`{}` was removed by a program of the run, and has changed since; it stays",
            escape(path)
        ));
    }
    more_than(outcome.newer.len(), "further name that has changed since programs removed it", printer);
    warn_of_reserved(&outcome.reserved, printer);
    if !outcome.occupied.is_empty() || !outcome.unchanged.is_empty() || !outcome.remaining.is_empty() {
        printer.hint("`--force` makes the directory what the programs left");
    }
}

/// Says which names are left out because containers have such names.
pub(super) fn warn_of_reserved(paths: &[Vec<u8>], printer: &Printer) {
    for path in paths.iter().take(NAMED) {
        printer.warn(&format!("`{}` is left out: only containers have such a name", escape(path)));
    }
    more_than(paths.len(), "further name that only containers have", printer);
    if !paths.is_empty() {
        printer.hint("`quell gather cat` prints such a file");
    }
}

fn more_than(count: usize, what: &str, printer: &Printer) {
    if count > NAMED {
        printer.warn(&format!("and {}", counted((count - NAMED) as u64, what)));
    }
}
