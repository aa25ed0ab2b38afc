//! A calibration as it is asked for, and how far it is.

use super::bounds::CalibrationBounds;
use quell_talk::Stop;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// The way to a worker on another client.
#[derive(Debug)]
pub enum ClientLink {
    /// A command of the user. It is an error if it starts a worker on a client that has one.
    Command(Vec<OsString>),
    /// A connection to a process that serves. Of several on one client the first is used.
    Connection(File),
}

/// A calibration as it is asked for.
pub struct CalibrationSetting<'a> {
    /// The directory to measure in. A new one is made in it, and removed.
    pub directory: &'a Path,
    /// The command of a worker on this client. The working directory comes over its standard input.
    pub worker: Vec<OsString>,
    /// One worker on each other client. The first of them makes what this client has not seen.
    pub others: Vec<ClientLink>,
    /// The limits.
    pub bounds: CalibrationBounds,
    /// Called often. When it returns true, the calibration cleans up and ends as
    /// [`CalibrateError::Interrupted`](crate::CalibrateError::Interrupted).
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

/// The progress of a calibration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CalibrationProgress {
    /// The current step, in words.
    pub step: &'static str,
    /// The part of the step that is done. Range: 0 to 1.
    pub done: f64,
    /// Since the start of all.
    pub elapsed: Duration,
}
