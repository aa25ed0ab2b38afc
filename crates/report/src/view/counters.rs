//! Counters of clients of shared file systems, before and after a run.

use quell_counters::{ClientCounters, FileSystemCounters, OperationClass, OperationsByClass, metadata};
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Operations of one node during the run, by the counters that its clients keep. Those of all programs of the node are in them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountersView {
    /// The node's name.
    pub host: String,
    /// Time between both readings. Unit: seconds.
    pub seconds: f64,
    /// Sorted by mount point.
    pub file_systems: Vec<CountedFileSystem>,
    /// File systems whose counters could not be read. Sorted by mount point.
    pub unread: Vec<UncountedFileSystem>,
}

/// The counters of a file system.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedFileSystem {
    /// Its first mount point.
    pub mount_point: String,
    /// Its type, as mountinfo names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// Requests to the server; null where the client does not count these.
    pub at_server: Option<CountedOperations>,
    /// Requests of programs to the client, which may have answered itself; null where the client does not count these.
    pub at_client: Option<CountedOperations>,
    /// The counters that changed, under the client's own names. Sorted by name.
    pub counters: Vec<ChangedCounter>,
}

/// Counted operations.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CountedOperations {
    /// Metadata operations.
    pub metadata_operations: u64,
    /// Their mean rate.
    pub metadata_operations_per_second: f64,
    /// Operations by class, reads and writes of data too.
    pub by_class: BTreeMap<String, u64>,
    /// The classes in their order.
    #[serde(skip)]
    pub classes: Vec<(OperationClass, u64)>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedCounter {
    /// The client's name for it.
    pub name: String,
    /// Its value before the run.
    pub before: u64,
    /// Its value after it.
    pub after: u64,
}

/// A file system without counters that the user can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UncountedFileSystem {
    /// Its mount point.
    pub mount_point: String,
    /// Its type, as mountinfo names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// The reason.
    pub reason: String,
}

impl CountersView {
    /// The counters of a node, by its name.
    pub(super) fn of(counted: Option<(&str, &ClientCounters)>) -> Option<Self> {
        let (host, counters) = counted?;
        let uncounted = |unread: &quell_counters::UnreadCounters| UncountedFileSystem {
            mount_point: unread.mount_point.clone(),
            kind: unread.kind.clone(),
            reason: unread.reason.clone(),
        };
        let seconds = counters.seconds;
        Some(Self {
            host: host.to_owned(),
            seconds,
            file_systems: counters.file_systems.iter().map(|counted| file_system(counted, seconds)).collect(),
            unread: counters.unread.iter().map(uncounted).collect(),
        })
    }
}

fn file_system(counted: &FileSystemCounters, seconds: f64) -> CountedFileSystem {
    let operations = |operations: &OperationsByClass| {
        let count = metadata(operations);
        CountedOperations {
            metadata_operations: count,
            metadata_operations_per_second: if seconds > 0.0 { count as f64 / seconds } else { 0.0 },
            by_class: operations.iter().map(|(class, count)| (class.name().to_owned(), *count)).collect(),
            classes: operations.iter().map(|(class, count)| (*class, *count)).collect(),
        }
    };
    let counter = |counter: &quell_counters::CounterChange| ChangedCounter {
        name: counter.name.clone(),
        before: counter.before,
        after: counter.after,
    };
    CountedFileSystem {
        mount_point: counted.mount_point.clone(),
        kind: counted.kind.clone(),
        at_server: counted.at_server.as_ref().map(operations),
        at_client: counted.at_client.as_ref().map(operations),
        counters: counted.counters.iter().map(counter).collect(),
    }
}
