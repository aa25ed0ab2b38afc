//! What the recordings asked for, kept in the image, so that it can be packed again without them.
//!
//! It is the forest of paths that the roots were chosen from, cut to the roots, and lies in `/.quell/asked` behind
//! all content, where no run reads it. What is not told: names outside the roots; names in directories that stay the
//! original, which the program wrote; in an image for everybody, names in directories that not everybody may look
//! into. That something was asked for there is told.
//!
//! ```text
//!  0 magic "QUELLASK"    12 checksum u32, CRC-32C of what follows
//!  8 version u32         16 audience u8, hold u8, count of roots, for each: stance u8, path; then the node of `/`
//!
//! node = flags, [first read, [version of the file: size, nanoseconds], [blocks: runs, for each: gap, length]], [paths not told], [why it is live], [type of the file system mounted],
//!        count of children, for each child, sorted by name: name, node
//! ```
//!
//! Numbers are LEB128, strings have their length before them. A first read is the place in the order of first
//! reads, equal for what was read at once.

use quell_image::path::{components, is_name, join};
use std::collections::BTreeSet;

use crate::Hold;
use crate::extents::Extent;
use crate::forest::{Forest, Seen};
use crate::roots::{Choice, Stance};
use quell_image::BlockSet;
use quell_image::Coverage;
use quell_image::Tree;
use quell_image::erofs::BLOCK_BYTES;
use quell_image::write::Audience;

/// What an image says of its recordings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Who may use the image.
    pub(crate) audience: Audience,
    /// How much it holds of files.
    pub(crate) hold: Hold,
    /// Its roots, sorted by path.
    pub(crate) roots: Vec<(Vec<u8>, Stance)>,
    /// What was asked for below them.
    pub(crate) forest: Forest,
}

const MAGIC: &[u8; 8] = b"QUELLASK";

/// Version of the layout. Readers refuse newer ones. The first knew nothing of parts of files.
const VERSION: u32 = 2;

/// Where the checksum lies.
const CHECKSUM_AT: usize = 12;

/// Where what it covers begins.
const BODY_AT: usize = 16;

/// Names of the longest path that Linux takes: `PATH_MAX` of 4096 bytes, each name at least one and a slash.
const DEPTH_MAX: usize = 2048;

/// Blocks of the largest file that Linux has.
const BLOCKS_MAX: u64 = (1 << 63) / BLOCK_BYTES;

const TOUCHED: u64 = 1;
const MISSED: u64 = 2;
const ENTERED: u64 = 4;
const UNTOLD: u64 = 8;
const READ: u64 = 16;
const LIVE: u64 = 32;
const MOUNTED: u64 = 64;
const PART: u64 = 128;
const VERSIONED: u64 = 256;

impl Asked {
    /// Cuts `forest` to what an image of `choices` may tell. `tree` is what was packed of it.
    pub(crate) fn of(
        forest: &Forest,
        choices: &[Choice],
        tree: &Tree,
        audience: Audience,
        hold: Hold,
    ) -> Self {
        let mut kept = Forest::default();
        for choice in choices {
            let (mut from, mut path) = (Some(forest), b"/".to_vec());
            for name in components(&choice.path) {
                let mounted = from.and_then(|node| node.mounted.clone());
                kept.grow(&path).mounted = mounted;
                from = from.and_then(|node| node.children.get(name));
                path = join(&path, name);
            }
            if let Some(from) = from {
                *kept.grow(&choice.path) = told(from, &choice.path, tree, audience);
            }
        }
        rank_reads(&mut kept);
        let roots = choices.iter().map(|choice| (choice.path.clone(), choice.stance)).collect();
        Self { audience, hold, roots, forest: kept }
    }

    /// The bytes for the image; the same for the same content.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &[0; 4]].concat();
        bytes.push(match self.audience {
            Audience::Owner => 0,
            Audience::Everyone => 1,
        });
        bytes.push(match self.hold {
            Hold::Used => 0,
            Hold::Whole => 1,
        });
        number(self.roots.len() as u64, &mut bytes);
        for (path, stance) in &self.roots {
            bytes.push(match stance {
                Stance::Judged => 0,
                Stance::Given => 1,
                Stance::Below => 2,
            });
            string(path, &mut bytes);
        }
        node(&self.forest, &mut bytes);
        seal(&mut bytes);
        bytes
    }

    /// Reads what [`Self::encode`] wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, body) = bytes.split_at_checked(BODY_AT)?;
        let version = u32::from_le_bytes(head[8..CHECKSUM_AT].try_into().ok()?);
        let known = head.starts_with(MAGIC) && (1..=VERSION).contains(&version);
        (known && head[CHECKSUM_AT..] == crc32c::crc32c(body).to_le_bytes()).then_some(())?;
        let mut reader = Reader(body);
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
            let stance = match reader.byte()? {
                0 => Stance::Judged,
                1 => Stance::Given,
                2 => Stance::Below,
                _ => return None,
            };
            let path = reader.string()?;
            let ordered = roots.last().is_none_or(|(last, _): &(Vec<u8>, Stance)| last[..] < *path);
            (ordered && is_path(path)).then_some(())?;
            roots.push((path.to_vec(), stance));
        }
        let forest = reader.forest()?;
        (reader.0.is_empty() && !roots.is_empty()).then_some(Self { audience, hold, roots, forest })
    }
}

/// Puts the checksum of the body in its place.
fn seal(bytes: &mut [u8]) {
    let sum = crc32c::crc32c(&bytes[BODY_AT..]);
    bytes[CHECKSUM_AT..BODY_AT].copy_from_slice(&sum.to_le_bytes());
}

/// Whether a path is absolute, without `.`, `..`, empty names and a slash at its end. `/` is never a root.
pub(crate) fn is_path(path: &[u8]) -> bool {
    path.strip_prefix(b"/").is_some_and(|path| path.split(|&byte| byte == b'/').all(is_name))
        && components(path).count() <= DEPTH_MAX
}

/// `from`, which lies at `path`, without what an image must not tell.
fn told(from: &Forest, path: &[u8], tree: &Tree, audience: Audience) -> Forest {
    let mut kept = from.without_children();
    let withheld = audience == Audience::Everyone && is_withheld(tree, path);
    if from.live.is_some() || withheld {
        // Counted as the root's reason counts, and never as nothing.
        let below = from.count_asked() - u64::from(from.seen.touched || from.seen.missed);
        kept.untold = if from.is_used_below() { below.max(1) } else { 0 };
        return kept;
    }
    for (name, child) in &from.children {
        let below = told(child, &join(path, name), tree, audience);
        let empty = below == Forest::default();
        if !empty {
            kept.children.insert(name.clone(), below);
        }
    }
    kept
}

/// Whether the image has the directory without its names, because not everybody may know them.
fn is_withheld(tree: &Tree, path: &[u8]) -> bool {
    tree.find(path).and_then(|node| tree.coverage(node)) == Some(Coverage::Uncovered)
}

/// Replaces the times of first reads by their ranks: all that a layout needs.
fn rank_reads(forest: &mut Forest) {
    let mut times = BTreeSet::new();
    forest.visit(b"/", &mut |_, node| times.extend(node.seen.read));
    let times: Vec<u64> = times.into_iter().collect();
    rank(forest, &times);
}

fn rank(node: &mut Forest, times: &[u64]) {
    if let Some(read) = &mut node.seen.read {
        *read = times.partition_point(|time| time < read) as u64;
    }
    node.children.values_mut().for_each(|child| rank(child, times));
}

fn node(forest: &Forest, into: &mut Vec<u8>) {
    let seen = &forest.seen;
    let in_part = seen.read.is_some() && !seen.extent.whole;
    let flags = [
        (seen.touched, TOUCHED),
        (seen.missed, MISSED),
        (seen.entered, ENTERED),
        (forest.untold > 0, UNTOLD),
        (seen.read.is_some(), READ),
        (forest.live.is_some(), LIVE),
        (forest.mounted.is_some(), MOUNTED),
        (in_part, PART),
        (in_part && seen.extent.version.is_some(), VERSIONED),
    ];
    number(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum(), into);
    seen.read.iter().for_each(|read| number(*read, into));
    if in_part {
        extent(&seen.extent, into);
    }
    if forest.untold > 0 {
        number(forest.untold, into);
    }
    for text in forest.live.iter().chain(&forest.mounted) {
        string(text.as_bytes(), into);
    }
    number(forest.children.len() as u64, into);
    for (name, child) in &forest.children {
        string(name, into);
        node(child, into);
    }
}

fn extent(extent: &Extent, into: &mut Vec<u8>) {
    if let Some((size, modified)) = extent.version {
        number(size, into);
        number(modified, into);
    }
    number(extent.blocks.runs().count() as u64, into);
    let mut end = 0;
    for run in extent.blocks.runs() {
        number(run.start - end, into);
        number(run.end - run.start, into);
        end = run.end;
    }
}

fn number(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn string(bytes: &[u8], into: &mut Vec<u8>) {
    number(bytes.len() as u64, into);
    into.extend_from_slice(bytes);
}

/// What is left of the bytes. Every count is used up by what it counts, so that none can be made to cost much.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
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

    fn extent(&mut self, versioned: bool) -> Option<Extent> {
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
        Some(Extent { whole: false, blocks, version })
    }

    /// A node and the number of its children.
    fn node(&mut self) -> Option<(Forest, u64)> {
        let flags = self.number()?;
        (flags < VERSIONED * 2).then_some(())?;
        let set = |flag| flags & flag != 0;
        let read = if set(READ) { Some(self.number()?) } else { None };
        let extent = match (set(PART), set(VERSIONED)) {
            (true, versioned) if read.is_some() => self.extent(versioned)?,
            (false, false) => Extent { whole: read.is_some(), ..Extent::default() },
            _ => return None,
        };
        let (touched, missed, entered) = (set(TOUCHED), set(MISSED), set(ENTERED));
        let seen = Seen { touched, missed, entered, read, extent, operations: 0 };
        let untold = if set(UNTOLD) { self.number().filter(|count| *count > 0)? } else { 0 };
        let live = if set(LIVE) { Some(self.text()?) } else { None };
        let mounted = if set(MOUNTED) { Some(self.text()?) } else { None };
        Some((Forest { seen, live, mounted, untold, ..Forest::default() }, self.number()?))
    }

    /// The forest, without recursion: how deep it is the bytes decide.
    fn forest(&mut self) -> Option<Forest> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        let mut forest = Forest::default();
        forest.mount(b"/l", "lustre");
        forest.seen(b"/l/env/bin/x").touched = true;
        forest.seen(b"/l/env/bin/x").read = Some(300);
        forest.seen(b"/l/env/bin/x").extent.whole = true;
        let part = forest.seen(b"/l/env/lib.so");
        part.read = Some(4);
        part.extent.version = Some((9 << 20, 1_700_000_000_123_456_789));
        [0..1, 7..300].into_iter().for_each(|run| part.extent.blocks.insert(run));
        forest.seen(b"/l/env/lib").entered = true;
        forest.seen(b"/l/env/lib/\xff").missed = true;
        forest.live_itself(b"/l/env/log", "`a` was written");
        forest.grow(b"/l/env/log").untold = 7;
        let roots = vec![(b"/l/env".to_vec(), Stance::Judged), (b"/l/f".to_vec(), Stance::Below)];
        Asked { audience: Audience::Everyone, hold: Hold::Whole, roots, forest }
    }

    #[test]
    fn reads_back_what_was_encoded() {
        let asked = asked();
        assert_eq!(Asked::decode(&asked.encode()), Some(asked));
    }

    #[test]
    fn damage_and_forgery_are_refused() {
        let bytes = asked().encode();
        for len in 0..bytes.len() {
            assert_eq!(Asked::decode(&bytes[..len]), None, "{len}");
        }
        // With a right checksum around wrong content it must still end, and never trust a length.
        for at in BODY_AT..bytes.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut forged = bytes.clone();
                forged[at] = value;
                seal(&mut forged);
                if let Some(read) = Asked::decode(&forged) {
                    assert_eq!(Asked::decode(&read.encode()), Some(read));
                }
            }
        }
    }

    #[test]
    fn times_become_ranks_that_keep_ties() {
        let mut forest = Forest::default();
        for (path, time) in [("/a", 900), ("/b", 20), ("/c", 900), ("/d", 50)] {
            forest.seen(path.as_bytes()).read = Some(time);
        }
        rank_reads(&mut forest);
        let ranks: Vec<_> = forest.children.values().map(|child| child.seen.read.unwrap()).collect();
        assert_eq!(ranks, [2, 0, 2, 1]);
    }
}
