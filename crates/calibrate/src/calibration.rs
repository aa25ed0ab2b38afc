//! Everything that a calibration measured. `profile.rs` makes a profile of it.

use super::bounds::CalibrationBounds;
use super::caching::CacheLifetime;
use super::cost::RequestCost;
use super::habits::ClientHabits;
use super::series::CalibrationResults;
use super::statistics::SampleSummary;
use std::time::Duration;

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The limits that held.
    pub bounds: CalibrationBounds,
    /// Whether there was a second client.
    pub has_second_client: bool,
    /// Rates and latencies by case.
    pub results: CalibrationResults,
    /// What the client keeps; empty where that was not measured.
    pub lifetimes: Vec<CacheLifetime>,
    /// Which calls cost a request.
    pub habits: ClientHabits,
    /// What a request and data cost a program.
    pub cost: RequestCost,
    /// First reads of files that were just looked up. Unit: microseconds.
    pub first_read_us: Option<SampleSummary>,
    /// Closes of files. Unit: microseconds.
    pub close_us: Option<SampleSummary>,
    /// Steps that there was no time for.
    pub skipped: Vec<&'static str>,
    /// What else a reader should know, a sentence each.
    pub notes: Vec<String>,
    /// How long it took.
    pub elapsed: Duration,
}
