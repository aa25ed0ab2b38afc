//! `quell report`.

use super::{html, traces};
use crate::failure::Failure;
use crate::flags::Report;
use crate::printer::Printer;

pub(crate) fn run(flags: &Report, printer: &mut Printer) -> Result<u8, Failure> {
    let summary = traces::summarise(&flags.traces)?;
    let findings = quell_analyse::findings(&summary, &quell_analyse::Rules::default());
    if let Some(table) = flags.csv {
        printer.data(&quell_report::csv::report(table, &summary, &findings))?;
        return Ok(0);
    }
    let object = quell_report::json::report(&summary, &findings);
    if let Some(file) = &flags.html {
        if flags.json && html::is_stdout(file) {
            return Err(Failure::message("`--json` and `--html -` would both go to standard output"));
        }
        html::write(&object, file, printer)?;
    }
    let text = match (flags.json, &flags.html) {
        (true, _) => json(&object)?,
        (false, Some(_)) => return Ok(0),
        (false, None) => quell_report::terminal::report(&summary, printer.style()),
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
