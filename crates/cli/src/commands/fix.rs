//! `quell fix`.

use crate::failure::Failure;
use crate::flags::Fix;
use crate::printer::Printer;
use crate::{output, traces};

pub(crate) fn run(flags: &Fix, printer: &mut Printer) -> Result<u8, Failure> {
    let summary = traces::summarise(&flags.traces)?;
    let plan = quell_analyse::diagnose(&summary, &flags.limits.in_force()).plan;
    let view = quell_report::view::fix(&summary, &plan);
    let text = match flags.json {
        true => output::json(&view)?,
        false => quell_report::terminal::fix(&view, printer.style()),
    };
    printer.data(&text)?;
    Ok(0)
}
