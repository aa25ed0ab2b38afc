//! Creates of 4096 nodes in one directory: IBM Storage Scale at LLNL, December 2018 and after.
//!
//! Three parameters of the profile `coral` are fitted to three times, one each; everything else here is predicted with them.
//! The rate of creates is no figure of that machine: it is the IO500 prior.

use super::row::{Published, PublishedRow, RowRule, RowUnit, RowUse};
use crate::create::{
    self, Connections, CreateParameters, Creates, Directory, DirectoryState, InodeToken,
    split::{self, PreSplit, SplitLaw},
};
use crate::forecast::Spread;
use crate::profile::{Profile, shipped};

const SOURCE: &str = "Lewars, Spectrum Scale Performance v1.2.1";
const ROUNDS: &str = "one file a node, 4096 nodes, new shared directory";
const GROWN: &str = "one file a node, 4096 nodes, directory grown beforehand";

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
    DirectoryState { directory: Directory::Grown, blocks, ..rounds()[1] }
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
    let [old, round_1, round_2, round_3] = rounds().map(|state| seconds(&state));
    let row = |name, published, predicted, used, rule, note| PublishedRow {
        name,
        source: SOURCE,
        what: ROUNDS,
        unit: RowUnit::Seconds,
        published,
        predicted,
        used,
        parameters: 3,
        rule,
        note,
    };
    vec![
        row(
            "scale-baseline",
            Published::between(300.0, 400.0, "typically took between 300--400 seconds"),
            old,
            RowUse::Validation,
            RowRule::Factor(1.5),
            "before 5.0.3: the inode's token and the one block's token each pass through all nodes",
        ),
        row(
            "scale-round-1",
            Published::between(60.0, 160.0, "60--160 seconds"),
            round_1,
            RowUse::Validation,
            RowRule::Factor(1.5),
            "5.0.3: the term of the inode's token goes; at the upper edge of what was published",
        ),
        row(
            "scale-round-2",
            Published::one(15.0, "typically ~15 seconds"),
            round_2,
            RowUse::Calibration,
            RowRule::Fitted,
            "DirPreSplitLevels=6; with round 3 it gives the cost of a connection",
        ),
        row(
            "scale-round-3",
            Published::one(7.0, "typically ~7 seconds"),
            round_3,
            RowUse::Calibration,
            RowRule::Fitted,
            "allToAllConnection=remote; it gives the cost of a revoke",
        ),
    ]
}

/// The published times of grown directories. Shape: blocks of 256 KiB, seconds, the source's words.
const TABLE: [(u64, f64, &str); 4] =
    [(1, 143.0, "256KB 143"), (4, 54.0, "1 MB 54"), (16, 5.0, "4 MB ~5"), (32, 0.2, "8 MB 0.2")];

const GROWN_NAMES: [&str; 4] = ["scale-256k", "scale-1m", "scale-4m", "scale-8m"];

fn grown_directories() -> Vec<PublishedRow> {
    let row = |((blocks, time, words), name): ((u64, f64, &'static str), &'static str)| {
        let is_fitted = blocks == 1;
        PublishedRow {
            name,
            source: SOURCE,
            what: GROWN,
            unit: RowUnit::Seconds,
            published: Published::one(time, words),
            predicted: seconds(&grown(blocks)),
            used: if is_fitted { RowUse::Calibration } else { RowUse::Validation },
            parameters: 1,
            rule: if is_fitted { RowRule::Fitted } else { RowRule::Factor(1.5) },
            note: match is_fitted {
                true => "gives the hand-over time of a token",
                false => "blocks work side by side: no power of the number of blocks fits the four times",
            },
        }
    };
    TABLE.into_iter().zip(GROWN_NAMES).map(row).collect()
}

/// The law that was fitted to all four times of grown directories after they had been compared with the other one.
pub(super) const AFTERWARDS: SplitLaw = SplitLaw::Serial { seconds: 0.0102, served: 227.0 };
/// The time that is left when no block splits. Unit: seconds. Source: the last of the four times.
const LEFT: f64 = 0.2;

fn post_hoc() -> Vec<PublishedRow> {
    let names = ["scale-256k-serial", "scale-1m-serial", "scale-4m-serial", "scale-8m-serial"];
    let row = |((blocks, time, words), name): ((u64, f64, &'static str), &'static str)| PublishedRow {
        name,
        source: SOURCE,
        what: GROWN,
        unit: RowUnit::Seconds,
        published: Published::one(time, words),
        predicted: Spread::exact(AFTERWARDS.wait(4096.0, 1.0, blocks as f64) + LEFT),
        used: RowUse::PostHoc,
        parameters: 3,
        rule: RowRule::Fitted,
        note: "splits one after the other: three parameters on these four times, so it shows a form that could be, no more",
    };
    TABLE.into_iter().zip(names).map(row).collect()
}

/// 4096 creates in 0.2 s, against the rate of other GPFS file systems: nothing was fitted.
fn floor() -> Vec<PublishedRow> {
    let rate = coral().shared_directory.creates_per_second.expect("the profile has it");
    vec![PublishedRow {
        name: "scale-creates",
        source: "Lewars; IO500, 24 submissions of GPFS",
        what: "creates a second in one directory that has enough blocks",
        unit: RowUnit::PerSecond,
        published: Published::one(4096.0 / 0.2, "8 MB 0.2, 4096 files"),
        predicted: Spread { p10: rate.p10, p50: rate.p50, p90: rate.p90 },
        used: RowUse::Validation,
        parameters: 0,
        rule: RowRule::Factor(1.5),
        note: "0.2 s has one digit: 16 000 to 27 000 creates a second",
    }]
}

fn levels() -> Vec<PublishedRow> {
    let printed = [(1, 512), (2, 1024), (3, 2048), (4, 4096), (5, 8192), (6, 16_384)];
    let agree = |(level, kib): &(u32, u64)| (split::blocks(*level) * split::BLOCK_BYTES) >> 10 == *kib;
    let value = PreSplit { levels: vec![6, 8] }.value();
    let row = |name, what, published, predicted, note| PublishedRow {
        name,
        source: SOURCE,
        what,
        unit: RowUnit::Count,
        published,
        predicted: Spread::exact(predicted),
        used: RowUse::Arithmetic,
        parameters: 0,
        rule: RowRule::Equal,
        note,
    };
    vec![
        row(
            "scale-levels",
            "lines of the table of hash tree levels that our blocks agree with",
            Published::one(6.0, "levels 1 to 6: 512K to 16M"),
            printed.iter().filter(|line| agree(line)).count() as f64,
            "",
        ),
        row(
            "scale-2054",
            "DirPreSplitLevels for level 6, then level 8",
            Published::one(2054.0, "set to 2054 in this Example"),
            value as f64,
            "the text masks with 256 where it must be 255",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The constants of the post-hoc law are those with the least squared log error, to the last digit that is given.
    #[test]
    fn the_post_hoc_law_is_the_best_of_its_form() {
        let error = |seconds: f64, served: f64| -> f64 {
            let law = SplitLaw::Serial { seconds, served };
            let log = |(blocks, time, _): &(u64, f64, &str)| {
                ((law.wait(4096.0, 1.0, *blocks as f64) + LEFT) / time).ln().powi(2)
            };
            TABLE.iter().map(log).sum()
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
