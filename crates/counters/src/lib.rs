//! Counts that clients of shared file systems keep: the operations that a node asked of a server, by the client's own words.
//!
//! ```text
//! mount table -> NodeCounters::find -> read (before) ... read (after) -> ClientCounters::between
//!                     |                  |
//!                     |                  '-> parse: bytes -> named numbers, one parser a format. Pure
//!                     '-> table: which counter is which operation. One row a counter
//! ```
//!
//! Counters are those of the whole client: other processes of the node count too. They are read as the ordinary user that quell
//! is, and reading asks no server.

mod client;
mod node;
mod parse;
mod table;

pub use client::{
    ClientCounters, CounterChange, FileSystemCounters, OperationsByClass, UnreadCounters, metadata,
};
pub use node::{NodeCounters, Reading};
pub use parse::{NamedCount, lustre_stats, mmpmon_io, moosefs_stats, nfs_mountstats};
pub use table::{ClientFormat, CountedAt, OperationClass, counted_file_systems};
