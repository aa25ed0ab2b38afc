//! `quell replay`.

use super::{leftovers, report, traces};
use crate::failure::Failure;
use crate::flags::Replay;
use crate::host;
use crate::printer::Printer;
use quell_load::replay::{
    self, Conductor, Manner, Meeting, Performance, Place, Plan, Played, ReplayError, Writes,
};
use quell_report::{csv, json, terminal};
use quell_trace::path::escape;
use quell_trace::{Launcher, Recording};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(flags: &Replay, printer: &mut Printer) -> Result<u8, Failure> {
    report::only_one_on_stdout(&[("--json", flags.json), ("--csv", flags.csv)])?;
    let launcher = host::launcher().filter(|launcher| launcher.ranks.is_some_and(|ranks| ranks > 1));
    let root = absolute(&flags.root)?;
    let recording = Recording::open(&flags.trace).map_err(traces::explain)?;
    let from = from(flags, &recording)?;
    let writes = if flags.writes { Writes::Private } else { Writes::Skip };
    let moves = from != root.as_os_str().as_bytes();
    let plan = replay::plan(&recording, &from, moves, writes).map_err(explain)?;
    let Some(performance) = perform(flags, &root, &plan, launcher.as_ref())? else { return Ok(0) };
    let played = Played {
        command: recording.header.command.clone(),
        from: escape(&plan.from),
        root: escape(root.as_os_str().as_bytes()),
        ranks: performance.rank_seconds.len() as u32,
        processes: plan.processes,
        think: flags.think.0,
        skipped: plan.skipped,
        performance,
    };
    show(flags, &played, printer)?;
    // Only now: a listing before would have let the client keep what the replay asks for.
    leftovers::name("replay", &replay::leftovers(&root), printer);
    Ok(u8::from(played.performance.tally.failing > 0 || played.performance.tally.lost > 0))
}

/// Plays the ranks that are this process's. `None` where another rank reports.
fn perform(
    flags: &Replay,
    root: &Path,
    plan: &Plan,
    launcher: Option<&Launcher>,
) -> Result<Option<Performance>, Failure> {
    let interrupted = watch();
    let manner = Manner {
        root: root.to_owned(),
        first: launcher.map_or(0, |launcher| launcher.rank.0.saturating_mul(flags.ranks)),
        ranks: flags.ranks,
        think: flags.think.0,
        nonce: nonce(),
    };
    let conductor = Conductor::start(plan, &manner, &interrupted).map_err(explain)?;
    let meeting = match launcher {
        Some(launcher) => {
            let (place, word) = place(flags, launcher)?;
            let ranks = launcher.ranks.unwrap_or(1);
            Some(Meeting::attend(&place, &word, (launcher.rank.0, ranks), &interrupted).map_err(explain)?)
        }
        None => None,
    };
    let performance = conductor.perform(&interrupted).map_err(explain)?;
    match meeting {
        Some(meeting) => meeting.gather(performance).map_err(explain),
        None => Ok(Some(performance)),
    }
}

/// Status of a replay that the user ended: 128 and the number of SIGINT, as a shell has it.
const INTERRUPTED: i32 = 130;

/// Where the launcher's ranks meet, and the word by which they know each other.
fn place(flags: &Replay, launcher: &Launcher) -> Result<(Place, String), Failure> {
    let job = host::job(Some(launcher));
    let user = rustix::process::geteuid().as_raw();
    let word = format!("{user} {job} {}", flags.trace.display());
    if let Some(address) = &flags.meet {
        return Ok((Place::Network(address.clone()), word));
    }
    let here = launcher.local_ranks == launcher.ranks || launcher.nodes == Some(1);
    match here {
        true => {
            let parent = || rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
            // Where a launcher does not name its job: the ranks that it has on one node have one parent.
            let common = if job.is_empty() { parent().to_string() } else { job };
            Ok((Place::Node(format!("quell-replay {user} {common}")), word))
        }
        false => {
            let message =
                "the launcher's ranks are on several nodes, or it does not tell, and must know where to meet";
            Err(Failure::message(message)
                .hint("`--meet HOST:PORT`, the host of rank 0 and a free port there"))
        }
    }
}

/// Set when the user has had enough, so that what ranks wrote can be removed. A second signal ends at once.
fn watch() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        _ = signal_hook::flag::register_conditional_shutdown(signal, INTERRUPTED, Arc::clone(&flag));
        // Where it cannot be set the signal ends the process at once, and the ranks with it.
        _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    flag
}

/// A name that nobody else chooses at the same time.
fn nonce() -> u64 {
    let process = u64::from(std::process::id());
    (host::now() * 1e6) as u64 ^ process << 44
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::path::absolute(path)
        .map_err(|error| Failure::new(error).context(format!("cannot use `{}`", path.display())))?;
    Ok(absolute.components().collect())
}

fn from(flags: &Replay, recording: &Recording) -> Result<Vec<u8>, Failure> {
    match &flags.from {
        Some(from) => Ok(absolute(from)?.into_os_string().into_encoded_bytes()),
        None => replay::root(recording).map_err(explain),
    }
}

fn show(flags: &Replay, played: &Played, printer: &mut Printer) -> Result<(), Failure> {
    let object = json::replay(played);
    let text = match (flags.json, flags.csv) {
        (true, _) => report::json(&object)?,
        (_, true) => csv::replay(&object),
        _ => terminal::replay(played, printer.style()),
    };
    printer.data(&text)?;
    let tally = &played.performance.tally;
    if tally.failing > 0 {
        printer.warn(&format!("{} operations that succeeded in the recording fail now", tally.failing));
        printer.hint(
            "the tree must be there: copy it below --root, or make one with `quell synth SHAPE --tree DIR`",
        );
    }
    Ok(())
}

fn explain(error: ReplayError) -> Failure {
    let (status, hint) = match &error {
        ReplayError::Trace(_) => (None, None),
        ReplayError::Nothing { .. } => (None, Some("`--from DIR` names the recorded directory")),
        ReplayError::NoRoot => (None, Some("`--from DIR` names the recorded directory that is meant")),
        ReplayError::Empty => (None, Some("record a program that uses files: `quell record -- CMD`")),
        ReplayError::Root { .. } => (
            None,
            Some(
                "`--root DIR` wants the tree: copy it there, or make one with `quell synth SHAPE --tree DIR`",
            ),
        ),
        ReplayError::Private { .. } => (None, Some("without `--writes` nothing is written")),
        ReplayError::Meeting { .. } => (None, Some("every rank of the launcher must run the same command")),
        ReplayError::Process { .. } => (None, None),
        ReplayError::Interrupted => (u8::try_from(INTERRUPTED).ok(), None),
    };
    let failure = match error {
        ReplayError::Trace(error) => traces::explain(error),
        error => Failure::new(error),
    };
    let failure = match status {
        Some(status) => failure.status(status),
        None => failure,
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
