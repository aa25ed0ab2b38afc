//! `quell diff`.

use super::{report, traces};
use crate::failure::Failure;
use crate::flags::Diff;
use crate::printer::Printer;
use std::slice;

pub(crate) fn run(flags: &Diff, printer: &mut Printer) -> Result<u8, Failure> {
    let before = traces::summarise(slice::from_ref(&flags.before))?;
    let after = traces::summarise(slice::from_ref(&flags.after))?;
    let comparison = quell_analyse::compare(&before, &after);
    let text = match flags.json {
        true => report::json(&quell_report::json::diff(&comparison, &[]))?,
        false => quell_report::terminal::diff(&comparison, printer.style()),
    };
    printer.data(&text)?;
    Ok(u8::from(comparison.differs()))
}
