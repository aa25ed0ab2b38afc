//! The program that a command line stands for: an interpreter stands for its script.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Interpreters by their names without version. The first argument that is a file is the script.
const INTERPRETERS: &[&[u8]] = &[
    b"python", b"pypy", b"perl", b"ruby", b"julia", b"Rscript", b"R", b"node", b"bash", b"sh", b"dash",
    b"zsh", b"ksh", b"csh", b"tcsh", b"tclsh", b"lua", b"java", b"php", b"octave", b"guile",
];

/// Interpreters that take code after `-e`.
const TAKE_CODE_BY_E: &[&[u8]] = &[b"perl", b"ruby", b"julia", b"Rscript", b"R", b"node", b"lua"];

/// The code that an interpreter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interpreted<'a> {
    /// Code on the command line, such as that of `python3 -c CODE`.
    Code,
    /// A module, such as that of `python3 -m MODULE`.
    Module(&'a OsStr),
    /// A script.
    Script(&'a OsStr),
}

/// The code that `command` has its program interpret; `None` where the program is no interpreter, or reads its code from
/// elsewhere. `is_script` tells whether an argument that is no option is the script; its number counts from 0, after the program.
pub fn interpreted<'a>(
    command: &'a [impl AsRef<OsStr>],
    is_script: impl Fn(usize, &OsStr) -> bool,
) -> Option<Interpreted<'a>> {
    let (program, arguments) = command.split_first()?;
    let name = name_of(program.as_ref());
    if !INTERPRETERS.contains(&name) {
        return None;
    }
    for (index, argument) in arguments.iter().map(AsRef::as_ref).enumerate() {
        match argument.as_bytes() {
            b"-c" | b"--eval" => return Some(Interpreted::Code),
            // Elsewhere `-e` ends a shell at its first error, and `-E` has Python ignore its variables.
            b"-e" | b"-E" if TAKE_CODE_BY_E.contains(&name) => return Some(Interpreted::Code),
            b"-m" => return arguments.get(index + 1).map(|module| Interpreted::Module(module.as_ref())),
            [b'-', ..] => {}
            _ if is_script(index, argument) => return Some(Interpreted::Script(argument)),
            _ => {}
        }
    }
    None
}

/// The script, as the command line alone shows it: the first argument. After an option a word may be that option's value.
pub fn script(command: &[impl AsRef<OsStr>]) -> Option<&OsStr> {
    match interpreted(command, |index, _| index == 0) {
        Some(Interpreted::Script(script)) => Some(script),
        _ => None,
    }
}

/// The name of a program without directory and version: `python` for `/usr/bin/python3.11`.
fn name_of(program: &OsStr) -> &[u8] {
    let bytes = program.as_bytes();
    let name = bytes.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    let end = name.iter().rposition(|byte| !byte.is_ascii_digit() && *byte != b'.');
    &name[..end.map_or(0, |end| end + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_stands_for_its_script() {
        for (line, expected) in [
            ("/usr/bin/python3.11 app.py -v", Some("app.py")),
            ("Rscript dir/fit.R", Some("dir/fit.R")),
            ("zsh run", Some("run")),
            ("python3 -X dev", None),
            ("python3 -c pass", None),
            ("simulate in.dat", None),
            ("python3", None),
            ("3", None),
        ] {
            let command: Vec<&str> = line.split(' ').collect();
            assert_eq!(script(&command), expected.map(OsStr::new), "{line}");
        }
        assert_eq!(script(&[""; 0]), None);
    }

    #[test]
    fn a_module_and_code_are_told_from_scripts() {
        let is_script = |_: usize, word: &OsStr| word == "app.py";
        for (line, expected) in [
            ("python3 -X dev app.py", Some(Interpreted::Script(OsStr::new("app.py")))),
            ("python3 -m pkg.tool app.py", Some(Interpreted::Module(OsStr::new("pkg.tool")))),
            ("python3 -m", None),
            ("perl -e 1 app.py", Some(Interpreted::Code)),
            ("bash -e app.py", Some(Interpreted::Script(OsStr::new("app.py")))),
            ("python3 -E app.py", Some(Interpreted::Script(OsStr::new("app.py")))),
            ("python3 other.py", None),
        ] {
            let command: Vec<&str> = line.split(' ').collect();
            assert_eq!(interpreted(&command, is_script), expected, "{line}");
        }
    }
}
