//! Checking an image as a whole: that tree and index agree, nothing overlaps, and every byte is as written.
//!
//! Reads everything once. [`Image::open`] has already verified what a reader cannot do without.

mod report;

use std::collections::HashMap;

use crate::bytes::{span, u32_at};
use crate::erofs::inode::{DataLayout, INODE, Inode};
use crate::erofs::superblock::{SUPER_OFFSET, SUPER_SIZE};
use crate::erofs::{BLOCK_BYTES, blocks_for, chunk};
use crate::error::Corrupt;
use crate::image::view::address;
use crate::image::{FileContent, Image, Lookup};
use crate::index::read::{ImageTotals, IndexedDirectory};
use crate::index::{CHECKSUM_AT, IDENTITY_AT, ImageIdentity};
use crate::model::{Coverage, FileKind, Nid};
use crate::part::FilePart;
use crate::path::{components, is_name, is_within};

pub use report::{CheckFinding, CheckReport, FINDINGS_MAX};

/// Tells whether an open image still has the bytes of its identity. Reads all of it, and allocates nothing.
pub fn is_intact<B: AsRef<[u8]>>(image: &Image<B>) -> bool {
    identity_of(image) == image.index().identity()
}

/// Checks everything.
pub fn check<B: AsRef<[u8]>>(image: &Image<B>) -> CheckReport {
    let mut check = Check {
        image,
        report: CheckReport::default(),
        extents: Vec::new(),
        names: HashMap::new(),
        totals: ImageTotals::default(),
        requests: image.requests_node(),
    };
    check.identity();
    check.rows();
    check.names();
    check.overlaps();
    check.places();
    check.totals();
    check.report
}

/// The identity of the bytes that are there now.
fn identity_of<B: AsRef<[u8]>>(image: &Image<B>) -> ImageIdentity {
    let bytes = image.view().bytes;
    let (index, _) = image.index_span();
    let mut hasher = blake3::Hasher::new();
    let mut at = 0;
    // The stretches that were zero when the writer hashed them.
    let patched = [
        (0, SUPER_OFFSET + SUPER_SIZE),
        (index as usize + CHECKSUM_AT, 4),
        (index as usize + IDENTITY_AT, size_of::<ImageIdentity>()),
    ];
    for (start, len) in patched {
        hasher.update(bytes.get(at..start).unwrap_or_default());
        hasher.update(&[0; SUPER_OFFSET + SUPER_SIZE][..len]);
        at = start + len;
    }
    hasher.update(bytes.get(at..).unwrap_or_default());
    ImageIdentity(*hasher.finalize().as_bytes())
}

/// Tells whether the chunks are the data, one after the other, each once and to the last block.
fn is_in_order(part: &FilePart<'_>) -> bool {
    let mut next = 0;
    for (number, entry) in (0..).zip(entries(part.map)).filter(|&(_, entry)| entry != chunk::UNHELD) {
        if u64::from(entry) != u64::from(part.first) + next {
            return false;
        }
        next += blocks_for(part.chunk.min(part.size.saturating_sub(part.chunk.saturating_mul(number))));
    }
    next * BLOCK_BYTES == part.data.len() as u64
}

/// The entries of a map of chunks.
fn entries(map: &[u8]) -> impl Iterator<Item = u32> {
    map.chunks_exact(chunk::ENTRY as usize).map(|entry| u32_at(entry, 0).unwrap_or(chunk::UNHELD))
}

/// A stretch of the image that a node claims: offset, length, node.
type Extent = (u64, u64, Nid);

struct Check<'a, B> {
    image: &'a Image<B>,
    report: CheckReport,
    extents: Vec<Extent>,
    /// Number of names of each node.
    names: HashMap<Nid, u32>,
    totals: ImageTotals,
    /// The packer's record, which does not count as content.
    requests: Option<Nid>,
}

impl<B: AsRef<[u8]>> Check<'_, B> {
    fn identity(&mut self) {
        let found = identity_of(self.image);
        let expected = self.image.index().identity();
        self.report.expect(found == expected, CheckFinding::Identity { expected, found });
        let uuid = expected.as_bytes().starts_with(&self.image.superblock().uuid);
        self.report.expect(uuid, CheckFinding::Uuid);
    }

    fn rows(&mut self) {
        let mut last = None;
        for (number, nid) in self.image.nodes().enumerate() {
            let row = number as u32;
            self.report.expect(last < Some(nid), CheckFinding::Order { row });
            last = Some(nid);
            self.report.nodes += 1;
            if let Err(corrupt) = self.node(nid, row) {
                self.report.add(corrupt.into());
            }
        }
        let rows = self.image.index().row_count() as u64;
        self.report.expect(self.report.nodes == rows, CheckFinding::Order { row: self.report.nodes as u32 });
    }

    fn node(&mut self, nid: Nid, row: u32) -> Result<(), Corrupt> {
        let inode = self.image.view().inode(nid)?;
        self.report.expect(inode.number == row + 1, CheckFinding::Order { row });
        self.image.attributes(nid)?;
        let mut xattrs = self.image.xattrs(nid)?;
        xattrs.by_ref().for_each(drop);
        self.report.expect(!xattrs.is_corrupt(), CheckFinding::Xattrs { nid });
        self.claim(nid, &inode);
        match inode.kind {
            FileKind::Directory => self.directory(nid)?,
            FileKind::Regular => self.file(nid, &inode)?,
            FileKind::Symlink => drop(self.image.link_target(nid)?),
            _ => {}
        }
        self.path(nid)
    }

    /// Notes which bytes the node claims.
    fn claim(&mut self, nid: Nid, inode: &Inode) {
        let blocks = blocks_for(inode.size);
        let (trailer, outside) = match inode.layout {
            DataLayout::Chunks => (chunk::ENTRY * chunk::count(inode.size, inode.start & 31), 0),
            DataLayout::Plain => (0, blocks),
            DataLayout::Inline => {
                (inode.size - blocks.saturating_sub(1) * BLOCK_BYTES, blocks.saturating_sub(1))
            }
        };
        let head = INODE as u64 + u64::from(inode.xattr_bytes) + trailer;
        self.extents.push((address(nid), head, nid));
        if outside > 0 {
            self.extents.push((u64::from(inode.start) * BLOCK_BYTES, outside * BLOCK_BYTES, nid));
        }
    }

    fn directory(&mut self, nid: Nid) -> Result<(), Corrupt> {
        let parent = self.image.parent(nid)?;
        let mut last: Option<&[u8]> = None;
        let mut dots = 0;
        for entry in self.image.entries(nid)? {
            let entry = entry?;
            let ordered = last < Some(entry.name);
            last = Some(entry.name);
            let found = self.image.lookup(nid, entry.name)? == Lookup::Found(entry.nid);
            let kind = self.image.attributes(entry.nid)?.kind == entry.kind;
            let sound = ordered && found && kind;
            self.report.expect(sound, CheckFinding::Entry { nid, name: entry.name.to_vec() });
            if entry.is_dot() {
                let expected = if entry.name == b"." { nid } else { parent };
                dots += u32::from(entry.nid == expected);
            } else {
                *self.names.entry(entry.nid).or_default() += 1;
            }
        }
        self.report.expect(dots == 2, CheckFinding::Dots { nid });
        self.absences(nid)
    }

    fn absences(&mut self, nid: Nid) -> Result<(), Corrupt> {
        let absences = self.image.absences(nid)?;
        let covered = self.image.coverage(nid)? != Coverage::Uncovered;
        self.report.expect(covered || absences.is_empty(), CheckFinding::Absence { nid, number: 0 });
        let mut last = None;
        for number in 0..absences.len() {
            let name = absences.name(number);
            let absent = name.is_some_and(|name| self.image.lookup(nid, name) == Ok(Lookup::Absent));
            self.report.expect(absent && last < name, CheckFinding::Absence { nid, number });
            last = name;
        }
        Ok(())
    }

    fn file(&mut self, nid: Nid, inode: &Inode) -> Result<(), Corrupt> {
        match self.image.content(nid)? {
            FileContent::Held(_) if self.requests == Some(nid) => {}
            FileContent::Held(data) if self.image.index_span().0 != u64::from(inode.start) * BLOCK_BYTES => {
                self.totals.content_bytes += data.len() as u64;
            }
            FileContent::Held(_) => {}
            FileContent::Part(part) => {
                self.extents.push((u64::from(part.first) * BLOCK_BYTES, part.data.len() as u64, nid));
                self.totals.content_bytes += part.held_bytes();
                self.report.expect(is_in_order(&part), CheckFinding::Mapped { nid });
            }
            FileContent::Original => {
                let map = address(nid) + INODE as u64 + u64::from(inode.xattr_bytes);
                let chunks = chunk::count(inode.size, inode.start & 31);
                let raw = span(self.image.view().bytes, map, chunks.saturating_mul(chunk::ENTRY));
                let unheld = raw.is_some_and(|raw| entries(raw).all(|entry| entry == chunk::UNHELD));
                self.report.expect(unheld && inode.start <= 31, CheckFinding::Mapped { nid });
            }
        }
        Ok(())
    }

    /// Follows the node's path down again.
    fn path(&mut self, nid: Nid) -> Result<(), Corrupt> {
        let path = self.image.path(nid)?;
        let back = self.follow(&path);
        self.report.expect(back == Some(nid), CheckFinding::Path { nid });
        Ok(())
    }

    fn follow(&self, path: &[u8]) -> Option<Nid> {
        components(path).try_fold(self.image.root(), |nid, name| match self.image.lookup(nid, name) {
            // A path that goes up again is none that the writer made.
            Ok(Lookup::Found(found)) if is_name(name) => Some(found),
            _ => None,
        })
    }

    fn names(&mut self) {
        for nid in self.image.nodes() {
            let Ok(attributes) = self.image.attributes(nid) else { continue };
            let names = self.names.get(&nid).copied().unwrap_or_default();
            let expected = match attributes.kind {
                _ if nid == self.image.root() => names == 0,
                FileKind::Directory => names == 1,
                _ => names >= 1 && names <= attributes.nlink,
            };
            self.report.expect(expected, CheckFinding::Names { nid, names, links: attributes.nlink });
        }
    }

    fn overlaps(&mut self) {
        self.extents.sort_unstable();
        for pair in self.extents.windows(2) {
            let ((start, len, first), (next, _, second)) = (pair[0], pair[1]);
            self.report.expect(start.saturating_add(len) <= next, CheckFinding::Overlap { first, second });
        }
    }

    fn places(&mut self) {
        let index = self.image.index();
        let roots: Vec<_> = index.roots().collect();
        let live: Vec<_> = index.live_directories().collect();
        for list in [&roots, &live] {
            for (i, place) in list.iter().enumerate() {
                let ordered = i == 0 || {
                    let before: &IndexedDirectory<'_> = &list[i - 1];
                    before.path < place.path && !is_within(place.path, before.path)
                };
                let there = self.follow(place.path) == Some(place.nid);
                self.report.expect(ordered && there, CheckFinding::Place { path: place.path.to_vec() });
            }
        }
        for place in &live {
            let covered = roots.iter().any(|root| is_within(place.path, root.path));
            self.report.expect(covered, CheckFinding::Place { path: place.path.to_vec() });
        }
    }

    fn totals(&mut self) {
        let expected = self.image.index().totals();
        let found = ImageTotals { nodes: self.report.nodes, held_files: expected.held_files, ..self.totals };
        self.report.expect(found == expected, CheckFinding::Totals { expected, found });
    }
}
