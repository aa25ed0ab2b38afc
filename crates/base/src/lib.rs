//! The ground floor: facts that several crates need and none of them owns.
//!
//! | Module | Decides |
//! |---|---|
//! | [`errno`], [`units`] | numbers with a meaning: errors, processes, ranks, times, amounts |
//! | [`text`], [`shell`], [`number`], [`date`] | the forms in which hostile text, commands, numbers and dates appear |
//! | [`interpreter`] | the script that a command line runs |
//! | [`launcher`] | rank, node and job, from the variables of launchers and batch systems |
//! | [`mountinfo`], [`process`] | the fields of `/proc/PID/mountinfo` and `/proc/PID/stat` |
//! | [`parallel`] | the threads that ask a file system many things at once |
//! | [`files`] | paths that other users may change, and outputs that appear whole |
//!
//! The crate depends on no other crate of quell. It prints nothing and keeps no state, except what
//! [`restore_inherited`] saves before `main`.

pub mod date;
pub mod errno;
pub mod files;
pub mod interpreter;
pub mod launcher;
pub mod mountinfo;
pub mod number;
pub mod parallel;
pub mod process;
pub mod shell;
pub mod sync;
mod sys;
pub mod text;
pub mod units;

pub use errno::Errno;
pub use launcher::{RankPlace, batch_job};
pub use mountinfo::MountEntry;
pub use process::ProcessStat;
pub use sync::lock;
pub use sys::{forgo_backtraces, restore_inherited};
pub use text::{escape, is_hidden, shown};
pub use units::{Bytes, Nanos, NodeId, Pid, ProcessId, RankId, ThreadId};
