//! Directory blocks of IBM Storage Scale: how many pre-splitting makes, and how long nodes wait while blocks split.
//!
//! Names are spread over a directory's blocks by a hash tree; level L of it has 2^L blocks. A directory is born inside its
//! inode, then gets one block, and each further block comes from splitting one that many nodes wait for. `DirPreSplitLevels`
//! names the levels to go to at once.
//! Source: J. Lewars, Spectrum Scale Performance v1.2.1, "Round 2 - Investigating the Performance Overhead of Directory Block
//! Splits".

/// Bytes of a directory block. Source: as above, "256K directory block".
pub const BLOCK_BYTES: u64 = 256 << 10;

/// The highest level that is ever advised: 256 blocks, 64 MiB. The source's example `2054` ends at it.
pub const HIGHEST_LEVEL: u32 = 8;

/// Levels of the hash tree at which a directory may rest, in the order in which it grows through them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreSplit {
    /// Shape: at most eight, none of them zero.
    pub levels: Vec<u8>,
}

impl PreSplit {
    /// Packs levels for `mmchconfig DirPreSplitLevels=`: the first level in its lowest byte, the next in the next. Levels after
    /// the eighth are left out. The source masks with 256 where it means the lowest eight bits, 255.
    pub fn value(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(&self.levels).for_each(|(byte, level)| *byte = *level);
        u64::from_le_bytes(bytes)
    }
}

/// Blocks at a level.
///
/// **Range**: 0 (one block, no pre-splitting) to 63.
pub fn blocks(level: u32) -> u64 {
    1 << level.min(63)
}

/// A law of the wait while a directory has fewer blocks than nodes need. Two laws, because the four published times do
/// not tell which is right: the first is calibrated on one of them, the second was fitted to all four after they were seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SplitLaw {
    /// A block's exclusive token goes from node to node; blocks work side by side.
    ///
    /// `T = w * tau / B`, where w counts the pairs of a node and a block that it creates in.
    HandOver {
        /// One hand-over of the token, tau. Unit: seconds.
        seconds: f64,
    },
    /// Splits come one after the other, each delayed by every node that still waits; then every block takes a few more.
    ///
    /// Before each split `served * B` nodes are done, the others wait `seconds` each, and B grows by one.
    Serial {
        /// The delay by one waiting node. Unit: seconds.
        seconds: f64,
        /// Nodes that a block serves between two splits.
        served: f64,
    },
}

impl SplitLaw {
    /// The wait of `nodes` for blocks in one directory that begins with `blocks` of them.
    ///
    /// `files` is what each node creates there: a node that creates in every block needs every block's token once.
    /// **Unit**: seconds.
    pub fn wait(self, nodes: f64, files: f64, blocks: f64) -> f64 {
        match self {
            Self::HandOver { seconds } => nodes * files.min(blocks) / blocks * seconds,
            Self::Serial { seconds, served } => serial(nodes, blocks, served) * seconds,
        }
    }
}

/// The sum of nodes that wait over all splits: quadratic in what one block cannot serve, computed as a sum because a
/// directory has few splits.
fn serial(nodes: f64, blocks: f64, served: f64) -> f64 {
    let mut waits = 0.0;
    let mut waiting = nodes;
    for split in 0..MOST_SPLITS {
        waiting -= served * (blocks + f64::from(split));
        if waiting <= 0.0 {
            return waits;
        }
        waits += waiting;
    }
    waits
}

/// Splits that are followed: with one node served a block and split, enough for 100 000 000 nodes.
const MOST_SPLITS: u32 = 15_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_doubles_the_blocks() {
        // The source's table: level, blocks, size.
        let sizes: Vec<_> =
            (1..=6).map(|level| (blocks(level), (blocks(level) * BLOCK_BYTES) >> 10)).collect();
        assert_eq!(sizes, [(2, 512), (4, 1024), (8, 2048), (16, 4096), (32, 8192), (64, 16384)]);
    }

    #[test]
    fn levels_are_packed_from_the_lowest_byte() {
        for (levels, value) in
            [(&[][..], 0), (&[6], 6), (&[6, 8], 2054), (&[1, 2, 3, 4, 5, 6, 7, 8], 0x0807_0605_0403_0201)]
        {
            assert_eq!(PreSplit { levels: levels.to_vec() }.value(), value);
        }
    }

    #[test]
    fn more_blocks_and_fewer_nodes_never_wait_longer() {
        let laws = [SplitLaw::HandOver { seconds: 0.035 }, SplitLaw::Serial { seconds: 0.01, served: 225.0 }];
        for law in laws {
            for nodes in [1.0, 64.0, 700.0, 4096.0, 100_000.0] {
                for level in 0..8 {
                    let wait = |level, nodes| law.wait(nodes, 1.0, blocks(level) as f64);
                    assert!(wait(level + 1, nodes) <= wait(level, nodes));
                    assert!(wait(level, nodes) <= wait(level, nodes * 2.0));
                }
            }
        }
    }

    #[test]
    fn a_node_asks_for_a_block_once_however_many_files_it_creates() {
        let law = SplitLaw::HandOver { seconds: 1.0 };
        assert_eq!(law.wait(64.0, 1.0, 64.0), 1.0);
        assert_eq!(law.wait(64.0, 32.0, 64.0), 32.0);
        assert_eq!(law.wait(64.0, 1000.0, 64.0), 64.0);
    }
}
