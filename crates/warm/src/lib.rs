//! Reads what a program will ask for, so that its node's file-system client knows it when the plain program starts.
//!
//! ```text
//! trace -> plan (names, listings, links, parts of files, in order of first access) -> warmer: so many at a time
//! image ----^                                    directory -> walk, level by level ----^
//! ```
//!
//! A name that is looked up leaves its entry in the client, an absent one a negative entry; `lstat` leaves attributes, a read leaves
//! pages. Data is read before the attributes of its file are asked for the last time: a client that keeps access times forgets
//! attributes when it reads.
//!
//! Nothing is mounted and nothing is written. Only regular files are opened for reading, never a pipe, a device or a file of a file
//! system that is in memory anyway. What is missing, or not as it was recorded, is counted and its data left alone.
#![forbid(unsafe_code)]

mod bundle;
mod image;
mod in_memory;
mod plan;
mod reading;
mod spread;
mod tally;
mod trace;
mod tree;
mod warmer;

pub use bundle::{Bundle, bundle};
pub use image::plan_of_image;
pub use plan::WarmPlan;
pub use tally::Warmed;
pub use trace::plan_of_trace;
pub use warmer::{Thrift, Warmer};
