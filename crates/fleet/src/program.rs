//! The name of a job's program.

use quell_base::interpreter::script;
use std::ffi::OsStr;
use std::path::Path;

/// The name of a program without its directory and, for an interpreter, that of its script: `python3 app.py`.
pub(crate) fn program(command: &[String]) -> String {
    let base = |word: &OsStr| Path::new(word).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some(program) = command.first().map(|word| base(OsStr::new(word))) else { return String::new() };
    let named = script(command).map_or(program.clone(), |script| format!("{program} {}", base(script)));
    named.chars().take(LONGEST).collect()
}

/// Characters of a name at most.
const LONGEST: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_no_directory_and_an_interpreter_its_script() {
        for (command, expected) in [
            (&["/usr/bin/python3.11", "/home/u/app.py", "-v"][..], "python3.11 app.py"),
            (&["python3", "-c", "pass"], "python3"),
            (&["./lmp", "in.dat"], "lmp"),
            (&[], ""),
        ] {
            let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(program(&command), expected);
        }
    }
}
