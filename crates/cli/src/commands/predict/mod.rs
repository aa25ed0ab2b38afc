//! `quell predict`: which prediction is asked for.

mod create;
mod measured;
mod page;
mod profiles;
mod start;
mod tree;

use crate::failure::Failure;
use crate::flags::{Predict, PredictCommand};
use crate::printer::Printer;

pub(crate) fn run(flags: &Predict, printer: &mut Printer) -> Result<u8, Failure> {
    if let Some(PredictCommand::Create(flags)) = &flags.command {
        return create::run(flags, printer);
    }
    if let Some(name) = &flags.print_fs {
        printer.data(&profiles::text(name)?)?;
        return Ok(0);
    }
    if flags.list_fs {
        printer.data(&profiles::list(printer.style()))?;
        return Ok(0);
    }
    start::run(flags, printer)
}
