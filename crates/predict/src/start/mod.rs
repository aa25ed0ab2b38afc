//! The start of a program on many nodes.
//!
//! `replays` finds what a node asks, `engine` the time of one run, `runs` the runs of which ranges are made.

mod engine;
mod point;
mod predict;
mod replays;
mod runs;

pub use point::{MostReadFile, StartDetail, StartForecast, StartSummary};
pub use predict::forecast;

#[cfg(test)]
mod tests;
