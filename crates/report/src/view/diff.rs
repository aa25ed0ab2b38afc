//! The object of `quell diff --json`.

use super::counters::CountersView;
use super::parts::{CallsAndErrors, Doubt, Latency, Totals};
use super::{Rows, SCREEN};
use quell_analyse::comparison::{self, Change, CommonBy, EntryPair, PathPair};
use quell_analyse::searches::EntryCounts;
use quell_analyse::{Comparison, PathCounts};
use quell_base::escape;
use quell_trace::{Call, ServedBy};
use schemars::JsonSchema;
use serde::Serialize;

/// Two runs side by side.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DiffView {
    /// The version of this object.
    pub schema_version: u32,
    /// The commands of both runs.
    pub command: Pair<Vec<String>>,
    /// The durations of both runs. Unit: seconds.
    pub seconds: Pair<Option<f64>>,
    /// Metadata operations by who answers for the file system: `network`, `quell`, `local`, in this order.
    pub served_by: Vec<ServedPair>,
    /// Metadata operations on no known file system.
    pub served_by_unknown: Pair<u64>,
    /// Operations by the counters that clients keep, of all programs on the node of the first recording that has them.
    pub client_counters: Pair<Option<CountersView>>,
    /// Sorted by name.
    pub syscalls: Vec<SyscallPair>,
    /// Calls that only the first run made. Sorted.
    pub disappeared: Vec<String>,
    /// Calls that only the second run made. Sorted.
    pub appeared: Vec<String>,
    /// Both runs in a few numbers.
    pub totals: Pair<Totals>,
    /// The durations of calls. Sorted by name.
    pub latency: Vec<LatencyPair>,
    /// Entries of search lists that were asked differently, at most 1000: by the change of probes, most first.
    pub searches: Vec<SearchPair>,
    /// Paths that were asked differently.
    pub paths: Paths,
    /// Totals that grew by more than `--fail-on-increase` allows. In the order in which they were given.
    pub increases: Vec<Increase>,
    /// Reasons to read the numbers of either run with care.
    pub doubts: Pair<Vec<Doubt>>,
    /// Reasons to compare the numbers of the two runs with care.
    pub comparison_doubts: Vec<Doubt>,
    /// The names of the recordings of both runs.
    #[serde(skip)]
    pub names: Pair<Vec<String>>,
    /// Entries of search lists that were asked differently, with those that `searches` leaves out.
    #[serde(skip)]
    pub search_count: usize,
}

/// The same of both runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Pair<T> {
    /// Of the first run.
    pub a: T,
    /// Of the second run.
    pub b: T,
}

/// Metadata operations of both runs that one kind of file system answered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ServedPair {
    /// `network`, `quell` or `local`.
    pub by: String,
    /// In the first run.
    pub a: u64,
    /// In the second run.
    pub b: u64,
}

/// A system call of both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SyscallPair {
    /// The kernel's name.
    pub name: String,
    /// In the first run; zero when it was never called.
    pub a: CallsAndErrors,
    /// In the second run.
    pub b: CallsAndErrors,
}

/// The durations of a call in both runs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencyPair {
    /// The kernel's name.
    pub name: String,
    /// In the first run; null when it never returned.
    pub a: Option<Latency>,
    /// In the second run.
    pub b: Option<Latency>,
}

/// An entry of a search list in both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchPair {
    /// The owner of the list: `loader`, `path`, `python`, `julia`, `perl`, `r`, `lua`, `modules`.
    pub kind: String,
    /// Its origin.
    pub origin: String,
    /// The entry.
    pub directory: String,
    /// `gone`, `new`, `less`, `more` or `otherwise`.
    pub change: String,
    /// In the first run; null when it was not searched.
    pub a: Option<SearchCounts>,
    /// In the second run.
    pub b: Option<SearchCounts>,
}

/// The operations on an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SearchCounts {
    /// Its place in the list, from 0.
    pub position: u32,
    /// Searches that looked into it.
    pub searches: u64,
    /// Metadata operations on names in it.
    pub probes: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Searches that found here what they looked for.
    pub hits: u64,
}

/// The paths of both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Paths {
    /// The paths of each change.
    pub shares: Vec<PathShare>,
    /// Directories of several paths that differ, at most 1000: by the change of metadata operations, most first.
    pub directories: Vec<CommonPaths>,
    /// Names of several paths that differ, in whatever directories, at most 1000: in the same order.
    pub names: Vec<CommonPaths>,
    /// Those that differ, at most 1000: by the change of metadata operations, most first, then by path.
    pub changed: Vec<ChangedPath>,
    /// Paths whose names change from run to run, such as temporary ones, and that stand together with others.
    pub folded: u64,
    /// The rows in which they stand, those without a difference included.
    pub folded_rows: u64,
    /// The paths with the largest change of repeated operations, at most 10.
    #[serde(skip)]
    pub repeats: Vec<ChangedPath>,
    /// All rows of each list, with those that it leaves out.
    #[serde(skip)]
    pub counts: PathListCounts,
}

/// All rows of the lists of [`Paths`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathListCounts {
    /// Directories.
    pub directories: usize,
    /// Names.
    pub names: usize,
    /// Paths whose number of operations changed.
    pub changed: usize,
    /// Paths whose number of repeated operations changed.
    pub repeats: usize,
}

/// Paths of which the same became.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathShare {
    /// `gone`, `new`, `less`, `more`, `moved` (as often, of another kind of file system), `otherwise` or `same`.
    pub change: String,
    /// Their number; those that stand together count once.
    pub paths: u64,
    /// Metadata operations on them in the first run.
    pub a: u64,
    /// In the second run.
    pub b: u64,
}

/// Paths that differ and have a directory or a name in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CommonPaths {
    /// The directory or the name.
    pub name: String,
    /// Their number; those that stand together count once.
    pub paths: u64,
    /// Metadata operations on them in the first run.
    pub a: u64,
    /// In the second run.
    pub b: u64,
}

/// A path that was asked differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ChangedPath {
    /// The path; bytes that are not text are escaped. `[..]` where it stands for several.
    pub path: String,
    /// The paths that it stands for.
    pub paths: u64,
    /// `gone`, `new`, `less`, `more`, `moved` or `otherwise`.
    pub change: String,
    /// In the first run.
    pub a: PathSide,
    /// In the second run.
    pub b: PathSide,
}

/// The operations of a run on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PathSide {
    /// `network`, `quell`, `local`, or null when unknown or never asked.
    pub served_by: Option<String>,
    /// Calls on the name or its attributes.
    pub metadata_operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// Those that had succeeded before.
    pub repeated: u64,
}

/// A total that grew by more than it may.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Increase {
    /// Its name, as `--fail-on-increase` takes it.
    pub metric: String,
    /// In the first run.
    pub a: u64,
    /// In the second run.
    pub b: u64,
    /// The most that it may be.
    pub most: u64,
}

/// The object of `quell diff --json`. `increases` are the totals that grew by more than was allowed.
pub fn diff(comparison: &Comparison, increases: &[comparison::Increase], rows: Rows) -> DiffView {
    let Comparison { a, b, .. } = comparison;
    let served = |by: ServedBy, a, b| ServedPair { by: by.name().into(), a, b };
    let counts =
        |counts: comparison::CallsAndErrors| CallsAndErrors { calls: counts.calls, errors: counts.errors };
    let pair = |pair: &comparison::CallPair| SyscallPair {
        name: pair.call.name().into(),
        a: counts(pair.a),
        b: counts(pair.b),
    };
    let counters = |run: &comparison::ComparedRun| {
        CountersView::of(run.client_counters.as_ref().map(|(host, counters)| (host.as_str(), counters)))
    };
    let doubts = |doubts: &[quell_analyse::Doubt]| doubts.iter().map(Doubt::from).collect();
    DiffView {
        schema_version: super::SCHEMA_VERSION,
        command: Pair { a: a.command.clone(), b: b.command.clone() },
        seconds: Pair { a: a.seconds, b: b.seconds },
        served_by: vec![
            served(ServedBy::Network, a.served.network, b.served.network),
            served(ServedBy::Quell, a.served.quell, b.served.quell),
            served(ServedBy::Local, a.served.local, b.served.local),
        ],
        served_by_unknown: Pair { a: a.served.unknown, b: b.served.unknown },
        client_counters: Pair { a: counters(a), b: counters(b) },
        syscalls: comparison.calls.iter().map(pair).collect(),
        disappeared: names(&comparison.disappeared()),
        appeared: names(&comparison.appeared()),
        totals: Pair { a: a.totals.into(), b: b.totals.into() },
        latency: comparison.calls.iter().map(LatencyPair::from).collect(),
        searches: comparison.searches.iter().take(rows.most()).map(SearchPair::from).collect(),
        paths: paths(&comparison.paths, rows),
        increases: increases.iter().map(Increase::from).collect(),
        doubts: Pair { a: doubts(&a.doubts), b: doubts(&b.doubts) },
        comparison_doubts: comparison.doubt().iter().map(Doubt::from).collect(),
        names: Pair { a: a.names.clone(), b: b.names.clone() },
        search_count: comparison.searches.len(),
    }
}

impl From<&comparison::CallPair> for LatencyPair {
    fn from(pair: &comparison::CallPair) -> Self {
        Self {
            name: pair.call.name().into(),
            a: pair.latency_a.map(Latency::from),
            b: pair.latency_b.map(Latency::from),
        }
    }
}

impl From<&EntryPair> for SearchPair {
    fn from(pair: &EntryPair) -> Self {
        let counts = |counts: EntryCounts| SearchCounts {
            position: counts.position,
            searches: counts.searches,
            probes: counts.probes,
            missed: counts.missed,
            hits: counts.hits,
        };
        Self {
            kind: pair.key.kind.name().into(),
            origin: pair.key.origin.clone(),
            directory: escape(&pair.key.directory),
            change: pair.change().name().into(),
            a: pair.a.map(counts),
            b: pair.b.map(counts),
        }
    }
}

fn paths(paths: &comparison::Paths, rows: Rows) -> Paths {
    let share = |(change, share): (Change, comparison::Share)| PathShare {
        change: change.name().into(),
        paths: share.paths,
        a: share.a,
        b: share.b,
    };
    let common = |by| -> (Vec<CommonPaths>, usize) {
        let common = paths.common(by);
        (common.iter().take(rows.most()).map(CommonPaths::from).collect(), common.len())
    };
    let ((directories, directory_count), (names, name_count)) =
        (common(CommonBy::Directory), common(CommonBy::Name));
    let differs = |pair: &&PathPair| pair.a.metadata_operations != pair.b.metadata_operations;
    let repeats = paths.repeats(usize::MAX);
    Paths {
        shares: paths.shares().into_iter().map(share).collect(),
        directories,
        names,
        changed: paths.changed.iter().take(rows.most()).map(ChangedPath::from).collect(),
        folded: paths.folded,
        folded_rows: paths.folded_rows,
        repeats: repeats.iter().take(SCREEN).map(|pair| ChangedPath::from(*pair)).collect(),
        counts: PathListCounts {
            directories: directory_count,
            names: name_count,
            changed: paths.changed.iter().filter(differs).count(),
            repeats: repeats.len(),
        },
    }
}

impl From<&comparison::Common<'_>> for CommonPaths {
    fn from(row: &comparison::Common<'_>) -> Self {
        let comparison::Share { paths, a, b } = row.share;
        Self { name: row.name.to_owned(), paths, a, b }
    }
}

impl From<&PathPair> for ChangedPath {
    fn from(pair: &PathPair) -> Self {
        let side = |counts: PathCounts| PathSide {
            served_by: counts.served_by.map(|by| by.name().into()),
            metadata_operations: counts.metadata_operations,
            missed: counts.missed,
            repeated: counts.repeated,
        };
        Self {
            path: pair.path.clone(),
            paths: pair.paths,
            change: pair.change().name().into(),
            a: side(pair.a),
            b: side(pair.b),
        }
    }
}

impl From<&comparison::Increase> for Increase {
    fn from(increase: &comparison::Increase) -> Self {
        Self { metric: increase.metric.name().into(), a: increase.a, b: increase.b, most: increase.most }
    }
}

fn names(calls: &[Call]) -> Vec<String> {
    calls.iter().map(|call| call.name().to_owned()).collect()
}
