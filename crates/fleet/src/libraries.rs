//! The library that a path belongs to: a package of Python, R or Node, or a shared library.

use quell_base::escape;
use std::borrow::Cow;

/// The name of the library that a path belongs to; `None` for other paths.
pub(crate) fn library(path: &[u8]) -> Option<String> {
    let names: Vec<&[u8]> = path.split(|&byte| byte == b'/').filter(|name| !name.is_empty()).collect();
    let package = names.windows(2).rev().find_map(|pair| match pair[0] {
        b"site-packages" | b"dist-packages" => python(pair[1]),
        b"node_modules" => Some(pair[1]),
        _ => None,
    });
    let name = package.or_else(|| shared(names.last()?))?;
    Some(escape(name)).filter(|name| name.len() <= LONGEST)
}

/// `numpy`, `numpy-1.26.dist-info`, `numpy.libs` and `six.cpython-311-x86_64-linux-gnu.so` without what follows the name.
fn python(name: &[u8]) -> Option<&[u8]> {
    let end = name.iter().position(|byte| matches!(byte, b'.' | b'-')).unwrap_or(name.len());
    (end > 0 && name != b"__pycache__").then(|| &name[..end])
}

/// `libmpi` of `libmpi.so.40.30.2`.
fn shared(name: &[u8]) -> Option<&[u8]> {
    let end = name.windows(3).position(|three| three == b".so")?;
    let is_end = matches!(name.get(end + 3), None | Some(b'.'));
    let is_extension = name[..end].contains(&b'.');
    (end > 0 && is_end && !is_extension && name.starts_with(b"lib")).then(|| &name[..end])
}

/// A longer name is none.
const LONGEST: usize = 100;

/// The last word of a program and, for an interpreter, of what it runs: `python3 app.py`.
pub(crate) fn program(command: &[String]) -> String {
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let Some(program) = command.first().map(|word| base(word)) else { return String::new() };
    let plain = program.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let script = command.get(1).filter(|word| INTERPRETERS.contains(&plain) && !word.starts_with('-'));
    let named =
        script.map_or(Cow::Borrowed(&program), |script| Cow::Owned(format!("{program} {}", base(script))));
    named.chars().take(LONGEST).collect()
}

/// Programs whose first plain argument is what runs.
const INTERPRETERS: &[&str] =
    &["python", "perl", "ruby", "julia", "Rscript", "node", "bash", "sh", "tclsh", "lua", "java"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_belongs_to_its_package_or_is_a_shared_library() {
        for (path, expected) in [
            ("/usr/lib/python3/dist-packages/numpy/core/__init__.py", Some("numpy")),
            ("/v/lib/python3.11/site-packages/numpy.libs/libgfortran.so.5", Some("numpy")),
            ("/v/lib/python3.11/site-packages/numpy-2.1.dist-info/METADATA", Some("numpy")),
            ("/v/site-packages/six.py", Some("six")),
            ("/v/site-packages/__pycache__", None),
            ("/v/site-packages", None),
            ("/a/node_modules/x/node_modules/left-pad/index.js", Some("left-pad")),
            ("/opt/mpi/lib/libmpi.so.40.30.2", Some("libmpi")),
            ("/opt/mpi/lib/libmpi.so", Some("libmpi")),
            ("/opt/mpi/lib/libmpi.sole", None),
            ("/opt/x/foo.cpython-311.so", None),
            ("/etc/passwd", None),
            ("", None),
        ] {
            assert_eq!(library(path.as_bytes()).as_deref(), expected, "{path}");
        }
    }

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
