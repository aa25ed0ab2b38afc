//! `quell modules`: what its commands share.

pub mod audit;
pub mod caches;
pub mod check;
pub mod convert;
pub mod example;
mod judges;
pub mod measure;
mod paths;
mod site;
pub mod verify;

use crate::failure::Failure;
use crate::flags::ModulesCommand;
use crate::printer::Printer;
use quell_modules::ModulesError;

pub(crate) fn run(command: &ModulesCommand, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        ModulesCommand::Audit(flags) => audit::run(flags, printer),
        ModulesCommand::Convert(flags) => convert::run(flags, printer),
        ModulesCommand::Check(flags) => check::run(flags, printer),
        ModulesCommand::Measure(flags) => measure::run(flags, printer),
        ModulesCommand::Verify(flags) => verify::run(flags, printer),
        ModulesCommand::Example(flags) => example::run(flags, printer),
    }
}

/// A failure of the crate with the hint that it deserves.
fn explain(error: ModulesError) -> Failure {
    let hint = match &error {
        ModulesError::Read { .. } => Some("run it as root, or as the owner of the modulepath"),
        ModulesError::Occupied { .. } => Some("give the name of a new directory, or move that away"),
        ModulesError::SameName { .. } => Some("convert them one by one, each into a directory of its own"),
        ModulesError::Within { .. } => Some("`--out DIR` with a directory outside of the modulepaths"),
        ModulesError::Colon { .. } => Some("give it another name, or a symbolic link without a colon"),
        ModulesError::VirtualInPlace => Some("`--out DIR`, and users get the modulepaths in DIR"),
        ModulesError::ChangedSince { .. } => Some("move your changes away, or remove the tree by hand"),
        ModulesError::Record { .. } => Some("give the `quell-plan.json` that `quell modules convert` wrote"),
        ModulesError::Tool { .. } => {
            Some("`--tools PREFIX` names an installed tool, `--no-verify` asks none")
        }
        ModulesError::Run { .. } => {
            Some("`--tools PREFIX` names another installation, `--user` another user")
        }
        ModulesError::NoCache { .. } => {
            Some("`--tools PREFIX` names another installation; what is closed can be opened, or moved")
        }
        _ => None,
    };
    let failure = Failure::new(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
