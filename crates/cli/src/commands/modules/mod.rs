//! `quell modules`: what its commands share.

mod audit;
mod caches;
mod check;
mod convert;
mod example;
mod judges;
mod measure;
mod paths;
mod site;
mod verify;

use crate::failure::Failure;
use crate::flags::ModulesCommand;
use crate::printer::Printer;
use quell_modules::ModulesError;
use quell_modules::caches::Barrier;
use signal_hook::consts;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) fn run(command: &ModulesCommand, printer: &mut Printer) -> Result<u8, Failure> {
    let number = watch();
    let outcome = carry_out(command, printer);
    match (outcome, u8::try_from(number.load(Ordering::Relaxed))) {
        (Err(_), Ok(number @ 1..)) => {
            printer.warn("ended by a signal: what was begun is removed");
            Ok(ENDED + number)
        }
        (outcome, _) => outcome,
    }
}

/// Status of a command that a signal ended, without the signal's number, as a shell has it.
const ENDED: u8 = 128;

/// Lets a signal end the tools that are being asked, so that copies and half-made trees are removed; gives its number, 0
/// before there is one. A second one does no more: whoever ends a process group signals us twice.
fn watch() -> Arc<AtomicUsize> {
    let flag = quell_modules::tools::end_flag();
    let number = Arc::new(AtomicUsize::new(0));
    for (signal, value) in [(consts::SIGINT, 2), (consts::SIGTERM, 15), (consts::SIGHUP, 1)] {
        // Where it cannot be set the signal ends the process at once. The number first: who sees the flag asks for it.
        _ = signal_hook::flag::register_usize(signal, Arc::clone(&number), value);
        _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    }
    number
}

fn carry_out(command: &ModulesCommand, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        ModulesCommand::Audit(flags) => audit::run(flags, printer),
        ModulesCommand::Convert(flags) => convert::run(flags, printer),
        ModulesCommand::Check(flags) => check::run(flags, printer),
        ModulesCommand::Measure(flags) => measure::run(flags, printer),
        ModulesCommand::Verify(flags) => verify::run(flags, printer),
        ModulesCommand::Example(flags) => example::run(flags, printer),
    }
}

/// Whether an error says that nothing, or something else, has the name.
fn is_no_place(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::AlreadyExists)
}

/// A failure of the crate with the hint that it deserves.
fn explain(error: ModulesError) -> Failure {
    let hint = match &error {
        ModulesError::Read { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as root, or as the owner of the modulepath")
        }
        ModulesError::Read { source, .. } if is_no_place(source.kind()) => {
            Some("give a directory that is there")
        }
        ModulesError::Write { source, .. } if is_no_place(source.kind()) => {
            Some("give a directory, or a name in one that is there")
        }
        ModulesError::Write { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
            Some("run it as who may write there, or give another directory")
        }
        ModulesError::Control { .. } => Some("give it another name, or a symbolic link without them"),
        ModulesError::Occupied { path } if path.to_string_lossy().ends_with("quell-plan.json") => {
            Some("`quell modules convert --undo FILE` takes back the conversion of which it tells")
        }
        ModulesError::Occupied { .. } => Some("give the name of a new directory, or move that away"),
        ModulesError::SameName { .. } => Some("convert them one by one, each into a directory of its own"),
        ModulesError::Within { .. } => Some("give a directory outside of the modulepaths"),
        ModulesError::Special { .. } => Some("move it out of the modulepath"),
        ModulesError::Unlisted { .. } => Some(
            "look at it with `module avail`: signs in the path, or a directory above it that is closed, may be why",
        ),
        ModulesError::Leftover { .. } => Some("leave it out"),
        ModulesError::Busy { .. } => Some("wait for its end"),
        ModulesError::Colon { .. } => Some("give it another name, or a symbolic link without a colon"),
        ModulesError::VirtualInPlace => Some("`--out DIR`, and users get the modulepaths in DIR"),
        ModulesError::ChangedSince { .. } => Some("move your changes away, or remove the tree by hand"),
        ModulesError::LeftOutChanged { .. } => Some(
            "move it out of the tree, for there may be commits in it that are nowhere else, and undo again; `git status` alone changes it, too",
        ),
        ModulesError::ChangedMeanwhile { .. } => Some("run it again"),
        ModulesError::Halfway { .. } => {
            Some("`quell modules convert --undo FILE` puts the old tree back, once the cause is gone")
        }
        ModulesError::Owner { .. } => {
            Some("run it as root, or as the owner of the whole tree and a member of its groups")
        }
        ModulesError::OutOfReach { .. } => {
            Some("`--out` or TMPDIR may be below a directory that is closed to others")
        }
        ModulesError::Record { .. } => Some("give the `quell-plan.json` that `quell modules convert` wrote"),
        ModulesError::Untrusted { .. } => {
            Some("give a directory that root alone can change, or run it as the owner of that one")
        }
        ModulesError::Unsafe { .. } => Some("`--user NAME` evaluates it as that user"),
        ModulesError::Tool { .. } => {
            Some("`--tools PREFIX` names an installed tool, `--no-verify` asks none")
        }
        ModulesError::Run { .. } => {
            Some("`--tools PREFIX` names another installation, `--user` another user")
        }
        ModulesError::Unloadable { .. } => Some("`--load NAME` names another module"),
        ModulesError::Barred { barrier: Barrier::Above(_), .. } => Some(caches::OUTSIDE),
        ModulesError::Barred { .. } | ModulesError::NoCache { .. } => {
            Some("what is closed can be opened, or moved; `--tools PREFIX` names another installation")
        }
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
