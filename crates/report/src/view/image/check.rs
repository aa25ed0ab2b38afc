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
    /// Whether nothing is wrong with it.
    pub sound: bool,
    /// Nodes that were looked at; 0 when the image could not be opened.
    pub nodes: u64,
    /// Its length in bytes; 0 when it could not be opened.
    pub bytes: u64,
    /// What is wrong, in the order it was found.
    pub findings: Vec<String>,
    /// How many more findings there are.
    pub omitted: u64,
}
