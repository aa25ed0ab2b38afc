//! Runs commands from images, as root and as an ordinary user, and compares with what they see without quell.
//!
//! Has its own harness, because `run` needs a process with one thread, and a process that the test can kill: the test
//! binary starts itself as `tool` (see [`tool`]). Arguments are names, or parts of names, of the tests to run.
// Without the attribute that marks tests, clippy does not know that these may unwrap and print.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod cases;
mod scene;
mod support;
mod tool;

use std::panic::catch_unwind;
use std::process::ExitCode;

fn main() -> ExitCode {
    tool::main_if_asked();
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if std::env::args().any(|argument| argument == "--list") {
        cases::ALL.iter().for_each(|(name, _)| println!("privileged_{name}: test"));
        return ExitCode::SUCCESS;
    }
    if let Err(reason) = scene::prerequisites() {
        println!("privileged tests of mount: skipped, because {reason}");
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, test) in cases::ALL {
        if !filters.is_empty()
            && !filters.iter().any(|filter| name.contains(filter.trim_start_matches("privileged_")))
        {
            continue;
        }
        let outcome = if catch_unwind(test).is_ok() { "ok" } else { "FAILED" };
        failed += u32::from(outcome == "FAILED");
        println!("test privileged_{name} ... {outcome}");
    }
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
