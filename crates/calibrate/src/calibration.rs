//! Everything that a calibration measured. `profile.rs` makes a profile of it.

use super::bounds::CalibrationBounds;
use super::caching::CacheLifetime;
use super::cost::MeasuredCosts;
use super::habits::ClientHabits;
use super::series::CalibrationResults;
use super::statistics::SampleSummary;
use std::time::Duration;

/// Everything that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// The limits that held.
    pub bounds: CalibrationBounds,
    /// Clients, this one included. Range: from 1.
    pub clients: u16,
    /// Rates and latencies by case.
    pub results: CalibrationResults,
    /// Lifetimes in the client's caches; empty where they were not measured.
    pub lifetimes: Vec<CacheLifetime>,
    /// The calls that cost a request.
    pub habits: ClientHabits,
    /// The cost of a request and of data to a program.
    pub cost: MeasuredCosts,
    /// First reads of files that were just looked up. Unit: microseconds.
    pub first_read_us: Option<SampleSummary>,
    /// Answers of the client's daemon, each after some computing. Unit: microseconds.
    pub own_answer_us: Option<SampleSummary>,
    /// The same in a row. Unit: microseconds.
    pub own_answer_in_a_row_us: Option<SampleSummary>,
    /// The same of all processes at once: the time for which one keeps a core. Unit: microseconds.
    pub own_answer_shared_us: Option<SampleSummary>,
    /// Steps that there was no time for.
    pub skipped: Vec<&'static str>,
    /// Remarks, a sentence each.
    pub notes: Vec<String>,
    /// The time that it took.
    pub elapsed: Duration,
}
