//! The request for a measurement, and its result.

use crate::tools::{Question, Tool, ToolKind, User};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The request for a measurement.
#[derive(Clone, Debug)]
pub struct MeasureRequest {
    /// The tool.
    pub tool: Tool,
    /// The site's modulepaths, which are only read.
    pub modulepaths: Vec<PathBuf>,
    /// The user that runs the tool. Only root may name another user.
    pub user: User,
    /// Settings of the site. Shape: name and value.
    pub variables: Vec<(OsString, OsString)>,
    /// The module that is loaded; `None` for one in the middle of the listing.
    pub module: Option<String>,
    /// The program that records: this quell.
    pub quell: PathBuf,
    /// An empty directory of this process, through which `user` may pass but in which that user may not write. Copies and
    /// recordings go there, and its file system is the one that is measured.
    pub work: PathBuf,
    /// Runs without the recorder, for the CPU time. Range: from 1.
    pub runs: u32,
}

/// A command of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MeasuredCommand {
    /// `module avail`.
    Avail,
    /// The terse listing, which completion by Tab uses too.
    Terse,
    /// `module load`.
    Load,
    /// The command with which the tool begins a login shell.
    Login,
    /// `module restore` of a saved collection with the module that is loaded.
    Restore,
    /// `module spider`.
    Spider,
}

impl MeasuredCommand {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 6] =
        [Self::Avail, Self::Terse, Self::Load, Self::Login, Self::Restore, Self::Spider];

    /// A name for people and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Avail => "avail",
            Self::Terse => "avail -t",
            Self::Load => "load",
            Self::Login => "login",
            Self::Restore => "restore",
            Self::Spider => "spider",
        }
    }

    /// Tells whether it lists modules. A user asks for a listing now and then; every job does the rest.
    pub fn is_listing(self) -> bool {
        matches!(self, Self::Avail | Self::Terse | Self::Spider)
    }

    pub(super) fn question(self, kind: ToolKind, module: &str) -> Question {
        let words: &[&str] = match (self, kind) {
            (Self::Login, ToolKind::Modules) => &["autoinit"],
            (Self::Login, ToolKind::Lmod) => &["--initial_load", "--no_redirect", "restore"],
            // The name of the collection follows.
            (Self::Restore, _) => &["restore"],
            (Self::Spider, _) => &["spider"],
            (Self::Avail, _) => &["avail"],
            (Self::Terse, ToolKind::Modules) => &["avail", "-t"],
            (Self::Terse, ToolKind::Lmod) => &["-t", "avail"],
            (Self::Load, _) => &["load", module],
        };
        words.iter().map(OsString::from).collect()
    }
}

/// A strategy that was measured, or the reason for which it was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyCost {
    /// Its name: `plain`, `modulepath rc`, `cache`.
    pub name: String,
    /// Shape: one row a command that the tool has, in the order of [`MeasuredCommand::ALL`]; empty when it was not measured.
    pub rows: Vec<CommandCost>,
    /// The reason for which it was not measured, or what it needs from the site.
    pub note: Option<String>,
}

#[cfg(test)]
impl StrategyCost {
    /// A strategy with calls on the tree and milliseconds of CPU time for each of the first commands.
    pub(super) fn example(name: &str, rows: impl IntoIterator<Item = (u64, u64)>, modulefiles: u64) -> Self {
        let rows = MeasuredCommand::ALL.into_iter().zip(rows).map(|(action, (calls, cpu))| CommandCost {
            action,
            calls: 500 + calls,
            errors: 0,
            on_tree: calls,
            on_each_tree: vec![calls],
            modulefiles,
            cpu: Duration::from_millis(cpu),
        });
        Self { name: name.to_owned(), rows: rows.collect(), note: None }
    }
}

/// One command with one strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandCost {
    /// The command.
    pub action: MeasuredCommand,
    /// Calls of the recorder's set.
    pub calls: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls on the module trees that reached their file system.
    pub on_tree: u64,
    /// The same by modulepath. Shape: in the order of the request.
    pub on_each_tree: Vec<u64>,
    /// Modulefiles that a terse listing has.
    pub modulefiles: u64,
    /// CPU time of the tool without the recorder, median of the runs.
    pub cpu: Duration,
}

/// The result of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurement {
    /// The tool.
    pub tool: Tool,
    /// The module that was loaded.
    pub module: String,
    /// Shape: the plainest first.
    pub strategies: Vec<StrategyCost>,
}
