//! The object of `quell modules measure --json`.

use schemars::JsonSchema;
use serde::Serialize;
use std::ops::Range;

/// The cost of each strategy.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesMeasureView {
    /// The version of this object.
    pub schema_version: u32,
    /// The modulepaths, in the order in which they were given.
    pub modulepaths: Vec<String>,
    /// The user who ran the tools.
    pub user: String,
    /// The assumed duration of a call on a tree. Unit: microseconds.
    pub latency_us: u64,
    /// One entry a tool, strategy and command.
    pub strategies: Vec<MeasuredStrategy>,
    /// Strategies that were not measured.
    pub not_measured: Vec<UnmeasuredStrategy>,
    /// The advice for each tool, modulepath and command.
    pub advice: Vec<MeasuredAdvice>,
    /// One recommendation a tool, for all commands and modulepaths together.
    pub recommendations: Vec<MeasuredRecommendation>,
    /// The rows of each tool, for the terminal. Shape: in the order of the rows.
    #[serde(skip)]
    pub tools: Vec<MeasuredTool>,
}

/// The rows of one tool.
#[derive(Debug)]
pub struct MeasuredTool {
    /// The tool with its version and place.
    pub title: String,
    /// The module that was loaded.
    pub module: String,
    /// Modulefiles that the tool lists without any strategy.
    pub modulefiles: u64,
    /// The commands, in the order in which they are shown.
    pub commands: Vec<&'static str>,
    /// Columns of the longest name of a strategy.
    pub width: usize,
    /// Its rows of [`ModulesMeasureView::strategies`].
    pub strategies: Range<usize>,
    /// Its rows of [`ModulesMeasureView::not_measured`].
    pub not_measured: Range<usize>,
    /// The verdict.
    pub verdict: Option<MeasuredRecommendation>,
}

/// The recommendation for a site.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredRecommendation {
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
    /// The strategy; `plain` where nothing is to change.
    pub strategy: String,
    /// The command that converts the site.
    pub command: Option<String>,
    /// Settings that users need, as variables.
    pub settings: Vec<String>,
    /// Time of one listing of each kind and ten of each other command, as it is. Unit: seconds.
    pub seconds_before: f64,
    /// The same with the strategy.
    pub seconds_after: f64,
}

/// A command with a strategy.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredStrategy {
    /// The strategy.
    pub name: String,
    /// `avail`, `avail -t`, `load`, `login`, `restore` or `spider`.
    pub command: &'static str,
    /// Calls of the recorder's set.
    pub calls: u64,
    /// Calls on the module trees that reached their file system.
    pub on_tree: u64,
    /// Modulefiles that a terse listing has.
    pub modulefiles: u64,
    /// Calls that failed.
    pub errors: u64,
    /// Calls on each modulepath, in their order.
    pub on_each_tree: Vec<u64>,
    /// CPU time of the tool, median. Unit: microseconds.
    pub cpu_us: u64,
    /// CPU time, and the latency for each call on a tree.
    pub seconds: f64,
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
}

/// A strategy that was not measured.
#[derive(Debug, Serialize, JsonSchema)]
pub struct UnmeasuredStrategy {
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
    /// The strategy.
    pub name: String,
    /// The reason.
    pub why: String,
}

/// A recommendation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct MeasuredAdvice {
    /// `modules` or `lmod`.
    pub tool: &'static str,
    /// The tool's version.
    pub version: String,
    /// The modulepath.
    pub modulepath: String,
    /// The command.
    pub command: &'static str,
    /// The strategy that takes least time.
    pub strategy: String,
    /// The advice, with its cost.
    pub text: String,
}
