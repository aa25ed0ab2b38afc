//! `quell help`, `quell version`, `quell completions`.

use crate::failure::Failure;
use crate::flags::{Arguments, Completions, Help};
use crate::printer::Printer;
use crate::usage::explain_usage;
use clap::CommandFactory as _;

/// Prints what `quell COMMAND --help` prints.
pub(crate) fn help(flags: &Help) -> u8 {
    let words = ["quell"].into_iter().chain(flags.words.iter().map(String::as_str)).chain(["--help"]);
    match Arguments::command().try_get_matches_from(words) {
        Ok(_) => 0,
        Err(error) => explain_usage(&error),
    }
}

/// Prints what `quell --version` prints.
pub(crate) fn version(printer: &mut Printer) -> Result<u8, Failure> {
    printer.data(&Arguments::command().render_version())?;
    Ok(0)
}

pub(crate) fn completions(flags: &Completions, printer: &mut Printer) -> Result<u8, Failure> {
    printer.data(&crate::completions::script(flags.shell))?;
    Ok(0)
}
