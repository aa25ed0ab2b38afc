//! The threads that ask, and what each of them does for one name.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use quell_base::parallel::in_parallel;
use rustix::fs::{CWD, Dir, FileType};
use rustix::io::Errno;

use crate::in_memory::InMemory;
use crate::plan::{Expected, PlannedName, WarmPlan};
use crate::reading::{Piece, ReadBudget, Reading, attributes, open_directory, pieces};
use crate::spread::spread;
use crate::tally::{Tally, Warmed, count};

/// Warms this node's client.
pub struct Warmer<'a> {
    /// Operations that are in flight at once; 0 counts as 1.
    pub in_flight: usize,
    /// The part of the plan that is asked for.
    pub thrift: Thrift,
    /// Most bytes of files that are read.
    pub budget: u64,
    /// Asked often: true ends the work.
    pub stop: &'a (dyn Fn() -> bool + Sync),
    /// Told of the progress, often and by any thread.
    pub progress: &'a (dyn Fn(Warmed) + Sync),
}

/// The part of a plan that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thrift {
    /// All of it, before a program starts.
    Everything,
    /// The names and data that spare a running program as many operations as they cost the servers: a client keeps a name that was looked up, so
    /// the program need not. It does not keep the opening of a file, or most listings: only files of which much is read are opened,
    /// and names in directories that the program lists are left to that.
    WhatPays,
}

/// Bytes of a file from which on reading ahead spares more round trips than opening the file costs.
const MUCH: u64 = 256 << 10;

impl std::fmt::Debug for Warmer<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Warmer").field("in_flight", &self.in_flight).finish_non_exhaustive()
    }
}

/// One thing to do.
#[derive(Debug)]
enum Work<'p> {
    Name(&'p PlannedName),
    Piece(Piece<'p>),
}

impl Warmer<'_> {
    /// Asks for everything in `plan`, in its order. What lies on file systems in memory is left out and not counted.
    pub fn follow(&self, plan: &WarmPlan) -> Warmed {
        let in_memory = InMemory::of_this_node();
        let tally = Tally::default();
        let budget = ReadBudget::new(self.budget);
        let reading = Reading { in_memory: &in_memory, tally: &tally, budget, counts_names: true };
        let names = plan.names.iter().filter(|name| name.path.is_absolute() && !in_memory.holds(&name.path));
        let (mut listed, names): (Vec<_>, Vec<_>) = names.partition(|name| name.listed);
        listed.sort_by_key(|name| name.at);
        let with_names: HashSet<&Path> = listed.iter().map(|name| name.path.as_path()).collect();
        // A listing brings the names in it along on many clients, which then are looked up for nothing.
        self.each(&listed, &tally, |name| ask(name, self.thrift, &tally));
        let comes_along = |name: &PlannedName| {
            let is_there = name.expected == Some(Expected::There);
            is_there && name.path.parent().is_some_and(|parent| with_names.contains(parent))
        };
        let mut work: Vec<(u64, Work<'_>)> =
            names.into_iter().flat_map(|name| works(name, self.thrift)).collect();
        if self.thrift == Thrift::WhatPays {
            work.retain(|(_, work)| !matches!(work, Work::Name(name) if comes_along(name)));
        }
        work.sort_by_key(|(at, _)| *at);
        let work = spread(work, |(_, work)| work.place());
        self.each(&work, &tally, |(_, work)| match work {
            Work::Name(name) => ask(name, self.thrift, &tally),
            Work::Piece(piece) => piece.read(&reading, &|| !(self.stop)()),
        });
        tally.so_far()
    }

    /// Does `work` for each item, until it is to stop.
    pub(crate) fn each<'i, T: Sync>(&self, items: &'i [T], tally: &Tally, work: impl Fn(&'i T) + Sync) {
        in_parallel(items, self.in_flight, |item| {
            if !(self.stop)() {
                work(item);
                (self.progress)(tally.so_far());
            }
            Vec::<()>::new()
        });
    }
}

impl Work<'_> {
    /// The directory in which it looks a name up, or the file that it reads.
    fn place(&self) -> PathBuf {
        match self {
            Self::Name(name) => name.path.parent().unwrap_or(&name.path).to_owned(),
            Self::Piece(piece) => piece.path().to_owned(),
        }
    }
}

/// The work for a name, each piece with its place in the order.
fn works(name: &PlannedName, thrift: Thrift) -> Vec<(u64, Work<'_>)> {
    let mut works = Vec::new();
    if let Some(data) = &name.data {
        let whole = 0..data.version.map_or(u64::MAX, |(size, _)| size);
        let ranges = data.ranges.as_deref().unwrap_or(std::slice::from_ref(&whole));
        let bytes = ranges.iter().map(|range| range.end - range.start).fold(0, u64::saturating_add);
        if thrift == Thrift::Everything || bytes >= MUCH {
            let pieces = pieces(Cow::Borrowed(&name.path), data.version, ranges);
            works.extend(pieces.into_iter().map(|piece| (data.at, Work::Piece(piece))));
        }
    }
    // To open a file is to look its name up. Attributes before its data would be asked for twice.
    if works.is_empty() {
        works.push((name.at, Work::Name(name)));
    }
    works
}

fn ask(name: &PlannedName, thrift: Thrift, tally: &Tally) {
    match attributes(&name.path) {
        Ok(_) if name.expected == Some(Expected::Absent) => count(&tally.changed),
        Ok(stat) => {
            tally.named();
            let kind = FileType::from_raw_mode(stat.st_mode);
            let as_it_was = (!name.listed || kind.is_dir()) && (!name.link || kind.is_symlink());
            match as_it_was {
                true if name.listed && thrift == Thrift::Everything => _ = list(&name.path, tally),
                true if name.link => read_link(&name.path, tally),
                true => {}
                false => count(&tally.changed),
            }
        }
        Err(Errno::NOENT | Errno::NOTDIR) if name.expected == Some(Expected::There) => count(&tally.missing),
        Err(Errno::NOENT | Errno::NOTDIR) => count(&tally.names),
        Err(_) => count(&tally.skipped),
    }
}

/// Lists the directory at `path`, and asks for its attributes again. Returns its names, without `.` and `..`; none where it cannot be
/// listed, which is counted.
pub(crate) fn list(path: &Path, tally: &Tally) -> Vec<Vec<u8>> {
    let listing = open_directory(path).and_then(Dir::new).and_then(|mut directory| {
        let mut names = Vec::new();
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push(name.to_vec());
            }
        }
        // Attributes that cannot be had are none.
        _ = directory.stat();
        Ok(names)
    });
    match listing {
        Ok(names) => {
            count(&tally.listings);
            names
        }
        Err(_) => {
            count(&tally.skipped);
            Vec::new()
        }
    }
}

pub(crate) fn read_link(path: &Path, tally: &Tally) {
    match rustix::fs::readlinkat(CWD, path, Vec::new()) {
        Ok(_) => count(&tally.links),
        Err(_) => count(&tally.skipped),
    }
}
