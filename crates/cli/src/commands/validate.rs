//! `quell validate`.

use crate::failure::Failure;
use crate::flags::Validate;
use crate::output;
use crate::printer::Printer;

pub(crate) fn run(flags: &Validate, printer: &mut Printer) -> Result<u8, Failure> {
    let view = quell_report::view::validate(&quell_predict::published::validate());
    printer.data(&match flags.json {
        true => output::json(&view)?,
        false => quell_report::terminal::validate(&view, printer.style()),
    })?;
    Ok(0)
}
