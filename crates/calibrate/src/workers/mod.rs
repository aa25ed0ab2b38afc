//! Processes that do the same phase at once: on this client, and one on a second client behind a command prefix.
//!
//! Processes, not threads only: clients serialise per process or per client in different ways, and ranks are processes. The
//! barrier is a message: each worker says when it is ready, and when all are, each is told to go (mdtest does the same by
//! `MPI_Barrier`). Starts and ends come from the workers' own monotonic clock, so the time in the pipes does not count.

mod computing;
mod data;
mod group;
mod look;
mod names;
mod phase;
mod protocol;
mod steps;
mod worker;

pub(crate) use data::SPOT;
pub(crate) use group::{WorkerGroup, together};
pub use protocol::{CacheAspect, DataAccess};
pub(crate) use protocol::{
    CallSteps, CallSubject, DataTransfer, DirectoryStep, EntryChange, EntryLook, FileStep, NameOperations,
    PhaseResult, PhaseTask,
};
pub use worker::serve;
