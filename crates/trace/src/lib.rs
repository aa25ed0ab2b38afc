//! The data types and the file format of quell: operation, path, outcome, process, rank.
//!
//! A recording is one directory `NAME.qtrace` of Parquet files and one JSON header (`docs/trace.md` describes
//! every field). Any number of recordings read together are one trace. Data flows through this crate as
//!
//! ```text
//! engine -> Writer (spool: survives a kill) -> resolve (descriptors, working directories, links) -> Parquet
//!                                                                      Recording::open <------------'
//! ```
//!
//! This crate depends on `quell-base` alone among quell's crates. It touches only the trace's own directory: callers
//! pass in all answers about the recorded file systems (symbolic links, mounts).

pub mod call;
pub mod context;
pub mod event;
mod fd;
pub mod flags;
pub mod header;
pub mod imports;
pub mod loaded;
pub mod path;
pub mod process;
pub mod recording;
pub mod resolve;
pub mod shape;
mod store;
/// Parquet files as named columns.
pub mod table {
    pub use crate::store::columns::{ColumnValues, TableColumn, TableList, TableWriter, column, text};
    pub use crate::store::reader::{ColumnKind, columns_of};
}
pub mod touched;
pub mod writer;

pub use call::{Call, Class};
pub use context::{Context, ElfFile, FileIdentity, Mount, MountId, ServedBy, Stripe, SymbolicLink, Variable};
pub use event::{Event, Outcome};
pub use fd::Fd;
pub use header::{Completeness, Ended, Header, RecorderFacts};
pub use imports::Import;
pub use path::{PathId, PathTable};
pub use process::{Execution, Exit, Process, Thread};
/// Types of this crate's interface.
pub use quell_base::{Bytes, Errno, Nanos, NodeId, Pid, ProcessId, RankId, ThreadId};
pub use recording::{Recording, Trace};
pub use store::spool::SeenPlace;
pub use store::{TraceError, end_on_reader_panic};
pub use touched::{Extent, Touched};
pub use writer::Writer;
