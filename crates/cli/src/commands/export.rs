//! `quell export`.

use crate::failure::Failure;
use crate::flags::{Export, ExportForm};
use crate::printer::Printer;
use crate::traces;
use quell_base::files::{Durability, OutputMode, OutputPlace};
use quell_base::shown;
use quell_export::{ExportError, export};
use quell_trace::Trace;
use rustix::stdio::stdout;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Export, printer: &mut Printer) -> Result<u8, Failure> {
    let (format, ending) = flags.format.format();
    let trace = traces::open(&flags.traces)?;
    let path = flags.output.clone().unwrap_or_else(|| name(&trace.recordings[0].directory, ending));
    if path.as_os_str() == STDOUT {
        if flags.format == ExportForm::Parquet && std::io::stdout().is_terminal() {
            return Err(Failure::message("Parquet is no text for a terminal").hint("`-o FILE` writes a file"));
        }
        let file = File::from(stdout().try_clone_to_owned().map_err(|error| explain(error, &path))?);
        return match export(&trace, format, &file, &path) {
            // The reader has seen enough, such as `head`.
            Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
            outcome => outcome.map(|()| 0).map_err(|error| failure(error, &path)),
        };
    }
    if path.symlink_metadata().is_ok_and(|found| found.is_file()) && !flags.force {
        let exists = Failure::message(format!("`{}` exists", shown(&path)));
        return Err(exists.hint("`--force` replaces it, `-o FILE` writes elsewhere"));
    }
    write(&trace, flags.format, &path)?;
    printer.talk(&format!("wrote `{}`, {}", shown(&path), next(flags.format)));
    Ok(0)
}

/// Writes a file that appears when it is complete.
fn write(trace: &Trace, form: ExportForm, path: &Path) -> Result<(), Failure> {
    let io = |error| explain(error, path);
    let place = OutputPlace::of(path).map_err(io)?;
    // The table has paths and command lines, which are private as the trace is.
    let mut output = place.create(OutputMode::Exactly(0o600)).map_err(io)?;
    export(trace, form.format().0, output.file(), path).map_err(|error| failure(error, path))?;
    output.publish(Durability::Cached).map_err(io)
}

/// `app.qtrace` makes `app.speedscope.json`, in the working directory.
fn name(trace: &Path, ending: &str) -> PathBuf {
    let stem = trace.file_stem().map(std::ffi::OsStr::to_os_string).unwrap_or_default();
    let mut name = stem;
    name.push(".");
    name.push(ending);
    name.into()
}

/// The tool that opens it.
fn next(form: ExportForm) -> &'static str {
    match form {
        ExportForm::Perfetto => "a timeline; open it in ui.perfetto.dev",
        ExportForm::Speedscope => {
            "a flame graph; open it in www.speedscope.app, which keeps it in the browser"
        }
        ExportForm::Csv | ExportForm::Parquet => "a table with a row for each call",
    }
}

fn failure(error: ExportError, path: &Path) -> Failure {
    match error {
        ExportError::Read(error) => traces::explain(error),
        ExportError::Write(error) => explain(error, path),
    }
}

fn explain(error: std::io::Error, path: &Path) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => Some("the directory must be there already"),
        ErrorKind::IsADirectory => Some("name a file with `-o FILE`"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("`-o FILE` writes elsewhere"),
        _ => None,
    };
    Failure::new(error).context(format!("cannot write `{}`", shown(path))).hints(hint)
}

/// Stands for standard output.
const STDOUT: &str = "-";
