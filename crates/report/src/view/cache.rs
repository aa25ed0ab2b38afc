//! The object of `quell cache ls --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// The cache of `quell run --auto`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheListView {
    /// The version of this object.
    pub schema_version: u32,
    /// The directory.
    pub cache: String,
    /// The storage that all entries take. Unit: bytes.
    pub bytes: u64,
    /// The programs, the last used first.
    pub entries: Vec<CachedProgram>,
}

/// One program.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CachedProgram {
    /// The name of its directory.
    pub key: String,
    /// The program's file; null where the note of it is damaged.
    pub program: Option<String>,
    /// The script that it interprets; `-m MODULE`, or `-c` for code on the command line; null for none.
    pub script: Option<String>,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// `image`, `making`, `recorded`, `settled` or `nothing`.
    pub state: &'static str,
    /// The reason for which there is no image; null where there is one or nothing is known.
    pub reason: Option<String>,
    /// The image that runs use; null for none.
    pub image: Option<String>,
    /// Versions of the image that are kept.
    pub versions: u64,
    /// Its storage. Unit: bytes.
    pub bytes: u64,
    /// The last use, in seconds since 1970.
    pub used: u64,
    /// The last line of its log; null where it is empty.
    pub log: Option<String>,
}
