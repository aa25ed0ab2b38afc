//! The object of `quell image check --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// An image beside its own checksums.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImageCheckView {
    /// The version of this object.
    pub schema_version: u32,
    /// The image.
    pub image: String,
    /// Nothing is wrong with it.
    pub sound: bool,
    /// Nodes that were looked at; 0 when the image could not be opened.
    pub nodes: u64,
    /// Its length in bytes; 0 when it could not be opened.
    pub bytes: u64,
    /// Defects, in the order in which they were found.
    pub findings: Vec<String>,
    /// Findings beyond these.
    pub omitted: u64,
}
