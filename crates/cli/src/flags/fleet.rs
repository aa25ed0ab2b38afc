//! The flags of `quell collect` and `quell fleet`.

use crate::duration::Days;
use clap::{Args, ValueEnum};
use quell_fleet::{Dialect, Grouping};
use std::path::PathBuf;

/// Add recorded jobs to a data set.
///
/// Each recording becomes a row: who ran what and where, how many operations of which kind, the findings and the libraries
/// that cost most. A second table has its directories with most operations. Both are Parquet files, one directory a day, that
/// DuckDB, polars, Spark and ClickHouse read. Any number of jobs on any number of nodes may add at once. A recording that is
/// added again is the same job.
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell collect app.qtrace -o /shared/fleet\n  \
    quell collect --compact -o /shared/fleet\n  \
    quell fleet /shared/fleet")]
pub struct Collect {
    /// Recordings, each a job.
    #[arg(value_name = "T", required_unless_present = "compact")]
    pub traces: Vec<PathBuf>,
    /// The directory of the data set. It is made if it is absent.
    #[arg(short, long, value_name = "DIR", required = true)]
    pub output: PathBuf,
    /// Merge the files of each day that is over into one, after adding. Needs DuckDB, as `quell fleet` does. Once a day is enough.
    #[arg(long)]
    pub compact: bool,
}

/// Show what many jobs cost, and what would save most.
///
/// Asks the data set of `quell collect` through DuckDB: the program `duckdb`, or the module of python3 (`pip install duckdb`).
///
/// Exit status: 0, or 2 for an error.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    quell fleet /shared/fleet\n  \
    quell fleet /shared/fleet --by user,finding --since 7d\n  \
    quell fleet /shared/fleet --html fleet.html\n  \
    quell fleet /shared/fleet --job-stats job_stats.txt\n  \
    quell fleet /shared/fleet --sql spark")]
pub struct Fleet {
    /// The data set.
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// The tables to show, separated by commas.
    #[arg(
        long,
        value_enum,
        value_name = "PROPERTY",
        value_delimiter = ',',
        default_value = "user,program,library,finding"
    )]
    pub by: Vec<FleetBy>,
    /// Count only jobs that began within this time, such as 12h or 7d [default: all].
    #[arg(long, value_name = "TIME")]
    pub since: Option<Days>,
    /// Rows of each table at most.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub rows: u32,
    /// Join with what the file system counted for each job: FILE is the output of `lctl get_param mdt.*.job_stats`, of any servers and
    /// moments. May be given several times.
    #[arg(long, value_name = "FILE", conflicts_with = "sql")]
    pub job_stats: Vec<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print gauges for Prometheus, in the text format of OpenMetrics.
    #[arg(long)]
    pub openmetrics: bool,
    /// Write a page for a browser; `-` prints it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print the queries, to be asked elsewhere.
    #[arg(long, value_enum, value_name = "ENGINE", num_args = 0..=1, default_missing_value = "duckdb", require_equals = false)]
    pub sql: Option<FleetDialect>,
}

/// A table of `quell fleet`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetBy {
    /// One row for each user.
    User,
    /// One row for each program.
    Program,
    /// One row for each library.
    Library,
    /// One row for each kind of finding.
    Finding,
}

impl FleetBy {
    pub(crate) fn grouping(self) -> Grouping {
        match self {
            Self::User => Grouping::User,
            Self::Program => Grouping::Program,
            Self::Library => Grouping::Library,
            Self::Finding => Grouping::Finding,
        }
    }
}

/// An engine that reads the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetDialect {
    /// DuckDB.
    Duckdb,
    /// Spark.
    Spark,
}

impl FleetDialect {
    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Duckdb => Dialect::DuckDb,
            Self::Spark => Dialect::Spark,
        }
    }
}
