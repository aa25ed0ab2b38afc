//! Reading the index: the header once, everything else in place.

use std::fmt;

use crate::bytes::{array, span, u32_at, u64_at};
use crate::error::OpenError;
use crate::index::row::{ROW, Row};
use crate::index::{
    CHECKED_FROM, CHECKSUM_AT, COMPLETE, DIRECTORY_AT, FLAGS_AT, HEADER, IDENTITY_AT, ImageIdentity, MAGIC,
    PLACE, SECTIONS_AT, STRING, VERSION,
};
use crate::model::{Beyond, Nid};

/// A directory that the image covers, or one below it that it must leave alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedDirectory<'a> {
    /// Original absolute path, without a slash at its end.
    pub path: &'a [u8],
    /// Node of the directory in the image.
    pub nid: Nid,
    /// The reason for choosing it: a sentence.
    pub reason: &'a str,
    /// Type of the file system as the kernel names it (`lustre`, `nfs4`, `fuse.mfs`); empty if not known.
    pub file_system: &'a str,
}

/// Totals of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ImageTotals {
    /// Regular files whose content is held.
    pub held_files: u64,
    /// Nodes of any kind.
    pub nodes: u64,
    /// Bytes of content held.
    pub content_bytes: u64,
}

/// Offsets of the sections in the index. Range: within the index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sections {
    rows: Section,
    roots: Section,
    live: Section,
    command: Section,
    absences: Section,
    pool: Section,
    totals: ImageTotals,
    identity: ImageIdentity,
}

#[derive(Debug, Clone, Copy)]
struct Section {
    offset: usize,
    count: usize,
}

impl Sections {
    /// Parses and verifies the header, the checksum, and the lists that are read as a whole.
    pub(crate) fn parse(index: &[u8]) -> Result<Self, OpenError> {
        if index.get(..8) != Some(MAGIC) {
            return Err(OpenError::NotQuell);
        }
        let version = u32_at(index, 8).ok_or(OpenError::NotQuell)?;
        if version > VERSION {
            return Err(OpenError::Newer { found: version, supported: VERSION });
        }
        if index.len() < HEADER || u64_at(index, 16) != Some(index.len() as u64) {
            return Err(OpenError::IndexBounds { part: "length" });
        }
        let (expected, found) =
            (crc32c::crc32c(&index[CHECKED_FROM..]), u32_at(index, CHECKSUM_AT).unwrap_or_default());
        if expected != found {
            return Err(OpenError::IndexChecksum { expected, found });
        }
        let section =
            |number, size, part| section(index, number, size).ok_or(OpenError::IndexBounds { part });
        let number = |at| u64_at(index, at).unwrap_or_default();
        let sections = Self {
            rows: section(0, ROW, "table of rows")?,
            roots: section(1, PLACE, "list of roots")?,
            live: section(2, PLACE, "list of live directories")?,
            command: section(3, STRING, "command")?,
            absences: section(4, STRING, "list of absences")?,
            pool: section(5, 1, "pool of strings")?,
            totals: ImageTotals { held_files: number(56), nodes: number(64), content_bytes: number(72) },
            identity: ImageIdentity(array(index, IDENTITY_AT).unwrap_or_default()),
        };
        // A flag that is not known may change what everything else means.
        if number(FLAGS_AT) & !COMPLETE != 0 {
            return Err(OpenError::IndexBounds { part: "flags" });
        }
        sections.verify_lists(index)?;
        Ok(sections)
    }

    fn verify_lists(&self, index: &[u8]) -> Result<(), OpenError> {
        let view = ImageIndex { bytes: index, sections: self };
        for (list, part) in [(self.roots, "list of roots"), (self.live, "list of live directories")] {
            let sound = (0..list.count).all(|i| view.place(list, i).is_some());
            sound.then_some(()).ok_or(OpenError::IndexBounds { part })?;
        }
        let sound = (0..self.command.count).all(|i| view.argument(i).is_some());
        sound.then_some(()).ok_or(OpenError::IndexBounds { part: "command" })?;
        view.string(index, DIRECTORY_AT).map(drop).ok_or(OpenError::IndexBounds { part: "directory" })
    }
}

/// Section `number` of records of `size` bytes, if it lies within the index.
fn section(index: &[u8], number: usize, size: usize) -> Option<Section> {
    let at = SECTIONS_AT + number * 16;
    let (offset, count) = (u64_at(index, at)?, u64_at(index, at + 8)?);
    span(index, offset, count.checked_mul(size as u64)?)?;
    Some(Section { offset: usize::try_from(offset).ok()?, count: usize::try_from(count).ok()? })
}

/// The index of an open image.
#[derive(Clone, Copy)]
pub struct ImageIndex<'a> {
    bytes: &'a [u8],
    sections: &'a Sections,
}

impl fmt::Debug for ImageIndex<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Index").field("sections", self.sections).finish_non_exhaustive()
    }
}

impl<'a> ImageIndex<'a> {
    pub(crate) fn new(bytes: &'a [u8], sections: &'a Sections) -> Self {
        Self { bytes, sections }
    }

    /// Version of the index's format.
    pub fn version(&self) -> u32 {
        // `open` refuses an index that is too short for it.
        u32_at(self.bytes, 8).unwrap_or_default()
    }

    /// Identity of the image.
    pub fn identity(&self) -> ImageIdentity {
        self.sections.identity
    }

    /// Files, nodes and bytes.
    pub fn totals(&self) -> ImageTotals {
        self.sections.totals
    }

    /// The directories that the image covers, sorted by path; none lies below another.
    pub fn roots(&self) -> impl ExactSizeIterator<Item = IndexedDirectory<'a>> + use<'a> {
        self.places(self.sections.roots)
    }

    /// Directories below a root that must stay the original, sorted by path; none lies below another.
    pub fn live_directories(&self) -> impl ExactSizeIterator<Item = IndexedDirectory<'a>> + use<'a> {
        self.places(self.sections.live)
    }

    /// The command that was recorded, argument by argument.
    pub fn command(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let view = *self;
        // `open` refuses an index in which an argument is out of bounds.
        (0..self.sections.command.count).map(move |i| view.argument(i).unwrap_or_default())
    }

    /// Working directory of the recorded command; empty if it is not known.
    pub fn directory(&self) -> &'a [u8] {
        // `open` refuses an index in which it is out of bounds.
        self.string(self.bytes, DIRECTORY_AT).unwrap_or_default()
    }

    /// The source of answers that the image does not hold.
    pub fn beyond(&self) -> Beyond {
        match u64_at(self.bytes, FLAGS_AT).unwrap_or_default() & COMPLETE {
            0 => Beyond::Originals,
            _ => Beyond::Nothing,
        }
    }

    /// Number of rows, one for each inode.
    pub(crate) fn row_count(&self) -> usize {
        self.sections.rows.count
    }

    /// Row `number`; `None` beyond the last or if it is not well formed.
    pub(crate) fn row(&self, number: u32) -> Option<Row> {
        Row::parse(self.record(self.sections.rows, usize::try_from(number).ok()?, ROW)?)
    }

    /// The absences of a directory; `None` if they are not within the section.
    pub(crate) fn absences(&self, row: &Row) -> Option<Absences<'a>> {
        let first = usize::try_from(row.first).ok()?;
        let count = usize::try_from(row.count).ok()?;
        let within = first.checked_add(count)? <= self.sections.absences.count;
        within.then_some(Absences { index: *self, first, count })
    }

    fn places(&self, list: Section) -> impl ExactSizeIterator<Item = IndexedDirectory<'a>> + use<'a> {
        let view = *self;
        let nowhere = IndexedDirectory { path: b"", nid: Nid::new(0), reason: "", file_system: "" };
        // `open` refuses an index in which a place is out of bounds.
        (0..list.count).map(move |i| view.place(list, i).unwrap_or(nowhere))
    }

    fn place(&self, list: Section, i: usize) -> Option<IndexedDirectory<'a>> {
        let raw = self.record(list, i, PLACE)?;
        Some(IndexedDirectory {
            nid: Nid::new(u64_at(raw, 0)?),
            path: self.string(raw, 8)?,
            reason: str::from_utf8(self.string(raw, 16)?).ok()?,
            file_system: str::from_utf8(self.string(raw, 24)?).ok()?,
        })
    }

    fn argument(&self, i: usize) -> Option<&'a [u8]> {
        self.string(self.record(self.sections.command, i, STRING)?, 0)
    }

    fn record(&self, section: Section, i: usize, size: usize) -> Option<&'a [u8]> {
        let start = section.offset.checked_add(i.checked_mul(size)?)?;
        (i < section.count).then(|| self.bytes.get(start..start.checked_add(size)?)).flatten()
    }

    /// The string that the reference at `at` of `raw` means.
    fn string(&self, raw: &[u8], at: usize) -> Option<&'a [u8]> {
        let (offset, len) = (u32_at(raw, at)?, u32_at(raw, at + 4)?);
        let pool = self.bytes.get(self.sections.pool.offset..)?.get(..self.sections.pool.count)?;
        span(pool, offset.into(), len.into())
    }
}

/// The names that the recordings looked for in a directory and that are absent, sorted by byte.
#[derive(Debug, Clone, Copy)]
pub struct Absences<'a> {
    index: ImageIndex<'a>,
    first: usize,
    count: usize,
}

impl<'a> Absences<'a> {
    /// Number of names.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Tells whether no absence is known.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Name `i`; `None` beyond the last or out of the pool's bounds.
    pub fn name(&self, i: usize) -> Option<&'a [u8]> {
        let section = self.index.sections.absences;
        let raw = (i < self.count).then(|| self.index.record(section, self.first + i, STRING)).flatten()?;
        self.index.string(raw, 0)
    }

    /// Tells whether `name` is known to be absent; `None` if a name on the way is out of bounds.
    pub fn contains(&self, name: &[u8]) -> Option<bool> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.name(middle)?.cmp(name) {
                std::cmp::Ordering::Equal => return Some(true),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Some(false)
    }
}
