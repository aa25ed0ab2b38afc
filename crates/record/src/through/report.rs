//! Observations on their way to the observer.

use super::walks::OwnedCall;
use crate::engine::{Launched, ThreadBirth};
use quell_trace::{Nanos, Pid};

/// An observation on its way from a serving thread to the observer.
#[derive(Debug)]
pub(crate) enum ObservedReport {
    Born(ThreadBirth),
    Called(OwnedCall),
    Executed { thread: Pid, at: Nanos, launched: Launched },
    Waiting(Vec<Pid>),
}
