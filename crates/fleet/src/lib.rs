//! Many jobs: a row for each trace in a data set of Parquet files, and questions to it.
//!
//! ```text
//! trace -> JobRow -> DIR/jobs/day=2026-11-24/ID.parquet     one row a job
//!              `---> DIR/paths/day=2026-11-24/ID.parquet    its directories with most operations
//!
//! DIR -> DuckDB, as a program or as a module of Python <- a query of fixed words and numbers
//! ```
//!
//! The data set is written here, and read by other engines alone: DuckDB, polars, Spark, ClickHouse. `docs/fleet.md`
//! describes the columns. What a trace names is hostile: it is a value in a column, and never part of a query, a command
//! line or a file name.

mod compact;
mod dataset;
mod day;
mod directory;
mod engine;
mod error;
mod identity;
mod libraries;
mod names;
mod program;
mod query;
mod row;
mod served;
mod tables;
mod trust;

pub use compact::{compact, finish};
pub use dataset::{DataSet, FleetDays, Replaced};
pub use day::Compacted;
pub use engine::Engine;
pub use error::FleetError;
pub use query::{Dialect, FleetRow, Grouping, Question, Repeats, ServedRow, ServedSum};
pub use row::{FindingCost, JobRow, LibraryCost, PathCost};
pub use served::{ServedJob, served_jobs};
