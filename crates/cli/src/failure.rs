//! A failure as the user meets it: what was attempted and why it failed in one line, hints, and the exit status.

use quell_trace::Errno;
use std::fmt::Display;

/// Exit status of every command but `record` and `run`: it could not do its work.
pub(crate) const ERROR: u8 = 2;
/// Exit status of `record` and `run`: quell itself failed. Source: `timeout(1)`, `env(1)`.
pub(crate) const OURS: u8 = 125;
/// Exit status of `record` and `run`: the command was found but cannot be executed.
pub(crate) const NOT_EXECUTABLE: u8 = 126;
/// Exit status of `record` and `run`: the command was not found.
pub(crate) const NOT_FOUND: u8 = 127;

/// Hint where a command was not found.
pub(crate) const LOOK_FOR: &str = "look for it with `type -a NAME`; a module may have to be loaded first";
/// Hint where a command cannot be executed.
pub(crate) const MAKE_EXECUTABLE: &str = "give a program, or a script with `#!` and execute permission";

/// The reason that a command ended early.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: anyhow::Error,
    /// The subjects of the error, one line each, if it has several.
    pub(crate) facts: Vec<String>,
    pub(crate) hints: Vec<String>,
    pub(crate) status: u8,
}

impl Failure {
    pub(crate) fn new(error: impl Into<anyhow::Error>) -> Self {
        Self { error: error.into(), facts: Vec::new(), hints: Vec::new(), status: ERROR }
    }

    pub(crate) fn message(message: impl Display) -> Self {
        Self::new(anyhow::anyhow!("{message}"))
    }

    pub(crate) fn context(self, attempted: impl Display + Send + Sync + 'static) -> Self {
        Self { error: self.error.context(attempted), ..self }
    }

    pub(crate) fn facts(self, facts: Vec<String>) -> Self {
        Self { facts, ..self }
    }

    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }

    /// Each hint that there is; an option has one or none.
    pub(crate) fn hints(self, hints: impl IntoIterator<Item = impl Display>) -> Self {
        hints.into_iter().fold(self, Self::hint)
    }

    pub(crate) fn status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The attempt and the reason that it failed, in one line. An error of the system has its name and meaning.
    pub(crate) fn line(&self) -> String {
        let cause = |cause: &(dyn std::error::Error + 'static)| {
            let system = cause.downcast_ref::<std::io::Error>().and_then(Errno::of);
            system.map_or_else(|| cause.to_string(), |errno| errno.to_string())
        };
        self.error.chain().map(cause).collect::<Vec<_>>().join(": ")
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::new(error)
    }
}
