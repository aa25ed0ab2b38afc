//! The object of `quell gather ls --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Containers, and what they hold together.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GatherListView {
    /// The version of this object.
    pub schema_version: u32,
    /// The containers.
    pub containers: Vec<GatheredContainer>,
    /// Everything that they hold, by path.
    pub files: Vec<GatheredFile>,
    /// Paths of the directory that programs removed, and that may still be there.
    pub removed: Vec<String>,
    /// Paths that are left out, by path.
    pub conflicts: Vec<GatherConflict>,
}

/// A container.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GatheredContainer {
    /// Its path.
    pub path: String,
    /// The node that wrote it.
    pub host: String,
    /// The job and step; empty where no launcher told them.
    pub job: String,
    /// Its length. Unit: bytes.
    pub bytes: u64,
    /// It has its end: nothing is missing.
    pub whole: bool,
    /// The bytes of it up to its last flush.
    pub readable: u64,
}

/// A file, directory, link or pipe in a container.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GatheredFile {
    /// Its path below the directory that was gathered.
    pub path: String,
    /// `file`, `directory`, `link` or `fifo`.
    pub kind: &'static str,
    /// Its permissions, octal.
    pub mode: String,
    /// The number of its owner.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Its length. Unit: bytes.
    pub size: u64,
    /// Its last change, in seconds since 1970.
    pub mtime: i64,
    /// The target of a link; null for anything else.
    pub target: Option<String>,
    /// The container that holds it.
    pub container: String,
}

/// A path that several containers have, with different files.
#[derive(Debug, Serialize, JsonSchema)]
pub struct GatherConflict {
    /// The path.
    pub path: String,
    /// The containers.
    pub containers: Vec<String>,
}
