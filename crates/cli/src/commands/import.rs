//! `quell import`.

use crate::failure::Failure;
use crate::flags::{Import, Tool};
use crate::printer::Printer;
use crate::traces;
use quell_base::shell::quoted_name;
use quell_base::shown;
use quell_import::{ImportError, ImportRequest, Imported};
use quell_record::node;
use quell_trace::resolve::NoFileSystem;
use quell_trace::{Mount, TraceError};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Import, printer: &mut Printer) -> Result<u8, Failure> {
    let Tool::Strace = flags.tool;
    let directory = flags.output.clone().unwrap_or_else(|| name(&flags.logs));
    let aside = traces::aside(&directory, flags.force)?;
    let mounts = mounts(flags)?;
    let request = ImportRequest {
        logs: flags.logs.clone(),
        temporary: std::env::temp_dir(),
        directory: aside.clone().unwrap_or_else(|| directory.clone()),
        working_directory: flags.directory.as_deref().map(working_directory),
        mounts,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let imported = import(&request, flags).map_err(explain)?;
    if let Some(aside) = aside {
        traces::replace(&directory, &aside)?;
    }
    say(&imported, &directory, flags, printer);
    Ok(0)
}

fn import(request: &ImportRequest, flags: &Import) -> Result<Imported, ImportError> {
    match flags.here {
        true => quell_import::strace(request, &mut node::asker(&request.mounts)),
        false => quell_import::strace(request, &mut NoFileSystem),
    }
}

/// The trace of a log: `app.log`, `app.log.gz` and `app.log.7455` make `app.qtrace`.
fn name(logs: &[PathBuf]) -> PathBuf {
    let named = logs.first().filter(|log| log.as_os_str() != "-").and_then(|log| log.file_name());
    let mut name = PathBuf::from(named.unwrap_or(OsStr::new("strace")));
    if name.extension().is_some_and(|suffix| ["gz", "xz", "zst"].iter().any(|packed| suffix == *packed)) {
        name.set_extension("");
    }
    let is_number = |part: &OsStr| part.as_bytes().iter().all(u8::is_ascii_digit);
    if name.extension().is_some_and(is_number) {
        name.set_extension("");
    }
    name.with_extension("qtrace")
}

fn mounts(flags: &Import) -> Result<Vec<Mount>, Failure> {
    let path = match (&flags.mounts, flags.here) {
        (Some(path), _) => path.as_path(),
        (None, true) => Path::new("/proc/self/mountinfo"),
        (None, false) => return Ok(Vec::new()),
    };
    let table = std::fs::read(path)
        .map_err(|error| Failure::new(error).context(format!("cannot read `{}`", path.display())))?;
    let mounts = node::mounts(&table);
    match mounts.is_empty() {
        false => Ok(mounts),
        true => {
            let no_table = Failure::message(format!("`{}` lists no mounts", path.display()));
            Err(no_table.hint("copy /proc/self/mountinfo on the node where the command ran"))
        }
    }
}

fn working_directory(directory: &Path) -> Vec<u8> {
    let absolute = std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned());
    absolute.into_os_string().into_encoded_bytes()
}

/// One line on what was imported, what is missing in it, and the next step.
fn say(imported: &Imported, directory: &Path, flags: &Import, printer: &Printer) {
    let recorder = &imported.header.recorder;
    let name = shown(directory);
    if let Some(first) = recorder.notes.first().filter(|_| recorder.lost > 0) {
        printer.warn(&format!("the trace lacks {}: {first}", count(recorder.lost, "call", "calls")));
    }
    if let Some(lacking) = &imported.lacking {
        printer.warn(lacking);
    }
    let (calls, processes) =
        (count(recorder.events, "call", "calls"), count(imported.processes, "process", "processes"));
    let next = quoted_name(directory);
    printer.talk(&format!("imported {calls} of {processes} in `{name}`; next: quell report {next}"));
    if !flags.here && flags.mounts.is_none() {
        printer.talk("`--here`, on the node where the command ran, adds its file systems and symbolic links");
    }
}

fn count(number: u64, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

fn explain(error: ImportError) -> Failure {
    const ONE_RUN: &str = "import each run by itself";
    let hint = match &error {
        ImportError::Trace(_) => None,
        ImportError::Read { path, source } if source.kind() == std::io::ErrorKind::NotFound => {
            thread_logs(path).map(|count| {
                format!("`strace -ff` wrote {count} files: import them all as {}.*", path.display())
            })
        }
        ImportError::Read { .. } => None,
        ImportError::NotAFile { .. } => None,
        ImportError::Copy { .. } => Some("`TMPDIR` names a directory with more space".to_owned()),
        ImportError::Empty { .. } | ImportError::NotALog { .. } | ImportError::OfAnotherTool { .. } => {
            Some("`strace -f -v -s 4096 -ttt -T -y -o LOG CMD` writes a log".to_owned())
        }
        ImportError::Summary { .. } => {
            Some("run strace without `-c`: `strace -f -v -s 4096 -ttt -T -y -o LOG CMD`".to_owned())
        }
        ImportError::LongLine { .. } => Some("`strace -s 4096` keeps lines short".to_owned()),
        ImportError::NotOfSeveral { .. } => Some("import each log by itself".to_owned()),
        ImportError::TwoRuns { .. } => Some(format!("{ONE_RUN}; files of an earlier run may be left beside")),
        ImportError::SecondRun { .. } => Some(format!("cut the log before that line, and {ONE_RUN}")),
    };
    let failure = match error {
        // No trace was looked for: one was to be written.
        ImportError::Trace(error @ TraceError::Io { .. }) => {
            return Failure::new(error).hint("`-o DIR` writes the trace elsewhere");
        }
        ImportError::Trace(error) => return traces::explain(error),
        error => Failure::new(error),
    };
    failure.hints(hint)
}

/// The number of files that `strace -ff -o PATH` left, where there is none of that name itself.
fn thread_logs(path: &Path) -> Option<usize> {
    let directory = quell_base::files::directory_of(path);
    let stem = path.file_name()?.as_bytes();
    let is_log = |name: &OsStr| {
        let number = name.as_bytes().strip_prefix(stem).and_then(|rest| rest.strip_prefix(b"."));
        number.is_some_and(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    };
    let entries = std::fs::read_dir(directory).ok()?;
    let count = entries.flatten().filter(|entry| is_log(&entry.file_name())).count();
    (count > 0).then_some(count)
}
