//! The object of `quell modules example --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// A module tree to try things on.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesExampleView {
    /// The version of this object.
    pub schema_version: u32,
    /// The modulepaths, in the order of their making.
    pub modulepaths: Vec<String>,
    /// Files that were written.
    pub files: u64,
    /// Modulefiles that `module avail` lists for an ordinary user.
    pub modulefiles: u64,
}
