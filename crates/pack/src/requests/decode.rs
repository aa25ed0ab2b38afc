//! Reading recorded requests out of an image, which may be damaged or forged.

use quell_image::BlockSet;
use quell_image::erofs::BLOCK_BYTES;
use quell_image::path::is_name;
use quell_image::write::Audience;

use crate::extents::UsedExtent;
use crate::options::Hold;
use crate::path_tree::{PathTree, PathUse};
use crate::requests::layout::*;
use crate::requests::{DEPTH_MAX, RecordedRequests, is_path};
use crate::roots::RootOrigin;

/// Blocks of the largest file that Linux has.
const BLOCKS_MAX: u64 = (1 << 63) / BLOCK_BYTES;

impl RecordedRequests {
    /// Reads what [`Self::encode`] wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(BODY_AT)?;
        let version = u32::from_le_bytes(head[8..CHECKSUM_AT].try_into().ok()?);
        let known = head.starts_with(MAGIC) && (1..=VERSION).contains(&version);
        (known && head[CHECKSUM_AT..] == crc32c::crc32c(body).to_le_bytes()).then_some(())?;
        let mut reader = RequestReader(body);
        let audience = match reader.byte()? {
            0 => Audience::Owner,
            1 => Audience::Everyone,
            _ => return None,
        };
        let hold = match if version == 1 { 0 } else { reader.byte()? } {
            0 => Hold::Used,
            1 => Hold::Whole,
            _ => return None,
        };
        let mut roots = Vec::new();
        for _ in 0..reader.number()? {
            let origin = match reader.byte()? {
                0 => RootOrigin::Judged,
                1 => RootOrigin::Given,
                2 => RootOrigin::Below,
                _ => return None,
            };
            let path = reader.string()?;
            let ordered = roots.last().is_none_or(|(last, _): &(Vec<u8>, RootOrigin)| last[..] < *path);
            (ordered && is_path(path)).then_some(())?;
            roots.push((path.to_vec(), origin));
        }
        let recorded = reader.recorded()?;
        (reader.0.is_empty() && !roots.is_empty()).then_some(Self { audience, hold, roots, recorded })
    }
}

/// The bytes that are left. Each count needs as many bytes behind it, so that a forged count costs no memory.
struct RequestReader<'a>(&'a [u8]);

impl<'a> RequestReader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (string, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(string)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.string()?.to_vec()).ok()
    }

    fn extent(&mut self, versioned: bool) -> Option<UsedExtent> {
        let version = if versioned { Some((self.number()?, self.number()?)) } else { None };
        let (mut blocks, mut end) = (BlockSet::default(), 0_u64);
        for _ in 0..self.number()? {
            // Apart from the run before, and within what any file can have.
            let gap = self.number().filter(|gap| *gap > 0 || end == 0)?;
            let start = end.checked_add(gap)?;
            end = start.checked_add(self.number().filter(|length| *length > 0)?)?;
            (end <= BLOCKS_MAX).then_some(())?;
            blocks.insert(start..end);
        }
        Some(UsedExtent { whole: false, blocks, version })
    }

    /// A node and the number of its children.
    fn node(&mut self) -> Option<(PathTree, u64)> {
        let flags = self.number()?;
        (flags < VERSIONED * 2).then_some(())?;
        let set = |flag| flags & flag != 0;
        let read = if set(READ) { Some(self.number()?) } else { None };
        let extent = match (set(PART), set(VERSIONED)) {
            (true, versioned) if read.is_some() => self.extent(versioned)?,
            (false, false) => UsedExtent { whole: read.is_some(), ..UsedExtent::default() },
            _ => return None,
        };
        let (touched, missed, entered) = (set(TOUCHED), set(MISSED), set(ENTERED));
        let seen = PathUse { touched, missed, entered, read, extent, operations: 0 };
        let unlisted = if set(UNLISTED) { self.number().filter(|count| *count > 0)? } else { 0 };
        let live = if set(LIVE) { Some(self.text()?) } else { None };
        let mounted = if set(MOUNTED) { Some(self.text()?) } else { None };
        Some((PathTree { seen, live, mounted, unlisted, ..PathTree::default() }, self.number()?))
    }

    /// The tree of paths. Without recursion, because the bytes decide its depth.
    fn recorded(&mut self) -> Option<PathTree> {
        let (root, children) = self.node()?;
        let mut way = vec![(Box::default(), root, children)];
        loop {
            let (_, parent, left) = way.last_mut()?;
            if *left > 0 {
                *left -= 1;
                let name: Box<[u8]> = self.string()?.into();
                let ordered = parent.children.last_key_value().is_none_or(|(last, _)| *last < name);
                (ordered && is_name(&name) && way.len() <= DEPTH_MAX).then_some(())?;
                let (child, children) = self.node()?;
                way.push((name, child, children));
                continue;
            }
            let (name, node, _) = way.pop()?;
            match way.last_mut() {
                Some((_, parent, _)) => parent.children.insert(name, node),
                None => return Some(node),
            };
        }
    }
}
