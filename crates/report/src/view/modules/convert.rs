//! The object of `quell modules convert --json`, and of `--undo`.

use super::ModulesDifference;
use schemars::JsonSchema;
use serde::Serialize;

/// A conversion of module trees.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesConvertView {
    /// The version of this object.
    pub schema_version: u32,
    /// `rc`, `eval` or `virtual`.
    pub strategy: &'static str,
    /// Every modulepath can be converted.
    pub possible: bool,
    /// A new modulepath was written; in place, one without changes is not.
    pub written: bool,
    /// Shape: one entry a modulepath, in their order.
    pub trees: Vec<ConvertedTree>,
    /// Answers that would differ; then nothing was written.
    pub differences: Vec<ModulesDifference>,
    /// Requests that were refused before, and are now for another reason; with `--exact` they are among `differences`.
    pub reworded: Vec<ModulesDifference>,
    /// Tools that were asked; empty without any.
    pub tools: Vec<String>,
    /// Variables that users need for it, as `NAME=VALUE`.
    pub settings: Vec<String>,
    /// Files by which it can be undone.
    pub records: Vec<String>,
    /// Calls of a listing, a load and a login shell on old and new trees, counted by `--dry-run`; empty without a tool.
    pub calls: Vec<ConvertedCalls>,
}

/// The calls of a command on the trees.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConvertedCalls {
    /// `avail`, `load` or `login`.
    pub command: &'static str,
    /// With the old modulepaths.
    pub old: u64,
    /// With the new ones.
    pub new: u64,
}

/// The conversion of a modulepath.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConvertedTree {
    /// The old one.
    pub source: String,
    /// The new one; null where none was written.
    pub target: Option<String>,
    /// Files that change.
    pub changes: Vec<ConvertedFile>,
    /// rc files that stay, and why.
    pub left: Vec<ConvertReason>,
    /// Reasons against its conversion.
    pub refused: Vec<ConvertReason>,
    /// Notes, such as that the old one must stay.
    pub notes: Vec<String>,
}

/// A file that changes.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConvertedFile {
    /// Its path below the modulepath.
    pub path: String,
    /// `written`, `removed` or `linked`.
    pub change: &'static str,
}

/// A path and a reason.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConvertReason {
    /// The rule that it follows from; docs/modules.md lists them.
    pub rule: u8,
    /// The path below the modulepath.
    pub path: String,
    /// The reason.
    pub text: String,
}

/// A conversion that was taken back.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesUndoView {
    /// The version of this object.
    pub schema_version: u32,
    /// The undoing is done; not with `--dry-run`.
    pub undone: bool,
    /// Modulepaths that are what they were.
    pub restored: Vec<String>,
    /// New modulepaths that are gone.
    pub removed: Vec<String>,
}
