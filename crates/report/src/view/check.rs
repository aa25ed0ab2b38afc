//! The object of `quell check --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// An image beside its originals.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SourceCheckView {
    /// The version of this object.
    pub schema_version: u32,
    /// The image.
    pub image: String,
    /// No original differs from what it was when the image was made; also where none was compared.
    pub unchanged: bool,
    /// False where this node does not have the originals of a complete image, so that nothing was compared.
    pub compared: bool,
    /// Files, directories and links that were compared.
    pub entries: u64,
    /// Operations that this took on the originals.
    pub operations: u64,
    /// Most of them that were in flight at once.
    pub jobs: u16,
    /// Its duration. Unit: seconds.
    pub seconds: f64,
    /// Differences, by path; at most 1000.
    pub changes: Vec<ChangedOriginal>,
    /// Differences beyond these.
    pub omitted: u64,
    /// The stamp that was left; null if none was.
    pub stamp: Option<LeftStamp>,
    /// The reason for which no stamp could be left; null where none was to be.
    pub stamp_error: Option<String>,
}

/// An original that is not as it was.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ChangedOriginal {
    /// Its path.
    pub path: String,
    /// In what it differs first: `gone`, `unreadable`, `kind`, `size`, `modified`, `permissions` or `changed`.
    pub difference: &'static str,
}

/// A stamp.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LeftStamp {
    /// Its path.
    pub path: String,
    /// Until when it is trusted, in seconds since 1970.
    pub until: u64,
}
