//! The operations that a file system's own servers counted for each job: the `job_stats` of Lustre, as `lctl get_param` prints them
//! on a metadata server or `lctl get_param mdt.*.job_stats obdfilter.*.job_stats` on all.
//!
//! ```text
//! mdt.work-MDT0000.job_stats=
//! job_stats:
//! - job_id:          4711
//!   snapshot_time:   1700000000.123456789 secs.nsecs
//!   open:            { samples:        2100, unit: usecs, min: 12, max: 9000, sum: 250000, sumsq: 1 }
//!   read_bytes:      { samples:          10, unit: bytes, min: 4096, max: 1048576, sum: 9437184 }
//! ```
//!
//! The file may hold several servers and several snapshots; of each server and job the last snapshot counts, because the servers'
//! counts grow. All of it is hostile: names are kept as values, lines and jobs are bounded. Source: Lustre Operations Manual,
//! section "Lustre Jobstats"; `lprocfs_jobstats.c`.

use crate::FleetError;
use quell_base::escape;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// A job as the servers saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedJob {
    /// Its number as the clients told it; escaped.
    pub job: String,
    /// Operations on names and attributes that the metadata servers answered, `close` among them.
    pub operations: u64,
    /// Bytes that were read from the servers of data and metadata.
    pub bytes_read: u64,
    /// Bytes that were written there.
    pub bytes_written: u64,
}

/// The counts of one server for one job.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    /// Unit: seconds since 1970.
    snapshot: u64,
    operations: u64,
    bytes_read: u64,
    bytes_written: u64,
}

/// Operations of a metadata server. Of a rename within a directory and between two, Lustre counts the kind once more.
const OPERATIONS: [&str; 14] = [
    "close", "getattr", "getxattr", "link", "migrate", "mkdir", "mknod", "open", "rename", "rmdir",
    "setattr", "setxattr", "statfs", "unlink",
];
/// Bytes of a line at most.
const LONGEST: usize = 4096;
/// Bytes of a job's number at most. Lustre has 128 at most: `LUSTRE_JOBID_SIZE`.
const LONGEST_JOB: usize = 256;
/// Servers times jobs at most: far above what servers keep, which forget a job after some minutes.
const MOST: usize = 1_000_000;

/// Reads files of `job_stats`. Shape: sorted by operations, most first, then by job.
///
/// # Errors
/// [`FleetError::Io`]; [`FleetError::WrongStatistics`] for a file of another form.
pub fn served_jobs<P: AsRef<Path>>(files: &[P]) -> Result<Vec<ServedJob>, FleetError> {
    let mut reading = Reading::default();
    for path in files {
        let path = path.as_ref();
        let file = File::open(path).map_err(FleetError::io("read", path))?;
        let before = reading.found;
        reading.read(BufReader::new(file)).map_err(|problem| match problem {
            Problem::Read(error) => FleetError::io("read", path)(error),
            Problem::Line(line, text) => FleetError::WrongStatistics { path: path.to_owned(), line, text },
        })?;
        if reading.found == before {
            return Err(FleetError::WrongStatistics { path: path.to_owned(), line: 0, text: String::new() });
        }
    }
    Ok(reading.jobs())
}

enum Problem {
    Read(std::io::Error),
    Line(u64, String),
}

#[derive(Default)]
struct Reading {
    counts: BTreeMap<(String, String), Counts>,
    /// The parameter whose value is being read, such as `mdt.work-MDT0000.job_stats`.
    server: String,
    current: Option<(String, Counts)>,
    /// Headings and jobs so far.
    found: u64,
}

impl Reading {
    fn read(&mut self, mut input: impl BufRead) -> Result<(), Problem> {
        self.server.clear();
        let (mut line, mut number) = (Vec::new(), 0);
        loop {
            line.clear();
            let bounded = (&mut input).take(LONGEST as u64 + 1).read_until(b'\n', &mut line);
            if bounded.map_err(Problem::Read)? == 0 {
                break;
            }
            number += 1;
            let text = escape(line.trim_ascii());
            if line.len() > LONGEST || self.take(&text).is_none() {
                return Err(Problem::Line(number, text.chars().take(40).collect()));
            }
        }
        self.put().ok_or_else(|| Problem::Line(number, String::new()))
    }

    /// Takes a line; `None` for one that the form does not have.
    fn take(&mut self, line: &str) -> Option<()> {
        if line.is_empty() || line == "job_stats:" {
            self.found += u64::from(!line.is_empty());
            return Some(());
        }
        if let Some(parameter) =
            line.strip_suffix("job_stats=").or_else(|| line.strip_suffix("job_stats=job_stats:"))
        {
            self.put()?;
            parameter.clone_into(&mut self.server);
            self.found += 1;
            return Some(());
        }
        let (name, value) = line.split_once(':')?;
        let value = value.trim();
        if name == "- job_id" {
            self.put()?;
            let job = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
            self.current = (job.len() <= LONGEST_JOB).then(|| (job.to_owned(), Counts::default()));
            self.found += 1;
            return self.current.is_some().then_some(());
        }
        let is_of_data = self.server.starts_with("obdfilter.");
        let (_, counts) = self.current.as_mut()?;
        if name == "snapshot_time" {
            let seconds = value.split(['.', ' ']).next()?;
            counts.snapshot = seconds.parse().ok()?;
            return Some(());
        }
        if !value.starts_with('{') {
            // `start_time`, `elapsed_time`, and what later versions add.
            return Some(());
        }
        match name {
            "read_bytes" => counts.bytes_read = member(value, "sum").unwrap_or(0),
            "write_bytes" => counts.bytes_written = member(value, "sum").unwrap_or(0),
            name if !is_of_data && OPERATIONS.contains(&name) => {
                counts.operations = counts.operations.saturating_add(member(value, "samples")?);
            }
            _ => {}
        }
        Some(())
    }

    /// Keeps the counts of the job that ends here; `None` where there are too many.
    fn put(&mut self) -> Option<()> {
        let Some((job, counts)) = self.current.take() else { return Some(()) };
        let known = self.counts.entry((job, self.server.clone())).or_default();
        if counts.snapshot >= known.snapshot {
            *known = counts;
        }
        (self.counts.len() <= MOST).then_some(())
    }

    fn jobs(self) -> Vec<ServedJob> {
        let mut jobs: Vec<ServedJob> = Vec::new();
        for ((job, _), counts) in self.counts {
            if jobs.last().is_none_or(|last| last.job != job) {
                jobs.push(ServedJob { job, ..ServedJob::default() });
            }
            if let Some(last) = jobs.last_mut() {
                last.operations = last.operations.saturating_add(counts.operations);
                last.bytes_read = last.bytes_read.saturating_add(counts.bytes_read);
                last.bytes_written = last.bytes_written.saturating_add(counts.bytes_written);
            }
        }
        jobs.sort_by(|one, other| (other.operations, &one.job).cmp(&(one.operations, &other.job)));
        jobs
    }
}

/// A number in `{ samples: 2, unit: bytes, sum: 7 }`.
fn member(value: &str, name: &str) -> Option<u64> {
    let inside = value.strip_prefix('{')?.strip_suffix('}')?;
    let of_name = |part: &str| {
        let (found, value) = part.split_once(':')?;
        (found.trim() == name).then(|| value.trim().parse().ok())?
    };
    inside.split(',').find_map(of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<ServedJob>, String> {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> = texts
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let path = folder.path().join(number.to_string());
                std::fs::write(&path, text).unwrap();
                path
            })
            .collect();
        served_jobs(&files).map_err(|error| error.to_string().replace(folder.path().to_str().unwrap(), ""))
    }

    fn job(job: &str, operations: u64, bytes_read: u64, bytes_written: u64) -> ServedJob {
        ServedJob { job: job.to_owned(), operations, bytes_read, bytes_written }
    }

    const SAMPLE: &str = include_str!("../tests/fixtures/job_stats");

    #[test]
    fn servers_are_summed_and_the_last_snapshot_counts() {
        let expected = [
            job("4711", 2100 + 2090 + 35_000 + 12 + 400 + 7 + 3, 9_437_184, 4096),
            job("4712", 11 + 9, 0, 0),
            job("python3.1000", 5, 0, 0),
            job("", 0, 0, 0),
        ];
        assert_eq!(read(&[SAMPLE]).unwrap(), expected);
        let later = "mdt.work-MDT0000.job_stats=\njob_stats:\n- job_id: 4712\n  snapshot_time: 1700000900\n  open: { samples: 30, unit: reqs }\n";
        assert_eq!(read(&[SAMPLE, later]).unwrap()[1], job("4712", 30, 0, 0));
        assert_eq!(read(&[later, SAMPLE]).unwrap()[1], job("4712", 30, 0, 0), "in any order");
        assert_eq!(read(&["job_stats:\n"]).unwrap(), []);
    }

    #[test]
    fn other_files_are_refused_with_their_line() {
        let refused = |text: &str| read(&[text]).unwrap_err();
        assert_eq!(refused("hello\n"), "`/0` is no `job_stats` of Lustre: line 1 is `hello`");
        assert_eq!(refused(""), "`/0` is no `job_stats` of Lustre: it is empty");
        assert_eq!(
            refused("job_stats:\n- job_id: 1\n  open: { samples: x }\n"),
            "`/0` is no `job_stats` of Lustre: line 3 is `open: { samples: x }`"
        );
        let long = format!("job_stats:\n- job_id: {}\n", "9".repeat(5000));
        assert!(refused(&long).contains("line 2 is `- job_id: 999"));
        let strange = "job_stats:\n- job_id: 1'); DROP\x1b[2J\n  open: { samples: 18446744073709551615, unit: reqs }\n  close: { samples: 1 }\n";
        assert_eq!(read(&[strange]).unwrap(), [job(r"1'); DROP\x1b[2J", u64::MAX, 0, 0)]);
    }
}
