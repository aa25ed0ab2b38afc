//! `quell record`.

use crate::failure::{self, Failure, NOT_EXECUTABLE, NOT_FOUND, OURS};
use crate::flags::{self, Record, RecordEngine};
use crate::printer::Printer;
use crate::{host, launch, names, traces};
use clap::ValueEnum;
use quell_base::number::counted;
use quell_base::shell::quoted_name;
use quell_base::{RankId, RankPlace, shown};
use quell_record::{
    EngineChoice, GaveWay, JoinBarrier, Leftover, Listener, PythonHook, RecordError, RecordRequest, Recorded,
    RecordedScope, StartLimits, TraceBarrier, TracePurpose,
};
use quell_trace::header::RecorderFacts;
use quell_trace::{Ended, Header, TraceError};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) fn run(flags: Record, printer: &mut Printer) -> Result<u8, Failure> {
    let place = host::rank_place();
    if flags.disable || !records(&flags, place.as_ref()) {
        if !flags.disable && place.as_ref().is_some_and(|place| is_asked_in_vain(&flags, place)) {
            printer.warn("no trace is made: the job has none of the ranks that `--ranks` names");
        }
        return Err(launch::plain(&flags.command));
    }
    if let Some(inner) = launch::wrapped_run(&flags.command) {
        return record_inside(flags, inner, printer);
    }
    if let Some(name) = launch::launcher_in(&flags.command, place.as_ref()) {
        printer.warn(&format!("`{name}` starts ranks outside of the recording"));
        printer.hint(&format!("{name} ... quell record -- CMD"));
    }
    let speaks = place.as_ref().is_none_or(|place| speaks(flags.ranks.as_deref(), place));
    let rank = place.as_ref().map(|place| place.rank);
    let named = flags.output.clone().unwrap_or_else(|| names::trace(&flags.command));
    make_way(&names::of_rank(&named, rank), &flags)?;
    let request = RecordRequest {
        header: traces::begun(&flags.command, place.as_ref()),
        command: flags.command,
        environment: std::env::vars_os().collect(),
        directory: PathBuf::new(),
        scope: scope(flags.until_started),
        engine: engine(flags.engine),
        roots: flags.roots,
        purpose: TracePurpose::Any,
        python: if flags.python { PythonHook::Imports } else { PythonHook::None },
    };
    let (recorded, directory) = record(request, &named, rank, speaks, printer)?;
    let status = recorded.exit.shell_status();
    if speaks {
        say(recorded, &directory, printer);
    }
    Ok(u8::try_from(status).unwrap_or(OURS))
}

fn engine(flag: RecordEngine) -> EngineChoice {
    match flag {
        RecordEngine::Auto => EngineChoice::Auto,
        RecordEngine::Ptrace => EngineChoice::Ptrace,
        RecordEngine::Mount => EngineChoice::Mount,
    }
}

fn scope(until_started: Option<Duration>) -> RecordedScope {
    match until_started {
        Some(quiet) => RecordedScope::Start(StartLimits { quiet, ..StartLimits::default() }),
        None => RecordedScope::Run,
    }
}

/// Records into the directory that was named, or into the next that is free: a trace that is there already must not
/// cost the user a place in the queue.
fn record(
    mut request: RecordRequest,
    named: &Path,
    rank: Option<RankId>,
    speaks: bool,
    printer: &Printer,
) -> Result<(Recorded, PathBuf), Failure> {
    let mut teller = Teller { printer, name: program(&request.command), scope: request.scope };
    in_free_place(named, rank, speaks, printer, |directory| {
        directory.clone_into(&mut request.directory);
        quell_record::record(&request, &mut teller)
    })
}

pub(super) fn in_free_place<Made>(
    named: &Path,
    rank: Option<RankId>,
    speaks: bool,
    printer: &Printer,
    mut make: impl FnMut(&Path) -> Result<Made, RecordError>,
) -> Result<(Made, PathBuf), Failure> {
    for number in 1..=MOST_NAMES {
        let trace = if number == 1 { named.to_owned() } else { names::numbered(named, number) };
        let directory = names::of_rank(&trace, rank);
        if directory.symlink_metadata().is_ok() {
            continue;
        }
        if number > 1 && speaks {
            let (taken, free) = (names::of_rank(named, rank), directory.display());
            printer.talk(&format!("`{}` exists already: the trace becomes `{free}`", taken.display()));
        }
        match make(&directory) {
            // Another recording took the name meanwhile.
            Err(RecordError::Trace(TraceError::Exists { .. })) => {}
            made => return Ok((made.map_err(explain)?, directory)),
        }
    }
    Err(traces::explain(TraceError::Exists { path: names::of_rank(named, rank) }).status(OURS))
}

/// The number of names to try.
const MOST_NAMES: u32 = 1000;

/// Tells the user why the recorder waits.
struct Teller<'a> {
    printer: &'a Printer,
    name: String,
    scope: RecordedScope,
}

impl Listener for Teller<'_> {
    fn waits(&mut self, processes: &[Leftover]) {
        const SHOWN: usize = 3;
        let mut names: Vec<String> = processes.iter().take(SHOWN).map(named).collect();
        names.extend(processes.len().checked_sub(SHOWN + 1).map(|more| format!("{} more", more + 1)));
        let consequence = match self.scope {
            RecordedScope::Run => "ends them and keeps the trace",
            RecordedScope::Start(_) => "ends the recording and lets them run on",
        };
        self.printer.warn(&format!("`{}` ended; still recording {}", self.name, names.join(", ")));
        self.printer.hint(&format!("Ctrl-C {consequence}"));
    }
}

fn program(command: &[OsString]) -> String {
    let name = command.first().and_then(|program| Path::new(program).file_name()).unwrap_or_default();
    shown(name)
}

fn named(leftover: &Leftover) -> String {
    format!("`{}` (process {})", leftover.name, leftover.process)
}

/// This rank records: one of `--ranks`, else rank 0 or the sample.
fn records(flags: &Record, place: Option<&RankPlace>) -> bool {
    match (place, &flags.ranks) {
        (None, _) => true,
        (Some(place), Some(ranks)) => ranks.contains(&place.rank.0),
        (Some(place), None) => place.records_by_default(),
    }
}

/// This rank names the traces for the job: it is the lowest of those that record.
fn speaks(ranks: Option<&[u32]>, place: &RankPlace) -> bool {
    place.rank.0 == ranks.and_then(|ranks| ranks.iter().min().copied()).unwrap_or(0)
}

/// This is rank 0 of a job that has none of `--ranks`. No other rank can warn of that.
fn is_asked_in_vain(flags: &Record, place: &RankPlace) -> bool {
    let beyond = |rank: &u32| place.ranks.is_some_and(|ranks| *rank >= ranks);
    place.rank == RankId(0) && flags.ranks.as_ref().is_some_and(|ranks| ranks.iter().all(beyond))
}

/// Removes an earlier trace when that was asked for and there is a command to record; anything else that is in the way
/// stays.
pub(super) fn make_way(directory: &Path, flags: &Record) -> Result<(), Failure> {
    if !flags.force || !directory.exists() {
        return Ok(());
    }
    traces::verify_replaceable(directory).map_err(|failure| failure.status(OURS))?;
    if let Some(program) = flags.command.first() {
        quell_record::find(program, std::env::var_os("PATH").as_deref()).map_err(explain)?;
    }
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
    command.extend(flags.python.then(|| OsString::from("--python")));
    let quiet = flags.until_started.map(|quiet| format!("--until-started={}", quiet.as_secs_f64()));
    command.extend(quiet.map(OsString::from));
    if let Some(ranks) = flags.ranks {
        let ranks: Vec<String> = ranks.iter().map(u32::to_string).collect();
        command.push(format!("--ranks={}", ranks.join(",")).into());
    }
    if let Some(value) = flags.engine.to_possible_value() {
        command.push(format!("--engine={}", value.get_name()).into());
    }
    command.extend(flags.roots.into_iter().flat_map(|root| [OsString::from("--root"), root.into()]));
    command.extend(printer.flags().map(OsString::from));
    command.push("--".into());
    command.extend(inner.command);
    launch::run(&flags::Run { command, ..inner }, printer)
}

/// One line on what was recorded, what is missing in it, and the next step.
fn say(recorded: Recorded, directory: &Path, printer: &Printer) {
    let recorder = &recorded.header.recorder;
    say_what_is_missing(recorded.problem, recorded.gave_way, recorder, printer);
    if let Some(barrier) = recorded.barrier {
        printer.warn(&format!("recorded through a mount, which sees less than ptrace does: {barrier}"));
    }
    let part = match recorded.header.ended {
        Some(Ended::Started) => " of the start",
        Some(Ended::Limit) => ", cut short,",
        Some(Ended::Exit) | None => "",
    };
    say_what_is_next(&recorded.header, part, directory, printer);
    let written = byte_code_written(directory);
    if written > 0 {
        printer.hint(&format!(
            "this run wrote {}, which later runs only read: record once more, with --force",
            counted(written as u64, "Python byte-code file")
        ));
    }
}

pub(super) fn say_what_is_missing(
    problem: Option<TraceError>,
    gave_way: Option<GaveWay>,
    recorder: &RecorderFacts,
    printer: &Printer,
) {
    if let Some(gave_way) = gave_way {
        printer.warn(&gave_way.to_string());
    }
    if let Some(problem) = problem {
        printer.warn(&format!("the trace is partial: {}", Failure::new(problem).line()));
        printer.hint("make room, or write elsewhere with `-o DIR`");
    }
    if recorder.lost > 0 {
        printer.warn(&format!("the trace lacks calls: {}", recorder.notes.join("; ")));
    }
}

pub(super) fn say_what_is_next(header: &Header, part: &str, directory: &Path, printer: &Printer) {
    let (events, name, next) = (header.recorder.events, shown(directory), quoted_name(directory));
    printer.talk(&format!("recorded {events} calls{part} in `{name}`; next: quell report {next}"));
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

pub(super) fn explain(error: RecordError) -> Failure {
    let (status, hint) = match &error {
        RecordError::NotFound { .. } => (NOT_FOUND, Some(failure::LOOK_FOR)),
        RecordError::NotExecutable { .. } => (NOT_EXECUTABLE, Some(failure::MAKE_EXECUTABLE)),
        RecordError::Barred { barrier: TraceBarrier::Recorded { .. }, .. } => {
            (OURS, Some("record once, around everything: `quell record -- CMD`"))
        }
        RecordError::Barred { .. } => {
            (OURS, Some("`--engine mount` needs no ptrace; `quell doctor` says what it needs instead"))
        }
        RecordError::Trace(TraceError::Exists { .. }) => {
            (OURS, Some("`--force` replaces it, `-o DIR` writes elsewhere"))
        }
        RecordError::Unjoinable { barrier, .. } => (OURS, Some(join_hint(*barrier))),
        RecordError::NoProcess { .. } => (OURS, Some("`pgrep -a NAME` lists processes with their numbers")),
        RecordError::Trace(_) => (OURS, Some("`-o DIR` writes the trace elsewhere")),
        RecordError::Unmountable { .. } => (OURS, Some("`quell doctor` says what bars it")),
        RecordError::NoRoot { .. } => {
            (OURS, Some("`--root DIR` names a directory other than `/`, `/proc`, `/sys` and `/dev`"))
        }
        RecordError::Hook(_) => (OURS, Some("`TMPDIR=DIR` names a directory with room for it")),
        RecordError::ZeroByte { .. } | RecordError::Start { .. } => (OURS, None),
    };
    Failure::new(error).status(status).hints(hint)
}

/// The way around a barrier.
fn join_hint(barrier: JoinBarrier) -> &'static str {
    match barrier {
        JoinBarrier::OtherUser { .. } | JoinBarrier::Undumpable => "root may record it",
        JoinBarrier::YamaDescendants => {
            "root may record it, and may allow it to all: `sysctl kernel.yama.ptrace_scope=0`; `quell record -- CMD` needs neither"
        }
        JoinBarrier::KernelThread
        | JoinBarrier::Ourselves
        | JoinBarrier::Ancestor
        | JoinBarrier::ServesFuse => "name the process that asks for files",
        JoinBarrier::Trace(TraceBarrier::OtherTracer { .. } | TraceBarrier::Recorded { .. }) => {
            "end that one first"
        }
        JoinBarrier::Trace(_) => "`quell record -- CMD` records a program from its start",
    }
}
