//! `quell top`: processes that run, live.
//!
//! ```text
//! parent: forwards signals; puts the terminal back when the child was killed
//!   child: draws, reads keys
//!     thread "watch": the engine, in a thread of its own
//! ```
//!
//! The thread that draws is not the one that traces: a reader of the output may be a traced process itself.

use super::record::explain;
use crate::failure::{ERROR, Failure};
use crate::flags::Top;
use crate::printer::{Printer, Reader};
use crate::screen::{Screen, Terminal, terminal_lines};
use crate::signals::Signals;
use crate::users;
use quell_record::{
    OperationCounts, RecordError, Watch, WatchScope, WatchedDirectory, WatchedInterval, WatchedProcess,
};
use quell_report::terminal;
use quell_report::view::{SCHEMA_VERSION, TopCounts, TopDirectory, TopProcess, TopView};
use quell_trace::{Exit, Pid};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The longest wait for a key. After it, signals and the end of all watched processes are looked for.
const STEP: Duration = Duration::from_millis(100);

pub(crate) fn run(flags: &Top, printer: &Printer) -> Result<u8, Failure> {
    let (scope, watching) = scope(flags)?;
    let terminal = Terminal::of_stdout().filter(|_| !flags.json);
    if let Some(exit) = quell_record::guard().map_err(own_failure)? {
        // A second interrupt ends the child at once, with a status of its own.
        if let (Exit::Signal(_) | Exit::Status(129..), Some(terminal)) = (exit, &terminal) {
            terminal.restore();
        }
        return Ok(u8::try_from(exit.shell_status()).unwrap_or(ERROR));
    }
    let signals = Signals::watch()?;
    let watch = Watch::default();
    let engine = watch.clone();
    let began = Instant::now();
    let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(move || engine.run(&scope))?;
    let shown = Shown { flags, watching, watch: &watch, thread: &thread, signals: &signals, began };
    let outcome = shown.until_ended(terminal.as_ref(), printer);
    watch.end();
    let watched = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    outcome.and(watched.map_err(own_failure)).map(|()| 0)
}

fn own_failure(error: RecordError) -> Failure {
    explain(error).status(ERROR)
}

/// The processes to watch, and their name.
fn scope(flags: &Top) -> Result<(WatchScope, String), Failure> {
    let numbers: Vec<Pid> = flags.pids.iter().flat_map(|list| &list.0).copied().map(Pid).collect();
    if !numbers.is_empty() {
        let processes = quell_record::joinable(&numbers).map_err(own_failure)?;
        let name = match &processes[..] {
            [process] => format!("process {process}"),
            processes => format!("{} processes", processes.len()),
        };
        return Ok((WatchScope::Listed(processes), name));
    }
    if let Some(job) = flags.job.clone() {
        let name = format!("job {job}");
        return Ok((WatchScope::OfJob(job), name));
    }
    let ourselves = rustix::process::getuid().as_raw();
    let user = flags.user.as_deref().map_or(Ok(ourselves), users::number)?;
    if user == 0 {
        let failure =
            Failure::message("the processes of root are not watched as a whole: file systems wait for some");
        return Err(failure.hint("`-p PID`, `--user U` or `--job ID` says which processes to watch"));
    }
    let name = flags.user.clone().unwrap_or_else(|| user.to_string());
    Ok((WatchScope::OfUser(user), format!("user {name}")))
}

/// The loop that shows what was counted.
struct Shown<'a> {
    flags: &'a Top,
    watching: String,
    watch: &'a Watch,
    thread: &'a JoinHandle<Result<(), RecordError>>,
    signals: &'a Signals,
    began: Instant,
}

impl Shown<'_> {
    /// Shows interval after interval until the user or the end of the processes ends it.
    fn until_ended(&self, terminal: Option<&Terminal>, printer: &Printer) -> Result<(), Failure> {
        let screen = terminal.map(Screen::begin);
        let (mut count, mut from) = (0, self.began);
        if let Some(screen) = &screen {
            screen.draw(&self.text(&self.view(WatchedInterval::default(), Duration::ZERO), printer));
        }
        loop {
            let is_over = self.wait_until(from + self.flags.interval, screen.as_ref());
            let now = Instant::now();
            let view = self.view(self.watch.take(), now - from);
            from = now;
            let reader = match &screen {
                Some(screen) => {
                    screen.draw(&self.text(&view, printer));
                    Reader::Reads
                }
                None => printer.offer(self.output(&view, printer)?.as_bytes())?,
            };
            count += 1;
            if is_over || reader == Reader::Gone || self.flags.count == Some(count) {
                return Ok(());
            }
        }
    }

    /// Waits; true when it is over before that.
    fn wait_until(&self, end: Instant, screen: Option<&Screen<'_>>) -> bool {
        loop {
            if self.signals.have_come() || self.thread.is_finished() {
                return true;
            }
            let left = end.saturating_duration_since(Instant::now()).min(STEP);
            if left.is_zero() {
                return false;
            }
            match screen {
                Some(screen) if matches!(screen.key(left), Some(b'q' | b'Q')) => return true,
                Some(_) => {}
                None => std::thread::sleep(left),
            }
        }
    }

    fn output(&self, view: &TopView, printer: &Printer) -> Result<String, Failure> {
        let text = if self.flags.json { serde_json::to_string(view)? } else { self.text(view, printer) };
        Ok(text + "\n")
    }

    fn text(&self, view: &TopView, printer: &Printer) -> String {
        let lines = Terminal::of_stdout().map(|_| terminal_lines());
        terminal::top(view, lines, printer.style())
    }

    fn view(&self, interval: WatchedInterval, took: Duration) -> TopView {
        let process = |row: &WatchedProcess| TopProcess {
            process: row.process.0,
            command: row.command.clone(),
            counts: counts(&row.counts),
        };
        let directory = |row: &WatchedDirectory| TopDirectory {
            path: row.directory.clone(),
            counts: counts(&row.counts),
        };
        TopView {
            schema_version: SCHEMA_VERSION,
            watching: self.watching.clone(),
            watched_seconds: self.began.elapsed().as_secs_f64(),
            interval_seconds: took.as_secs_f64(),
            processes: interval.watched as u64,
            left_out: interval.left_out,
            notes: interval.notes,
            lost: interval.lost,
            interval: counts(&interval.counts),
            since_begin: counts(&interval.since_begin),
            by_process: interval.processes.iter().map(process).collect(),
            other_processes: counts(&interval.other_processes),
            by_directory: interval.directories.iter().map(directory).collect(),
            other_directories: counts(&interval.other_directories),
        }
    }
}

fn counts(counts: &OperationCounts) -> TopCounts {
    let classes = counts.by_class().map(|(class, count)| (class.name(), count)).collect();
    TopCounts { operations: counts.all(), missed: counts.missed, classes }
}
