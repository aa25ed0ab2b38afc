//! Paths in both runs: which went away, which came, which are asked more or less, or served by another file system.
//!
//! A path that is in one run only is compared by its folded name ([`super::fold`]), so that names which change by
//! themselves do not stand there as gone and new.

use super::Change;
use super::fold::{fold, job_number};
use crate::{PathCounts, Summary};
use quell_base::escape;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

/// The paths of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths {
    /// Those that were asked differently. Shape: by the change of metadata operations, most first, then by path.
    pub changed: Vec<PathPair>,
    /// Those that were asked alike.
    pub same: Share,
    /// Paths whose names change from run to run and that stand in rows together with others.
    pub folded: u64,
    /// These rows, whether something changed in them or not.
    pub folded_rows: u64,
}

/// A path in both runs, or several whose names change from run to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPair {
    /// The path; escaped. What changes from run to run is `[..]` where it stands for several.
    pub path: String,
    /// The paths that it stands for.
    pub paths: u64,
    /// Its operations in the first run.
    pub a: PathCounts,
    /// Its operations in the second run.
    pub b: PathCounts,
}

/// Paths of which the same became.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Rows of them: paths, those that are folded together counting once.
    pub paths: u64,
    /// Metadata operations of the first run.
    pub a: u64,
    /// Metadata operations of the second run.
    pub b: u64,
}

impl PathPair {
    /// The change.
    pub fn change(&self) -> Change {
        match Change::of(self.a.metadata_operations, self.b.metadata_operations) {
            Change::Otherwise if self.a == self.b => Change::Same,
            Change::Otherwise if self.a.served_by != self.b.served_by => Change::Moved,
            change => change,
        }
    }
}

impl Paths {
    /// The paths of each change, with their operations. Shape: one entry for each change that there is, in the
    /// order of [`Change::ALL`].
    pub fn shares(&self) -> Vec<(Change, Share)> {
        let mut shares = BTreeMap::from([(Change::Same, self.same)]);
        for pair in &self.changed {
            shares.entry(pair.change()).or_default().add(pair);
        }
        shares.into_iter().filter(|(_, share)| share.paths > 0).collect()
    }

    /// The paths on which operations are repeated more or less often. Shape: at most `count`, by that change, most
    /// first, then as in [`Self::changed`].
    pub fn repeats(&self, count: usize) -> Vec<&PathPair> {
        let change = |pair: &PathPair| pair.a.repeated.abs_diff(pair.b.repeated);
        let mut pairs: Vec<&PathPair> = self.changed.iter().filter(|pair| change(pair) > 0).collect();
        pairs.sort_by_key(|pair| Reverse(change(pair)));
        pairs.truncate(count);
        pairs
    }
}

/// Paths that have something in their name in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Common<'a> {
    /// The directory, or the last component; escaped.
    pub name: &'a str,
    /// Their share of the change.
    pub share: Share,
}

/// The part of a path that rows have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonBy {
    /// The directory that they are in.
    Directory,
    /// Their last component.
    Name,
}

impl Paths {
    /// The changed paths, put together. Shape: those that two and more have in common, by the change of operations,
    /// most first, then by name.
    pub fn common(&self, by: CommonBy) -> Vec<Common<'_>> {
        let mut shares: BTreeMap<&str, Share> = BTreeMap::new();
        for pair in &self.changed {
            let (directory, name) = pair.path.rsplit_once('/').unwrap_or(("", &pair.path));
            let key = match by {
                CommonBy::Directory if directory.is_empty() => "/",
                CommonBy::Directory => directory,
                CommonBy::Name => name,
            };
            shares.entry(key).or_default().add(pair);
        }
        let common = shares.into_iter().filter(|(_, share)| share.paths > 1 && share.a != share.b);
        let mut common: Vec<_> = common.map(|(name, share)| Common { name, share }).collect();
        common.sort_by_key(|common| Reverse(common.share.a.abs_diff(common.share.b)));
        common
    }
}

impl Share {
    fn add(&mut self, pair: &PathPair) {
        self.paths += 1;
        self.a += pair.a.metadata_operations;
        self.b += pair.b.metadata_operations;
    }
}

/// A row while paths of one run only are being put together.
#[derive(Default)]
struct PathGroup<'a> {
    first: &'a [u8],
    paths: u64,
    a: PathCounts,
    b: PathCounts,
}

pub(super) fn compare(a: &Summary, b: &Summary) -> Paths {
    let mut paths = Paths::default();
    for (path, counts) in &a.paths {
        if let Some(&other) = b.paths.get(path) {
            paths.take(PathPair { path: escape(path), paths: 1, a: *counts, b: other });
        }
    }
    for (name, group) in groups(a, b) {
        let path = if group.paths == 1 { group.first } else { &name };
        if group.paths > 1 {
            paths.folded += group.paths;
            paths.folded_rows += 1;
        }
        paths.take(PathPair { path: escape(path), paths: group.paths, a: group.a, b: group.b });
    }
    paths.changed.sort_by(|x, y| {
        let change = |pair: &PathPair| pair.a.metadata_operations.abs_diff(pair.b.metadata_operations);
        change(y).cmp(&change(x)).then_with(|| x.path.cmp(&y.path))
    });
    paths
}

impl Paths {
    fn take(&mut self, pair: PathPair) {
        match pair.change() {
            Change::Same => self.same.add(&pair),
            _ => self.changed.push(pair),
        }
    }
}

/// The paths that are in one run only, by their folded names.
fn groups<'a>(a: &'a Summary, b: &'a Summary) -> HashMap<Vec<u8>, PathGroup<'a>> {
    let mut groups: HashMap<Vec<u8>, PathGroup> = HashMap::new();
    for (mine, other, is_a) in [(a, b, true), (b, a, false)] {
        let jobs = mine.recordings.iter().filter_map(|facts| job_number(facts.job.as_deref()?));
        let mut jobs: Vec<&[u8]> = jobs.collect();
        jobs.sort_unstable();
        jobs.dedup();
        for (path, counts) in mine.paths.iter().filter(|(path, _)| !other.paths.contains_key(*path)) {
            let group = groups.entry(fold(path, &jobs).unwrap_or_else(|| path.to_vec())).or_default();
            group.first = path;
            group.paths += 1;
            *(if is_a { &mut group.a } else { &mut group.b }) += *counts;
        }
    }
    groups
}
