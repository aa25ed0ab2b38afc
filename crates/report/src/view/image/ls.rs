//! The object of `quell image ls --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// The names in an image.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImageListView {
    /// The version of this object.
    pub schema_version: u32,
    /// The names: directories before what is in them, siblings by name.
    pub entries: Vec<ImageEntry>,
}

/// A name in an image.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImageEntry {
    /// Its original path.
    pub path: String,
    /// `file`, `directory`, `link`, `fifo`, `socket`, `character-device` or `block-device`.
    pub kind: &'static str,
    /// The part that the image has of it: `held`, `part` or `original` for a file; `complete`, `partial`, `uncovered` or `live` for a
    /// directory; null for the rest, which is known whole.
    pub state: Option<&'static str>,
    /// Permissions in octal, with type.
    pub mode: String,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes, as of the original.
    pub size: u64,
    /// Hard links of the original.
    pub links: u32,
    /// Last modification. Unit: seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds after that second.
    pub mtime_nanoseconds: u32,
    /// The target of a link.
    pub target: Option<String>,
}
