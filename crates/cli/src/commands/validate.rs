//! `quell validate`.

use super::report;
use crate::failure::Failure;
use crate::flags::Validate;
use crate::printer::Printer;

pub(crate) fn run(flags: &Validate, printer: &mut Printer) -> Result<u8, Failure> {
    let validation = quell_predict::published::validate();
    printer.data(&match flags.json {
        true => report::json(&quell_report::view::validation(&validation))?,
        false => quell_report::terminal::validation(&validation, printer.style()),
    })?;
    Ok(0)
}
