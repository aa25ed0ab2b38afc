//! Ranks that did the same, as one row: "ranks 0-511: 8400 metadata operations each".
//!
//! ```text
//! metadata operation -> hash of (call's operation, part, path without numbers) -> sum: Fingerprint of a recording
//!                                                                      Fingerprints of a summary -> folds
//! ```
//!
//! Two recordings did the same when they ran the same command and their metadata operations are the same multiset, in
//! whichever order. What differs between ranks that do the same is left out: numbers in paths (rank, process, job), whether
//! a directory that all want to make was there already, what is on file systems that live in memory or are made up by the
//! kernel (`/dev/shm`, `/proc`, `/sys`: an MPI looks there for its neighbours), and what has no path. Those operations are
//! in the numbers of a fold, and not in its sameness.
//!
//! Sums of 128-bit hashes are equal for different multisets by accident only; an author of traces who wants that can
//! have them folded.

use crate::OperationPart;
use quell_base::mountinfo::is_made_up;
use quell_trace::{Call, Class, Context, Event, Header, PathId, PathTable, RankId};

/// The operations of one recording, so short that all of a job's fit in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The rank, under a launcher.
    pub rank: Option<RankId>,
    /// The name under which the recording was opened; escaped.
    pub name: String,
    /// All metadata operations.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Of the command.
    command: u128,
    /// The sum over metadata operations that can be compared.
    sum: u128,
    /// The same operations, counted by a part of their hash: how far two recordings are apart.
    sketch: Box<[u32; SKETCH]>,
}

/// Recordings that did the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fold<'a> {
    /// Shape: sorted by rank and name, at least one.
    pub members: Vec<&'a Fingerprint>,
    /// The number of metadata operations of each: the fewest and the most. They may differ where operations could not be
    /// compared.
    pub metadata_operations: (u64, u64),
    /// Misses of each: the fewest and the most.
    pub missed: (u64, u64),
    /// Operations at least that are in this fold and not in the largest, or the other way round; 0 for the largest.
    /// `None` for another command.
    pub apart: Option<u64>,
}

/// The fingerprints of a summary's recordings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprints {
    /// Shape: sorted by rank, then name.
    all: Vec<Fingerprint>,
}

/// Counters of a sketch: two recordings that are `n` operations apart differ in nearly `n` of them while `n` is small.
/// Part of no format.
const SKETCH: usize = 256;

impl Fingerprints {
    /// Adds those of other recordings. Exact, and in any order.
    pub fn merge(&mut self, other: Self) {
        self.all.extend(other.all);
        self.all.sort_unstable_by(Fingerprint::order);
    }

    /// Recordings that did the same, together. Shape: sorted by members, most first, then by the first member's rank.
    pub fn folds(&self) -> Vec<Fold<'_>> {
        let mut members: Vec<&Fingerprint> = self.all.iter().collect();
        members.sort_by_key(|print| print.key());
        let mut folds: Vec<Fold<'_>> =
            members.chunk_by(|a, b| a.key() == b.key()).map(|members| Fold::new(members.to_vec())).collect();
        folds.sort_by(|a, b| {
            b.members.len().cmp(&a.members.len()).then_with(|| a.members[0].order(b.members[0]))
        });
        if let Some(&largest) = folds.first().and_then(|fold| fold.members.first()) {
            folds.iter_mut().for_each(|fold| fold.apart = fold.members[0].apart(largest));
        }
        folds
    }
}

impl<'a> Fold<'a> {
    /// Shape of `members`: at least one.
    fn new(members: Vec<&'a Fingerprint>) -> Self {
        let range = |number: fn(&Fingerprint) -> u64| {
            let numbers = || members.iter().map(|member| number(member));
            (numbers().min().unwrap_or(0), numbers().max().unwrap_or(0))
        };
        let (metadata_operations, missed) =
            (range(|member| member.metadata_operations), range(|member| member.missed));
        Self { members, metadata_operations, missed, apart: None }
    }

    /// The ranks as `0-511,513`; the names of recordings without a rank.
    pub fn label(&self) -> String {
        let mut ranks: Vec<u32> = self.members.iter().filter_map(|member| Some(member.rank?.0)).collect();
        ranks.dedup();
        let runs = ranks.chunk_by(|a, b| a.checked_add(1) == Some(*b)).map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        });
        let names =
            self.members.iter().filter(|member| member.rank.is_none()).map(|member| member.name.clone());
        runs.chain(names).collect::<Vec<_>>().join(",")
    }
}

impl Fingerprint {
    fn key(&self) -> (u128, u128) {
        (self.command, self.sum)
    }

    fn order(&self, other: &Self) -> std::cmp::Ordering {
        let key = |print: &Self| (print.rank, print.key(), print.metadata_operations, print.missed);
        (self.rank, &self.name, key(self)).cmp(&(other.rank, &other.name, key(other)))
    }

    /// At least so many operations are in one and not in the other; `None` for another command.
    fn apart(&self, other: &Self) -> Option<u64> {
        let differences = self.sketch.iter().zip(&other.sketch[..]).map(|(a, b)| u64::from(a.abs_diff(*b)));
        (self.command == other.command).then(|| {
            let seen: u64 = differences.sum();
            // Different multisets may fall into the same counters.
            seen.max(u64::from(self.sum != other.sum))
        })
    }
}

/// The fingerprint of one recording being made.
#[derive(Debug)]
pub struct FingerprintTally<'a> {
    paths: &'a PathTable,
    print: Fingerprint,
    /// Shape: one entry a path: the hash of its name without numbers, once it is asked for.
    hashes: Vec<Option<u64>>,
    /// Shape: one entry a mount: whether what is on it can be compared between ranks.
    comparable: Vec<bool>,
}

impl<'a> FingerprintTally<'a> {
    /// A tally of the recording that was opened under `name`.
    pub fn new(name: &str, header: &Header, paths: &'a PathTable, context: &Context) -> Self {
        let mut command = 0;
        for argument in &header.command {
            command = spread(command ^ hash(argument.bytes()));
        }
        let print = Fingerprint {
            rank: header.rank,
            name: name.to_owned(),
            metadata_operations: 0,
            missed: 0,
            command: wide(command),
            sum: 0,
            sketch: Box::new([0; SKETCH]),
        };
        let comparable = |mount: &quell_trace::Mount| {
            !is_made_up(&mount.kind) && !OF_THE_NODE.iter().any(|place| is_below(&mount.mount_point, place))
        };
        let comparable = context.mounts.iter().map(comparable).collect();
        Self { paths, print, hashes: vec![None; paths.len()], comparable }
    }

    /// Takes a metadata operation.
    pub fn add(&mut self, event: &Event, part: OperationPart) {
        self.print.metadata_operations += 1;
        self.print.missed += u64::from(part == OperationPart::Missed);
        let mount = event.file_system.and_then(|mount| self.comparable.get(usize::from(mount.0)));
        let Some(path) = event.target.filter(|_| mount != Some(&false)) else { return };
        let operation = match event.call.class() {
            Class::Change => CHANGES + event.call as u64,
            class => class as u64,
        };
        let made = matches!(event.call, Call::Mkdir | Call::Mkdirat);
        let part = if made { OperationPart::Needed } else { part };
        let hash = spread(self.hash_of(path) ^ spread(operation << 8 | part as u64));
        self.print.sum = self.print.sum.wrapping_add(wide(hash));
        let counter = &mut self.print.sketch[hash as usize % SKETCH];
        *counter = counter.saturating_add(1);
    }

    /// The fingerprint.
    pub fn finish(self) -> Fingerprints {
        Fingerprints { all: vec![self.print] }
    }

    fn hash_of(&mut self, path: PathId) -> u64 {
        let paths = self.paths;
        match self.hashes.get_mut(path.0 as usize) {
            Some(hash) => *hash.get_or_insert_with(|| without_numbers(paths.bytes(path))),
            None => 0,
        }
    }
}

/// The hash of a path in which any number is like any other.
fn without_numbers(path: &[u8]) -> u64 {
    let pieces = path.chunk_by(|a, b| a.is_ascii_digit() && b.is_ascii_digit());
    hash(pieces.map(|piece| if piece[0].is_ascii_digit() { b'#' } else { piece[0] }))
}

/// FNV-1a with 64 bits. It is part of no format, but equal on all machines.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    spread(
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)),
    )
}

/// Every bit of the result depends on every bit of the number. Source: the finaliser of `splitmix64`.
fn spread(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

fn wide(hash: u64) -> u128 {
    u128::from(hash) << 64 | u128::from(spread(!hash))
}

fn is_below(mount_point: &str, place: &str) -> bool {
    mount_point.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Changes are operations of their own, beyond the classes.
const CHANGES: u64 = 0x100;
/// Directories of a node for files that live as long as a job or a boot.
const OF_THE_NODE: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_in_numbers_are_alike() {
        assert_eq!(without_numbers(b"/s/out.0007"), without_numbers(b"/s/out.12"));
        assert_ne!(without_numbers(b"/s/out.0007"), without_numbers(b"/s/in.0007"));
        assert_ne!(without_numbers(b"/s/1a2"), without_numbers(b"/s/1a"));
        assert_ne!(without_numbers(b"/s//x"), without_numbers(b"/s/x"));
    }

    #[test]
    fn ranks_are_written_as_runs() {
        let print = |rank: Option<u32>| Fingerprint {
            rank: rank.map(RankId),
            name: "app".into(),
            metadata_operations: 1,
            missed: 0,
            command: 0,
            sum: 0,
            sketch: Box::new([0; SKETCH]),
        };
        for (ranks, expected) in [
            (vec![Some(3)], "3"),
            (vec![Some(0), Some(1), Some(2), Some(4), Some(6), Some(7)], "0-2,4,6-7"),
            (vec![None, Some(u32::MAX)], "4294967295,app"),
        ] {
            let prints: Vec<_> = ranks.into_iter().map(print).collect();
            assert_eq!(Fold::new(prints.iter().collect()).label(), expected);
        }
    }
}
