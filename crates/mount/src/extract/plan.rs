//! What an extraction shows where: which directories come from the image, and which names within them from the originals.
//! Looks at the image's names only; no file system is asked anything.

use quell_image::{Beyond, Content, Corrupt, Coverage, Image, Kind, Nid, Part};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is put in place, and how much it takes.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// In this order: what lies within another comes after it.
    pub(crate) pieces: Vec<Piece>,
    /// Files that are held in part, and made whole from their originals; one with several names may be there several times.
    pub(crate) parts: Vec<PartFile>,
    /// Files that are copied.
    pub(crate) files: u64,
    /// Bytes of memory that they take.
    pub(crate) bytes: u64,
}

/// A file that is held in part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartFile {
    /// Where its original is.
    pub(crate) path: PathBuf,
    pub(crate) nid: Nid,
}

/// One place in the namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) path: PathBuf,
    pub(crate) from: From,
}

/// What a place shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum From {
    /// This directory of the image, with everything below.
    Image(Nid),
    /// The original.
    Original,
}

impl Plan {
    /// The plan for `image`.
    ///
    /// **Errors** An image that contradicts itself.
    pub(crate) fn of<B: AsRef<[u8]>>(image: &Image<B>) -> Result<Self, Corrupt> {
        let index = image.index();
        let live = index.live_directories().map(|live| live.nid).collect();
        let mut planner =
            Planner { image, live, met: HashSet::new(), beyond: index.beyond(), plan: Self::default() };
        for root in index.roots() {
            planner.original(root.nid, Path::new(OsStr::from_bytes(root.path)), 0)?;
        }
        Ok(planner.plan)
    }

    /// How many names come from the originals.
    pub(crate) fn bound(&self) -> usize {
        self.pieces.iter().filter(|piece| piece.from == From::Original).count()
    }

    /// How far it has come.
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
    live: HashSet<Nid>,
    /// Directories that were met: a forged image may have one within itself.
    met: HashSet<Nid>,
    beyond: Beyond,
    plan: Plan,
}

impl<B: AsRef<[u8]>> Planner<'_, B> {
    /// A place that shows the original so far: a directory that is known completely is shown from the image, of others
    /// what is known within them.
    fn original(&mut self, directory: Nid, path: &Path, depth: usize) -> Result<(), Corrupt> {
        if self.live.contains(&directory) || depth > DEPTH_MAX {
            return Ok(());
        }
        if self.beyond == Beyond::Nothing || self.image.coverage(directory)? == Coverage::Complete {
            let before = self.plan.mark();
            self.plan.pieces.push(Piece { path: path.to_owned(), from: From::Image(directory) });
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
                Kind::Regular => match self.image.content(nid)? {
                    Content::Held(content) => {
                        held |= !content.is_empty();
                        self.copied(content.len() as u64);
                    }
                    Content::Part(part) if self.is_made_whole(&part) => {
                        held = true;
                        self.copied(part.size());
                        self.plan.parts.push(PartFile { path, nid });
                    }
                    Content::Part(_) | Content::Original => bound += usize::from(self.bind(path)),
                },
                Kind::CharacterDevice | Kind::BlockDevice => bound += usize::from(self.bind(path)),
                Kind::Symlink | Kind::Fifo | Kind::Socket => {}
            }
        }
        Ok(match (held, bound) {
            (true, _) => Holds::Something,
            (false, 0) => Holds::Names,
            (false, _) => Holds::OriginalsOnly,
        })
    }

    fn inner_directory(&mut self, directory: Nid, path: &Path, depth: usize) -> Result<Holds, Corrupt> {
        if self.beyond == Beyond::Nothing || self.image.coverage(directory)? == Coverage::Complete {
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

    /// A file of `bytes` bytes that is copied.
    fn copied(&mut self, bytes: u64) {
        self.plan.files += 1;
        self.plan.bytes = self.plan.bytes.saturating_add(bytes.div_ceil(PAGE).saturating_mul(PAGE));
    }

    /// Whether the rest of a file is worth reading.
    fn is_made_whole(&self, part: &Part<'_>) -> bool {
        let held = part.held_bytes();
        self.beyond == Beyond::Originals && held > 0 && part.size().saturating_sub(held) <= REST_MAX
    }

    /// Takes a name from the original, if there are any.
    fn bind(&mut self, path: PathBuf) -> bool {
        let there = self.beyond == Beyond::Originals;
        if there {
            self.plan.pieces.push(Piece { path, from: From::Original });
        }
        there
    }

    fn names(&self, directory: Nid) -> Result<Vec<(Vec<u8>, Nid, Kind)>, Corrupt> {
        let entries = self.image.entries(directory)?;
        let named = |entry: quell_image::Entry<'_>| (entry.name.to_vec(), entry.nid, entry.kind);
        entries
            .filter(|entry| entry.as_ref().map_or(true, |entry| !entry.is_dot()))
            .map(|entry| entry.map(named))
            .collect()
    }
}

/// What a directory of the image has to offer, with all below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Holds {
    /// Content.
    Something,
    /// Names, and nothing that would have to come from the originals.
    Names,
    /// Nothing but what would have to come from the originals.
    OriginalsOnly,
}

/// Deeper directories have no path that could be opened; a forged image cannot make this recurse further.
const DEPTH_MAX: usize = 2048;

/// What a file on a tmpfs is rounded up to.
const PAGE: u64 = 4096;

/// Most bytes of a file that are read from its original to make it whole. A larger one is bound from the original: one name,
/// of which the program reads a little.
const REST_MAX: u64 = 256 << 20;
