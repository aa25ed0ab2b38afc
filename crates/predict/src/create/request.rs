//! Creates as they are asked for, within limits.

use super::error::CreateError;
use super::terms::{Connections, Creates, DirectoryAge, DirectoryState, InodeToken};
use crate::profile::{Figure, Profile};

/// The creates that a forecast is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// Node counts. Shape: ascending, each once, not empty.
    pub nodes: Vec<u64>,
    /// Ranks of a node that create files.
    pub ranks_per_node: u64,
    /// Files of each rank.
    pub files_per_rank: u64,
    /// Directories that nodes are spread over.
    pub directories: u64,
    /// The state of the directory.
    pub state: DirectoryState,
}

impl CreateRequest {
    /// The creates of so many nodes.
    pub fn creates(&self, nodes: u64) -> Creates {
        Creates {
            nodes,
            ranks_per_node: self.ranks_per_node,
            files_per_rank: self.files_per_rank,
            directories: self.directories,
        }
    }

    /// Refuses counts of 0, and those beyond any machine.
    pub(super) fn check(&self) -> Result<(), CreateError> {
        let largest = self.nodes.iter().copied().max().unwrap_or(0);
        let least = self.nodes.iter().copied().min().unwrap_or(0);
        let files = self.ranks_per_node.saturating_mul(self.files_per_rank);
        for (what, given, most) in [
            ("nodes", least.min(largest), MOST_NODES),
            ("nodes", largest, MOST_NODES),
            ("ranks a node", self.ranks_per_node, MOST_RANKS),
            ("files a rank", self.files_per_rank, MOST_FILES),
            ("files a node", files, MOST_FILES),
            ("directories", self.directories, MOST_FILES),
            ("directory blocks", self.state.blocks, MOST_FILES),
        ] {
            if !(1..=most).contains(&given) {
                return Err(CreateError::OutOfRange { what, given, most });
            }
        }
        Ok(())
    }
}

impl DirectoryState {
    /// The state of a new directory, by the settings of a profile's file system.
    pub fn of(profile: &Profile) -> Self {
        let settings = &profile.shared_directory;
        let number = |figure: &Option<Figure>| figure.as_ref().map(|figure| figure.p50 as u64);
        Self {
            directory: DirectoryAge::New,
            blocks: number(&settings.blocks).unwrap_or(1).max(1),
            inode_token: match settings.shares_inode_token {
                Some(false) => InodeToken::Serial,
                _ => InodeToken::Shared,
            },
            connections: match settings.connects_all {
                Some(true) => Connections::AllToAll,
                _ => Connections::OnDemand,
            },
        }
    }
}

/// The largest machine that is meant.
const MOST_NODES: u64 = 10_000_000;
/// Ranks of one node.
const MOST_RANKS: u64 = 65_536;
/// Files of one node; beyond, it is a slip of the pen.
const MOST_FILES: u64 = 1_000_000_000;
