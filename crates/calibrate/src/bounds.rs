//! The limits of a calibration: operations, time, bytes.

use std::time::{Duration, Instant};

/// Limits of a calibration.
#[derive(Clone, Debug, PartialEq)]
pub struct CalibrationBounds {
    /// Most processes on this client. Range: from 1.
    pub processes: u16,
    /// Repetitions of each phase. Range: from 1.
    pub iterations: u16,
    /// Operations of each process in a phase. Range: from 1, to [`MOST_ITEMS`].
    pub items: u64,
    /// A phase begins no further operation after this.
    pub phase: Duration,
    /// No phase begins after this; what is left out is named.
    pub total: Duration,
    /// The wait for a client to forget its answers.
    pub cache_wait: Duration,
    /// Size of the file that is read. Unit: bytes.
    pub file_bytes: u64,
}

/// Most operations of a process in a phase: each keeps a name and some keep a descriptor.
pub const MOST_ITEMS: u64 = 10_000;

/// Threads of each process where as many requests as possible are to be under way at once.
pub(crate) const THREADS: u16 = 8;

/// Sets of files that each number of processes makes, one file an operation: an upper bound.
const SETS: u64 = 9;

impl CalibrationBounds {
    /// Some minutes: three repetitions, and a wait that sees the lifetimes that NFS clients have.
    pub const FULL: Self = Self {
        processes: 8,
        iterations: 3,
        items: 300,
        phase: Duration::from_millis(400),
        total: Duration::from_secs(600),
        cache_wait: Duration::from_secs(65),
        file_bytes: 128 << 20,
    };
    /// Half a minute; over a minute where requests take a millisecond: enough to tell a network round trip, the order of rates, and
    /// caches of up to five seconds.
    pub const QUICK: Self = Self {
        processes: 8,
        iterations: 2,
        items: 60,
        phase: Duration::from_millis(100),
        total: Duration::from_secs(120),
        cache_wait: Duration::from_secs(5),
        file_bytes: 16 << 20,
    };

    /// Numbers of processes that are measured: 1, 2, 4 and so on up to all. Shape: ascending.
    pub fn widths(&self) -> Vec<u16> {
        let powers = (0..u16::BITS).map(|power| 1u16 << power.min(15));
        let mut widths: Vec<u16> = powers.take_while(|width| *width < self.processes).take(15).collect();
        widths.push(self.processes.max(1));
        widths
    }

    /// The longest phase, as a task says it.
    pub(crate) fn phase_ms(&self) -> u64 {
        u64::try_from(self.phase.as_millis()).unwrap_or(u64::MAX)
    }

    /// The most files that are there at once, of so many clients. Nothing is removed before the end but what `unlink` is measured by.
    pub(crate) fn files(&self, clients: u64) -> u64 {
        let processes: u64 =
            self.widths().iter().map(|width| u64::from(*width)).sum::<u64>() + u64::from(self.processes);
        let of_one = processes.saturating_mul(self.items).saturating_mul(SETS);
        // Each client has files to stat and files to create, for all threads of its processes, when all clients ask at once.
        let all_threads = u64::from(self.processes) * u64::from(THREADS);
        let of_all = clients.saturating_mul(2).saturating_mul(all_threads).saturating_mul(self.items);
        of_one.saturating_add(of_all).saturating_mul(self.iterations.into()).saturating_add(1000)
    }
}

/// Time that is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    total: Duration,
}

impl Clock {
    pub(crate) fn start(total: Duration) -> Self {
        Self { began: Instant::now(), total }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn is_over(&self) -> bool {
        self.elapsed() >= self.total
    }

    pub(crate) fn left(&self) -> Duration {
        self.total.saturating_sub(self.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_double_up_to_all_processes() {
        for (processes, widths) in
            [(1, &[1][..]), (2, &[1, 2]), (6, &[1, 2, 4, 6]), (8, &[1, 2, 4, 8]), (u16::MAX, &[])]
        {
            let found = CalibrationBounds { processes, ..CalibrationBounds::QUICK }.widths();
            match widths {
                [] => assert_eq!((found[0], found.last()), (1, Some(&u16::MAX))),
                widths => assert_eq!(found, widths),
            }
        }
    }
}
