//! A job in one row: its user and command, its cost, and the remedies.

use crate::libraries::library;
use crate::program::program;
use crate::{FleetError, identity};
use quell_analyse::{LimitsInForce, Summary, Totals, diagnose, summarise};
use quell_trace::{Class, Exit, Header, RankId, Trace};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

/// A job, of one trace.
#[derive(Clone, Debug)]
pub struct JobRow {
    /// The digest of the trace's contents. Shape: 32 hexadecimal digits.
    pub id: String,
    /// The name of the user who recorded it, else the number.
    pub user: String,
    /// The header of the recording.
    pub header: Header,
    /// The program's name; for an interpreter with the name of what it runs.
    pub program: String,
    /// The whole run in a few numbers.
    pub totals: Totals,
    /// Metadata operations by who served them.
    pub served: quell_analyse::Served,
    /// Calls by class.
    pub classes: BTreeMap<Class, u64>,
    /// The metadata operations that findings count: those on network file systems, or all where it used none.
    pub cost: u64,
    /// Of these, the ones that remain with every remedy.
    pub cost_after: u64,
    /// Shape: at most 5, the most important first.
    pub findings: Vec<FindingCost>,
    /// Shape: at most 10, sorted by operations, most first, then by name.
    pub libraries: Vec<LibraryCost>,
    /// Directories. Shape: at most 20, sorted by operations, most first, then by path.
    pub paths: Vec<PathCost>,
}

/// A finding of a job.
#[derive(Clone, Debug)]
pub struct FindingCost {
    /// Its stable name.
    pub code: String,
    /// The observation.
    pub title: String,
    /// The operations that it causes.
    pub operations: u64,
    /// Those of them that remain with its remedy.
    pub operations_after: u64,
}

/// The operations on a library's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibraryCost {
    /// Its name.
    pub name: String,
    /// Metadata operations on its names.
    pub operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
}

/// The operations on the names in a directory.
#[derive(Clone, Debug)]
pub struct PathCost {
    /// The directory; escaped.
    pub path: String,
    /// Metadata operations.
    pub operations: u64,
    /// Those that failed because the name is absent.
    pub missed: u64,
    /// `network`, `quell`, `local`; `None` where it is not known.
    pub served_by: Option<&'static str>,
}

impl JobRow {
    /// The row of the trace in `directory`. `user_name` gives the name of a user's number.
    ///
    /// # Errors
    /// Those of reading the trace.
    pub fn of(
        directory: &Path,
        mut user_name: impl FnMut(u32) -> Option<String>,
    ) -> Result<Self, FleetError> {
        let trace = Trace::open(&[directory])?;
        let summary = summarise(&trace)?;
        let id = identity::identity(directory)?;
        let [recording] = <[_; 1]>::try_from(trace.recordings).expect("one directory was opened");
        let header = recording.header;
        let diagnosis = diagnose(&summary, &LimitsInForce::default());
        let cost = diagnosis.plan.metadata_operations;
        let findings = diagnosis.findings.iter().take(FINDINGS).map(|finding| FindingCost {
            code: finding.code.to_owned(),
            title: finding.title.clone(),
            operations: finding.operations,
            operations_after: finding.remedy.operations_after,
        });
        let mut classes: BTreeMap<Class, u64> = BTreeMap::new();
        summary
            .calls()
            .iter()
            .for_each(|(call, counts)| *classes.entry(call.class()).or_default() += counts.calls);
        let paths = summary.top_directories(summary.scope(), PATHS).into_iter().map(|row| PathCost {
            path: row.path,
            operations: row.counts.metadata_operations,
            missed: row.counts.missed,
            served_by: row.counts.served_by.map(quell_trace::ServedBy::name),
        });
        Ok(Self {
            id,
            user: user_name(header.user).unwrap_or_else(|| header.user.to_string()),
            program: program(&header.command),
            totals: summary.totals(),
            served: summary.served,
            classes,
            cost,
            cost_after: diagnosis.plan.steps.last().map_or(cost, |step| step.together),
            findings: findings.collect(),
            libraries: libraries(&summary),
            paths: paths.collect(),
            header,
        })
    }

    /// The start. Unit: microseconds since 1970. Range: the years 1970 to 9999, whatever the header says.
    pub(crate) fn began(&self) -> i64 {
        // A float that is no number becomes 0.
        (self.header.began.clamp(0.0, LAST_SECOND) * 1e6) as i64
    }

    /// The day of the start in UTC, `2026-11-24`.
    pub(crate) fn day(&self) -> String {
        quell_base::date::utc(self.began() / 1_000_000)[..10].to_owned()
    }

    /// The duration. Unit: microseconds.
    pub(crate) fn duration(&self) -> Option<i64> {
        self.header.seconds.map(|seconds| (seconds.clamp(0.0, LAST_SECOND) * 1e6) as i64)
    }

    /// Job and step, as the launcher names them: `123` and `0` of `123.0`.
    pub(crate) fn job_and_step(&self) -> (Option<&str>, Option<&str>) {
        let job = self.header.job.as_deref();
        let (number, step) = job.and_then(|job| job.split_once('.')).unzip();
        (number.or(job), step)
    }

    pub(crate) fn exit_status(&self) -> Option<i32> {
        self.header.exit.map(Exit::shell_status)
    }

    pub(crate) fn rank(&self) -> Option<u32> {
        self.header.rank.map(|RankId(rank)| rank)
    }
}

/// Sums the paths of each library, in the scope in which a report ranks paths.
fn libraries(summary: &Summary) -> Vec<LibraryCost> {
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let network_only = summary.scope() == quell_analyse::RankingScope::Network;
    for (path, counts) in &summary.paths {
        let is_in_scope = !network_only || counts.served_by == Some(quell_trace::ServedBy::Network);
        if let Some(name) = is_in_scope.then(|| library(path)).flatten() {
            let sum = sums.entry(name).or_default();
            sum.0 += counts.metadata_operations;
            sum.1 += counts.missed;
        }
    }
    let row = |(name, (operations, missed))| LibraryCost { name, operations, missed };
    let mut rows: Vec<LibraryCost> = sums.into_iter().map(row).collect();
    rows.sort_by_key(|row| Reverse(row.operations));
    rows.truncate(LIBRARIES);
    rows
}

/// The end of the year 9999: engines know no later date. Unit: seconds since 1970.
const LAST_SECOND: f64 = 253_402_300_799.0;
/// Findings of a job at most. More are on the page of its trace.
const FINDINGS: usize = 5;
/// Libraries of a job at most.
const LIBRARIES: usize = 10;
/// Directories of a job at most.
const PATHS: usize = 20;
