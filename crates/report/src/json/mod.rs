//! JSON for programs: one object with `schema_version`. Names are fixed, fields are only added, and the schema is
//! made from these types.

mod diff;
mod parts;
mod report;

pub use diff::{Diff, Pair, ServedPair, SyscallPair, diff};
pub use parts::{CallsAndErrors, Doubt, Finding, Remedy, Totals};
pub use report::{
    Command, Directory, Failure, FileSystem, MissedName, PathRow, Recorder, Recording, Report, ServedBy,
    StartUp, Syscall, report,
};

/// Version of both objects. It changes when a field is removed or gets another meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The JSON schema of [`Report`].
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

/// The JSON schema of [`Diff`].
pub fn diff_schema() -> serde_json::Value {
    schemars::schema_for!(Diff).to_value()
}
