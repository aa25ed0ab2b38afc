//! The time for which the holder tries to start a server that does not start, or dies before its first request.
//!
//! A full control group, or a limit on processes that other programs have reached, is temporary. So each failure is followed
//! by a longer pause. A command that can still run plain waits for seconds; a program that uses the mount waits longer,
//! because it has nothing else.

use std::time::Duration;

/// The failures and pauses so far.
#[derive(Debug, Default)]
pub(crate) struct RetryPatience {
    failures: u32,
    waited: Duration,
}

impl RetryPatience {
    /// The pause before the next attempt; `None` when there were enough of them.
    pub(crate) fn pause(&mut self, stage: RetryStage) -> Option<Duration> {
        let pause = LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.pow(self.failures.min(16)));
        self.failures += 1;
        self.waited += pause;
        (self.waited <= stage.most_waited()).then_some(pause)
    }
}

/// The stage of a mount in which a server does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryStage {
    /// The mount is not made yet. Each command that waits for it can still run plain.
    BeforeCommands,
    /// A program may use the mount, and has nothing else.
    DuringCommands,
}

impl RetryStage {
    /// All pauses together.
    fn most_waited(self) -> Duration {
        match self {
            // So long that processes of another command may end meanwhile, and short for the user who waits.
            Self::BeforeCommands => Duration::from_secs(3),
            Self::DuringCommands => Duration::from_secs(30),
        }
    }
}

/// Doubled by each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// So short that a request by which 240 servers were killed is given up before everything is.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(stage: RetryStage) -> Vec<Duration> {
        let mut patience = RetryPatience::default();
        let pauses = std::iter::from_fn(|| patience.pause(stage)).collect();
        assert_eq!(patience.pause(stage), None);
        pauses
    }

    #[test]
    fn pauses_grow_and_come_to_an_end() {
        let pauses = pauses(RetryStage::DuringCommands);
        assert!(pauses.is_sorted() && pauses[..4].iter().sum::<Duration>() < Duration::from_millis(20));
        assert!((29..=30).contains(&pauses.iter().sum::<Duration>().as_secs()));
        assert!(pauses.len() > 240, "a deadly request is given up first");
    }

    #[test]
    fn a_command_that_can_run_plain_waits_for_seconds() {
        let all: Duration = pauses(RetryStage::BeforeCommands).iter().sum();
        assert!((2..=3).contains(&all.as_secs()));
    }
}
