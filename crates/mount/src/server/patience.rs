//! The time for which the holder tries to start a server that does not start, or dies before its first request.
//!
//! A full control group, or a limit on processes that other programs have reached, is temporary. So each failure is followed
//! by a longer pause.

use std::time::Duration;

/// The failures and pauses so far.
#[derive(Debug, Default)]
pub(crate) struct RetryPatience {
    failures: u32,
    waited: Duration,
}

impl RetryPatience {
    /// The pause before the next attempt; `None` when there were enough of them.
    pub(crate) fn pause(&mut self) -> Option<Duration> {
        let pause = LONGEST_PAUSE.min(FIRST_PAUSE * 2_u32.pow(self.failures.min(16)));
        self.failures += 1;
        self.waited += pause;
        (self.waited <= MOST_WAITED).then_some(pause)
    }
}

/// Doubled by each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(1);

/// So short that a request by which 240 servers were killed is given up before everything is.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// All pauses together.
const MOST_WAITED: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_come_to_an_end() {
        let mut patience = RetryPatience::default();
        let pauses: Vec<Duration> = std::iter::from_fn(|| patience.pause()).collect();
        assert!(pauses.is_sorted() && pauses[..4].iter().sum::<Duration>() < Duration::from_millis(20));
        assert!((29..=30).contains(&pauses.iter().sum::<Duration>().as_secs()));
        assert!(pauses.len() > 240, "a deadly request is given up first");
        assert_eq!(patience.pause(), None);
    }
}
