//! Measures a file system into a profile: rates of its servers, round trips, lifetimes in its clients' caches, data.
//!
//! ```text
//! phases   mdtest's phases, shared and unique directories, 1 to N processes  --.
//! cold     operations that no cache of this client can answer                  +--> results (series) --> profile
//! reads    data in order, scattered, mapped                                    |      statistics, fit
//! caching  lifetimes, by a second client      cost  processor time a request   |
//! probes   single calls: which of them ask --> habits ------------------------'
//! ```
//!
//! Without the server's counters these are figures as the client sees them. `habits.rs` compares the
//! latency of each operation with that of a request, so that a rate of the cache is never taken for the server's.
#![deny(unsafe_code)]

mod bounds;
mod caching;
mod calibration;
mod cold;
mod cost;
mod crowd;
mod error;
mod fit;
mod habits;
mod leader;
mod measure;
mod operation;
mod phases;
mod probes;
mod profile;
mod reads;
mod series;
mod setting;
mod statistics;
#[allow(unsafe_code, reason = "a mapping cannot be had without")]
mod sys;
mod work_directory;
mod workers;

pub use bounds::{CalibrationBounds, MOST_ITEMS};
pub use caching::{CacheLifetime, LifetimeVerdict};
pub use calibration::Calibration;
pub use cost::{MeasuredCosts, RequestCost};
pub use error::CalibrateError;
pub use fit::{ClosedLaw, ClosedLawPoint, fit};
pub use habits::{ClientHabits, OpenRides};
pub use measure::{calibrate, check};
pub use operation::LoadOperation;
pub use series::{CalibrationCase, CalibrationResults, CaseCache, CaseKind, CaseLayout, CaseRun, IDLE};
pub use setting::{CalibrationProgress, CalibrationSetting, ClientLink};
pub use statistics::SampleSummary;
pub use work_directory::{PREFIX, leftovers};
pub use workers::{CacheAspect, DataAccess, serve};
