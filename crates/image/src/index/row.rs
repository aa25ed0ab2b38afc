//! Rows of the index: what the original's `stat` says beyond an EROFS inode, and what is known of the node.
//!
//! ```text
//!  0 nid u64             16 st_ino u64     40 ctime i64        52 content u8    56 first u32
//!  8 parent row u32      24 st_dev u64     48 ctime_nsec u32   53 coverage u8   60 count u32
//! 12 slot u32            32 size u64                           54 use u8, 55 searched u8
//! ```
//!
//! `slot` is the place of the node's entry in its parent: number of the block times 512, plus number of the
//! entry. `first` and `count` are a directory's absences; of a file that is held in part the first block of
//! its data and their number; else zero. `searched` is 1 for a directory whose listing the recording did not ask for; images
//! before version 3 have 0. Of a node with several names, parent and slot are those of the first.

use crate::bytes::{i64_at, put, u32_at, u64_at};
use crate::model::{Coverage, Nid, NodeUse, Timestamp};

/// Size of a row in bytes: one line of a processor's cache. Part of the format.
pub(crate) const ROW: usize = 64;

/// Entries of a block that a slot can tell apart. Part of the format: a block of 4096 bytes has at most 315.
pub(crate) const SLOTS_PER_BLOCK: u32 = 512;

/// The state of a node's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentState {
    /// All of it.
    Held,
    /// None of it: it has to come from the original.
    Original,
    /// Some of its chunks.
    Part,
}

/// A row, parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) nid: Nid,
    /// Number of the parent's row, less than this row's own but for the root, whose parent is itself.
    pub(crate) parent: u32,
    pub(crate) slot: u32,
    pub(crate) inode: u64,
    pub(crate) device: u64,
    pub(crate) size: u64,
    pub(crate) ctime: Timestamp,
    pub(crate) content: ContentState,
    /// `None` but for directories.
    pub(crate) coverage: Option<Coverage>,
    pub(crate) usage: NodeUse,
    /// The recording looked names up in this directory and did not list it.
    pub(crate) searched: bool,
    /// Of a directory its first absence, of a file held in part the first block of its data; else 0.
    pub(crate) first: u32,
    /// Number of absences or blocks.
    pub(crate) count: u32,
}

impl Row {
    /// Parses the row at the start of `raw`; `None` if it is short or a field has an unknown value.
    pub(crate) fn parse(raw: &[u8]) -> Option<Self> {
        let nanoseconds = u32_at(raw, 48)?;
        (nanoseconds < 1_000_000_000).then_some(())?;
        Some(Self {
            nid: Nid::new(u64_at(raw, 0)?),
            parent: u32_at(raw, 8)?,
            slot: u32_at(raw, 12)?,
            inode: u64_at(raw, 16)?,
            device: u64_at(raw, 24)?,
            size: u64_at(raw, 32)?,
            ctime: Timestamp { seconds: i64_at(raw, 40)?, nanoseconds },
            content: content_of(*raw.get(52)?)?,
            coverage: coverage_of(*raw.get(53)?)?,
            usage: use_of(*raw.get(54)?)?,
            searched: searched_of(*raw.get(55)?)?,
            first: u32_at(raw, 56)?,
            count: u32_at(raw, 60)?,
        })
    }

    /// The 64 bytes of this row.
    pub(crate) fn encode(&self) -> [u8; ROW] {
        let mut raw = [0; ROW];
        put(&mut raw, 0, &self.nid.value().to_le_bytes());
        put(&mut raw, 8, &self.parent.to_le_bytes());
        put(&mut raw, 12, &self.slot.to_le_bytes());
        put(&mut raw, 16, &self.inode.to_le_bytes());
        put(&mut raw, 24, &self.device.to_le_bytes());
        put(&mut raw, 32, &self.size.to_le_bytes());
        put(&mut raw, 40, &self.ctime.seconds.to_le_bytes());
        put(&mut raw, 48, &self.ctime.nanoseconds.to_le_bytes());
        raw[52] = content_code(self.content);
        raw[53] = coverage_code(self.coverage);
        raw[54] = use_code(self.usage);
        raw[55] = u8::from(self.searched);
        put(&mut raw, 56, &self.first.to_le_bytes());
        put(&mut raw, 60, &self.count.to_le_bytes());
        raw
    }
}

fn content_code(content: ContentState) -> u8 {
    match content {
        ContentState::Held => 0,
        ContentState::Original => 1,
        ContentState::Part => 2,
    }
}

fn content_of(code: u8) -> Option<ContentState> {
    match code {
        0 => Some(ContentState::Held),
        1 => Some(ContentState::Original),
        2 => Some(ContentState::Part),
        _ => None,
    }
}

fn coverage_code(coverage: Option<Coverage>) -> u8 {
    match coverage {
        None => 0,
        Some(Coverage::Complete) => 1,
        Some(Coverage::Partial) => 2,
        Some(Coverage::Uncovered) => 3,
    }
}

fn coverage_of(code: u8) -> Option<Option<Coverage>> {
    match code {
        0 => Some(None),
        1 => Some(Some(Coverage::Complete)),
        2 => Some(Some(Coverage::Partial)),
        3 => Some(Some(Coverage::Uncovered)),
        _ => None,
    }
}

fn use_code(usage: NodeUse) -> u8 {
    match usage {
        NodeUse::Touched => 1,
        NodeUse::Listed => 0,
    }
}

fn use_of(code: u8) -> Option<NodeUse> {
    match code {
        0 => Some(NodeUse::Listed),
        1 => Some(NodeUse::Touched),
        _ => None,
    }
}

fn searched_of(code: u8) -> Option<bool> {
    match code {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_was_encoded() {
        for coverage in [None, Some(Coverage::Complete), Some(Coverage::Partial), Some(Coverage::Uncovered)] {
            let row = Row {
                nid: Nid::new(1 << 38),
                parent: 7,
                slot: 513,
                inode: u64::MAX,
                device: 5,
                size: 6,
                ctime: Timestamp { seconds: -1, nanoseconds: 999_999_999 },
                content: ContentState::Original,
                coverage,
                usage: NodeUse::Touched,
                searched: true,
                first: 8,
                count: 9,
            };
            assert_eq!(Row::parse(&row.encode()), Some(row));
        }
    }

    #[test]
    fn unknown_values_are_refused() {
        for at in [52, 53, 54, 55] {
            let mut raw = [0; ROW];
            assert!(Row::parse(&raw).is_some());
            raw[at] = 9;
            assert_eq!(Row::parse(&raw), None);
        }
        assert_eq!(Row::parse(&[0; ROW - 1]), None);
    }
}
