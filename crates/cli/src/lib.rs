//! The command line of quell: flags, messages, exit status. The work is in the other crates.
//!
//! ```text
//! settings (files) -> flags (the command line) -> commands (one file each) -> the crates (the work)
//!                                                    |-> launch (starts the user's command)
//!                                                    |-> traces, images (opening, with hints)
//!                                                    `-> printer (data to stdout, talk to stderr)
//! ```

mod commands;
pub mod completions;
pub mod compression;
mod containers;
pub mod duration;
mod failure;
pub mod flags;
mod given;
mod host;
mod html;
mod images;
mod launch;
mod leftovers;
pub mod limits;
mod names;
pub mod nodes;
mod one_a_node;
mod output;
mod peers;
mod printer;
mod progress;
mod roots;
mod screen;
pub mod settings;
mod signals;
mod traces;
mod usage;
mod users;

use failure::Failure;
use flags::Command;
use printer::Printer;
use settings::Parsed;
use std::process::ExitCode;

/// Runs the command line that this process was started with, and returns its exit status.
pub fn main() -> ExitCode {
    quell_base::forgo_backtraces();
    let words: Vec<_> = std::env::args_os().collect();
    // A process of a replay is no command of the user's, and parses nothing.
    if words.get(1).is_some_and(|word| word == quell_replay::ARGUMENT) {
        return quell_replay::process();
    }
    if words.get(1).is_some_and(|word| word == launch::MAKER) {
        return launch::maker(&words[2..]);
    }
    if words.get(1).is_some_and(|word| word == launch::BESIDE) {
        return launch::beside(&words[2..]);
    }
    if let Some(status) = commands::calibrate::worker(&words) {
        return status;
    }
    let parsed = match settings::parse(&words) {
        Ok(parsed) => parsed,
        Err(error) => return ExitCode::from(usage::explain_usage(&error)),
    };
    let mut printer = Printer::new(&parsed.arguments);
    quell_trace::end_on_reader_panic(move |error| {
        let failure = traces::explain(error);
        _ = printer.fail(&failure);
        std::process::exit(failure.status.into());
    });
    match parsed.judge(&printer).and_then(|()| dispatch(parsed, &mut printer)) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => printer.fail(&failure),
    }
}

fn dispatch(parsed: Parsed, printer: &mut Printer) -> Result<u8, Failure> {
    match parsed.arguments.command {
        Command::Record(flags) if !flags.pids.is_empty() => commands::attach::run(&flags, printer),
        Command::Record(flags) => commands::record::run(flags, printer),
        Command::Top(flags) => commands::top::run(&flags, printer),
        Command::Import(flags) => commands::import::run(&flags, printer),
        Command::Report(flags) => commands::report::run(&flags, printer),
        Command::Fix(flags) => commands::fix::run(&flags, printer),
        Command::Diff(flags) => commands::diff::run(&flags, printer),
        Command::Export(flags) => commands::export::run(&flags, printer),
        Command::Collect(flags) => commands::collect::run(&flags, printer),
        Command::Fleet(flags) => commands::fleet::run(&flags, printer),
        Command::Pack(flags) => commands::pack::run(&flags, printer),
        Command::Run(flags) => launch::run(&flags, printer),
        Command::Cache(flags) => commands::cache::run(&flags, printer),
        Command::Bcast(flags) => commands::bcast::run(&flags, printer),
        Command::Warm(flags) => commands::warm::run(&flags, printer),
        Command::Check(flags) => commands::check::run(&flags, printer),
        Command::Gather(flags) => commands::gather::run(&flags.command, printer),
        Command::Image(flags) => commands::image::run(&flags.command, printer),
        Command::Modules(flags) => commands::modules::run(&flags.command, printer),
        Command::Predict(flags) => commands::predict::run(&flags, printer),
        Command::Validate(flags) => commands::validate::run(&flags, printer),
        Command::Doctor(flags) => commands::doctor::run(&flags, printer),
        Command::Calibrate(flags) => commands::calibrate::run(&flags, printer),
        Command::Demo(flags) => commands::demo::run(&flags, printer),
        Command::Synth(flags) => commands::synth::run(&flags, printer),
        Command::Replay(flags) => commands::replay::run(&flags, printer),
        Command::Completions(flags) => commands::about::completions(&flags, printer),
        Command::Help(flags) => Ok(commands::about::help(&flags)),
        Command::Version(_) => commands::about::version(printer),
        Command::Config(flags) => commands::config::run(&flags, &parsed.matches, &parsed.settings, printer),
    }
}
