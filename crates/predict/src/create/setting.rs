//! Settings of the file system that creates want otherwise, and the number of directories that they want.

use super::parameters::{CreateParameters, SplitLawChoice};
use super::seconds::point;
use super::split;
use super::terms::{Connections, CreateSeconds, Creates, DirectoryAge, DirectoryState, InodeToken, TimeTerm};

/// A setting of the file system that is not as it should be for these creates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnsuitedSetting {
    /// Nodes share the inode's token: Spectrum Scale 5.0.3.
    SharedToken,
    /// The directory has so many blocks at once.
    PreSplit {
        /// Level of the hash tree.
        level: u32,
    },
    /// Daemons are connected beforehand.
    AllToAll,
}

impl UnsuitedSetting {
    /// Sets it.
    pub(super) fn apply(self, state: &mut DirectoryState) {
        match self {
            Self::SharedToken => state.inode_token = InodeToken::Shared,
            Self::PreSplit { level } => state.blocks = split::blocks(level),
            Self::AllToAll => state.connections = Connections::AllToAll,
        }
    }

    /// In three words at most; all but the first of a list begin with `and`.
    pub(super) fn change(self) -> String {
        match self {
            Self::SharedToken => "release 5.0.3".to_owned(),
            Self::PreSplit { level } => format!("DirPreSplitLevels={level}"),
            Self::AllToAll => "allToAllConnection".to_owned(),
        }
    }
}

/// The settings that would help, in the order in which the source found them.
pub(super) fn settings(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Vec<UnsuitedSetting> {
    let is_shared = creates.nodes_per_directory() > 1;
    if !parameters.has_tokens() || !is_shared || state.directory == DirectoryAge::Grown {
        return Vec::new();
    }
    let mut settings = Vec::new();
    if state.inode_token == InodeToken::Serial {
        settings.push(UnsuitedSetting::SharedToken);
    }
    let level = pre_split_level(parameters, creates);
    if split::blocks(level) > state.blocks {
        settings.push(UnsuitedSetting::PreSplit { level });
    }
    if state.connections == Connections::OnDemand && parameters.waits_for_connections() {
        settings.push(UnsuitedSetting::AllToAll);
    }
    settings
}

/// The lowest level at which splits, by the slower law, take less than [`SPLIT_SHARE`] of what the other terms take in a release
/// that shares the inode's token; the highest where none does.
pub(super) fn pre_split_level(parameters: &CreateParameters, creates: &Creates) -> u32 {
    let is_enough = |level: &u32| {
        let state = DirectoryState {
            directory: DirectoryAge::New,
            blocks: split::blocks(*level),
            inode_token: InodeToken::Shared,
            connections: Connections::OnDemand,
        };
        parameters.laws().iter().all(|law| {
            let seconds = CreateSeconds::of(creates, &state, &parameters.at(0.5, *law));
            seconds[TimeTerm::Splits] <= SPLIT_SHARE * (seconds.total() - seconds[TimeTerm::Splits])
        })
    };
    (0..split::HIGHEST_LEVEL).find(is_enough).unwrap_or(split::HIGHEST_LEVEL)
}

/// As [`directories`] has it, where those are more than are asked for and take less time.
pub(super) fn better_directories(
    parameters: &CreateParameters,
    creates: &Creates,
    state: &DirectoryState,
) -> Option<u64> {
    let directories = directories(parameters, creates, state);
    let time = |directories| point(parameters, Creates { directories, ..*creates }, state).seconds.p50;
    (directories > creates.directories() && time(directories) < time(creates.directories))
        .then_some(directories)
}

/// The fewest directories, in powers of two, that are within [`ENOUGH`] of the best number, or need less than [`SOON`].
fn directories(parameters: &CreateParameters, creates: &Creates, state: &DirectoryState) -> u64 {
    let powers = (0..u64::BITS).map(|power| 1 << power);
    let counts: Vec<u64> = powers.take_while(|&count| count <= creates.nodes).collect();
    let time = |&directories: &u64| -> f64 {
        let spread = Creates { directories, ..*creates };
        let median =
            |law: &SplitLawChoice| CreateSeconds::of(&spread, state, &parameters.at(0.5, *law)).total();
        parameters.laws().iter().map(median).sum()
    };
    let times: Vec<f64> = counts.iter().map(time).collect();
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let enough =
        times.iter().position(|time| *time <= (ENOUGH * best).max(SOON * parameters.laws().len() as f64));
    enough.map_or(1, |at| counts[at])
}

/// Of the rest: with it the advice for 4096 nodes is the level 6 that the source's authors chose by measuring.
const SPLIT_SHARE: f64 = 0.2;
/// Times the best: less is not worth more directories.
const ENOUGH: f64 = 1.1;
/// A shorter time is not worth spreading files. Unit: seconds.
const SOON: f64 = 1.0;
