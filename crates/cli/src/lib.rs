//! The command line of quell: flags, messages, exit status. The work is in the other crates.
//!
//! ```text
//! flags (what was typed) -> commands (what it means, one file each) -> the crates (the work)
//!                                     `-> printer (data to stdout, talk to stderr)
//! ```
#![forbid(unsafe_code)]

mod commands;
mod failure;
pub mod flags;
mod host;
mod names;
mod printer;

use clap::Parser as _;
use failure::Failure;
use flags::{Arguments, Command};
use printer::Printer;
use std::process::ExitCode;

/// Runs the command line that this process was started with, and returns its exit status.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return explain(&error),
    };
    let mut printer = Printer::new(&arguments);
    match dispatch(arguments.command, &mut printer) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => printer.fail(&failure),
    }
}

fn dispatch(command: Command, printer: &mut Printer) -> Result<u8, Failure> {
    match command {
        Command::Record(flags) => commands::record::run(flags, printer),
        Command::Report(flags) => commands::report::run(&flags, printer),
        Command::Diff(flags) => commands::diff::run(&flags, printer),
        Command::Pack(flags) => commands::pack::run(&flags, printer),
        Command::Run(flags) => commands::run::run(&flags, printer),
        Command::Demo(flags) => commands::demo::run(&flags, printer),
    }
}

/// A line that could not be parsed: usage on the right stream, and the status that the command promises.
fn explain(error: &clap::Error) -> ExitCode {
    // A closed stream is the reader's choice, not an error of ours.
    _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    let wraps = std::env::args_os().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    match wraps.is_some_and(|word| word == "record" || word == "run") {
        true => ExitCode::from(failure::OURS),
        false => ExitCode::from(failure::ERROR),
    }
}
