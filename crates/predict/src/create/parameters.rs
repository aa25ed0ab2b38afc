//! From a profile's figures, each with its spread, to parameters that are known exactly: the median, the ends, samples.
//!
//! Samples are points of a Halton sequence, one prime for each figure, so that a few hundred cover all spreads evenly and the same
//! profile always gives the same range. Figures vary independently: a profile does not say how they depend on each other.
//! Source: J. H. Halton, Numerische Mathematik 2 (1960), 84-90.

use super::error::CreateError;
use super::split::SplitLaw;
use super::terms::{Rates, Tokens};
use crate::profile::{Figure, Profile};

/// What of a profile creates depend on.
#[derive(Clone, Debug)]
pub struct Parameters {
    shared: Figure,
    unique: Figure,
    round_trip: Figure,
    tokens: Option<TokenFigures>,
}

#[derive(Clone, Debug)]
struct TokenFigures {
    hand_over: Figure,
    connection: Figure,
    revoke: Figure,
    split: Option<(Figure, Figure)>,
}

/// Which of the laws of splits, where a profile has both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// [`SplitLaw::HandOver`].
    HandOver,
    /// [`SplitLaw::Serial`].
    Serial,
}

/// A figure that went into a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Section and key in the profile.
    pub key: String,
    /// The figure, in the unit of its key.
    pub figure: Figure,
}

impl Parameters {
    /// Takes what is needed from a profile.
    ///
    /// # Errors
    /// [`CreateError::NotMeasured`] for a profile without a rate of creates.
    pub fn of(profile: &Profile) -> Result<Self, CreateError> {
        let (shared, unique) = (&profile.shared_directory.creates_per_second, &profile.rates.create);
        let missing = || CreateError::NotMeasured { profile: profile.name.clone() };
        let servers = profile.metadata.servers.as_ref().map_or(1.0, |servers| servers.p50);
        let unique = unique.as_ref().map(|rate| scaled(rate, servers));
        let tokens = &profile.shared_directory;
        let zero = || Figure::exact(0.0);
        Ok(Self {
            shared: shared.clone().or_else(|| profile.rates.create.clone()).ok_or_else(missing)?,
            unique: unique.or_else(|| shared.clone()).ok_or_else(missing)?,
            round_trip: profile.network.round_trip_us.clone().unwrap_or_else(zero),
            tokens: tokens.inode_token_us.clone().map(|hand_over| TokenFigures {
                hand_over,
                connection: tokens.connection_us.clone().unwrap_or_else(zero),
                revoke: tokens.revoke_us.clone().unwrap_or_else(zero),
                split: tokens.split_us.clone().zip(tokens.split_serves.clone()),
            }),
        })
    }

    /// Whether clients of this file system pass tokens, so that a directory's blocks and connections matter.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The laws of splits that the profile has figures for.
    pub fn laws(&self) -> &'static [Law] {
        match &self.tokens {
            Some(TokenFigures { split: Some(_), .. }) => &[Law::HandOver, Law::Serial],
            _ => &[Law::HandOver],
        }
    }

    /// Every figure at this quantile of the time that it makes: 0.9 is slow for all of them, and 1 as slow as any sample.
    pub fn at(&self, u: f64, law: Law) -> Rates {
        self.rates(&[u; FIGURES], law)
    }

    /// The k-th sample; laws take turns.
    pub fn sample(&self, k: u32) -> Rates {
        let laws = self.laws();
        let turns = laws.len() as u32;
        let point = PRIMES.map(|prime| halton(1 + k / turns, prime));
        self.rates(&point, laws[(k % turns) as usize])
    }

    fn rates(&self, u: &[f64; FIGURES], law: Law) -> Rates {
        let micro = |figure: &Figure, u: f64| figure.quantile(u) * 1e-6;
        Rates {
            // A rate is slow where a time is long.
            shared: self.shared.quantile(1.0 - u[0]),
            unique: self.unique.quantile(1.0 - u[1]),
            single: micro(&self.round_trip, u[2]),
            tokens: self.tokens.as_ref().map(|tokens| Tokens {
                hand_over: micro(&tokens.hand_over, u[3]),
                connection: micro(&tokens.connection, u[4]),
                revoke: micro(&tokens.revoke, u[5]),
                law: match (&tokens.split, law) {
                    (Some((split, serves)), Law::Serial) => {
                        SplitLaw::Serial { seconds: micro(split, u[6]), served: serves.quantile(1.0 - u[7]) }
                    }
                    _ => SplitLaw::HandOver { seconds: micro(&tokens.hand_over, u[3]) },
                },
            }),
        }
    }
}

/// The figures of a profile that creates depend on, those that it has. Shape: in the order of the file.
pub fn inputs(profile: &Profile) -> Vec<Input> {
    let mut copy = profile.clone();
    let is_used = |title: &str, key: &str| {
        title == "shared_directory"
            || [
                ("network", "round_trip_us"),
                ("metadata", "servers"),
                ("metadata.operations_per_second", "create"),
            ]
            .contains(&(title, key))
    };
    let slots = copy.slots().into_iter().filter(|(title, key, _)| is_used(title, key));
    let figures = slots.filter_map(|(title, key, slot)| match slot {
        crate::profile::Slot::Figure(figure, _) => {
            figure.take().map(|figure| Input { key: format!("{title}.{key}"), figure })
        }
        crate::profile::Slot::Switch(_) => None,
    });
    figures.collect()
}

fn scaled(figure: &Figure, by: f64) -> Figure {
    Figure { p10: figure.p10 * by, p50: figure.p50 * by, p90: figure.p90 * by, ..figure.clone() }
}

const FIGURES: usize = 8;
const PRIMES: [u32; FIGURES] = [2, 3, 5, 7, 11, 13, 17, 19];

/// The digits of `index` to the base, mirrored at the point. Range: within 0 to 1.
pub(crate) fn halton(mut index: u32, base: u32) -> f64 {
    let (mut value, mut scale) = (0.0, 1.0);
    while index > 0 {
        scale /= f64::from(base);
        value += f64::from(index % base) * scale;
        index /= base;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_cover_every_figure_evenly() {
        for prime in PRIMES {
            let points: Vec<f64> = (1..=500).map(|k| halton(k, prime)).collect();
            for tenth in 0..10 {
                let within = |u: &&f64| (**u * 10.0).floor() == f64::from(tenth);
                let share = points.iter().filter(within).count();
                assert!((44..=56).contains(&share), "base {prime}, {tenth}: {share}");
            }
        }
    }
}
