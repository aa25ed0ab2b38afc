//! Creates of 4096 nodes in one directory: IBM Storage Scale at LLNL, December 2018 and after.
//!
//! Three parameters of the profile `coral` are fitted to three times, one each; everything else here is predicted with them.
//! The rate of creates is no figure of that machine: it is the IO500 prior.

use super::figures::beside;
use super::row::PublishedRow;
use crate::create::{
    self, Connections, CreateParameters, Creates, DirectoryAge, DirectoryState, InodeToken,
    split::{self, PreSplit, SplitLaw},
};
use crate::forecast::Spread;
use crate::profile::{Profile, shipped};

/// The nodes of every row.
pub(super) const CREATES: Creates =
    Creates { nodes: 4096, ranks_per_node: 1, files_per_rank: 1, directories: 1 };

/// The fitted profile.
pub(super) fn coral() -> Profile {
    shipped("coral").expect("it comes with quell")
}

/// The state of the directory in each round of fixes. Shape: as released, round 1, 2, 3.
pub(super) fn rounds() -> [DirectoryState; 4] {
    let old = DirectoryState::of(&coral());
    let round_1 = DirectoryState { inode_token: InodeToken::Shared, ..old };
    let round_2 = DirectoryState { blocks: split::blocks(6), ..round_1 };
    [old, round_1, round_2, DirectoryState { connections: Connections::AllToAll, ..round_2 }]
}

fn grown(blocks: u64) -> DirectoryState {
    DirectoryState { directory: DirectoryAge::Grown, blocks, ..rounds()[1] }
}

fn seconds(state: &DirectoryState) -> Spread {
    let parameters = CreateParameters::of(&coral()).expect("the profile has creates");
    create::point(&parameters, CREATES, state).seconds
}

/// Every row of this source.
pub(super) fn rows() -> Vec<PublishedRow> {
    [new_directories(), grown_directories(), post_hoc(), floor(), levels()].concat()
}

fn new_directories() -> Vec<PublishedRow> {
    let names = ["scale-baseline", "scale-round-1", "scale-round-2", "scale-round-3"];
    names.into_iter().zip(rounds()).map(|(name, state)| beside(name, seconds(&state))).collect()
}

/// The published times of grown directories, by their blocks of 256 KiB.
const TABLE: [(&str, u64); 4] = [("scale-256k", 1), ("scale-1m", 4), ("scale-4m", 16), ("scale-8m", 32)];

fn grown_directories() -> Vec<PublishedRow> {
    TABLE.map(|(name, blocks)| beside(name, seconds(&grown(blocks)))).to_vec()
}

/// The law that was fitted to all four times of grown directories after they had been compared with the other one.
pub(super) const AFTERWARDS: SplitLaw = SplitLaw::Serial { seconds: 0.0102, served: 227.0 };
/// The time that is left when no block splits. Unit: seconds. Source: the last of the four times.
const LEFT: f64 = 0.2;

fn post_hoc() -> Vec<PublishedRow> {
    let time = |blocks| Spread::exact(AFTERWARDS.wait(4096.0, 1.0, blocks as f64) + LEFT);
    TABLE.map(|(name, blocks)| beside(&format!("{name}-serial"), time(blocks))).to_vec()
}

/// 4096 creates in 0.2 s, against the rate of other GPFS file systems: nothing was fitted.
fn floor() -> Vec<PublishedRow> {
    let rate = coral().shared_directory.creates_per_second.expect("the profile has it");
    vec![beside("scale-creates", Spread { p10: rate.p10, p50: rate.p50, p90: rate.p90 })]
}

fn levels() -> Vec<PublishedRow> {
    let printed = [(1, 512), (2, 1024), (3, 2048), (4, 4096), (5, 8192), (6, 16_384)];
    let agree = |(level, kib): &(u32, u64)| (split::blocks(*level) * split::BLOCK_BYTES) >> 10 == *kib;
    let agreed = printed.iter().filter(|line| agree(line)).count() as f64;
    let value = PreSplit { levels: vec![6, 8] }.value() as f64;
    vec![beside("scale-levels", Spread::exact(agreed)), beside("scale-2054", Spread::exact(value))]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants of the post-hoc law are those with the least squared log error, to the last digit that is given.
    #[test]
    fn the_post_hoc_law_is_the_best_of_its_form() {
        let times = TABLE.map(|(name, blocks)| (blocks, beside(name, Spread::exact(1.0)).published.middle()));
        let error = |seconds: f64, served: f64| -> f64 {
            let law = SplitLaw::Serial { seconds, served };
            let log = |(blocks, time): &(u64, f64)| {
                ((law.wait(4096.0, 1.0, *blocks as f64) + LEFT) / time).ln().powi(2)
            };
            times.iter().map(log).sum()
        };
        let SplitLaw::Serial { seconds, served } = AFTERWARDS else { panic!("it is the serial law") };
        let best = error(seconds, served);
        for served in (128..=300).map(f64::from) {
            for tenths in 50..200 {
                assert!(error(f64::from(tenths) / 1e4, served) >= best, "{served} {tenths}");
            }
        }
    }
}
