//! The time for which the holder tries to start a server that does not start, or dies before its first request.
//!
//! A full control group, or a limit on processes that other programs have reached, is temporary. So each failure is followed
//! by a longer pause. A command that can still run plain waits for seconds; a program that uses the mount waits longer,
//! because it has nothing else.

use std::time::Duration;

use super::holding::MountStage;

/// The failures and pauses so far.
#[derive(Debug, Default)]
pub(crate) struct RetryPatience {
    failures: u32,
    waited: Duration,
}

impl RetryPatience {
    /// The pause before the next attempt; `None` when there were enough of them.
    pub(crate) fn pause(&mut self, stage: MountStage) -> Option<Duration> {
        let pause = LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.pow(self.failures.min(16)));
        self.failures += 1;
        self.waited += pause;
        (self.waited <= most_waited(stage)).then_some(pause)
    }
}

/// All pauses together.
fn most_waited(stage: MountStage) -> Duration {
    match stage {
        // So long that processes of another command may end meanwhile, and short for the user who waits.
        MountStage::BeforeCommands => Duration::from_secs(3),
        MountStage::DuringCommands => Duration::from_secs(30),
    }
}

/// Doubled by each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// So short that a request by which 240 servers were killed is given up before everything is.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn pauses(stage: MountStage) -> Vec<Duration> {
        let mut patience = RetryPatience::default();
        let pauses = std::iter::from_fn(|| patience.pause(stage)).collect();
        assert_eq!(patience.pause(stage), None);
        pauses
    }

    #[test]
    fn pauses_grow_and_come_to_an_end() {
        let pauses = pauses(MountStage::DuringCommands);
        assert!(pauses.is_sorted() && pauses[..4].iter().sum::<Duration>() < Duration::from_millis(20));
        assert!((29..=30).contains(&pauses.iter().sum::<Duration>().as_secs()));
        assert!(pauses.len() > 240, "a deadly request is given up first");
    }

    #[test]
    fn a_command_that_can_run_plain_waits_for_seconds() {
        let all: Duration = pauses(MountStage::BeforeCommands).iter().sum();
        assert!((2..=3).contains(&all.as_secs()));
    }
}
