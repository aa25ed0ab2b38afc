//! Several containers as one tree.
//!
//! A container whose programs saw another one hides what that has of the same name. Containers that know nothing of each other, as
//! those of the nodes of one job, add up; where two of them have a name, that is a conflict, unless it is a directory in both
//! or the files are equal.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::PathBuf;

use quell_base::files::is_anothers;
use rustix::fs::FileType;

use crate::container::{Container, ContainerError, read_extents};
use crate::contents::Entry;
use crate::ops::{DirectoryOrigin, PIECE, Piece, TOP, Time};

/// A container with its file.
#[derive(Debug)]
pub struct OpenContainer {
    /// Its path, for messages.
    pub path: PathBuf,
    /// The file, for its content.
    pub file: File,
    /// The rest.
    pub container: Container,
    /// This user or root wrote it, and no other user can have changed it.
    pub is_trusted: bool,
    /// The time at which it was last written to.
    pub written: Time,
}

impl OpenContainer {
    /// Reads a container.
    ///
    /// # Errors
    /// Those of [`Container::read`], and `NotAFile`.
    pub fn read(path: PathBuf, file: File) -> Result<Self, ContainerError> {
        let stat = rustix::fs::fstat(&file).map_err(std::io::Error::from)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(ContainerError::NotAFile);
        }
        let container = Container::read(&file)?;
        let is_trusted = !is_anothers(&stat) && stat.st_mode & 0o022 == 0;
        let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
        let written = Time { seconds: stat.st_mtime, nanoseconds };
        Ok(Self { path, file, container, is_trusted, written })
    }
}

/// A file of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seen {
    /// The place of the container in [`View::containers`].
    pub container: usize,
    /// The number of the inode in it.
    pub id: u64,
}

/// A path that several containers have, none of which saw the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The path, below the directory that was gathered.
    pub path: Vec<u8>,
    /// The containers, by their place.
    pub containers: Vec<usize>,
}

/// Several containers as one tree.
#[derive(Debug)]
pub struct View {
    /// The containers, in the order in which they were given.
    pub containers: Vec<OpenContainer>,
    /// Each path that is there. **Shape** sorted, so that a directory comes before what is in it.
    pub paths: BTreeMap<Vec<u8>, Seen>,
    /// Paths that programs removed from the real directory, or from a container that is not among these, with the place of the
    /// container that tells so: the last, if there are several.
    pub removed: BTreeMap<Vec<u8>, usize>,
    /// Paths that are left out. **Shape** sorted by path.
    pub conflicts: Vec<Conflict>,
}

impl View {
    /// Puts containers together.
    pub fn new(containers: Vec<OpenContainer>) -> Self {
        let hidden = hidden_by_others(&containers);
        let mut found: BTreeMap<Vec<u8>, Vec<(usize, Option<u64>)>> = BTreeMap::new();
        for (place, open) in containers.iter().enumerate() {
            for (path, id) in open.container.contents.paths() {
                found.entry(path).or_default().push((place, id));
            }
        }
        let mut view =
            Self { containers, paths: BTreeMap::new(), removed: BTreeMap::new(), conflicts: Vec::new() };
        let paths: Vec<Vec<u8>> = found.keys().cloned().collect();
        let mut above = Above::default();
        for path in paths {
            let claims = found.get(&path).cloned().unwrap_or_default();
            let claimed = claims.iter().map(|(place, _)| *place);
            let claimed: Vec<usize> = claimed.chain(above.makers(&path)).collect();
            let is_hidden = |place: usize| claimed.iter().any(|other| hidden[*other].contains(&place));
            let claims: Vec<_> = claims.into_iter().filter(|(place, _)| !is_hidden(*place)).collect();
            if claims.is_empty() || above.is_gone(&path) {
                continue;
            }
            view.settle(path, &claims, &mut above);
        }
        view
    }

    fn settle(&mut self, path: Vec<u8>, claims: &[(usize, Option<u64>)], above: &mut Above) {
        let there =
            claims.iter().filter_map(|(container, id)| Some(Seen { container: *container, id: (*id)? }));
        let there: Vec<Seen> = there.collect();
        let Some((first, others)) = there.split_first() else {
            above.gone.insert(path.clone());
            let last =
                claims.iter().map(|(place, _)| *place).max_by_key(|place| self.containers[*place].written);
            self.removed.insert(path, last.unwrap_or_default());
            return;
        };
        // Entries that other containers have in a directory that was made anew are not in it.
        let makers = there.iter().filter(|seen| self.entry(**seen).is_some_and(is_new));
        let makers: Vec<usize> = makers.map(|seen| seen.container).collect();
        if !makers.is_empty() {
            above.made.insert(path.clone(), makers);
        }
        if others.iter().all(|other| self.are_alike(*first, *other)) {
            // A directory that programs made is one that must be made. Of other attributes the last count.
            let is_made = |seen: &&Seen| self.entry(**seen).is_some_and(is_new);
            let is_changed =
                |seen: &&Seen| self.entry(**seen).and_then(Entry::origin) == Some(DirectoryOrigin::Changed);
            let changed = there.iter().filter(is_changed);
            let changed = changed.max_by_key(|seen| self.containers[seen.container].written);
            let best = there.iter().find(is_made).or(changed).unwrap_or(first);
            self.paths.insert(path, *best);
            return;
        }
        above.gone.insert(path.clone());
        let containers = there.iter().map(|seen| seen.container).collect();
        self.conflicts.push(Conflict { path, containers });
    }

    /// The top with the attributes that programs gave it last; `None` where they gave it none.
    pub fn changed_top(&self) -> Option<Seen> {
        let tops = (0..self.containers.len()).map(|container| Seen { container, id: TOP });
        let changed =
            tops.filter(|top| self.entry(*top).and_then(Entry::origin) == Some(DirectoryOrigin::Changed));
        changed.max_by_key(|top| self.containers[top.container].written)
    }

    /// The inode of a path.
    pub fn entry(&self, seen: Seen) -> Option<&Entry> {
        self.containers.get(seen.container)?.container.contents.entry(seen.id)
    }

    fn are_alike(&self, one: Seen, other: Seen) -> bool {
        let (Some(one), Some(other)) = (self.entry(one), self.entry(other)) else { return false };
        if one.is_directory() || other.is_directory() {
            return one.is_directory() && other.is_directory();
        }
        let sums = |entry: &Entry| -> Vec<_> {
            entry.pieces.iter().map(|(number, extents)| (*number, sum_of(extents))).collect()
        };
        one.node.kind == other.node.kind
            && (one.node.size, one.node.mode) == (other.node.size, other.node.mode)
            && sums(one) == sums(other)
    }

    /// Fills `buffer` with the content of a file, and zeros where nothing was written.
    ///
    /// # Errors
    /// [`ContainerError::Damaged`], and those of reading the container.
    pub fn read(&self, seen: Seen, offset: u64, buffer: &mut [u8]) -> Result<(), ContainerError> {
        buffer.fill(0);
        let Some(entry) = self.entry(seen) else { return Ok(()) };
        let end = offset.saturating_add(buffer.len() as u64);
        let file = &self.containers[seen.container].file;
        for (number, extents) in entry.pieces.range(offset / PIECE..end.div_ceil(PIECE)) {
            let bytes = read_extents(file, extents)?;
            let base = number * PIECE;
            let (from, to) = (offset.max(base), end.min(base + bytes.len() as u64));
            if from < to {
                buffer[(from - offset) as usize..(to - offset) as usize]
                    .copy_from_slice(&bytes[(from - base) as usize..(to - base) as usize]);
            }
        }
        Ok(())
    }

    /// The names of each file that has several. **Shape** sorted.
    pub fn links(&self) -> HashMap<Seen, Vec<&[u8]>> {
        let mut names: HashMap<Seen, Vec<&[u8]>> = HashMap::new();
        let files = self
            .paths
            .iter()
            .filter(|(_, seen)| self.entry(**seen).is_some_and(|entry| !entry.is_directory()));
        for (path, seen) in files {
            names.entry(*seen).or_default().push(path);
        }
        names.retain(|_, names| names.len() > 1);
        names
    }
}

/// Length and checksum of a piece, however it has grown.
fn sum_of(extents: &[Piece]) -> (u64, u32) {
    extents.iter().fold((0, 0), |(length, sum), extent| {
        let more = u64::from(extent.length);
        (length + more, crc32c::crc32c_combine(sum, extent.sum, extent.length as usize))
    })
}

fn is_new(entry: &Entry) -> bool {
    matches!(entry.origin(), Some(DirectoryOrigin::New | DirectoryOrigin::Replacing))
}

/// The directories above the paths that come next.
#[derive(Default)]
struct Above {
    /// Nothing is in them.
    gone: BTreeSet<Vec<u8>>,
    /// Containers whose programs made them.
    made: BTreeMap<Vec<u8>, Vec<usize>>,
}

impl Above {
    fn is_gone(&self, path: &[u8]) -> bool {
        !self.gone.is_empty() && parents(path).any(|parent| self.gone.contains(parent))
    }

    fn makers(&self, path: &[u8]) -> Vec<usize> {
        parents(path).filter_map(|parent| self.made.get(parent)).flatten().copied().collect()
    }
}

fn parents(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    slashes.map(|(at, _)| &path[..at])
}

/// For each container, those whose programs' work it saw, by their place.
fn hidden_by_others(containers: &[OpenContainer]) -> Vec<BTreeSet<usize>> {
    let begins: Vec<_> = containers.iter().map(|open| &open.container.contents.begin).collect();
    let states = containers.iter().map(|open| (open.container.contents.begin.number, open.container.length));
    let places: HashMap<([u8; 16], u64), usize> = states.zip(0..).collect();
    let seen = |begin: &&crate::Begin| -> BTreeSet<usize> {
        begin.seen.iter().filter_map(|state| places.get(state).copied()).collect()
    };
    let direct: Vec<BTreeSet<usize>> = begins.iter().map(seen).collect();
    let all = |place: usize| {
        let (mut found, mut open) = (BTreeSet::new(), vec![place]);
        while let Some(next) = open.pop() {
            open.extend(direct[next].iter().filter(|other| **other != place && found.insert(**other)));
        }
        found
    };
    (0..containers.len()).map(all).collect()
}
