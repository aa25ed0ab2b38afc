//! The cost of a shared core by the program's computing between two calls.
//!
//! ```text
//! computing before a call    processor time, shared over alone
//!              3 to 16 us    1.00 to 1.07 (find, git)
//!             from 50 us on  1.06 to 1.41 (imports of Perl's and Python's modules, a loop)
//! ```
//!
//! Another program on the core takes the place of a program's own code and data in the processor's caches. A program that computes hardly
//! anything between two calls works in the kernel, whose code and data the other program uses too. The profile's figure is that of
//! programs that compute; `bench/results/time_shared.md` has the programs.

use super::{Figure, Profile};

/// The computing before a call from which on a shared core costs all of what a profile says. Unit: microseconds.
const FULL_COST_US: f64 = 50.0;

/// Processor time of a program that computes and shares its core with another, over that of the same program without interruption, with
/// as many page faults. It is measured without any file system.
pub(crate) static TIME_SHARED: Figure =
    Figure { p10: 1.07, p50: 1.2, p90: 1.4, count: Some(8), source: None };

impl Profile {
    /// The profile as a program sees it that computes for so long between two calls. Unit: microseconds.
    pub(crate) fn sharing_cores(mut self, microseconds: f64) -> Self {
        let full = self.client.time_shared.as_ref().unwrap_or(&TIME_SHARED);
        let share = (microseconds / FULL_COST_US).clamp(0.0, 1.0);
        self.client.time_shared = Some(Figure::exact(1.0).towards(full, share));
        self
    }
}
