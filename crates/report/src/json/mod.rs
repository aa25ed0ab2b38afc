//! JSON for programs: one object with `schema_version`. Names are fixed, fields are only added, and the schema is
//! made from these types.

mod activity;
mod create;
mod data;
mod diff;
mod findings;
mod fix;
mod folds;
mod headline;
mod parts;
mod predict;
mod range;
mod replay;
mod report;
mod searches;
mod validate;

pub use activity::{Activity, OpenFiles, Phase, Series};
pub use create::{Create, CreateAdvice, CreatePoint, CreateProfile, CreateTerm, CreateWhatIf, create};
pub use data::{Data, FileData, Streams, Transfers};
pub use diff::{
    ChangedPath, CommonPaths, Diff, Increase, Latency, LatencyPair, Pair, PathShare, PathSide, Paths,
    SearchCounts, SearchPair, ServedPair, SyscallPair, diff,
};
pub use findings::{Finding, Remedy, Threshold};
pub use fix::{Fix, Step, fix};
pub use headline::{Headline, ScaledStart};
pub use parts::{CallsAndErrors, Doubt, Totals};
pub use predict::{Predict, PredictInputs, PredictPoint, PredictProfile, PredictSensitivity, predict};
pub use range::{Bounds, InputFigure, Range, Sensitivity};
pub use replay::{
    Replay, ReplayClass, ReplayDifference, ReplayDifferences, ReplaySkipped, ReplayTimes, replay,
    replay_schema,
};
pub use report::{
    Command, Directory, Failure, FileSystem, MissedName, PathRow, Recorder, Recording, Report, ServedBy,
    StartUp, Syscall, report,
};
pub use searches::{SearchEntry, Searches, Wanted};
pub use validate::{
    Alternative, NotReproducible, PublishedFigure, RowElasticity, Validation, ValidationRow, validation,
};

/// Version of both objects. It changes when a field is removed or gets another meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows of each table: the whole is in the trace itself.
const ROWS: usize = 1000;

/// The JSON schema of [`Report`].
pub fn report_schema() -> serde_json::Value {
    schemars::schema_for!(Report).to_value()
}

/// The JSON schema of [`Fix`].
pub fn fix_schema() -> serde_json::Value {
    schemars::schema_for!(Fix).to_value()
}

/// The JSON schema of [`Diff`].
pub fn diff_schema() -> serde_json::Value {
    schemars::schema_for!(Diff).to_value()
}

/// The JSON schema of [`Predict`].
pub fn predict_schema() -> serde_json::Value {
    schemars::schema_for!(Predict).to_value()
}

/// The JSON schema of [`Create`].
pub fn create_schema() -> serde_json::Value {
    schemars::schema_for!(Create).to_value()
}

/// The JSON schema of [`Validation`].
pub fn validation_schema() -> serde_json::Value {
    schemars::schema_for!(Validation).to_value()
}
