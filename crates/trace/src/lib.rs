//! The words and the file format of quell: operation, path, outcome, process, rank.
//!
//! A recording is one directory `NAME.qtrace` of Parquet files and one JSON header (`docs/trace.md` describes
//! every field). Any number of recordings read together are one trace. Data flows through this crate as
//!
//! ```text
//! engine -> Writer (spool: survives a kill) -> resolve (descriptors, working directories, links) -> Parquet
//!                                                                      Recording::open <------------'
//! ```
//!
//! The crate depends on no other crate of quell; all others may depend on it. It touches only the trace's own
//! directory: whatever must be asked of the recorded file systems (symbolic links, mounts) comes in through
//! arguments.
#![forbid(unsafe_code)]

pub mod call;
pub mod context;
pub mod errno;
pub mod event;
pub mod flags;
pub mod header;
pub mod import;
pub mod launcher;
pub mod path;
pub mod process;
pub mod recording;
pub mod resolve;
pub mod shape;
mod store;
pub mod touched;
pub mod units;
pub mod writer;

pub use call::{Call, Class};
pub use context::{Context, ElfFile, FileIdentity, Mount, MountId, ServedBy, Stripe, SymbolicLink, Variable};
pub use errno::Errno;
pub use event::{Event, Outcome};
pub use header::{Completeness, Header, RecorderFacts};
pub use launcher::{Launcher, batch_job};
pub use path::{PathId, PathTable};
pub use process::{Execution, Exit, Process, Thread};
pub use recording::{Recording, Trace};
pub use store::TraceError;
pub use touched::{Extent, Touched};
pub use units::{Bytes, Fd, Nanos, NodeId, Pid, ProcessId, RankId, ThreadId};
pub use writer::Writer;
