//! The object of `quell modules audit --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Defects of module trees.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesAuditView {
    /// The version of this object.
    pub schema_version: u32,
    /// The modulepaths, in the order in which they were given.
    pub modulepaths: Vec<String>,
    /// Modulefiles that every user may read and that the version of Environment Modules evaluates.
    pub modulefiles: u64,
    /// Modulefiles that some users may read.
    pub restricted: u64,
    /// Modulefiles of Lmod that every user may read.
    pub lmod_modulefiles: u64,
    /// Files and directories below the modulepaths.
    pub entries: u64,
    /// Findings, by path.
    pub findings: Vec<AuditFinding>,
    /// Every code, in the order in which the terminal shows them.
    #[serde(skip)]
    pub codes: Vec<&'static str>,
}

/// A finding.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AuditFinding {
    /// Its stable code.
    pub code: &'static str,
    /// The rule that it follows from; docs/modules.md lists them.
    pub rule: u8,
    /// The path that it is about.
    pub path: String,
    /// The defect: a sentence that begins with the path.
    pub text: String,
    /// The remedy.
    pub advice: String,
}
