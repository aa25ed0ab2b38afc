//! Names that quell chooses: of a trace after its program, of an image after its trace.

use quell_base::interpreter::script;
use quell_trace::RankId;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The trace of a command: after the script when an interpreter runs one, else after the program.
pub(crate) fn trace(command: &[OsString]) -> PathBuf {
    let program = command.first().map(OsString::as_os_str).unwrap_or(OsStr::new("trace"));
    // A login shell is called `-bash`.
    let name = stem(script(command).unwrap_or(program));
    PathBuf::from(format!("{}.qtrace", name.trim_start_matches('-')))
}

/// The trace of a process that runs already. `name`: as `ps` shows it. It stands for a command that the program replaced by a title,
/// such as `nginx: worker process`.
pub(crate) fn of_process(command: &[OsString], name: String) -> PathBuf {
    let is_title =
        |word: &OsString| word.as_encoded_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'('));
    if command.first().is_some_and(is_title) { trace(&[name.into()]) } else { trace(command) }
}

/// The trace of a rank: rank 0 has the name itself.
pub(crate) fn of_rank(trace: &Path, rank: Option<RankId>) -> PathBuf {
    match rank {
        None | Some(RankId(0)) => trace.to_owned(),
        Some(rank) => trace.with_extension(format!("rank{rank}.qtrace")),
    }
}

/// The name of a trace with a number: `app-2.qtrace`.
pub(crate) fn numbered(trace: &Path, number: u32) -> PathBuf {
    let mut name = trace.file_stem().unwrap_or(OsStr::new("trace")).to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = trace.extension() {
        name.push(".");
        name.push(extension);
    }
    trace.with_file_name(name)
}

/// The image of a trace.
pub(crate) fn image(trace: &Path) -> PathBuf {
    PathBuf::from(trace.file_name().unwrap_or(OsStr::new("quell"))).with_extension("qimg")
}

fn stem(path: &OsStr) -> String {
    let stem = Path::new(path).file_stem().unwrap_or(OsStr::new("trace"));
    stem.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_after_what_runs() {
        for (command, expected) in [
            (&["python3", "dir/app.py", "-v"][..], "app.qtrace"),
            (&["/usr/bin/python3.11", "-c", "pass"], "python3.qtrace"),
            (&["./simulate", "in.dat"], "simulate.qtrace"),
            (&["bash", "run.sh"], "run.qtrace"),
            (&["-bash"], "bash.qtrace"),
        ] {
            let command: Vec<OsString> = command.iter().map(OsString::from).collect();
            assert_eq!(trace(&command), Path::new(expected));
        }
    }

    #[test]
    fn a_trace_is_not_named_after_a_title() {
        for (word, expected) in [
            ("nginx: worker process", "name.qtrace"),
            ("sshd: root@pts/0", "name.qtrace"),
            ("/opt/app/bin/serve", "serve.qtrace"),
        ] {
            assert_eq!(of_process(&[word.into()], "name".to_owned()), Path::new(expected));
        }
    }

    #[test]
    fn ranks_have_names_of_their_own_beside_rank_0() {
        assert_eq!(of_rank(Path::new("d/app.qtrace"), Some(RankId(0))), Path::new("d/app.qtrace"));
        assert_eq!(of_rank(Path::new("d/app.qtrace"), Some(RankId(7))), Path::new("d/app.rank7.qtrace"));
        assert_eq!(numbered(Path::new("d/app.qtrace"), 2), Path::new("d/app-2.qtrace"));
        assert_eq!(numbered(Path::new("d/trace"), 3), Path::new("d/trace-3"));
        assert_eq!(image(Path::new("d/app.qtrace")), Path::new("app.qimg"));
    }
}
