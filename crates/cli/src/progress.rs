//! The progress of a command, drawn for a person at a terminal: one line, drawn over.

use crate::printer::Printer;
use std::io::Write;
use std::time::{Duration, Instant};

/// A line of progress. It goes away with its end.
#[derive(Debug)]
pub(crate) struct Progress {
    /// `None` where no person watches.
    drawn: Option<Drawn>,
}

#[derive(Debug)]
struct Drawn {
    began: Instant,
    /// The time of the last line.
    last: Option<Instant>,
}

/// The interval from one line to the next.
const INTERVAL: Duration = Duration::from_millis(100);

/// Columns of a line: none wraps.
const COLUMNS: usize = 78;

impl Progress {
    /// A line that is hidden unless a person watches.
    pub(crate) fn new(printer: &Printer) -> Self {
        Self { drawn: printer.draws_progress().then(|| Drawn { began: Instant::now(), last: None }) }
    }

    pub(crate) fn is_hidden(&self) -> bool {
        self.drawn.is_none()
    }

    /// Shows what is done now.
    pub(crate) fn show(&mut self, text: impl FnOnce() -> String) {
        let Some(drawn) = &mut self.drawn else { return };
        if drawn.last.is_some_and(|last| last.elapsed() < INTERVAL) {
            return;
        }
        drawn.last = Some(Instant::now());
        let line = format!("quell: {} s: {}", drawn.began.elapsed().as_secs(), text());
        let line: String = line.chars().take(COLUMNS).collect();
        // Progress that cannot be drawn is none.
        _ = write!(std::io::stderr(), "\r{line}\x1b[K").and_then(|()| std::io::stderr().flush());
    }

    /// Takes the line away, so that a message can be printed.
    pub(crate) fn clear(&mut self) {
        if self.drawn.as_mut().and_then(|drawn| drawn.last.take()).is_some() {
            _ = write!(std::io::stderr(), "\r\x1b[K").and_then(|()| std::io::stderr().flush());
        }
    }

    /// The same for work of which the amount is known.
    pub(crate) fn show_part(&mut self, what: &str, done: u64, total: u64) {
        self.show(|| format!("{what} {} %", (done * 100).checked_div(total).unwrap_or(0).min(100)));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}
