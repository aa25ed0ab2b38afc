//! `quell export`.

use crate::failure::Failure;
use crate::flags::{Export, ExportForm};
use crate::printer::Printer;
use crate::traces;
use quell_base::files::{OutputMode, OutputPlace};
use quell_base::shown;
use quell_export::{ExportError, export};
use rustix::stdio::stdout;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal};
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Export, printer: &mut Printer) -> Result<u8, Failure> {
    let (format, ending) = flags.format.format();
    let trace = traces::open(&flags.traces)?;
    let path = flags.output.clone().unwrap_or_else(|| name(&flags.traces[0], ending));
    if path.as_os_str() == STDOUT {
        if flags.format == ExportForm::Parquet && std::io::stdout().is_terminal() {
            return Err(Failure::message("Parquet is no text for a terminal").hint("`-o FILE` writes a file"));
        }
        let explain = |error| explain(error, "standard output");
        let file = File::from(stdout().try_clone_to_owned().map_err(explain)?);
        return match export(&trace, format, &file, &path) {
            // The reader has seen enough, such as `head`.
            Err(ExportError::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(0),
            Err(ExportError::Write(error)) => Err(explain(error)),
            Err(ExportError::Read(error)) => Err(traces::explain(error)),
            Ok(()) => Ok(0),
        };
    }
    let output = format!("`{}`", shown(&path));
    let explain = |error| explain(error, &output);
    let place = OutputPlace::of(&path).map_err(explain)?;
    if place.holds_file() && !flags.force {
        let exists = Failure::message(format!("{output} exists"));
        return Err(exists.hint("`--force` replaces it, `-o FILE` writes elsewhere"));
    }
    // The table has paths and command lines, which are private as the trace is.
    let written = place.fill(OutputMode::Exactly(0o600), |file| export(&trace, format, file, &path));
    written.map_err(|error| match error {
        ExportError::Read(error) => traces::explain(error),
        ExportError::Write(error) => explain(error),
    })?;
    printer.talk(&format!("wrote {output}, {}", next(flags.format)));
    Ok(0)
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

/// The failure to write `output`, which is in quotes when it is a path.
fn explain(error: std::io::Error, output: &str) -> Failure {
    let hint = match error.kind() {
        ErrorKind::NotFound => Some("the directory must be there already"),
        ErrorKind::IsADirectory => Some("name a file with `-o FILE`"),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Some("`-o FILE` writes elsewhere"),
        _ => None,
    };
    Failure::new(error).context(format!("cannot write {output}")).hints(hint)
}

/// Stands for standard output.
const STDOUT: &str = "-";
