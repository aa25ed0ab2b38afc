//! `quell run`.

use super::{plain, step};
use crate::failure::{self, Failure, OURS};
use crate::flags::{Check, Run, RunMode};
use crate::host;
use crate::printer::Printer;
use quell_base::{Launcher, RankId, shown};
use quell_image::OpenError;
use quell_mount::check::DEFAULT_PARALLELISM;
use quell_mount::{
    Budget, Checker, ImageError, Learn, Mode, OsError, RunError, RunRequest, SourceChange, Trust,
};
use rustix::io::Errno;
use std::convert::Infallible;
use std::path::Path;
use std::time::Instant;

/// At most this many changes are named; the rest are counted.
const NAMED_CHANGES: usize = 10;

pub(crate) fn run(flags: &Run, printer: &mut Printer) -> Result<u8, Failure> {
    if flags.disable {
        return Err(plain::exec(&flags.command));
    }
    if is_recorded() {
        let failure =
            Failure::message("`quell run` cannot start inside a recording: its server would be recorded too");
        return Err(failure.hint("quell run IMG -- quell record -o T -- CMD").status(OURS));
    }
    if flags.mode == RunMode::Off {
        return run_off(flags);
    }
    let launcher = host::launcher();
    warn_of_launchers(flags, launcher.as_ref(), printer);
    let began = Instant::now();
    let request = RunRequest {
        image: flags.image.clone(),
        command: flags.command.clone(),
        job: host::job(launcher.as_ref()),
        check: check(flags.check, launcher.as_ref()),
        stats: flags.stats.clone(),
        learn: learn(flags, launcher.as_ref()),
        trust: if flags.trust { Trust::Anybody } else { Trust::OwnerOrRoot },
        mode: mode(flags.mode),
        memory: flags.memory.map_or(Budget::Available, |memory| Budget::Bytes(memory.0)),
        began,
    };
    let error = match quell_mount::run(&request) {
        Ok(never) => match never {},
        Err(error) => error,
    };
    match &error {
        RunError::Unavailable(reason) if !flags.require => {
            if is_first(launcher.as_ref()) {
                warn_of_plain_run(reason, printer);
                reason.setting().iter().for_each(|setting| printer.hint(&format!("look at {setting}")));
                reason.packing().iter().for_each(|packing| printer.hint(packing));
            }
            Err(explain(quell_mount::run_plain(&flags.command, flags.stats.as_deref(), began)))
        }
        RunError::Image { source, .. } if !flags.require && matches!(source, ImageError::Memory { .. }) => {
            if is_first(launcher.as_ref()) {
                warn_of_plain_run(source, printer);
                printer.hint(image_hint(source));
            }
            Err(explain(quell_mount::run_plain(&flags.command, flags.stats.as_deref(), began)))
        }
        _ => refuse(error, launcher.as_ref(), printer),
    }
}

/// The program does not start. Where a launcher started others, they must not wait for it.
fn refuse(error: RunError, launcher: Option<&Launcher>, printer: &Printer) -> Result<u8, Failure> {
    let speaks = match &error {
        RunError::Stale { .. } => true,
        // Not this rank's program alone, but all of its node: one of them is enough.
        RunError::Unavailable(_) => launcher.is_some_and(|launcher| launcher.local_rank == Some(0)),
        _ => false,
    };
    let failure = explain(error);
    let Some(launcher) = launcher.filter(|_| speaks) else { return Err(failure) };
    _ = printer.fail(&failure);
    step::end(launcher, failure.status, printer);
    Ok(failure.status)
}

/// `--mode off`: plain, but with statistics that say so.
fn run_off(flags: &Run) -> Result<u8, Failure> {
    if flags.require {
        let contradiction = Failure::message("`--mode off` runs the command plain, `--require` forbids that");
        return Err(contradiction.hint("leave one of them out; `--disable` goes before both").status(OURS));
    }
    Err(explain(quell_mount::run_plain(&flags.command, flags.stats.as_deref(), Instant::now())))
}

fn mode(mode: RunMode) -> Mode {
    match mode {
        RunMode::Mount => Mode::Mount,
        RunMode::Extract => Mode::Extract,
        RunMode::Auto | RunMode::Off => Mode::Auto,
    }
}

fn warn_of_plain_run(reason: &dyn std::fmt::Display, printer: &Printer) {
    printer.warn(&format!("the image is not used and the command runs plain: {reason}"));
}

/// Which file this rank's node writes what it learned to, if any.
fn learn(flags: &Run, launcher: Option<&Launcher>) -> Option<Learn> {
    let file = flags.learn.as_ref()?;
    let rank = launcher.map(|launcher| launcher.rank);
    let file = match rank {
        None | Some(RankId(0)) => file.clone(),
        Some(rank) => {
            let mut name = file.clone().into_os_string();
            name.push(format!(".rank{rank}"));
            name.into()
        }
    };
    let writes = rank.is_none_or(|rank| flags.learn_ranks.contains(&rank.0));
    Some(Learn { file: writes.then_some(file) })
}

/// Whether this is the rank that speaks and checks for the job.
fn is_first(launcher: Option<&Launcher>) -> bool {
    launcher.is_none_or(|launcher| launcher.rank == RankId(0))
}

fn check(wanted: Check, launcher: Option<&Launcher>) -> quell_mount::Check {
    let by = match wanted {
        Check::First if is_first(launcher) => Checker::ThisRank,
        Check::All => Checker::FirstOfNode,
        Check::First | Check::None => return quell_mount::Check::Nothing,
    };
    quell_mount::Check::Sources { by, parallelism: DEFAULT_PARALLELISM, now: host::now() as u64 }
}

/// Ranks that a launcher starts elsewhere do not inherit the namespace.
fn warn_of_launchers(flags: &Run, launcher: Option<&Launcher>, printer: &Printer) {
    const LAUNCHERS: [&str; 8] =
        ["srun", "mpirun", "mpiexec", "orterun", "prterun", "aprun", "jsrun", "flux"];
    let program = flags.command.first().map(std::path::Path::new).and_then(|program| program.file_name());
    let Some(name) = program.and_then(|name| name.to_str()).filter(|name| LAUNCHERS.contains(name)) else {
        return;
    };
    if launcher.is_none() {
        let image = flags.image.display();
        printer.warn(&format!("`{name}` starts ranks outside of the image's namespace"));
        printer.hint(&format!("{name} ... quell run {image} -- CMD"));
    }
}

/// Whether a recorder of ours traces this process: it waits for answers of the server that it would have stopped.
fn is_recorded() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap_or("0").trim();
    tracer != "0"
        && std::fs::read_to_string(format!("/proc/{tracer}/comm")).is_ok_and(|name| name.trim() == "quell")
}

pub(crate) fn image_hint(error: &ImageError) -> &'static str {
    match error {
        error if error.is_distrust() => "`--trust` uses it; whoever can write it decides what you run",
        ImageError::Inflated { .. } => {
            "if you trust it, decompress it where there is room: `zstd -d IMG -o PLAIN`"
        }
        ImageError::Unreadable(OsError(Errno::ACCESS)) => {
            "`quell pack --public` makes an image for every user"
        }
        ImageError::Memory { .. } => {
            "raise `--memory`, or run from a plain image on a local disk, which takes none: `zstd -d IMG -o PLAIN`"
        }
        ImageError::Invalid(OpenError::Newer { .. }) => {
            "run it with the quell that packed it, or a later one"
        }
        ImageError::Invalid(
            OpenError::Length { .. }
            | OpenError::IndexChecksum { .. }
            | OpenError::NoFrameTable
            | OpenError::FrameTable { .. }
            | OpenError::Frame { .. },
        ) => "copy it again, or pack it again with `quell pack TRACE -o IMG --force`",
        _ => "`quell pack TRACE -o IMG` makes an image",
    }
}

pub(crate) fn explain(error: RunError) -> Failure {
    let status = error.exit_status();
    let facts = named_changes(&error);
    let hints = match &error {
        RunError::Stale { image, .. } => {
            vec![mending(image), "`--check none` runs with the image as it is".to_owned()]
        }
        RunError::Image { source, .. } => vec![image_hint(source).to_owned()],
        RunError::Learned { .. } => vec!["`--learn FILE` takes a file that you may create".to_owned()],
        RunError::Stats { .. } => vec!["`--stats FILE` takes a file that you may create".to_owned()],
        RunError::Unavailable(reason) => {
            let setting = reason.setting().map(|setting| format!("look at {setting}"));
            setting.into_iter().chain(reason.packing().map(str::to_owned)).collect()
        }
        RunError::CommandNotFound { .. } => vec![failure::LOOK_FOR.to_owned()],
        RunError::NotExecutable { .. } => vec![failure::MAKE_EXECUTABLE.to_owned()],
        _ => Vec::new(),
    };
    hints.into_iter().fold(Failure::new(error).status(status).facts(facts), Failure::hint)
}

/// The command that mends an image whose originals have changed.
pub(crate) fn mending(image: &Path) -> String {
    format!("quell pack --refresh {}", quell_base::shell::quoted(image.as_os_str().as_encoded_bytes()))
}

/// The first changes of the originals, a line each.
fn named_changes(error: &RunError) -> Vec<String> {
    match error {
        RunError::Stale { changes, .. } => first_changes(changes),
        _ => Vec::new(),
    }
}

pub(crate) fn first_changes(changes: &[SourceChange]) -> Vec<String> {
    let named = changes.iter().take(NAMED_CHANGES);
    let named = named.map(|change| format!("{} {}", shown(&change.path), change.difference));
    let more = changes.len().saturating_sub(NAMED_CHANGES);
    named.chain((more > 0).then(|| format!("and {more} more"))).collect()
}

/// The type of what `quell_mount::run` returns when it succeeds: it does not return.
const _: fn(&RunRequest) -> Result<Infallible, RunError> = quell_mount::run;
