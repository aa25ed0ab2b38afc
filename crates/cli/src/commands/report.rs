//! `quell report`.

use super::traces;
use crate::failure::Failure;
use crate::flags::Report;
use crate::printer::Printer;

pub(crate) fn run(flags: &Report, printer: &mut Printer) -> Result<u8, Failure> {
    let summary = traces::summarise(&flags.traces)?;
    let findings = quell_analyse::findings(&summary, &quell_analyse::Rules::default());
    let text = match flags.json {
        true => json(&quell_report::json::report(&summary, &findings))?,
        false => quell_report::terminal::report(&summary, printer.style()),
    };
    printer.data(&text)?;
    Ok(0)
}

/// One object, indented, with a final newline.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Failure> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    Ok(text)
}
