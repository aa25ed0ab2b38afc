//! A command line that is answered before it runs: with help, with the version, or with what is wrong in it.

use crate::failure::{ERROR, OURS};
use crate::printer::{Printer, unwritable};
use std::io::Write;

/// A line that could not be parsed: usage on the right stream, and the status that the command promises.
pub(crate) fn explain_usage(error: &clap::Error) -> u8 {
    let printed = error.print().and_then(|()| std::io::stdout().flush());
    if !error.use_stderr() {
        return match printed {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                _ = Printer::USUAL.fail(&unwritable(error));
                ERROR
            }
            // A closed stream is the reader's choice, not an error of ours.
            _ => 0,
        };
    }
    let wraps = std::env::args_os().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    match wraps.is_some_and(|word| word == "record" || word == "run") {
        true => OURS,
        false => ERROR,
    }
}
