//! From a profile's figures, each with its spread, to parameters that are known exactly: the median, the ends, samples.
//!
//! Samples are points of a Halton sequence, one prime for each figure, so that a few hundred cover all spreads evenly and the same
//! profile always gives the same range. Figures vary independently: a profile does not say how they depend on each other.
//! A figure that a profile lacks is taken from a prior, and named: it is never 0.

use super::error::CreateError;
use super::split::{BLOCK_BYTES, SplitLaw};
use super::terms::{CreateRates, TokenCosts};
use crate::chance::{PRIMES, halton};
use crate::profile::{Figure, Profile, shipped, wide};

/// The figures of a profile on which creates depend.
#[derive(Clone, Debug)]
pub struct CreateParameters {
    shared: Figure,
    unique: Figure,
    round_trip: Figure,
    tokens: Option<TokenFigures>,
    block_bytes: u64,
}

#[derive(Clone, Debug)]
struct TokenFigures {
    hand_over: Figure,
    connection: Figure,
    revoke: Figure,
    split: Option<(Figure, Figure)>,
}

/// One of the laws of splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitLawChoice {
    /// [`SplitLaw::HandOver`].
    HandOver,
    /// [`SplitLaw::Serial`].
    Serial,
}

/// A figure that went into a prediction.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateInput {
    /// Section and key in the profile.
    pub key: String,
    /// The figure, in the unit of its key.
    pub figure: Figure,
}

impl CreateParameters {
    /// Takes what is needed from a profile.
    ///
    /// # Errors
    /// [`CreateError::NotMeasured`] for a profile without a rate of creates.
    pub fn of(profile: &Profile) -> Result<Self, CreateError> {
        let CompletedProfile { profile, .. } = completed(profile);
        let (shared, unique) = (&profile.shared_directory.creates_per_second, &profile.rates.create);
        let missing = || CreateError::NotMeasured { profile: profile.name.clone() };
        let servers = profile.metadata.servers.as_ref().map_or(1.0, |servers| servers.p50);
        let unique = unique.as_ref().map(|rate| scaled(rate, servers));
        let tokens = &profile.shared_directory;
        let known = "`completed` puts in what is not there";
        Ok(Self {
            shared: shared.clone().or_else(|| profile.rates.create.clone()).ok_or_else(missing)?,
            unique: unique.or_else(|| shared.clone()).ok_or_else(missing)?,
            round_trip: profile.network.round_trip_us.clone().expect(known),
            tokens: tokens.inode_token_us.clone().map(|hand_over| TokenFigures {
                hand_over,
                connection: tokens.connection_us.clone().expect(known),
                revoke: tokens.revoke_us.clone().expect(known),
                split: tokens.split_us.clone().zip(tokens.split_serves.clone()),
            }),
            block_bytes: tokens.block_bytes.as_ref().map_or(BLOCK_BYTES, |bytes| bytes.p50 as u64),
        })
    }

    /// True if clients of this file system pass tokens, so that a directory's blocks and connections matter.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// True if daemons that connect while nodes wait cost them anything.
    pub(super) fn waits_for_connections(&self) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.connection.p50 > 0.0)
    }

    /// Size of a directory block. Unit: bytes.
    pub(super) fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The laws of splits that the profile has figures for.
    pub fn laws(&self) -> &'static [SplitLawChoice] {
        match &self.tokens {
            Some(TokenFigures { split: Some(_), .. }) => &[SplitLawChoice::HandOver, SplitLawChoice::Serial],
            _ => &[SplitLawChoice::HandOver],
        }
    }

    /// Every figure at this quantile of the time that it makes: 0.9 is slow for all of them, and 1 as slow as any sample.
    pub fn at(&self, u: f64, law: SplitLawChoice) -> CreateRates {
        self.rates(&[u; FIGURES], law)
    }

    /// The k-th sample; laws take turns.
    pub fn sample(&self, k: u32) -> CreateRates {
        let laws = self.laws();
        let turns = laws.len() as u32;
        let point = std::array::from_fn(|figure| halton(1 + k / turns, PRIMES[figure]));
        self.rates(&point, laws[(k % turns) as usize])
    }

    fn rates(&self, u: &[f64; FIGURES], law: SplitLawChoice) -> CreateRates {
        let micro = |figure: &Figure, u: f64| figure.quantile(u) * 1e-6;
        CreateRates {
            // A rate is slow where a time is long.
            shared: self.shared.quantile(1.0 - u[0]),
            unique: self.unique.quantile(1.0 - u[1]),
            single: micro(&self.round_trip, u[2]),
            tokens: self.tokens.as_ref().map(|tokens| TokenCosts {
                hand_over: micro(&tokens.hand_over, u[3]),
                connection: micro(&tokens.connection, u[4]),
                revoke: micro(&tokens.revoke, u[5]),
                law: match (&tokens.split, law) {
                    (Some((split, serves)), SplitLawChoice::Serial) => {
                        SplitLaw::Serial { seconds: micro(split, u[6]), served: serves.quantile(1.0 - u[7]) }
                    }
                    _ => SplitLaw::HandOver { seconds: micro(&tokens.hand_over, u[3]) },
                },
            }),
        }
    }
}

/// A profile in which nothing is left out that creates cannot do without.
pub(super) struct CompletedProfile {
    pub(super) profile: Profile,
    /// The prior that the rest is of.
    pub(super) prior: String,
    /// The keys of the rest.
    pub(super) assumed: Vec<&'static str>,
}

/// Takes what a profile does not say from the prior of file systems like it.
pub(super) fn completed(profile: &Profile) -> CompletedProfile {
    let has_tokens = profile.shared_directory.inode_token_us.is_some();
    let prior = if has_tokens { shipped("gpfs").expect("it comes with quell") } else { wide() };
    let (mut whole, mut assumed) = (profile.clone(), Vec::new());
    let mut take = |key, own: &mut Option<Figure>, other: &Option<Figure>| {
        let Some(figure) = other.as_ref().filter(|_| own.is_none()) else { return };
        let source = figure.source.as_deref().unwrap_or("no source");
        *own = Some(figure.clone().source(format!("the prior `{}`: {source}", prior.name)));
        assumed.push(key);
    };
    take("round_trip_us", &mut whole.network.round_trip_us, &prior.network.round_trip_us);
    if has_tokens {
        let (own, tokens) = (&mut whole.shared_directory, &prior.shared_directory);
        take("connection_us", &mut own.connection_us, &tokens.connection_us);
        take("revoke_us", &mut own.revoke_us, &tokens.revoke_us);
    }
    CompletedProfile { profile: whole, prior: prior.name.clone(), assumed }
}

/// The figures of a profile that creates depend on, those that it has. Shape: in the order of the file.
pub fn inputs(profile: &Profile) -> Vec<CreateInput> {
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
        crate::profile::ProfileSlot::Figure(figure, _) => {
            figure.take().map(|figure| CreateInput { key: format!("{title}.{key}"), figure })
        }
        crate::profile::ProfileSlot::Switch(_) => None,
    });
    figures.collect()
}

fn scaled(figure: &Figure, by: f64) -> Figure {
    Figure { p10: figure.p10 * by, p50: figure.p50 * by, p90: figure.p90 * by, ..figure.clone() }
}

const FIGURES: usize = 8;
