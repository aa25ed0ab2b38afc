//! One file of 377 GB in parallel HDF5 on an unnamed Lustre, with 4 and with all stripes.
//!
//! `T = other + V / (k b)`: V is read and written over k targets of b bytes a second each. Two unknowns, two times, and the number
//! of targets is not published either: nothing is left to validate. What can be shown is how much the second time depends on b.
//! Source: Cray and KTH, Optimizing I/O, "Case study: Parallel I/O into a single file".

use super::figures::beside;
use super::row::PublishedRow;
use crate::forecast::Spread;

/// Reads and writes together. Unit: bytes.
const VOLUME: f64 = 850e9;
/// Stripes, seconds.
const FOUR: (f64, f64) = (4.0, 1800.0);
/// Seconds over all targets.
const ALL: f64 = 625.0;
/// Fewest and most targets that such a file system had: klemming's in the same source, and a large one of its time.
const TARGETS: (f64, f64) = (29.0, 336.0);

/// The rate of a target that both times give, if there are so many. Unit: bytes a second.
fn fitted(targets: f64) -> f64 {
    VOLUME * (1.0 / FOUR.0 - 1.0 / targets) / (FOUR.1 - ALL)
}

/// The second time from the first, for a rate that is known otherwise. Unit: seconds.
fn all_stripes(rate: f64, targets: f64) -> f64 {
    FOUR.1 - VOLUME / FOUR.0 / rate + VOLUME / targets / rate
}

/// Every row of this source.
pub(super) fn rows() -> Vec<PublishedRow> {
    let middle = (TARGETS.0 * TARGETS.1).sqrt();
    let slow = all_stripes(150e6, middle);
    let fast = all_stripes(200e6, middle);
    vec![
        beside("striping-all", Spread::exact(all_stripes(fitted(middle), middle))),
        beside("striping-given-rate", Spread { p10: slow, p50: all_stripes(180e6, middle), p90: fast }),
        beside("hdf5-dump", Spread::exact(6.4e9 / (8.0 * fitted(middle)))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fit_gives_both_times() {
        for targets in [TARGETS.0, TARGETS.1] {
            assert!((all_stripes(fitted(targets), targets) - ALL).abs() < 1e-6);
        }
        assert!(
            (fitted(TARGETS.0) / 1e6 - 156.0).abs() < 1.0 && (fitted(TARGETS.1) / 1e6 - 179.0).abs() < 1.0
        );
        let other = |targets: f64| ALL - VOLUME / targets / fitted(targets);
        assert!((other(TARGETS.0) - 437.0).abs() < 1.5 && (other(TARGETS.1) - 611.0).abs() < 1.5);
    }
}
