//! Data of parallel jobs: collective buffering, and how files lie over the servers of Lustre.
//!
//! Source: "Short introduction on Optimizing I/O": best when the average write is more than a megabyte and gaps are few;
//! the rules of thumb for stripe counts; the single writer that many stripes slow down.

use super::Cost;
use super::case::Case;
use super::draft::{Draft, Found, RemedyDraft, largest};
use super::effect::Effect;
use super::limits::{COLLECTIVE_BUFFERING, LUSTRE_STRIPING, SMALL_WRITE};
use super::words::{bytes, count, directory, last, lfs_size, quoted};
use crate::data::FileData;
use quell_base::escape;
use quell_trace::Bytes;
use std::collections::BTreeMap;

/// A collective write moves so much at least.
const COLLECTIVE: u64 = 1 << 20;

/// `collective-buffering`.
pub(super) fn buffering(case: &Case<'_>) -> Vec<Found> {
    let small = case.limit(&SMALL_WRITE).value;
    let files = case.summary.data.files.iter().filter(|(path, file)| {
        writers(file) > 1 && (file.writes.average().0 as f64) < small && case.counts(path)
    });
    let rows: Vec<(u64, (&[u8], &FileData))> =
        files.map(|(path, file)| (file.writes.moving(), (&**path, file))).filter(|row| row.0 > 0).collect();
    let Some((_, (worst, file))) = rows.iter().max_by(|a, b| a.0.cmp(&b.0).then_with(|| b.1.0.cmp(a.1.0)))
    else {
        return Vec::new();
    };
    let writes: u64 = rows.iter().map(|(writes, _)| writes).sum();
    let remaining =
        rows.iter().map(|(writes, (_, file))| file.writes.bytes.0.div_ceil(COLLECTIVE).min(*writes)).sum();
    let (text, command, cost) = hints(case);
    Draft {
        limit: &COLLECTIVE_BUFFERING,
        measured: writes as f64,
        title: format!(
            "{} ranks wrote {} with {} of {} on average and {}",
            writers(file),
            escape(worst),
            count(file.writes.moving(), "call"),
            bytes(file.writes.average()),
            count(file.writes.gaps, "gap")
        ),
        evidence: largest(
            rows.iter().map(|(writes, (path, file))| (*writes, (*path, file.writes.bytes))).collect(),
            |writes, row| format!("{}: {} for {}", escape(row.0), count(writes, "write"), bytes(row.1)),
        ),
        operations: writes,
        change: RemedyDraft::of(text, command, cost, Effect::default()),
    }
    .requests(case, remaining)
    .into_iter()
    .collect()
}

/// The setting for collective buffering, in the MPI library that was loaded.
fn hints(case: &Case<'_>) -> (String, String, Cost) {
    let mut libraries = case.summary.data.files.keys().filter(|path| last(path).starts_with(b"libmpi"));
    let Some(library) = libraries.next() else {
        let text = "write through MPI-IO (or parallel HDF5, NetCDF) with collective calls, which join what ranks write";
        return (text.to_owned(), "MPI_File_write_at_all(file, offset, ...)".to_owned(), Cost::Program);
    };
    let text =
        "let MPI-IO join the writes of all ranks (collective calls; independent ones stay as they are)";
    let path = escape(library);
    let command = if path.contains("cray") {
        "export MPICH_MPIIO_HINTS='*:romio_cb_write=enable'"
    } else if path.contains("openmpi") || path.contains("libmpi.so.40") {
        "echo 'romio_cb_write enable' > hints && export OMPI_MCA_io=romio321 ROMIO_HINTS=$PWD/hints"
    } else {
        "echo 'romio_cb_write enable' > hints && export ROMIO_HINTS=$PWD/hints"
    };
    (text.to_owned(), command.to_owned(), Cost::Nothing)
}

/// Ranks that wrote a file.
fn writers(file: &FileData) -> usize {
    file.written_by.iter().filter(|(_, bytes)| bytes.0 > 0).count()
}

/// The files written in one directory of Lustre.
#[derive(Default)]
struct WrittenDirectory {
    files: u64,
    bytes: u64,
    /// The most ranks that wrote one of them.
    writers: usize,
    /// Stripe counts that were met. Shape: sorted.
    counts: BTreeMap<u32, u64>,
    /// The largest average write.
    request: Bytes,
}

/// `lustre-striping`.
pub(super) fn striping(case: &Case<'_>) -> Vec<Found> {
    let mut directories = BTreeMap::<&[u8], WrittenDirectory>::new();
    for (path, file) in &case.summary.data.files {
        let Some((stripes, _)) = file.stripe else { continue };
        if file.writes.bytes.0 > 0 && case.file_system(path) == Some("lustre") {
            let written = directories.entry(directory(path)).or_default();
            written.files += 1;
            written.bytes = written.bytes.saturating_add(file.writes.bytes.0);
            written.writers = written.writers.max(writers(file));
            *written.counts.entry(stripes).or_default() += 1;
            written.request = written.request.max(file.writes.average());
        }
    }
    directories.into_iter().filter_map(|(path, written)| stripes(case, path, &written)).collect()
}

fn stripes(case: &Case<'_>, path: &[u8], written: &WrittenDirectory) -> Option<Found> {
    let advised = advised(written, case.limits.osts)?;
    let wrong = |count: &u32| match advised.count {
        // All targets: how many these are is not known, but one is too few.
        -1 => case.limits.osts.map_or(*count == 1, |osts| *count < osts),
        advised => i64::from(*count) != advised,
    };
    let (met, _) =
        written.counts.iter().filter(|(count, _)| wrong(count)).max_by_key(|(_, files)| **files)?;
    let size = lfs_size(Bytes(written.request.0.next_power_of_two().clamp(1 << 20, 32 << 20)));
    Draft {
        limit: &LUSTRE_STRIPING,
        measured: written.bytes as f64,
        title: format!(
            "{} of {} in {} {} over {}, where {}",
            count(written.files, "file"),
            bytes(Bytes(written.bytes)),
            escape(path),
            if written.files == 1 { "lies" } else { "lie" },
            count(u64::from(*met), "storage target"),
            advised.why
        ),
        evidence: Vec::new(),
        operations: written.files,
        change: RemedyDraft::of(
            "set it on the directory before the run; files that exist keep theirs",
            format!("lfs setstripe -c {} -S {size} {}", advised.count, quoted(path)),
            Cost::Nothing,
            Effect::default(),
        ),
    }
    .requests(case, 0)
}

struct Advised {
    /// As `lfs setstripe -c` takes it: -1 for all targets.
    count: i64,
    why: String,
}

/// The rules of thumb; `None` where they need the number of targets and it is not given.
fn advised(written: &WrittenDirectory, osts: Option<u32>) -> Option<Advised> {
    let all = |count| osts.map_or_else(|| "all targets".to_owned(), |osts| count_targets(count, osts));
    match (written.files, written.writers, osts) {
        (1, 2.., _) => Some(Advised {
            count: -1,
            why: format!("{} ranks write one file: {} serve it best", written.writers, all(-1)),
        }),
        (1, _, _) => Some(Advised { count: 1, why: "one writer is served best by one".to_owned() }),
        (files, _, Some(osts)) if files > u64::from(osts) => Some(Advised {
            count: 1,
            why: format!("there are more files than the {osts} targets: one each is best"),
        }),
        (files, _, Some(osts)) => {
            let count = (u64::from(osts) / files).max(1) as i64;
            Some(Advised { count, why: format!("{} for each uses all {osts}", count_targets(count, osts)) })
        }
        (_, _, None) => None,
    }
}

fn count_targets(amount: i64, osts: u32) -> String {
    let amount = if amount < 0 { u64::from(osts) } else { amount as u64 };
    count(amount, "target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripe_counts_follow_the_rules_of_thumb() {
        for (files, writers, osts, expected) in [
            (100, 1, Some(60), Some(1)),
            (6, 1, Some(60), Some(10)),
            (1, 512, Some(60), Some(-1)),
            (1, 512, None, Some(-1)),
            (1, 1, Some(60), Some(1)),
            (60, 1, Some(60), Some(1)),
            (6, 1, None, None),
        ] {
            let written = WrittenDirectory { files, writers, ..WrittenDirectory::default() };
            assert_eq!(
                advised(&written, osts).map(|advised| advised.count),
                expected,
                "{files} {writers} {osts:?}"
            );
        }
    }
}
