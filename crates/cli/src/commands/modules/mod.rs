//! `quell modules`: chooses the command, and cleans up after a signal.

mod audit;
mod cache_builds;
mod caches;
mod check;
mod convert;
mod example;
mod explain;
mod judges;
mod measure;
mod paths;
mod site;
mod stale;
mod verify;

use crate::failure::Failure;
use crate::flags::{ConvertTo, ModulesCommand};
use crate::printer::Printer;
use signal_hook::consts;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn run(command: &ModulesCommand, printer: &mut Printer) -> Result<u8, Failure> {
    let number = watch();
    let outcome = carry_out(command, printer);
    match (outcome, u8::try_from(number.load(Ordering::Relaxed))) {
        (Err(_), Ok(number @ 1..)) => {
            printer.warn("ended by a signal; partial results are removed");
            Ok(ENDED + number)
        }
        (outcome, _) => outcome,
    }
}

/// The exit status after a signal is this plus the signal's number, as in a shell.
const ENDED: u8 = 128;

/// Lets a signal end the conversations with tools, so that copies and partial trees are removed. The number becomes that of the
/// signal, and is 0 until one arrives. A second signal has no further effect, because ending a process group sends two.
fn watch() -> Arc<AtomicUsize> {
    let flag = quell_modules::tools::end_flag();
    let number = Arc::new(AtomicUsize::new(0));
    for (signal, value) in [(consts::SIGINT, 2), (consts::SIGTERM, 15), (consts::SIGHUP, 1)] {
        // If a handler cannot be set, the signal ends the process at once. The number is set first, because it is read once the
        // flag is seen.
        _ = signal_hook::flag::register_usize(signal, Arc::clone(&number), value);
        _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    number
}

fn carry_out(command: &ModulesCommand, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        ModulesCommand::Audit(flags) => audit::run(flags, printer),
        ModulesCommand::Convert(flags) => match flags.to {
            Some(ConvertTo::Cache | ConvertTo::LmodCache) => caches::run(flags, printer),
            _ => convert::run(flags, printer),
        },
        ModulesCommand::Check(flags) => check::run(flags, printer),
        ModulesCommand::Measure(flags) => measure::run(flags, printer),
        ModulesCommand::Verify(flags) => verify::run(flags, printer),
        ModulesCommand::Example(flags) => example::run(flags, printer),
    }
}
