//! Plans an extraction: the directories that come from the image, and the names within them that come from the originals.
//! Reads the image's names alone and asks no file system.
//!
//! Each name that is bound from the original costs a lookup on the shared file system when the namespace is made, so their
//! number is limited. Where an image would exceed the limit, directories with many such names for each file that they hold stay
//! the original, the worst first; completely known directories within them are still shown from the image.

use quell_image::{
    Beyond, Corrupt, Coverage, FileContent as Content, FileKind as Kind, FilePart as Part, Image, Nid,
};
use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::BINDS_MAX;
use crate::error::SetupStep;
use crate::staleness::Staleness;

/// The pieces to put in place, and the memory that they take.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct ExtractionPlan {
    /// In this order: a piece within another comes after it.
    pub(crate) pieces: Vec<ExtractionPiece>,
    /// Files that are held in part, and made whole from their originals; one with several names may be there several times.
    pub(crate) parts: Vec<PartFile>,
    /// Files that are copied.
    pub(crate) files: u64,
    /// Bytes of memory that they take.
    pub(crate) bytes: u64,
    /// Files of a complete image of which it has no content.
    pub(crate) unread: u64,
}

/// A file that is held in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartFile {
    /// The path of its original.
    pub(crate) path: PathBuf,
    pub(crate) nid: Nid,
}

/// One place in the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExtractionPiece {
    pub(crate) path: PathBuf,
    pub(crate) origin: PieceOrigin,
}

/// The content of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PieceOrigin {
    /// This directory of the image, with everything below.
    Image(Nid),
    /// The original.
    Original,
}

impl ExtractionPlan {
    /// The plan for `image` that takes at most [`BINDS_MAX`] names from the originals.
    ///
    /// **Errors** An image that contradicts itself.
    pub(crate) fn of<B: AsRef<[u8]>>(image: &Image<B>, staleness: &Staleness) -> Result<Self, Corrupt> {
        let mut plan = Self::within(image, staleness, None)?;
        let mut limits = QUARTERS_MAX.into_iter();
        while plan.bound() > BINDS_MAX
            && let Some(quarters) = limits.next()
        {
            plan = Self::within(image, staleness, Some(quarters))?;
        }
        Ok(plan)
    }

    /// The plan that shows no directory from the image with more than so many quarters of a bound name for each file held.
    fn within<B: AsRef<[u8]>>(
        image: &Image<B>,
        staleness: &Staleness,
        quarters: Option<u64>,
    ) -> Result<Self, Corrupt> {
        let index = image.index();
        let live = index.live_directories().map(|live| live.nid).collect();
        let mut planner = Planner {
            image,
            staleness,
            live,
            met: HashSet::new(),
            beyond: index.beyond(),
            shown: HashMap::new(),
            quarters_max: quarters,
            plan: Self::default(),
        };
        for root in index.roots() {
            planner.original(root.nid, Path::new(OsStr::from_bytes(root.path)), 0)?;
        }
        Ok(planner.plan)
    }

    /// The number of names that are bound from the originals.
    pub(crate) fn bound(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.origin == PieceOrigin::Original).count()
    }

    /// The step that fails if files without content in the image could be read nevertheless.
    pub(crate) fn unreadable(&self) -> SetupStep {
        SetupStep::ExtractUnread { files: self.unread }
    }

    /// The progress so far.
    ///
    /// Files without content are not part of it: a complete image has no originals, so nothing of its plan is forgotten.
    fn mark(&self) -> (usize, usize, u64, u64) {
        (self.pieces.len(), self.parts.len(), self.files, self.bytes)
    }

    /// Forgets what came after `mark`.
    fn back_to(&mut self, (pieces, parts, files, bytes): (usize, usize, u64, u64)) {
        self.pieces.truncate(pieces);
        self.parts.truncate(parts);
        (self.files, self.bytes) = (files, bytes);
    }
}

struct Planner<'i, B> {
    image: &'i Image<B>,
    staleness: &'i Staleness,
    live: HashSet<Nid>,
    /// Directories that were met: a forged image may have one within itself.
    met: HashSet<Nid>,
    beyond: Beyond,
    /// Decisions so far: true for a directory that is shown from the image.
    shown: HashMap<Nid, bool>,
    /// Most quarters of a bound name for each file held, in a directory that is shown from the image, if that is limited.
    quarters_max: Option<u64>,
    plan: ExtractionPlan,
}

impl<B: AsRef<[u8]>> Planner<'_, B> {
    /// A place that shows the original so far: a directory that is known completely is shown from the image, of others
    /// what is known within them.
    fn original(&mut self, directory: Nid, path: &Path, depth: usize) -> Result<(), Corrupt> {
        if self.live.contains(&directory) || self.staleness.is_altered(directory) || depth > DEPTH_MAX {
            return Ok(());
        }
        if self.is_shown(directory, depth)? {
            let before = self.plan.mark();
            self.plan
                .pieces
                .push(ExtractionPiece { path: path.to_owned(), origin: PieceOrigin::Image(directory) });
            // Nothing is held, so there is nothing to gain: the original as it is.
            if self.image_directory(directory, path, depth)? == Holds::OriginalsOnly {
                self.plan.back_to(before);
            }
            return Ok(());
        }
        if !self.met.insert(directory) {
            return Ok(());
        }
        for (name, nid, kind) in self.names(directory)? {
            if kind == Kind::Directory {
                self.original(nid, &path.join(OsStr::from_bytes(&name)), depth + 1)?;
            }
        }
        Ok(())
    }

    /// A place that shows the image: what the image does not hold is bound from the original.
    fn image_directory(&mut self, directory: Nid, path: &Path, depth: usize) -> Result<Holds, Corrupt> {
        let (mut held, mut bound) = (false, 0);
        if depth > DEPTH_MAX || !self.met.insert(directory) {
            return Ok(Holds::Names);
        }
        for (name, nid, kind) in self.names(directory)? {
            let path = path.join(OsStr::from_bytes(&name));
            match kind {
                Kind::Directory if self.live.contains(&nid) => {}
                Kind::Directory => match self.inner_directory(nid, &path, depth + 1)? {
                    Holds::Something => held = true,
                    Holds::OriginalsOnly => bound += 1,
                    Holds::Names => {}
                },
                Kind::Regular => match self.source(nid)? {
                    Source::Copied(bytes) => {
                        held |= bytes > 0;
                        self.copied(bytes);
                    }
                    Source::MadeWhole(bytes) => {
                        held = true;
                        self.copied(bytes);
                        self.plan.parts.push(PartFile { path, nid });
                    }
                    Source::Original => bound += usize::from(self.bind(path)),
                    Source::Nothing => self.plan.unread += 1,
                },
                Kind::CharacterDevice | Kind::BlockDevice => bound += usize::from(self.bind(path)),
                Kind::Symlink => self.plan.bytes += PAGE,
                Kind::Fifo | Kind::Socket => {}
            }
        }
        Ok(match (held, bound) {
            (true, _) => Holds::Something,
            (false, 0) => Holds::Names,
            (false, _) => Holds::OriginalsOnly,
        })
    }

    fn inner_directory(&mut self, directory: Nid, path: &Path, depth: usize) -> Result<Holds, Corrupt> {
        if self.is_shown(directory, depth)? {
            let before = self.plan.mark();
            let holds = self.image_directory(directory, path, depth)?;
            if holds == Holds::OriginalsOnly && self.plan.pieces.len() > before.0 + 1 {
                self.plan.back_to(before);
                self.bind(path.to_owned());
            }
            return Ok(holds);
        }
        self.bind(path.to_owned());
        let pieces = self.plan.pieces.len();
        self.original(directory, path, depth)?;
        Ok(if self.plan.pieces.len() > pieces { Holds::Something } else { Holds::OriginalsOnly })
    }

    /// Tells whether a directory is shown from the image, rather than as its original.
    fn is_shown(&mut self, directory: Nid, depth: usize) -> Result<bool, Corrupt> {
        if self.beyond == Beyond::Nothing {
            return Ok(true);
        }
        if let Some(known) = self.shown.get(&directory) {
            return Ok(*known);
        }
        // Until it is known, so that a directory within itself comes to an end.
        self.shown.insert(directory, false);
        let is_complete = self.image.coverage(directory)? == Coverage::Complete;
        let shown = is_complete
            && self.holds(directory)?
            && depth <= DEPTH_MAX
            && self.is_worth_it(directory, depth)?;
        self.shown.insert(directory, shown);
        Ok(shown)
    }

    /// Tells whether a directory still has the names that it had, and its links their targets: no link can be bound.
    fn holds(&self, directory: Nid) -> Result<bool, Corrupt> {
        if self.staleness.is_nothing() {
            return Ok(true);
        }
        let altered =
            |(_, nid, kind): &(Vec<u8>, Nid, Kind)| *kind == Kind::Symlink && self.staleness.is_altered(*nid);
        Ok(!self.staleness.is_renewed(directory) && !self.names(directory)?.iter().any(altered))
    }

    /// Tells whether the names of a directory that would be bound are not too many for the files that it holds.
    fn is_worth_it(&mut self, directory: Nid, depth: usize) -> Result<bool, Corrupt> {
        let Some(quarters) = self.quarters_max else { return Ok(true) };
        let (mut held, mut bound) = (0_u64, 0_u64);
        for (_, nid, kind) in self.names(directory)? {
            match kind {
                Kind::Directory if self.live.contains(&nid) => {}
                Kind::Directory => bound += u64::from(!self.is_shown(nid, depth + 1)?),
                Kind::Regular if self.source(nid)? == Source::Original => bound += 1,
                Kind::Regular => held += 1,
                Kind::CharacterDevice | Kind::BlockDevice => bound += 1,
                Kind::Symlink | Kind::Fifo | Kind::Socket => {}
            }
        }
        Ok(bound.saturating_mul(4) <= held.saturating_mul(quarters))
    }

    /// The source of a file's content.
    fn source(&self, file: Nid) -> Result<Source, Corrupt> {
        if self.staleness.is_altered(file) {
            return Ok(Source::Original);
        }
        let content = self.image.content(file)?;
        Ok(match content {
            Content::Held(content) => Source::Copied(content.len() as u64),
            Content::Part(part) if self.is_made_whole(&part) => Source::MadeWhole(part.size()),
            // Nothing of it has to come from anywhere.
            _ if self.image.attributes(file)?.size == 0 => Source::Copied(0),
            _ if self.beyond == Beyond::Nothing => Source::Nothing,
            Content::Part(_) | Content::Original => Source::Original,
        })
    }

    /// A file of `bytes` bytes that is copied.
    fn copied(&mut self, bytes: u64) {
        self.plan.files += 1;
        self.plan.bytes = self.plan.bytes.saturating_add(bytes.div_ceil(PAGE).saturating_mul(PAGE));
    }

    /// Tells whether the rest of a file is worth reading.
    fn is_made_whole(&self, part: &Part<'_>) -> bool {
        let held = part.held_bytes();
        self.beyond == Beyond::Originals && held > 0 && part.size().saturating_sub(held) <= REST_MAX
    }

    /// Takes a name from the original, if there are any.
    fn bind(&mut self, path: PathBuf) -> bool {
        let there = self.beyond == Beyond::Originals;
        if there {
            self.plan.pieces.push(ExtractionPiece { path, origin: PieceOrigin::Original });
        }
        there
    }

    fn names(&self, directory: Nid) -> Result<Vec<(Vec<u8>, Nid, Kind)>, Corrupt> {
        let entries = self.image.entries(directory)?;
        let named = |entry: quell_image::DirectoryEntry<'_>| (entry.name.to_vec(), entry.nid, entry.kind);
        entries
            .filter(|entry| entry.as_ref().map_or(true, |entry| !entry.is_dot()))
            .map(|entry| entry.map(named))
            .collect()
    }
}

/// The source of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// The image. Unit: bytes.
    Copied(u64),
    /// The image and the original. Unit: bytes.
    MadeWhole(u64),
    /// The original.
    Original,
    /// Nowhere: the image is complete and has none.
    Nothing,
}

/// The files that a directory of the image holds, with all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Content.
    Something,
    /// Names, and nothing that would have to come from the originals.
    Names,
    /// Nothing but what would have to come from the originals.
    OriginalsOnly,
}

/// Quarters of a bound name that a directory may have for each file that it holds. Each is tried in this order while there are
/// too many bound names. With the last one no name is bound: a directory is shown from the image with all below it, or not at all.
const QUARTERS_MAX: [u64; 8] = [256, 64, 16, 8, 4, 2, 1, 0];

/// Deeper directories have no path that could be opened; a forged image cannot make this recurse further.
const DEPTH_MAX: usize = 2048;

/// The unit to which a tmpfs rounds up a file.
const PAGE: u64 = 4096;

/// Most bytes of a file that are read from its original to make it whole. A larger one is bound from the original: one name,
/// of which the program reads a little.
const REST_MAX: u64 = 256 << 20;
