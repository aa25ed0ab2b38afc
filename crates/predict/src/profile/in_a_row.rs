//! The cost of a request by the computing before it.
//!
//! ```text
//! computing before   a request   an answer of the client's daemon    (a FUSE client, its server on the same machine)
//!      0 to 100 us      160 us         35 to 45 us
//!           400 us      240 us         85 us
//! ```
//!
//! Right after another request, client and server are awake and their code and data lie in the processor's caches. Computing takes
//! that place. A profile names both ends; a program lies between them by its own computing.

use super::Profile;

/// The computing before a request from which on it costs all of what a profile says: 1.1 s with 2700 requests is an import of
/// Python's. Unit: microseconds.
pub const COMPUTING_US: u64 = 400;

impl Profile {
    /// True if a request in a row has a cost of its own.
    pub(crate) fn tells_requests_in_a_row(&self) -> bool {
        self.network.round_trip_in_a_row_us.is_some()
            || self.client.cpu_in_a_row_us.is_some()
            || self.client.own_answer_in_a_row_us.is_some()
    }

    /// The profile as a program sees it that computes for so long between two requests. Unit: microseconds.
    pub(crate) fn after_computing(&self, microseconds: f64) -> Self {
        let share = (microseconds / COMPUTING_US as f64).clamp(0.0, 1.0);
        let mut seen = self.clone();
        let pairs = [
            (&mut seen.network.round_trip_us, &self.network.round_trip_in_a_row_us),
            (&mut seen.client.cpu_us, &self.client.cpu_in_a_row_us),
            (&mut seen.client.own_answer_us, &self.client.own_answer_in_a_row_us),
        ];
        for (figure, in_a_row) in pairs {
            if let (Some(figure), Some(in_a_row)) = (figure, in_a_row) {
                *figure = in_a_row.towards(figure, share);
            }
        }
        seen
    }
}
