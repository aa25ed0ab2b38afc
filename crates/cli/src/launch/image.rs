//! Runs a command from an image, or plain where the node or the image does not allow that.

use super::nested::is_recorded;
use super::plain::{explain, plain, plain_with_stats};
use super::step;
use crate::failure::{Failure, OURS};
use crate::flags::{Check, Run, RunMode};
use crate::printer::Printer;
use crate::{host, images};
use quell_base::{Launcher, RankId};
use quell_mount::check::DEFAULT_PARALLELISM;
use quell_mount::{Budget, Checker, ImageError, Learn, Mode, RunError, RunRequest, Trust};
use std::time::Instant;

/// Becomes the command; returns only when it does not start.
pub(crate) fn in_image(flags: &Run, printer: &mut Printer) -> Result<u8, Failure> {
    if flags.disable {
        return Err(plain(&flags.command));
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
            if host::is_first(launcher.as_ref()) {
                warn_of_plain_run(reason, printer);
                reason.setting().iter().for_each(|setting| printer.hint(&format!("look at {setting}")));
                reason.packing().iter().for_each(|packing| printer.hint(packing));
            }
            Err(plain_with_stats(&flags.command, flags.stats.as_deref(), began))
        }
        RunError::Image { source, .. } if !flags.require && matches!(source, ImageError::Memory { .. }) => {
            if host::is_first(launcher.as_ref()) {
                warn_of_plain_run(source, printer);
                printer.hint(images::hint(source));
            }
            Err(plain_with_stats(&flags.command, flags.stats.as_deref(), began))
        }
        _ => refuse(error, launcher.as_ref(), printer),
    }
}

/// The program does not start. Other ranks of a launcher must not wait for it.
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
    Err(plain_with_stats(&flags.command, flags.stats.as_deref(), Instant::now()))
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

/// The file that this rank's node writes learned paths to, if any.
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

fn check(wanted: Check, launcher: Option<&Launcher>) -> quell_mount::Check {
    let by = match wanted {
        Check::First if host::is_first(launcher) => Checker::ThisRank,
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
