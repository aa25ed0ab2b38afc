//! Operations against a real directory: traces and trees of a named shape.
#![forbid(unsafe_code)]

pub mod synth;
