//! Converts the times of a log into times of a trace: ascending, and relative to its begin.

use crate::prefix::{Prefix, PrintedTime};
use quell_trace::Nanos;

const DAY: u64 = 86_400_000_000_000;

/// The precision of a log's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Times {
    /// No times: only the order of lines is known.
    None,
    /// `-t`.
    WholeSeconds,
    /// `-tt`, `-ttt` or `-r`.
    Exact,
}

/// Reads the times of lines. Trace times grow with each event even where the log's do not, because descriptors are
/// replayed in order of time.
#[derive(Debug)]
pub(crate) struct Clock {
    /// The time of the first line that has one.
    origin: Option<PrintedTime>,
    /// The number of midnights passed, for times of day.
    midnights: u64,
    /// The last time of day.
    of_day: Nanos,
    latest: Nanos,
    ticked: Nanos,
    times: Times,
    relative: Relative,
}

/// The handling of times of `-r`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Relative {
    /// Each line counts from the line before.
    Counts,
    /// The line before is in another file, so that the time is ignored.
    Ignored,
}

impl Clock {
    pub(crate) fn new(relative: Relative) -> Self {
        let (latest, ticked) = (Nanos(0), Nanos(0));
        Self { origin: None, midnights: 0, of_day: Nanos(0), latest, ticked, times: Times::None, relative }
    }

    /// The time of a line; the last time for a line without one.
    pub(crate) fn read(&mut self, prefix: &Prefix) -> Nanos {
        match (prefix.stamp, prefix.since_last) {
            (Some(stamp), _) => self.latest = self.stamped(stamp),
            (None, Some(since)) if self.relative == Relative::Counts => {
                self.times = Times::Exact;
                self.latest = Nanos(self.latest.0.saturating_add(since.0).min(LATEST));
            }
            (None, _) => {}
        }
        self.latest.max(self.ticked)
    }

    fn stamped(&mut self, stamp: PrintedTime) -> Nanos {
        let origin = *self.origin.get_or_insert(stamp);
        let (PrintedTime::Epoch(at) | PrintedTime::Day(at)) = stamp;
        let is_whole = at.0.is_multiple_of(1_000_000_000);
        self.times = if is_whole && self.times != Times::Exact { Times::WholeSeconds } else { Times::Exact };
        let since = match (origin, stamp) {
            (PrintedTime::Epoch(origin), PrintedTime::Epoch(at)) => at.since(origin).0,
            (PrintedTime::Day(origin), PrintedTime::Day(at)) => {
                // A time of day more than half a day earlier belongs to the next day.
                if at.0 + DAY / 2 < self.of_day.0 && self.midnights < LATEST {
                    self.midnights += DAY;
                }
                self.of_day = at;
                (at.0 + self.midnights).saturating_sub(origin.0)
            }
            _ => self.latest.0,
        };
        Nanos(since.min(LATEST))
    }

    /// The time of an event at `at`, later than all earlier events.
    pub(crate) fn tick(&mut self, at: Nanos) -> Nanos {
        self.ticked = Nanos(at.0.min(LATEST).max(self.ticked.0 + 1));
        self.ticked
    }

    /// The precision of the times read so far.
    pub(crate) fn times(&self) -> Times {
        self.times
    }

    /// The time of the last event.
    pub(crate) fn now(&self) -> Nanos {
        self.ticked
    }

    /// The time from the first line to the last, where the log has times.
    pub(crate) fn took(&self) -> Option<Nanos> {
        match self.times {
            Times::Exact => Some(self.ticked.max(self.latest)),
            Times::WholeSeconds => Some(self.latest).filter(|latest| latest.0 > 0),
            Times::None => None,
        }
    }

    /// The start of the log, where the log has absolute times. Unit: since 1970.
    pub(crate) fn began(&self) -> Option<Nanos> {
        match self.origin {
            Some(PrintedTime::Epoch(at)) => Some(at),
            Some(PrintedTime::Day(_)) | None => None,
        }
    }
}

/// The upper limit of times, a hundred years, so that forged times cannot overflow the clock.
const LATEST: u64 = 100 * 366 * DAY;

#[cfg(test)]
mod tests {
    use super::*;

    fn day(seconds: u64) -> Prefix {
        Prefix { stamp: Some(PrintedTime::Day(Nanos(seconds * 1_000_000_000 + 1))), ..Prefix::default() }
    }

    #[test]
    fn a_midnight_goes_on() {
        let mut clock = Clock::new(Relative::Counts);
        assert_eq!(clock.read(&day(86_399)), Nanos(0));
        assert_eq!(clock.read(&day(1)), Nanos(2_000_000_000));
        assert_eq!(clock.read(&day(0)), Nanos(1_000_000_000), "a little back is not a day");
        assert_eq!((clock.times(), clock.began()), (Times::Exact, None));
    }

    #[test]
    fn times_without_a_stamp_are_in_order() {
        let mut clock = Clock::new(Relative::Counts);
        let at = clock.read(&Prefix::default());
        assert_eq!((clock.tick(at), clock.tick(at)), (Nanos(1), Nanos(2)));
        assert_eq!((clock.read(&Prefix::default()), clock.times()), (Nanos(2), Times::None));
    }

    #[test]
    fn relative_times_add_up() {
        let mut clock = Clock::new(Relative::Counts);
        let line = Prefix { since_last: Some(Nanos(500)), ..Prefix::default() };
        assert_eq!((clock.read(&line), clock.read(&line)), (Nanos(500), Nanos(1000)));
    }

    #[test]
    fn forged_times_do_not_run_over() {
        let mut clock = Clock::new(Relative::Counts);
        let line = Prefix { stamp: Some(PrintedTime::Epoch(Nanos(0))), ..Prefix::default() };
        clock.read(&line);
        let line = Prefix { stamp: Some(PrintedTime::Epoch(Nanos(u64::MAX))), ..Prefix::default() };
        assert_eq!(clock.read(&line), Nanos(LATEST));
    }
}
