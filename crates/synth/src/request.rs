//! What is to be made.

use super::shape::TraceShape;
use quell_trace::{Header, Nanos};
use std::path::PathBuf;

/// What to make, and where.
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
    /// Where the trace goes.
    pub trace: PathBuf,
    /// Where the files go; `None` for a trace alone.
    pub tree: Option<PathBuf>,
    /// The header of the trace: command, version; the rest is filled here.
    pub header: Header,
}

/// When the caller wants it to end.
pub type Stop<'a> = &'a dyn Fn() -> bool;
