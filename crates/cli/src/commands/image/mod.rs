//! `quell image`: one file for each of its commands.

mod cat;
mod check;
mod export;
mod extract;
mod info;
mod ls;
mod select;
mod taken_out;

use crate::failure::Failure;
use crate::flags::ImageCommand;
use crate::printer::Printer;

pub(crate) fn run(command: &ImageCommand, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        ImageCommand::Ls(flags) => ls::run(flags, printer),
        ImageCommand::Info(flags) => info::run(flags, printer),
        ImageCommand::Check(flags) => check::run(flags, printer),
        ImageCommand::Cat(flags) => cat::run(flags, printer),
        ImageCommand::Extract(flags) => extract::run(flags, printer),
        ImageCommand::Export(flags) => export::run(flags, printer),
    }
}
