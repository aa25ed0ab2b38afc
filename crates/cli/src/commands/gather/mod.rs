//! `quell gather`: the containers of `quell run --gather`.

mod cat;
mod extract;
mod ls;
mod mount;
mod opened;

use crate::failure::Failure;
use crate::flags::GatherCommand;
use crate::printer::Printer;

pub(crate) fn run(command: &GatherCommand, printer: &Printer) -> Result<u8, Failure> {
    match command {
        GatherCommand::Ls(flags) => ls::run(flags, printer),
        GatherCommand::Cat(flags) => cat::run(flags, printer),
        GatherCommand::Extract(flags) => extract::run(flags, printer),
        GatherCommand::Mount(flags) => mount::run(flags, printer),
    }
}
