//! Counts of clients, by file system.

use crate::table::OperationClass;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Operations by class, in the order of their words. Shape: no zeros.
pub type OperationsByClass = BTreeMap<OperationClass, u64>;

/// Counters of this node's clients before and after a run, by file system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClientCounters {
    /// Time between both readings. Unit: seconds.
    pub seconds: f64,
    /// Shape: sorted by mount point.
    pub file_systems: Vec<FileSystemCounters>,
    /// File systems whose counters could not be read. Shape: sorted by mount point.
    pub unread: Vec<UnreadCounters>,
}

/// Counters of one file system before and after a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystemCounters {
    /// Its first mount point; escaped.
    pub mount_point: String,
    /// Its type, as mountinfo names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// Requests to the server; `None` where the client does not count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_server: Option<OperationsByClass>,
    /// Requests of programs to the client; `None` where the client does not count these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_client: Option<OperationsByClass>,
    /// The counters that changed, under the client's own names. Shape: sorted by name.
    pub counters: Vec<CounterChange>,
}

/// One counter before and after.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CounterChange {
    /// The client's name for it.
    pub name: String,
    /// Before the run.
    pub before: u64,
    /// After it.
    pub after: u64,
}

/// A file system without counters that this user can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct UnreadCounters {
    /// Its mount point; escaped.
    pub mount_point: String,
    /// Its type, as mountinfo names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason, in a few words.
    pub reason: String,
}

impl ClientCounters {
    /// True if there is nothing to tell, not even what could not be read.
    pub fn is_empty(&self) -> bool {
        self.file_systems.is_empty() && self.unread.is_empty()
    }
}

impl FileSystemCounters {
    /// Metadata operations at the server; `None` where the client does not count these.
    pub fn metadata_at_server(&self) -> Option<u64> {
        self.at_server.as_ref().map(metadata)
    }
}

/// The sum of metadata operations.
pub fn metadata(operations: &OperationsByClass) -> u64 {
    operations
        .iter()
        .filter(|(class, _)| class.is_metadata())
        .fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
}
