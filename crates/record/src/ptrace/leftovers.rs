//! The state of the wait for processes that run on after the command has ended.

use crate::sys::signals::Ticks;
use std::time::Instant;

/// The wait for them.
#[derive(Debug, Default)]
pub(super) struct LeftoverWait {
    pub(super) since: Option<Instant>,
    pub(super) is_said: bool,
    /// The time of Ctrl-C.
    pub(super) asked: Option<Instant>,
    pub(super) _ticks: Option<Ticks>,
}
