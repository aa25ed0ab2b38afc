//! The model of `quell predict`, asked for counts instead of a trace: nodes that start together, cold, on a file system that
//! no other job uses.

use super::counts::StartCounts;
use crate::StartParameters;
use crate::chance::{PRIMES, halton};
use crate::forecast::Spread;
use crate::model::{self, Cohorts, Network, Scale, solve};
use crate::profile::Profile;
use std::cell::RefCell;

/// The time of the slowest rank with every figure at its median. Unit: seconds.
pub(super) fn median(profile: &Profile, counts: &StartCounts, cores: u32, ranks: u64) -> f64 {
    slowest(&StartParameters::median(profile), counts, cores, ranks)
}

/// The same over the spreads of the figures. The rates of one profile are fast or slow together.
pub(super) fn range(profile: &Profile, counts: &StartCounts, cores: u32, ranks: u64) -> Spread {
    over_samples(profile, |parameters| slowest(parameters, counts, cores, ranks))
}

/// Ranks at the knee, one to a node: there nothing but the servers is shared.
pub(super) fn knee_ranks(profile: &Profile, counts: &StartCounts) -> Spread {
    over_samples(profile, |parameters| model::knee(&network(parameters, counts, 1, 1)))
}

fn network(parameters: &StartParameters, counts: &StartCounts, cores: u32, ranks: u64) -> Network {
    let scale = Scale {
        nodes: (ranks as f64 / f64::from(cores)).max(1.0),
        skew: 0.0,
        background: 0.0,
        cores: None,
        is_shared_host: false,
        stripes: None,
        most_read_share: 0.0,
    };
    Network::new(&counts.demand(cores), parameters, &scale)
}

fn slowest(parameters: &StartParameters, counts: &StartCounts, cores: u32, ranks: u64) -> f64 {
    parameters.error * solve(&network(parameters, counts, cores, ranks), Cohorts::FINE).slowest
}

/// Percentiles of a number over samples of a profile's figures; each key has a prime of its own.
fn over_samples(profile: &Profile, number: impl Fn(&StartParameters) -> f64) -> Spread {
    let sample = |index: u32| {
        let keys = RefCell::new(Vec::new());
        let choice = |key: &'static str, figure: &crate::Figure| {
            let mut keys = keys.borrow_mut();
            let place = keys.iter().position(|known| *known == key).unwrap_or_else(|| {
                keys.push(key);
                keys.len() - 1
            });
            figure.quantile(halton(index + 1, PRIMES[place % PRIMES.len()]))
        };
        number(&StartParameters::choose(profile, &choice))
    };
    Spread::of_samples(SAMPLES, sample)
}

const SAMPLES: u32 = 400;
