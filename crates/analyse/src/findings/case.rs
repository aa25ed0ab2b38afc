//! The input of rules: a summary with its paths in order, the limits in force, and the file systems that count.

use super::effect::{Effect, RemovedKind};
use super::limits::FindingLimit;
use super::words::is_within;
use super::{LimitsInForce, Threshold, words};
use crate::{PathCounts, RankingScope, Summary};
use quell_trace::ServedBy;

/// A summary as rules see it.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) summary: &'a Summary,
    pub(super) limits: &'a LimitsInForce,
    /// Shape: sorted by path; those on file systems that count.
    pub(super) paths: Vec<(&'a [u8], &'a PathCounts)>,
    /// The network when it, or an image over it, served anything: local operations then cost no other node anything.
    pub(super) scope: RankingScope,
    /// Recordings, at least 1.
    pub(super) starts: u64,
    /// Metadata operations of the whole.
    pub(super) total: u64,
}

impl<'a> Case<'a> {
    pub(super) fn new(summary: &'a Summary, limits: &'a LimitsInForce) -> Self {
        let shared = summary.served.network + summary.served.quell > 0;
        let scope = if shared { RankingScope::Network } else { RankingScope::All };
        let counts = |path: &[u8], counts: &PathCounts| match scope {
            RankingScope::Network => counts.served_by == Some(ServedBy::Network),
            RankingScope::All => !is_of_the_kernel(path),
        };
        let paths = summary.paths.iter().map(|(path, counts)| (&**path, counts));
        let mut paths: Vec<_> = paths.filter(|(path, of)| counts(path, of)).collect();
        paths.sort_unstable_by_key(|(path, _)| *path);
        let starts = summary.recordings.len().max(1) as u64;
        Self { summary, limits, paths, scope, starts, total: summary.totals().metadata_operations }
    }

    /// The limit in force.
    pub(super) fn limit(&self, limit: &FindingLimit) -> Threshold {
        let threshold = limit.threshold;
        let value = self.limits.thresholds.get(threshold.name).copied().unwrap_or(threshold.value);
        Threshold { value, ..threshold }
    }

    /// So much of each start.
    pub(super) fn each(&self, sum: u64) -> f64 {
        sum as f64 / self.starts as f64
    }

    /// Paths with their numbers, for effects.
    pub(super) fn numbered(&self) -> impl Iterator<Item = (u32, &'a [u8], &'a PathCounts)> {
        self.paths.iter().enumerate().map(|(index, (path, counts))| (index as u32, *path, *counts))
    }

    /// `directory` itself, and what lies below it.
    pub(super) fn within<'b>(
        &'b self,
        directory: &'b [u8],
    ) -> impl Iterator<Item = (u32, &'a [u8], &'a PathCounts)> + use<'a, 'b> {
        self.beginning_with(directory).filter(move |(_, path, _)| is_within(path, directory))
    }

    /// Paths that begin with these bytes.
    pub(super) fn beginning_with<'b>(
        &'b self,
        begin: &'b [u8],
    ) -> impl Iterator<Item = (u32, &'a [u8], &'a PathCounts)> + use<'a, 'b> {
        let first = self.paths.partition_point(|(path, _)| *path < begin);
        let all = self.paths[first..].iter().enumerate();
        all.map(move |(index, (path, counts))| ((first + index) as u32, *path, *counts))
            .take_while(move |(_, path, _)| path.starts_with(begin))
    }

    /// The operations on one path.
    pub(super) fn path(&self, path: &[u8]) -> Option<(u32, &'a PathCounts)> {
        let index = self.paths.binary_search_by_key(&path, |(known, _)| known).ok()?;
        Some((index as u32, self.paths[index].1))
    }

    /// Metadata operations on a path, by its number.
    pub(super) fn operations(&self, path: u32) -> u64 {
        self.paths.get(path as usize).map_or(0, |(_, counts)| counts.metadata_operations)
    }

    /// The type of the file system that a path lies on: that of the longest mount point above it that was asked.
    pub(super) fn file_system(&self, path: &[u8]) -> Option<&'a str> {
        let above =
            self.summary.file_systems.keys().filter(|key| is_within(path, key.mount_point.as_bytes()));
        above.max_by_key(|key| key.mount_point.len()).map(|key| key.kind.as_str())
    }

    /// True where the file system of a path counts.
    pub(super) fn counts(&self, path: &[u8]) -> bool {
        match self.scope {
            RankingScope::Network => self.file_system(path).map(ServedBy::of_type) == Some(ServedBy::Network),
            RankingScope::All => !is_of_the_kernel(path),
        }
    }

    /// A variable that steers a search, as the first program that had it was started with it.
    pub(super) fn variable(&self, name: &str) -> Option<&'a str> {
        let mut recordings = self.summary.recordings.iter();
        recordings.find_map(|facts| facts.variables.get(name)).map(String::as_str)
    }

    /// True for a name that the program waits for: to ask again is its purpose.
    pub(super) fn is_awaited(&self, path: &[u8]) -> bool {
        self.summary.awaited.contains_key(path)
    }

    /// The recorded commands, to be typed again.
    pub(super) fn commands(&self) -> impl Iterator<Item = String> {
        self.summary.commands().into_iter().map(words::command)
    }

    /// The recorded command, if there is only one.
    pub(super) fn only_command(&self) -> Option<String> {
        let mut commands = self.commands();
        commands.next().filter(|_| commands.next().is_none())
    }

    /// Of the operations in a directory and below, so many that disappear: first those on absent names, then others,
    /// in the order of their paths.
    pub(super) fn emptied(&self, directory: &[u8], probes: u64) -> Effect {
        let mut effect = Effect::default();
        self.emptied_where(directory, probes, |_| true, &mut effect);
        effect
    }

    /// The same on paths for which `counts` holds, added to an effect.
    pub(super) fn emptied_where(
        &self,
        directory: &[u8],
        mut left: u64,
        counts: impl Fn(&[u8]) -> bool,
        effect: &mut Effect,
    ) {
        let within = || self.within(directory).filter(|(_, path, _)| counts(path));
        for (path, _, counts) in within() {
            let count = counts.missed.min(left);
            effect.remove(path, RemovedKind::Missed, count);
            left -= count;
        }
        for (path, _, counts) in within() {
            let count = (counts.metadata_operations - counts.missed).min(left);
            effect.remove(path, RemovedKind::Stat, count);
            left -= count;
        }
    }
}

/// File systems that the kernel makes up: asking them costs the node alone.
fn is_of_the_kernel(path: &[u8]) -> bool {
    [&b"/proc"[..], b"/sys", b"/dev"].iter().any(|root| is_within(path, root))
}
