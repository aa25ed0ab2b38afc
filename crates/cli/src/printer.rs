//! The only place that prints: data to standard output, talk to standard error.
//!
//! A reader that closes its end (`quell report T | head`) ends us quietly.

use crate::failure::Failure;
use crate::flags::{Arguments, Colour, Verbosity};
use anstyle::{AnsiColor, Style};
use quell_base::is_hidden;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

/// Prints for one command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    colour: Colour,
    verbosity: Verbosity,
}

/// The reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reader {
    Reads,
    /// It has closed its end.
    Gone,
}

const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const FAILURE: Style = AnsiColor::Red.on_default().bold();
const HINT: Style = AnsiColor::Cyan.on_default().bold();

impl Printer {
    pub(crate) fn new(arguments: &Arguments) -> Self {
        Self { colour: arguments.general.colour, verbosity: arguments.general.verbosity() }
    }

    /// For messages before the flags are parsed.
    pub(crate) const USUAL: Self = Self { colour: Colour::Auto, verbosity: Verbosity::Normal };

    /// The flags by which another quell talks as this one.
    pub(crate) fn flags(&self) -> impl Iterator<Item = &'static str> {
        let colour = match self.colour {
            Colour::Auto => "--colour=auto",
            Colour::Always => "--colour=always",
            Colour::Never => "--colour=never",
        };
        [colour].into_iter().chain((self.verbosity == Verbosity::Quiet).then_some("--quiet"))
    }

    /// Prints data; ends the process quietly when the reader has closed its end.
    pub(crate) fn data(&self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())
    }

    /// The same for data that is no text.
    pub(crate) fn bytes(&self, bytes: &[u8]) -> Result<(), Failure> {
        match self.offer(bytes)? {
            Reader::Reads => Ok(()),
            Reader::Gone => std::process::exit(0),
        }
    }

    /// The same for a command that has more to do when the reader has closed its end.
    pub(crate) fn offer(&self, bytes: &[u8]) -> Result<Reader, Failure> {
        let mut stdout = std::io::stdout().lock();
        match stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            Ok(()) => Ok(Reader::Reads),
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(Reader::Gone),
            Err(error) => Err(unwritable(error)),
        }
    }

    /// One line of talk.
    pub(crate) fn talk(&self, line: &str) {
        if self.verbosity == Verbosity::Normal {
            self.line("quell:", line);
        }
    }

    /// Something the user should know although the command goes on. Never silenced.
    pub(crate) fn warn(&self, line: &str) {
        self.line(&format!("quell: {WARNING}warning:{WARNING:#}"), line);
    }

    /// One subject of a warning that has several.
    pub(crate) fn detail(&self, line: &str) {
        self.line(" ", line);
    }

    /// Advice on a warning or a failure. Never silenced, as they are not.
    pub(crate) fn hint(&self, line: &str) {
        self.line(&format!("{HINT}hint:{HINT:#}"), line);
    }

    /// Advice although nothing is wrong.
    pub(crate) fn advise(&self, line: &str) {
        if self.verbosity == Verbosity::Normal {
            self.hint(line);
        }
    }

    /// Says why the command failed, once, and returns its status.
    pub(crate) fn fail(&self, failure: &Failure) -> ExitCode {
        self.line(&format!("quell: {FAILURE}error:{FAILURE:#}"), &failure.line());
        failure.facts.iter().for_each(|fact| self.detail(fact));
        failure.hints.iter().for_each(|hint| self.hint(hint));
        ExitCode::from(failure.status)
    }

    /// Progress may be drawn: standard error is a terminal, without `--quiet`.
    pub(crate) fn draws_progress(&self) -> bool {
        self.verbosity == Verbosity::Normal && std::io::stderr().is_terminal()
    }

    /// The width and colours of standard output.
    pub(crate) fn style(&self) -> quell_report::Style {
        let width = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
        let width = width.or_else(terminal_width).unwrap_or(NARROW);
        let colour = match self.colour.choice(&std::io::stdout()) {
            anstream::ColorChoice::Never => quell_report::Colour::Off,
            _ => quell_report::Colour::On,
        };
        quell_report::Style { width, colour }
    }

    /// One line: a label of ours, which may have colours, and text.
    fn line(&self, label: &str, text: &str) {
        let stderr = std::io::stderr();
        let choice = self.colour.choice(&stderr);
        let mut line = anstream::AutoStream::new(Vec::new(), choice);
        // A failure to write talk cannot be reported. One write: the ranks of a job may speak at once.
        _ = writeln!(line, "{label} {}", printable(text))
            .and_then(|()| stderr.lock().write_all(line.as_inner()));
    }
}

/// Standard output takes nothing.
pub(crate) fn unwritable(error: std::io::Error) -> Failure {
    Failure::new(error).context("cannot write to standard output")
}

/// Text for a terminal: characters that would steer it, or begin a line, are escaped. Any user can choose a file's name.
fn printable(text: &str) -> String {
    let letter = |letter: char| match is_hidden(letter) {
        true => letter.escape_default().collect(),
        false => String::from(letter),
    };
    text.chars().map(letter).collect()
}

/// Columns of a terminal that does not tell, and of a file.
const NARROW: usize = 80;

fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

impl Colour {
    fn choice(self, stream: &impl anstream::stream::RawStream) -> anstream::ColorChoice {
        match self {
            Self::Always => anstream::ColorChoice::Always,
            Self::Never => anstream::ColorChoice::Never,
            Self::Auto => anstream::AutoStream::choice(stream),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_steers_a_terminal_or_begins_a_line() {
        assert_eq!(printable("`a\u{1b}[31m\nquell: wrote ü`"), "`a\\u{1b}[31m\\nquell: wrote ü`");
        assert_eq!(printable("a\u{202e}gpj.exe"), "a\\u{202e}gpj.exe");
    }
}
