//! The object of `quell top`.

use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// The metadata operations of running processes in an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct TopView {
    /// The version of this object.
    pub schema_version: u32,
    /// The subject: processes, a user or a job, in words.
    pub watching: String,
    /// The time since the watch began. Unit: seconds.
    pub watched_seconds: f64,
    /// The length of the interval. Unit: seconds.
    pub interval_seconds: f64,
    /// Processes that are watched at the end of the interval.
    pub processes: u64,
    /// Processes that were left out since the watch began.
    pub left_out: u64,
    /// The first of these with the reason. Shape: at most 8, one sentence each.
    pub notes: Vec<String>,
    /// Calls that could not be observed since the watch began, such as those of 32-bit programs.
    pub lost: u64,
    /// All operations of the interval.
    pub interval: TopCounts,
    /// All operations since the watch began.
    pub since_begin: TopCounts,
    /// At most 1000. Sorted by operations, most first, then by number.
    pub by_process: Vec<TopProcess>,
    /// Operations of processes that are not in the table.
    pub other_processes: TopCounts,
    /// At most 1000. Sorted by operations, most first, then by name.
    pub by_directory: Vec<TopDirectory>,
    /// Operations in directories that are not in the table, and those without a directory, as on pipes.
    pub other_directories: TopCounts,
}

/// Metadata operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TopCounts {
    /// All of them.
    pub operations: u64,
    /// Those that failed because the name is absent: negative lookups.
    pub missed: u64,
    /// Those of each class: `open`, `stat`, `access`, `readlink`, `list`, `xattr`, `statfs`, `change`, `exec`, `directory`. A class
    /// without operations is left out.
    pub classes: BTreeMap<&'static str, u64>,
}

/// A process and its operations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TopProcess {
    /// Its process ID.
    pub process: i32,
    /// The first 512 bytes of its command line.
    pub command: String,
    /// Its operations in the interval.
    #[serde(flatten)]
    pub counts: TopCounts,
}

/// A directory and the operations on names in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TopDirectory {
    /// Its path, as the process sees it; links are not followed.
    pub path: String,
    /// The operations on names in it, and its listings.
    #[serde(flatten)]
    pub counts: TopCounts,
}
