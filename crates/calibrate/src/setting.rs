//! A calibration as it is asked for, and how far it is.

use super::bounds::CalibrationBounds;
use quell_talk::Stop;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// What to measure, and by which means.
pub struct CalibrationSetting<'a> {
    /// The directory to measure in. A new one is made in it, and removed.
    pub directory: &'a Path,
    /// How a worker on this client is started; it is told the working directory over its standard input.
    pub worker: Vec<OsString>,
    /// The same for one worker on a second client, if there is one.
    pub second: Option<Vec<OsString>>,
    /// How much may be done.
    pub bounds: CalibrationBounds,
    /// Asked often; when it says yes the calibration cleans up and ends as [`CalibrateError::Interrupted`].
    pub stop: Stop<'a>,
}

impl std::fmt::Debug for CalibrationSetting<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Setting")
            .field("directory", &self.directory)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// Where a calibration is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationProgress {
    /// What is being measured, in words.
    pub step: &'static str,
    /// How much of the step is done. Range: 0 to 1.
    pub done: f64,
    /// Since the start of all.
    pub elapsed: Duration,
}
