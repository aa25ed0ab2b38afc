//! The object of `quell modules verify --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Answers of the old and of the new module trees.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesVerifyView {
    /// The version of this object.
    pub schema_version: u32,
    /// The tools that were asked.
    pub tools: Vec<String>,
    /// The user who asked.
    pub users: Vec<String>,
    /// The users that were not asked, because other users could misuse their rights.
    pub not_asked: Vec<String>,
    /// Questions that were asked about both sides.
    pub questions: usize,
    /// All answers are the same, but for those that are `reworded` where `--exact` is not given.
    pub same: bool,
    /// Answers that differ, by tool, user and question.
    pub differences: Vec<ModulesDifference>,
    /// Those that count: without `--exact`, those that are not `reworded`.
    #[serde(skip)]
    pub differing: usize,
    /// The reason for `not_asked`, with a remedy.
    #[serde(skip)]
    pub not_asked_because: Option<String>,
}

/// An answer that differs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesDifference {
    /// The tool.
    pub tool: String,
    /// The user who asked.
    pub user: String,
    /// Arguments of `module`.
    pub question: String,
    /// Lines of the old answer that are not in the new one.
    pub old: String,
    /// Lines of the new answer that are not in the old one.
    pub new: String,
    /// The request is refused as before, and only for another reason.
    pub reworded: bool,
}
