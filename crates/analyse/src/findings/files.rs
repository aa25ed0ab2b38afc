//! Files opened again and again, made by the thousand in one directory, read by every rank.
//!
//! Source of the limits: "Spectrum Scale: Performance Update", creates in one directory.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::{Effect, RemovedKind};
use super::image;
use super::limits::{MANY_CREATES, OPEN_CLOSE_CHURN, SMALL_FILE, SMALL_FILES_BY_EVERY_RANK};
use super::words::{count, directory, is_within, number, quoted};
use crate::PathCounts;
use quell_base::escape;
use std::collections::BTreeMap;

/// A process that opens a file so often, or less, is no churn.
const OFTEN: u64 = 10;

/// `open-close-churn`.
pub(super) fn churn(case: &Case<'_>) -> Vec<Found> {
    let mut effect = Effect::default();
    let mut rows = Vec::new();
    for (number, path, counts) in case.numbered() {
        // A directory is opened to be listed: that is another cause.
        let reopened = u64::from(counts.habits.reopened);
        if reopened > OFTEN * case.starts && counts.habits.list_calls == 0 && !case.is_awaited(path) {
            effect.remove(number, RemovedKind::Open, reopened + asked_of_descriptors(counts));
            rows.push((reopened, path));
        }
    }
    let again: u64 = rows.iter().map(|(opens, _)| opens).sum();
    let files = count(rows.len() as u64, "file");
    Draft {
        limit: &OPEN_CLOSE_CHURN,
        measured: case.each(again),
        title: format!("{} opened {files} that the same process had opened before", count(again, "call")),
        evidence: largest(rows, |opens, path| {
            format!("{}: opened again {} times", escape(path), number(opens))
        }),
        operations: effect.removed(),
        change: RemedyDraft::of(
            "open each file once and keep it open, or keep in memory what was read",
            "move the open out of the loop, and the close behind it",
            Cost::Program,
            effect,
        ),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// Attributes asked of the descriptors of the opens that disappear.
fn asked_of_descriptors(counts: &PathCounts) -> u64 {
    let habits = counts.habits;
    u64::from(habits.fstats) * u64::from(habits.reopened) / u64::from(habits.opens.max(1))
}

const ONE_FILE: &str = "gather them in one container a node, from which `quell gather extract` takes them; or write them into one file \
     (HDF5, NetCDF, tar); a directory of its own for each rank takes no create away, but keeps ranks from waiting for each other";

/// `many-creates`.
pub(super) fn creates(case: &Case<'_>) -> Vec<Found> {
    let mut directories = BTreeMap::<&[u8], Vec<(u32, &PathCounts)>>::new();
    // A temporary file is another cause: one file cannot take the place of those that are gone.
    let made = |counts: &PathCounts| counts.habits.creates > 0 && !counts.habits.is_temporary();
    for (number, path, counts) in case.numbered().filter(|(_, _, counts)| made(counts)) {
        directories.entry(directory(path)).or_default().push((number, counts));
    }
    let most = case.limit(&MANY_CREATES).value;
    directories.retain(|_, names| names.len() as f64 > most);
    let rows: Vec<_> = directories.iter().map(|(path, names)| (names.len() as u64, *path)).collect();
    let Some(&(largest_count, worst)) = rows.iter().max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.cmp(a.1)))
    else {
        return Vec::new();
    };
    let gathered = gathered(case, directories.keys().copied());
    let mut effect = Effect::default();
    // The server of the node answers for all that is made there.
    for (number, _, counts) in
        gathered.iter().flat_map(|home| case.within(home)).filter(|(_, _, counts)| made(counts))
    {
        effect.remove(number, RemovedKind::All, counts.metadata_operations);
    }
    let ranks = case.summary.data.ranks.iter().flatten().count() as u64;
    let fewer = match ranks {
        0 | 1 => String::new(),
        ranks => {
            let each = largest_count.div_ceil(ranks);
            format!(
                "; `quell predict create --nodes 1..{ranks} --files {each}` tells what a subset of the writers takes"
            )
        }
    };
    let flags: String = gathered.iter().map(|home| format!("--gather {} ", quoted(home))).collect();
    let commands: Vec<_> = case.commands().map(|command| format!("quell run {flags}-- {command}")).collect();
    Draft {
        limit: &MANY_CREATES,
        measured: largest_count as f64,
        title: format!("{} were made in {}", count(largest_count, "file"), escape(worst)),
        evidence: largest(rows, |files, path| format!("{}: {}", escape(path), count(files, "name"))),
        operations: effect.removed(),
        change: RemedyDraft::of(format!("{ONE_FILE}{fewer}"), commands.join(" && "), Cost::Nothing, effect),
    }
    .over(case)
    .into_iter()
    .collect()
}

/// The directories to gather, which must be there before the run: of one that the program makes, the one above.
///
/// **Shape** sorted, none in another one.
fn gathered<'a>(case: &Case<'a>, directories: impl Iterator<Item = &'a [u8]>) -> Vec<&'a [u8]> {
    let home = |mut path: &'a [u8]| {
        while case.path(path).is_some_and(|(_, counts)| counts.habits.creates > 0) {
            path = directory(path);
        }
        path
    };
    let mut homes: Vec<_> = directories.map(home).collect();
    homes.sort_unstable();
    homes.dedup_by(|later, earlier| is_within(later, earlier));
    homes
}

/// `small-files-by-every-rank`.
pub(super) fn by_every_rank(case: &Case<'_>) -> Vec<Found> {
    let ranks = case.summary.data.ranks.iter().flatten().count();
    if ranks < 2 {
        return Vec::new();
    }
    let small = case.limit(&SMALL_FILE).value;
    let files = case.summary.data.files.iter().filter(|(path, file)| {
        file.read_by.iter().filter(|(rank, _)| rank.is_some()).count() == ranks
            && file.written_by.is_empty()
            && (file.reach.0 as f64) < small
            && case.counts(path)
    });
    let mut rows = BTreeMap::<&[u8], u64>::new();
    let (mut files_read, mut operations) = (0, 0);
    for (path, _) in files {
        files_read += 1;
        operations += case.path(path).map_or(0, |(_, counts)| counts.metadata_operations);
        *rows.entry(directory(path)).or_default() += 1;
    }
    let image = image::serving(case, rows.iter().map(|(path, files)| (*path, *files)));
    Draft {
        limit: &SMALL_FILES_BY_EVERY_RANK,
        measured: files_read as f64,
        title: format!(
            "each of {ranks} ranks read the same {}, {} in all",
            count(files_read, "small file"),
            count(operations, "operation")
        ),
        evidence: largest(rows.iter().map(|(path, files)| (*files, *path)).collect(), |files, path| {
            format!("{}: {}", escape(path), count(files, "file"))
        }),
        operations,
        change: image,
    }
    .over(case)
    .into_iter()
    .collect()
}
