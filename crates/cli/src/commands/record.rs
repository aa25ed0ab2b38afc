//! `quell record`.

use crate::failure::{self, Failure, NOT_EXECUTABLE, NOT_FOUND, OURS};
use crate::flags::{self, Record};
use crate::printer::Printer;
use crate::{host, launch, names, traces};
use quell_base::{Launcher, RankId};
use quell_record::{RecordError, Recorded, Recording};
use quell_trace::TraceError;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: Record, printer: &mut Printer) -> Result<u8, Failure> {
    let launcher = host::launcher();
    if flags.disable || !records(&flags, launcher.as_ref()) {
        if !flags.disable && launcher.as_ref().is_some_and(|launcher| is_asked_in_vain(&flags, launcher)) {
            printer.warn("no trace is made: the job has none of the ranks that `--ranks` names");
        }
        return Err(launch::plain(&flags.command));
    }
    if let Some(inner) = launch::wrapped_run(&flags.command) {
        return record_inside(flags, inner, printer);
    }
    let directory = directory(&flags, launcher.as_ref());
    make_way(&directory, &flags)?;
    let request = Recording {
        header: traces::begun(&flags.command, launcher.as_ref()),
        command: flags.command,
        environment: std::env::vars_os().collect(),
        directory,
    };
    let recorded = quell_record::record(&request).map_err(explain)?;
    let status = recorded.exit.shell_status();
    if launcher.is_none_or(|launcher| speaks(flags.ranks.as_deref(), &launcher)) {
        say(recorded, &request.directory, printer);
    }
    Ok(u8::try_from(status).unwrap_or(OURS))
}

/// This rank records: one of `--ranks`, else rank 0 or the sample.
fn records(flags: &Record, launcher: Option<&Launcher>) -> bool {
    match (launcher, &flags.ranks) {
        (None, _) => true,
        (Some(launcher), Some(ranks)) => ranks.contains(&launcher.rank.0),
        (Some(launcher), None) => launcher.records_by_default(),
    }
}

/// This rank names the traces for the job: it is the lowest of those that record.
fn speaks(ranks: Option<&[u32]>, launcher: &Launcher) -> bool {
    launcher.rank.0 == ranks.and_then(|ranks| ranks.iter().min().copied()).unwrap_or(0)
}

/// This is rank 0 of a job that has none of `--ranks`. No other rank can warn of that.
fn is_asked_in_vain(flags: &Record, launcher: &Launcher) -> bool {
    let beyond = |rank: &u32| launcher.ranks.is_some_and(|ranks| *rank >= ranks);
    launcher.rank == RankId(0) && flags.ranks.as_ref().is_some_and(|ranks| ranks.iter().all(beyond))
}

fn directory(flags: &Record, launcher: Option<&Launcher>) -> PathBuf {
    let named = flags.output.clone().unwrap_or_else(|| names::trace(&flags.command));
    names::of_rank(&named, launcher.map(|launcher| launcher.rank))
}

/// Removes an earlier trace when that was asked for and there is a command to record; anything else that is in the way
/// stays.
fn make_way(directory: &Path, flags: &Record) -> Result<(), Failure> {
    if !directory.exists() {
        return Ok(());
    }
    let exists = || traces::explain(TraceError::Exists { path: directory.to_owned() }).status(OURS);
    if !flags.force {
        return Err(exists());
    }
    if !directory.join("header.json").is_file() {
        let no_trace = Failure::message(format!("`{}` exists and is not a trace", directory.display()));
        return Err(no_trace.hint("`-o DIR` writes elsewhere").status(OURS));
    }
    let program = flags.command.first().map(OsString::as_os_str).unwrap_or_default();
    quell_record::find(program, std::env::var_os("PATH").as_deref()).map_err(explain)?;
    std::fs::remove_dir_all(directory).map_err(|error| {
        Failure::new(error).context(format!("cannot replace `{}`", directory.display())).status(OURS)
    })
}

/// Records inside the namespace: the server must not be traced, because the tracer waits for what it answers.
fn record_inside(flags: Record, inner: flags::Run, printer: &mut Printer) -> Result<u8, Failure> {
    let ourselves = std::env::current_exe().map_err(|error| Failure::new(error).status(OURS))?;
    let mut output = flags.output.unwrap_or_else(|| names::trace(&inner.command));
    output = std::path::absolute(&output).unwrap_or(output);
    let mut command = vec![ourselves.into_os_string(), "record".into(), "--output".into(), output.into()];
    command.extend(flags.force.then(|| OsString::from("--force")));
    if let Some(ranks) = flags.ranks {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        command.push(format!("--ranks={}", ranks.join(",")).into());
    }
    command.extend(printer.flags().map(OsString::from));
    command.push("--".into());
    command.extend(inner.command);
    launch::in_image(&flags::Run { command, ..inner }, printer)
}

/// One line on what was recorded, what is missing in it, and the next step.
fn say(recorded: Recorded, directory: &Path, printer: &Printer) {
    let recorder = &recorded.header.recorder;
    let name = directory.display();
    if let Some(problem) = recorded.problem {
        printer.warn(&format!("the trace is partial: {}", Failure::new(problem).line()));
        printer.hint("make room, or write elsewhere with `-o DIR`");
    }
    if recorder.lost > 0 {
        printer.warn(&format!("the trace lacks calls: {}", recorder.notes.join("; ")));
    }
    printer.talk(&format!("recorded {} calls in `{name}`; next: quell report {name}", recorder.events));
    let written = byte_code_written(directory);
    if written > 0 {
        printer.hint(&format!(
            "this run wrote {written} Python byte-code files, which later runs only read: record once more, with --force"
        ));
    }
}

/// The number of `.pyc` files that the run wrote. Python writes each under a name of its own, `NAME.pyc.NUMBER`, and renames it.
fn byte_code_written(directory: &Path) -> usize {
    let Ok(recording) = quell_trace::Recording::open(directory) else { return 0 };
    let aside = |path: &[u8]| {
        let number = path.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
        let stem = path.strip_suffix(number).unwrap_or_default();
        stem.ends_with(b".pyc.")
            && !number.is_empty()
            && number.iter().all(u8::is_ascii_digit)
            && path[0] == b'/'
    };
    recording.paths.iter().filter(|(_, path)| aside(path)).count()
}

fn explain(error: RecordError) -> Failure {
    let (status, hint) = match &error {
        RecordError::NotFound { .. } => (NOT_FOUND, Some(failure::LOOK_FOR)),
        RecordError::NotExecutable { .. } => (NOT_EXECUTABLE, Some(failure::MAKE_EXECUTABLE)),
        RecordError::Barred { .. } => (
            OURS,
            Some(
                "record on a node that allows it, or use a log: `strace -f -o LOG CMD` needs the same right",
            ),
        ),
        RecordError::Trace(TraceError::Exists { .. }) => {
            (OURS, Some("`--force` replaces it, `-o DIR` writes elsewhere"))
        }
        RecordError::Trace(_) => (OURS, Some("`-o DIR` writes the trace elsewhere")),
        RecordError::ZeroByte { .. } | RecordError::Start { .. } => (OURS, None),
    };
    let failure = Failure::new(error).status(status);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
