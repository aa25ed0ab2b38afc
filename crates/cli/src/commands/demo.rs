//! `quell demo`: the whole way on a program of this node, each step a command that the user could type.

use crate::failure::Failure;
use crate::flags::Demo;
use crate::printer::Printer;
use crate::traces;
use quell_base::shell;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs that a node is likely to have, the most telling first; the distribution's own Python before one that a
/// version manager wraps in scripts.
const PROGRAMS: &[&[&str]] = &[
    &["/usr/bin/python3", "-c", IMPORTS],
    &["python3", "-c", IMPORTS],
    &["perl", "-e", "use POSIX; use Data::Dumper; use File::Temp; use Encode;"],
    &["git", "--version"],
    &["ls", "-l", "/usr/lib"],
];

/// Modules of Python's own library with much below them.
const IMPORTS: &str = "import json, email.message, http.client, unittest, xml.dom.minidom, asyncio, sqlite3";

/// The headline of a report.
const HEADLINE: usize = 5;
/// The recordings compared, and the table of `diff` of operations by file system.
const SERVED: usize = 11;

pub(crate) fn run(flags: &Demo, printer: &mut Printer) -> Result<u8, Failure> {
    let command = match flags.command.is_empty() {
        false => flags.command.clone(),
        true => likely_program().ok_or_else(|| {
            Failure::message("this node has no program that the demo knows")
                .hint("quell demo -- CMD shows your own")
        })?,
    };
    let temporary = tempfile::Builder::new().prefix("quell-demo-").tempdir()?;
    let directory = match &flags.keep {
        Some(keep) => {
            std::fs::create_dir(keep).map_err(|error| {
                Failure::new(error).context(format!("cannot make the directory `{}`", keep.display()))
            })?;
            std::path::absolute(keep)?
        }
        None => temporary.path().to_owned(),
    };
    walk(&Stage { printer, quell: std::env::current_exe()?, directory }, &command)?;
    Ok(0)
}

/// The directory of the demo and the binary that it runs.
struct Stage<'a> {
    printer: &'a Printer,
    quell: PathBuf,
    directory: PathBuf,
}

fn walk(stage: &Stage<'_>, command: &[OsString]) -> Result<(), Failure> {
    stage.say("# 1. one trial run: every file-system call, with its result\n")?;
    stage.quell(&["record", "-o", "plain.qtrace", "--"], command, usize::MAX)?;
    stage.say("\n# 2. the storm\n")?;
    stage.quell(&["report", "plain.qtrace"], &[], HEADLINE)?;
    stage.say("\n# 3. what it looked at and what it did not find, in one file\n")?;
    let root = busiest_directory(&stage.directory.join("plain.qtrace"))?;
    stage.quell(&["pack", "plain.qtrace", "-o", "app.qimg", "--root", &root], &[], usize::MAX)?;
    stage.say("\n# 4. the same program, from the image; recorded again for the proof\n")?;
    // A run without the image would prove nothing: it is an error here.
    stage.quell(
        &["record", "-o", "packed.qtrace", "--", "quell", "run", "--require", "app.qimg", "--"],
        command,
        usize::MAX,
    )?;
    stage.say("\n# 5. who answered, before and after\n")?;
    stage.quell(&["diff", "plain.qtrace", "packed.qtrace"], &[], SERVED)?;
    stage.say("\nOn a shared file system the first column is what each process of each node asks its metadata server.\n")
}

impl Stage<'_> {
    /// Shows a command of ours and runs it, quiet; of what it prints, the first `lines` lines.
    fn quell(&self, arguments: &[&str], command: &[OsString], lines: usize) -> Result<(), Failure> {
        let words = arguments.iter().map(OsStr::new).chain(command.iter().map(OsString::as_os_str));
        let words: Vec<&OsStr> = words.collect();
        let shown = shell::command(words.iter().map(|word| word.as_encoded_bytes()));
        self.say(&format!("$ quell {shown}\n"))?;
        let mut process = Command::new(&self.quell);
        process.args(&words).current_dir(&self.directory).stdin(Stdio::null()).stderr(Stdio::inherit());
        // The next step is here; what a step would say of it is only noise. Warnings come through.
        let output = process.env("QUELL_QUIET", "1").output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let shown: String = text.split_inclusive('\n').take(lines).collect();
        self.say(&shown)?;
        // `diff` says with status 1 that something differs.
        match output.status.code() {
            Some(0 | 1) => Ok(()),
            _ => {
                let failure =
                    Failure::message(format!("`quell {}` ended with {}", arguments[0], output.status));
                Err(failure.hint("`quell doctor` says what this node lacks"))
            }
        }
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        self.printer.data(text)
    }
}

fn likely_program() -> Option<Vec<OsString>> {
    let path = std::env::var_os("PATH")?;
    let exists = |name: &str| std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    let found = PROGRAMS.iter().find(|command| exists(command[0]))?;
    Some(found.iter().map(OsString::from).collect())
}

/// The directory three names deep below which the program asked most: on a node without a shared file system, what
/// would lie there.
fn busiest_directory(trace: &Path) -> Result<String, Failure> {
    let trace = traces::open(&[trace])?;
    let mut counts = std::collections::BTreeMap::<String, u64>::new();
    for recording in &trace.recordings {
        let count = |event: &quell_trace::Event| {
            let Some(target) = event.target.filter(|_| event.call.class().is_metadata()) else { return };
            if let Some(directory) = three_deep(recording.paths.bytes(target)) {
                *counts.entry(directory).or_default() += 1;
            }
        };
        recording.for_each_event(count).map_err(traces::explain)?;
    }
    let busiest =
        counts.into_iter().filter(|(path, _)| Path::new(path).is_dir()).max_by_key(|(_, count)| *count);
    busiest
        .map(|(path, _)| path)
        .ok_or_else(|| Failure::message("the program asked too little to show anything"))
}

fn three_deep(path: &[u8]) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let end = path.match_indices('/').nth(3)?.0;
    let virtual_ones = ["/proc/", "/sys/", "/dev/", "/run/", "/tmp/"];
    (!virtual_ones.iter().any(|system| path.starts_with(system))).then(|| path[..end].to_owned())
}
