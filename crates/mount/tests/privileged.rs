//! Runs commands from images, as root and as an ordinary user, and compares with what they see without quell.
//!
//! Has its own harness, because `run` needs a process with one thread, and a process that the test can kill: the test
//! binary starts itself as `tool` (see [`tool`]). Arguments are names, or parts of names, of the tests to run.
// Without the attribute that marks tests, clippy does not know that these may unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod cases;
mod hunter;
#[path = "../../../tests/place.rs"]
mod place;
#[path = "../../../tests/processes.rs"]
mod processes;
mod scene;
mod support;
mod tool;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    tool::main_if_asked();
    let selection = Selection::parse(std::env::args().skip(1));
    if std::env::args().any(|argument| argument == "--list") {
        cases::ALL.iter().for_each(|(name, _)| println!("privileged_{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = scene::prerequisites() {
        println!("privileged tests of mount: skipped, because {reason}");
        return ExitCode::SUCCESS;
    }
    // This program also runs as an ordinary user, below a private /tmp.
    if let Some(status) = place::run_copied() {
        return status;
    }
    let mut failed = 0;
    for (name, test) in cases::ALL.iter().filter(|(name, _)| selection.takes(&format!("privileged_{name}"))) {
        let outcome = if catch_unwind(test).is_ok() { "ok" } else { "FAILED" };
        failed += u32::from(outcome == "FAILED");
        println!("test privileged_{name} ... {outcome}");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The tests to run, by libtest's arguments: parts of names to take, and after `--skip` parts to leave out.
#[derive(Default)]
struct Selection {
    taken: Vec<String>,
    skipped: Vec<String>,
}

impl Selection {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Self {
        let mut selection = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--skip" => selection.skipped.extend(arguments.next()),
                flag if flag.starts_with('-') => {}
                _ => selection.taken.push(argument),
            }
        }
        selection
    }

    fn takes(&self, name: &str) -> bool {
        let names = |parts: &[String]| parts.iter().any(|part| name.contains(part.as_str()));
        (self.taken.is_empty() || names(&self.taken)) && !names(&self.skipped)
    }
}
