//! Operations against a real directory: traces and trees of a named shape, and traces issued again.
#![forbid(unsafe_code)]

pub mod replay;
pub mod synth;
