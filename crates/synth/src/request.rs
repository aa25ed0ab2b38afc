//! A request for a trace.

use super::shape::TraceShape;
use quell_trace::{Header, Nanos};
use std::path::PathBuf;

/// A trace, its files, and their places.
#[derive(Clone, Debug)]
pub struct SynthRequest {
    /// The shape.
    pub shape: TraceShape,
    /// The directory below which all files of the shape lie, absolute: the mount point of a file system of type `kind`.
    pub root: PathBuf,
    /// The file-system type, as `/proc/self/mountinfo` would name it.
    pub kind: String,
    /// Time that the program computes between its calls, spread evenly over them.
    pub compute: Nanos,
    /// The directory of the trace.
    pub trace: PathBuf,
    /// The directory of the files; `None` for a trace alone.
    pub tree: Option<PathBuf>,
    /// The header of the trace: command, version; the rest is filled here.
    pub header: Header,
}

/// Returns true when the caller wants to stop.
pub type Stop<'a> = &'a dyn Fn() -> bool;
