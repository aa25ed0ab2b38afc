//! The questions to a data set, as SQL that DuckDB and Spark both read.
//!
//! A query asks `jobs`, a view of the table's files. It has fixed words and numbers alone: nothing that a trace or a user
//! named is in it.

use crate::{FleetDays, ServedJob};
use serde::Deserialize;

/// The rows of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grouping {
    /// All jobs in one row.
    All,
    /// One row a user.
    User,
    /// One row a program.
    Program,
    /// One row a library.
    Library,
    /// One row a code of findings.
    Finding,
}

/// The engine that a query is for. The words differ in one function and in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// DuckDB 1.0 and later.
    DuckDb,
    /// Spark 3.4 and later, in a session whose time zone is UTC.
    Spark,
}

/// Jobs that are in the data set more than once: collected again after a compaction, or in two files for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// There may be some. Each job counts once, by its `id`, which costs an engine most of its time.
    Possible,
    /// There are none.
    None,
}

/// A question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Jobs that began before are left out. Unit: seconds since 1970.
    pub since: Option<i64>,
    /// Rows of each grouping at most.
    pub rows: u32,
}

/// A row of an answer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FleetRow {
    /// The name of its [`Grouping`].
    pub grouped_by: String,
    /// The user, program, library or code; empty for all jobs.
    pub name: String,
    /// Jobs in it.
    pub jobs: f64,
    /// Metadata operations.
    pub operations: f64,
    /// The operations that remain with the remedies; `None` for a library.
    pub operations_after: Option<f64>,
    /// Metadata operations that failed because the name is absent; `None` for a finding.
    pub missed: Option<f64>,
    /// The duration of the jobs, as far as it is known; `None` for a library and a finding.
    pub seconds: Option<f64>,
}

/// A job that the file system's servers counted, beside its recordings.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct ServedRow {
    /// The job's number.
    pub job: String,
    /// Operations that the servers answered.
    pub operations: f64,
    /// Bytes that were read and written.
    pub bytes: f64,
    /// Recordings of it, such as ranks and steps.
    pub recordings: f64,
    /// Their cost together; `None` without a recording.
    pub cost: Option<f64>,
    /// The part of it that remains with the remedies.
    pub cost_after: Option<f64>,
    /// The user of one of the recordings.
    pub user_name: Option<String>,
    /// The program of one of the recordings.
    pub program: Option<String>,
}

/// The jobs that the servers counted and that were recorded, together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct ServedSum {
    /// Jobs.
    pub jobs: f64,
    /// Operations that the servers answered for them.
    pub operations: f64,
}

impl Grouping {
    /// Its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::User => "user",
            Self::Program => "program",
            Self::Library => "library",
            Self::Finding => "finding",
        }
    }
}

impl Dialect {
    /// The function that makes a row of each element of a list.
    fn each(self) -> &'static str {
        match self {
            Self::DuckDb => "unnest",
            Self::Spark => "explode",
        }
    }
}

impl Question {
    /// The view that the queries ask. Paths are relative to the data set.
    pub fn view(dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::DuckDb => {
                "CREATE TEMPORARY VIEW jobs AS\nSELECT * FROM read_parquet(\n  \
                'jobs/day=[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]/*.parquet', hive_partitioning = true, union_by_name = true)"
            }
            Dialect::Spark => {
                "CREATE TEMPORARY VIEW jobs USING parquet OPTIONS (path 'jobs', mergeSchema 'true')"
            }
        }
    }

    /// The view of these days for DuckDB. Their names have digits alone.
    pub(crate) fn view_of(FleetDays(days): &FleetDays) -> String {
        let days: Vec<String> = days.iter().map(|day| format!("'jobs/{day}/*.parquet'")).collect();
        format!(
            "CREATE TEMPORARY VIEW jobs AS\nSELECT * FROM read_parquet([{}], hive_partitioning = true, union_by_name = true)",
            days.join(",\n")
        )
    }

    /// The number of repeated rows, as the jobs of one [`FleetRow`].
    pub(crate) fn repeats(&self) -> String {
        format!(
            "SELECT '' AS grouped_by, '' AS name, count(*) - count(DISTINCT id) AS jobs, 0 AS operations FROM jobs{}",
            self.condition()
        )
    }

    /// The table `served` of DuckDB. A job's number is in it as hexadecimal digits, so that no text of a file is in a query.
    pub(crate) fn served_table(jobs: &[ServedJob]) -> String {
        const CREATE: &str =
            "CREATE TEMPORARY TABLE served (job VARCHAR, operations DOUBLE, bytes DOUBLE);\n";
        let row = |job: &ServedJob| {
            let digits: String = job.job.bytes().map(|byte| format!("{byte:02x}")).collect();
            let bytes = job.bytes_read.saturating_add(job.bytes_written);
            format!("(decode(from_hex('{digits}')), {}, {bytes})", job.operations)
        };
        let insert = |jobs: &[ServedJob]| {
            let rows: Vec<String> = jobs.iter().map(row).collect();
            format!("INSERT INTO served VALUES\n{};\n", rows.join(",\n"))
        };
        jobs.chunks(ROWS_OF_AN_INSERT).map(insert).fold(CREATE.to_owned(), |text, insert| text + &insert)
    }

    /// The queries that join `served` with the jobs: one for [`ServedSum`], one for [`ServedRow`].
    pub(crate) fn served(&self) -> [String; 2] {
        let once = self.each_once(&["job", "user_name", "program", "cost", "cost_after"], Repeats::Possible);
        let sum = format!(
            "SELECT count(*) AS jobs, coalesce(sum(operations), 0) AS operations\nFROM served\n\
            WHERE job IN (SELECT job FROM jobs{})",
            self.condition()
        );
        let rows = format!(
            "SELECT served.job AS job, any_value(served.operations) AS operations, any_value(served.bytes) AS bytes,\n  \
            count(once.id) AS recordings, sum(once.cost) AS cost, sum(once.cost_after) AS cost_after,\n  \
            any_value(once.user_name) AS user_name, any_value(once.program) AS program\n\
            FROM served LEFT JOIN {once} ON once.job = served.job\n\
            GROUP BY served.job\nORDER BY operations DESC, job\nLIMIT {}",
            self.rows
        );
        [sum, rows]
    }

    /// The query of one grouping. Its columns are the fields of [`FleetRow`].
    pub fn sql(&self, grouping: Grouping, dialect: Dialect, repeats: Repeats) -> String {
        let (key, columns) = match grouping {
            Grouping::All => ("''", &["cost", "cost_after", "missed", "seconds"][..]),
            Grouping::User => ("user_name", &["user_name", "cost", "cost_after", "missed", "seconds"][..]),
            Grouping::Program => ("program", &["program", "cost", "cost_after", "missed", "seconds"][..]),
            Grouping::Library => ("part.name", &["libraries"][..]),
            Grouping::Finding => ("part.code", &["findings"][..]),
        };
        let sums = match grouping {
            Grouping::Library => {
                "count(*) AS jobs, sum(part.operations) AS operations, sum(part.missed) AS missed"
            }
            Grouping::Finding => {
                "sum(part.is_first) AS jobs, sum(part.operations) AS operations,\n  \
                sum(part.operations_after) AS operations_after"
            }
            _ => {
                "count(*) AS jobs, sum(cost) AS operations, sum(cost_after) AS operations_after,\n  \
                sum(missed) AS missed, sum(seconds) AS seconds"
            }
        };
        let jobs = self.each_once(columns, repeats);
        let rows = match grouping {
            Grouping::Library | Grouping::Finding => {
                let each = dialect.each();
                format!("(SELECT {each}({}) AS part\n  FROM {jobs}) AS parts", columns[0])
            }
            _ => jobs,
        };
        let select =
            format!("SELECT '{}' AS grouped_by, {key} AS name, {sums}\nFROM {rows}", grouping.name());
        match grouping {
            Grouping::All => format!("{select}\nHAVING count(*) > 0"),
            _ => format!("{select}\nGROUP BY {key}\nORDER BY operations DESC, name\nLIMIT {}", self.rows),
        }
    }

    /// These columns of each job.
    fn each_once(&self, columns: &[&str], repeats: Repeats) -> String {
        let since = self.condition();
        match repeats {
            Repeats::None => format!("(SELECT {} FROM jobs{since}) AS once", columns.join(", ")),
            Repeats::Possible => {
                let any = columns.iter().map(|name| format!("any_value({name}) AS {name}"));
                let any = any.collect::<Vec<_>>().join(", ");
                format!("(SELECT id, {any}\n  FROM jobs{since} GROUP BY id) AS once")
            }
        }
    }

    fn condition(&self) -> String {
        let Some(since) = self.since else { return String::new() };
        let moment = quell_base::date::utc(since);
        let day = &moment[..10];
        // The day alone spares the engine other days' files.
        format!(
            " WHERE day >= CAST('{day}' AS DATE) AND began >= CAST('{moment}:{:02}' AS TIMESTAMP)",
            since.rem_euclid(60)
        )
    }
}

/// Rows of one statement: few enough for the engine's parser.
const ROWS_OF_AN_INSERT: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_file_is_in_a_query() {
        let job =
            ServedJob { job: "1'); DROP TABLE jobs; --".to_owned(), operations: 7, ..ServedJob::default() };
        let table = Question::served_table(&[job]);
        assert!(
            table
                .ends_with("(decode(from_hex('3127293b2044524f50205441424c45206a6f62733b202d2d')), 7, 0);\n")
        );
    }

    #[test]
    fn a_query_is_the_same_for_both_engines_but_for_one_word() {
        let question = Question { since: Some(1_700_000_007), rows: 5 };
        for grouping in
            [Grouping::All, Grouping::User, Grouping::Program, Grouping::Library, Grouping::Finding]
        {
            let [duckdb, spark] = [Dialect::DuckDb, Dialect::Spark]
                .map(|dialect| question.sql(grouping, dialect, Repeats::Possible));
            assert_eq!(duckdb.replace("unnest(", "explode("), spark);
            assert!(duckdb.contains("began >= CAST('2023-11-14 22:13:27' AS TIMESTAMP)"), "{duckdb}");
            assert!(duckdb.contains("GROUP BY id"), "{duckdb}");
            assert!(!question.sql(grouping, Dialect::DuckDb, Repeats::None).contains("GROUP BY id"));
        }
    }
}
