//! `quell report`.

use crate::failure::Failure;
use crate::flags::Report;
use crate::output::{json, only_one_on_stdout};
use crate::printer::Printer;
use crate::{html, limits, traces};
use quell_analyse::{Diagnosis, Summary};
use quell_report::terminal::Detail;
use quell_report::view::Rows;

pub(crate) fn run(flags: &Report, printer: &mut Printer) -> Result<u8, Failure> {
    only_one_on_stdout(&[
        ("--json", flags.json),
        ("--csv", flags.csv.is_some()),
        ("--html -", flags.html.as_deref().is_some_and(html::is_stdout)),
    ])?;
    if flags.thresholds {
        printer.data(&quell_report::terminal::thresholds(&quell_report::view::limits(), printer.style()))?;
        return Ok(0);
    }
    let summary = traces::summarise(&flags.traces)?;
    let diagnosis = quell_analyse::diagnose(&summary, &flags.limits.in_force());
    show(flags, &summary, &diagnosis, printer)?;
    let fails = |code: &str| flags.fail_on.iter().any(|given| given == code || given == limits::ANY);
    Ok(u8::from(diagnosis.findings.iter().any(|finding| fails(finding.code))))
}

fn show(
    flags: &Report,
    summary: &Summary,
    diagnosis: &Diagnosis,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let view = |rows| quell_report::view::report(summary, diagnosis, rows);
    if let Some(file) = &flags.html {
        html::write(&quell_report::html::report(&view(Rows::Top))?, file, printer)?;
    }
    let text = match (flags.csv, &flags.html) {
        (Some(table), _) => table.text(&view(Rows::Whole)),
        (None, _) if flags.json => json(&view(Rows::Top))?,
        (None, Some(_)) => return Ok(()),
        (None, None) => {
            let detail = if flags.all { Detail::Everything } else { Detail::Essential };
            quell_report::terminal::report(&view(Rows::Top), detail, printer.style())
        }
    };
    printer.data(&text)?;
    Ok(())
}
