//! Operations against a real directory, and what can be learned from how long they take.
//!
//! ```text
//! operation   one metadata operation, timed
//! crew        processes that do the same phase at once, here and on a second client
//! calibrate   a file system, measured: series -> statistics and fits -> a profile
//! synth       traces and trees of a named shape
//! replay      a trace's operations, issued again
//! ```
//!
//! Nothing is asked of the network but through the file system. Only the monotonic clock is read; where to work, for how
//! long and by which commands comes from the caller, who also says when to stop.

pub mod calibrate;
pub mod crew;
mod error;
mod operation;
pub mod replay;
pub mod synth;
mod sys;

pub use error::LoadError;
pub use operation::Operation;
