//! `quell replay`.

use crate::failure::Failure;
use crate::flags::Replay;
use crate::host;
use crate::printer::Printer;
use crate::signals::Signals;
use crate::{leftovers, output, traces};
use quell_base::{Errno, RankPlace, escape, shown};
use quell_replay::{
    PlayedReplay, ReplayConductor, ReplayError, ReplayManner, ReplayPerformance, ReplayPlan, ReplayTally,
    ReplayWrites,
};
use quell_report::{csv, terminal, view};
use quell_talk::{Meeting, MeetingKey, MeetingPlace};
use quell_trace::Recording;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(crate) fn run(flags: &Replay, printer: &mut Printer) -> Result<u8, Failure> {
    output::only_one_on_stdout(&[("--json", flags.json), ("--csv", flags.csv)])?;
    let rank_place = host::rank_place().filter(|rank_place| rank_place.ranks.is_some_and(|ranks| ranks > 1));
    let root = absolute(&flags.root)?;
    let recording = Recording::open(&flags.trace).map_err(traces::explain)?;
    let from = from(flags, &recording)?;
    let writes = if flags.writes { ReplayWrites::Private } else { ReplayWrites::Skip };
    let moves = from != root.as_os_str().as_bytes();
    let plan = quell_replay::plan(&recording, &from, moves, writes).map_err(explain)?;
    let Some(performance) = perform(flags, &root, &plan, rank_place.as_ref())? else { return Ok(0) };
    let played = PlayedReplay {
        command: recording.header.command.clone(),
        from: escape(&plan.from),
        root: shown(&root),
        ranks: performance.rank_seconds.len() as u32,
        processes: plan.processes,
        think: flags.think.0,
        skipped: plan.skipped,
        performance,
    };
    show(flags, &played, printer)?;
    // Only now: a listing before would have let the client keep what the replay asks for.
    leftovers::name("replay", &quell_replay::leftovers(&root), printer);
    Ok(u8::from(played.performance.tally.failing > 0 || played.performance.tally.lost > 0))
}

/// Plays the ranks that are this process's. `None` where another rank reports.
fn perform(
    flags: &Replay,
    root: &Path,
    plan: &ReplayPlan,
    rank_place: Option<&RankPlace>,
) -> Result<Option<ReplayPerformance>, Failure> {
    let signals = Signals::watch()?;
    let explain = |error: ReplayError| match error {
        ReplayError::Interrupted => explain(error).status(signals.status()),
        error => explain(error),
    };
    let manner = ReplayManner {
        root: root.to_owned(),
        first: rank_place.map_or(0, |rank_place| rank_place.rank.0.saturating_mul(flags.ranks)),
        ranks: flags.ranks,
        think: flags.think.0,
        nonce: nonce(),
    };
    let stop = || signals.have_come();
    let conductor = ReplayConductor::start(plan, &manner, &stop).map_err(explain)?;
    let meeting = match rank_place {
        Some(rank_place) => {
            let (place, key) = place(flags, rank_place)?;
            let ranks = rank_place.ranks.unwrap_or(1);
            let met = Meeting::attend(&place, &key, (rank_place.rank.0, ranks), &stop);
            Some(met.map_err(|error| explain(error.into()))?)
        }
        None => None,
    };
    let performance = conductor.perform(&stop).map_err(explain)?;
    let Some(meeting) = meeting else { return Ok(Some(performance)) };
    let gathered = meeting.gather(performance, ReplayPerformance::merge, &stop);
    gathered.map_err(|error| explain(error.into()))
}

/// The place where the launcher's ranks meet, and the key by which they know each other. All of them read the trace, which others
/// cannot as long as its directory has the mode that it was made with.
fn place(flags: &Replay, rank_place: &RankPlace) -> Result<(MeetingPlace, MeetingKey), Failure> {
    let job = host::job(Some(rank_place));
    let user = rustix::process::geteuid().as_raw();
    let header = flags.trace.join("header.json");
    let read = std::fs::read(&header)
        .map_err(|error| Failure::new(error).context(format!("cannot read `{}`", header.display())))?;
    let key = MeetingKey::of(&[&read, job.as_bytes(), &user.to_le_bytes()]);
    if let Some(address) = &flags.meet {
        return Ok((MeetingPlace::Network(address.clone()), key));
    }
    let here = rank_place.local_ranks == rank_place.ranks || rank_place.nodes == Some(1);
    match here {
        true => {
            let parent = || rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
            // A launcher may not name its job: then its ranks on one node have one parent.
            let common = if job.is_empty() { parent().to_string() } else { job };
            let key = MeetingKey::of(&[&read, common.as_bytes(), &user.to_le_bytes()]);
            Ok((MeetingPlace::Node(key.name()), key))
        }
        false => {
            let message =
                "the launcher's ranks are on several nodes, or it does not tell, and must know where to meet";
            Err(Failure::message(message)
                .hint("`--meet HOST:PORT`, the host of rank 0 and a free port there"))
        }
    }
}

/// A name that no other replay chooses at the same time.
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
        None => quell_replay::root(recording).map_err(explain),
    }
}

fn show(flags: &Replay, played: &PlayedReplay, printer: &mut Printer) -> Result<(), Failure> {
    let object = view::replay(played);
    let text = match (flags.json, flags.csv) {
        (true, _) => output::json(&object)?,
        (_, true) => csv::replay(&object),
        _ => terminal::replay(&object, printer.style()),
    };
    printer.data(&text)?;
    warn(&played.performance.tally, printer);
    Ok(())
}

/// Warns of calls that make the figures differ from the recording, in every form of output.
fn warn(tally: &ReplayTally, printer: &Printer) {
    if tally.failing > 0 {
        printer.warn(&format!("{} operations that succeeded in the recording fail now", tally.failing));
        printer.hint(
            "the tree must be there: copy it below --root, or make one with `quell synth SHAPE --tree DIR`",
        );
    }
    if tally.orphaned > 0 {
        let message = "operations were not issued, because their file could not be opened";
        printer.warn(&format!("{} {message}", tally.orphaned));
    }
    if tally.lost > 0 {
        let first = tally.lost_errno.map(|errno| format!("; the first: {}", Errno(errno)));
        let first = first.unwrap_or_default();
        printer.warn(&format!("{} processes ended before they told what they did{first}", tally.lost));
        printer.hint("what they did is not counted; `ulimit -n` and `ulimit -u` may allow too little");
    }
}

fn explain(error: ReplayError) -> Failure {
    let hint = match error {
        ReplayError::Trace(error) => return traces::explain(error),
        ReplayError::Process { .. } | ReplayError::Interrupted => return Failure::new(error),
        ReplayError::Nothing { .. } => "`--from DIR` names the recorded directory",
        ReplayError::NoRoot => "`--from DIR` names the recorded directory that is meant",
        ReplayError::Empty => "record a program that uses files: `quell record -- CMD`",
        ReplayError::Root { .. } => {
            "`--root DIR` wants the tree: copy it there, or make one with `quell synth SHAPE --tree DIR`"
        }
        ReplayError::Private { .. } | ReplayError::Unconfined { .. } => {
            "without `--writes` nothing is written"
        }
        ReplayError::Meeting(_) => "every rank of the launcher must run the same command",
    };
    Failure::new(error).hint(hint)
}
