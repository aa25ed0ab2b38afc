//! `quell calibrate`: a directory measured, its profile written, mdtest's table printed.

mod ranks;

use crate::failure::Failure;
use crate::flags::Calibrate;
use crate::host;
use crate::leftovers;
use crate::printer::Printer;
use crate::progress::Progress;
use crate::signals::Signals;
use quell_base::shell::quoted_name;
use quell_base::{escape, shown};
use quell_calibrate::{CalibrateError, Calibration, CalibrationProgress, CalibrationSetting, ClientLink};
use quell_trace::ServedBy;
use ranks::Side;
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

/// The hidden command of a process of the load. Its orders come over its standard input.
const WORKER: &str = "calibrate-worker";

/// Serves as a process of the load, if `words` ask for that.
pub(crate) fn worker(words: &[OsString]) -> Option<ExitCode> {
    let [_, command] = words else { return None };
    if command != WORKER {
        return None;
    }
    let leave = || std::process::exit(0);
    let served = quell_calibrate::serve(std::io::stdin(), std::io::stdout(), leave);
    Some(if served.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(crate::failure::ERROR) })
}

pub(crate) fn run(flags: &Calibrate, printer: &mut Printer) -> Result<u8, Failure> {
    for file in [Some(&flags.output), flags.csv.as_ref()].into_iter().flatten() {
        may_be_written(file, flags.force)?;
    }
    let signals = Signals::watch()?;
    let explained = |error| explain(error, flags, &signals);
    quell_calibrate::check(&flags.directory, &flags.bounds()).map_err(explained)?;
    let left = quell_calibrate::leftovers(&flags.directory);
    let ranks = match ranks::meet(flags, &signals)? {
        Side::Leads(ranks) => ranks,
        Side::HasWorked => return Ok(0),
    };
    leftovers::name("calibration", &left, printer);
    warn_of_local(&flags.directory, printer);
    let calibration = measure(flags, ranks, &signals, printer).map_err(explained)?;
    let kind = host::file_system(&flags.directory);
    let name = flags.output.file_stem().map_or_else(String::new, |stem| escape(stem.as_bytes()));
    let profile = calibration.profile(&name, note(flags, &kind, calibration.clients));
    // The figures took minutes: neither a file nor a standard output that takes no more may lose what the other can hold.
    let view = quell_report::view::calibrate(&calibration, &profile);
    let printed = printer.data(&quell_report::terminal::calibrate(&view, printer.style()));
    doubts(&calibration, printer);
    let written = put(&flags.output, profile.to_toml().as_bytes());
    if written.is_err() {
        printer.data(&format!("\n{}", profile.to_toml()))?;
    }
    let rows = quell_report::csv::calibrate(&view);
    let rows = flags.csv.as_ref().map_or(Ok(()), |csv| put(csv, rows.as_bytes()));
    printed?;
    written.map_err(|failure| failure.hint("the profile is printed after the tables instead"))?;
    rows?;
    printer.talk(&format!(
        "wrote `{}`; next: quell predict T --fs {}",
        shown(&flags.output),
        quoted_name(&flags.output)
    ));
    Ok(0)
}

fn measure(
    flags: &Calibrate,
    ranks: Vec<ClientLink>,
    signals: &Signals,
    printer: &Printer,
) -> Result<Calibration, CalibrateError> {
    let directory = flags.directory.canonicalize();
    let directory =
        directory.map_err(|source| CalibrateError::Directory { path: flags.directory.clone(), source })?;
    let ourselves = std::env::current_exe()
        .map_err(|source| CalibrateError::Start { process: "a process of quell".into(), source })?;
    let worker: Vec<OsString> = vec![ourselves.into(), WORKER.into()];
    let commands = flags.second_client.iter().map(|words| behind(words, &worker).map(ClientLink::Command));
    let others = commands.chain(ranks.into_iter().map(Ok)).collect::<Result<_, _>>()?;
    let stop = || signals.have_come();
    let setting =
        CalibrationSetting { directory: &directory, worker, others, bounds: flags.bounds(), stop: &stop };
    let mut line = Progress::new(printer);
    let mut step = "";
    let measured = quell_calibrate::calibrate(&setting, &mut |progress: CalibrationProgress| {
        if progress.step != step && line.is_hidden() {
            printer.talk(&format!("{:.0} s: {}", progress.elapsed.as_secs_f64(), progress.step));
        }
        step = progress.step;
        line.show_part(progress.step, (progress.done * 1000.0) as u64, 1000);
    });
    drop(line);
    measured
}

/// The command with the words of `--second-client` before it, such as `ssh node2`.
///
/// `ssh` joins its arguments with blanks, and a shell on the other node splits them again. So every word with a character that is
/// special to a shell is refused. The directory to measure in goes to the worker as a message and is no such word.
fn behind(words: &str, command: &[OsString]) -> Result<Vec<OsString>, CalibrateError> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_./+@=,:-".contains(byte);
    if let Some(word) = command.iter().find(|word| !word.as_bytes().iter().all(is_plain)) {
        return Err(CalibrateError::Unsayable { path: word.into() });
    }
    let script = format!("exec {words} \"$@\"");
    let shell = [OsString::from("sh"), "-c".into(), script.into(), "sh".into()];
    Ok(shell.into_iter().chain(command.iter().cloned()).collect())
}

fn warn_of_local(directory: &Path, printer: &Printer) {
    let kind = host::file_system(directory);
    if !kind.is_empty() && ServedBy::of_type(&kind) != ServedBy::Network {
        printer.warn(&format!(
            "`{}` is on {kind}, which is not known as a network file system: figures of this node alone",
            shown(directory)
        ));
    }
}

fn explain(error: CalibrateError, flags: &Calibrate, signals: &Signals) -> Failure {
    let directory = shown(&flags.directory);
    if let CalibrateError::LeftToo { path, source } = error {
        // The error that left no figures comes first; the directory that remains comes as a hint.
        let left = shown(path);
        let failure = explain(*source, flags, signals);
        return failure
            .hint(format!("`{left}` could not be removed; once nothing is measured there: rm -r {left}"));
    }
    let hint = match (&error, error.errno()) {
        (CalibrateError::Interrupted, _) => {
            return Failure::message("interrupted; what was made is removed").status(signals.status());
        }
        (CalibrateError::Left { path, .. }, _) => {
            format!("once nothing is measured there any more: rm -r {}", shown(path))
        }
        (CalibrateError::Root, _) => "give a directory of the file system that is to be measured".to_owned(),
        (CalibrateError::Full { .. }, _) => {
            "`--items N` and `--file-size BYTES` need less; or give another directory".to_owned()
        }
        (CalibrateError::Slow { .. }, _) => "`--items N` and `--processes N` need fewer".to_owned(),
        (CalibrateError::Unsayable { .. }, _) => {
            "call quell by a path of letters, digits and `_./+@=,:-`, the same on both nodes".to_owned()
        }
        (CalibrateError::SameClient { .. }, _) => {
            "give words that run a command on another node, such as `ssh node2`".to_owned()
        }
        (_, Some(Errno::ROFS | Errno::ACCESS | Errno::PERM)) => {
            format!("give a directory that you may write to, such as `{directory}/$USER`")
        }
        (_, Some(Errno::NOSPC | Errno::DQUOT)) => "`--items N` and `--file-size BYTES` need less".to_owned(),
        (_, Some(Errno::MFILE | Errno::NFILE)) => {
            "`--processes N` and `--items N` need fewer open files; or raise the limit by `ulimit -n`"
                .to_owned()
        }
        (_, Some(Errno::NOENT | Errno::NOTDIR)) => "give a directory that is there".to_owned(),
        (CalibrateError::Process { .. } | CalibrateError::Start { .. }, _)
            if !flags.second_client.is_empty() =>
        {
            "try the second client's words with `true`, and quell's and DIR's paths there".to_owned()
        }
        _ => return Failure::new(error),
    };
    Failure::new(error).hint(hint)
}

fn note(flags: &Calibrate, kind: &str, clients: u16) -> String {
    let clients = match clients {
        1 => "one client".to_owned(),
        clients => format!("{clients} clients"),
    };
    let quick = if flags.quick { " --quick" } else { "" };
    format!("quell calibrate{quick} {}, {kind}, {clients}, from {}", shown(&flags.directory), host::name())
}

fn doubts(calibration: &Calibration, printer: &Printer) {
    if calibration.clients == 1 {
        printer.warn("without `--second-client` the lifetimes in this client's cache were not measured");
    }
    if let Some(unsettled) = calibration.unsettled() {
        printer.warn(&unsettled);
    }
    for step in &calibration.skipped {
        printer.warn(&format!("no time was left for: {step}; `--at-most TIME` gives more"));
    }
    for note in &calibration.notes {
        printer.warn(note);
    }
}

fn may_be_written(file: &Path, force: bool) -> Result<(), Failure> {
    let attempted = format!("cannot write `{}`", shown(file));
    if file.exists() && !force {
        return Err(Failure::message(format!("`{}` exists", shown(file)))
            .hint("`--force` replaces it, `-o FILE` writes elsewhere"));
    }
    let parent = quell_base::files::directory_of(file);
    let writable = rustix::fs::access(parent, rustix::fs::Access::WRITE_OK);
    writable.map_err(|errno| Failure::new(std::io::Error::from(errno)).context(attempted))
}

fn put(file: &Path, content: &[u8]) -> Result<(), Failure> {
    quell_base::files::put(file, content)
        .map_err(|error| Failure::new(error).context(format!("cannot write `{}`", shown(file))))
}
