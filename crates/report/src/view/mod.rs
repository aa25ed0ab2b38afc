//! Views: for each command one object with all that its outputs show.
//!
//! A view is the only input of the terminal, JSON, CSV and HTML. `--json` prints it whole, but for fields that are marked
//! `skip`: only other outputs show those. Names are fixed, fields are only added, and [`schemas`] makes the schemas from
//! these types.

mod activity;
mod check;
mod config;
mod create;
mod data;
mod diff;
mod doctor;
mod findings;
mod fix;
mod folds;
mod headline;
mod image;
mod modules;
mod parts;
mod predict;
mod range;
mod replay;
mod report;
mod schemas;
mod searches;
mod validate;

pub use activity::{Activity, OpenFiles, Phase, Series};
pub use check::{ChangedOriginal, LeftStamp, SourceCheckView};
pub use config::{ConfigFile, ConfigProblem, ConfigValue, ConfigView};
pub use create::{CreateAdvice, CreatePoint, CreateProfile, CreateTerm, CreateView, CreateWhatIf, create};
pub use data::{Data, FileData, Streams, Transfers};
pub use diff::{
    ChangedPath, CommonPaths, DiffView, Increase, Latency, LatencyPair, Pair, PathShare, PathSide, Paths,
    SearchCounts, SearchPair, ServedPair, SyscallPair, diff,
};
pub use doctor::{DoctorProbe, DoctorView};
pub use findings::{Finding, Remedy, Threshold};
pub use fix::{FixStep, FixView, fix};
pub use folds::FoldRow;
pub use headline::{Headline, ScaledStart};
pub use image::{
    ImageCheckView, ImageDirectories, ImageEntry, ImageFiles, ImageInfoView, ImageListView, ImagePlace,
};
pub use modules::{
    AuditFinding, CacheBuilt, CacheChange, CacheLeftOut, ConvertReason, ConvertedFile, ConvertedTree,
    MeasuredAdvice, MeasuredStrategy, MeasuredTool, ModulesAuditView, ModulesCachesView, ModulesCheckView,
    ModulesConvertView, ModulesDifference, ModulesExampleView, ModulesMeasureView, ModulesUndoView,
    ModulesVerifyView, UnmeasuredStrategy,
};
pub use parts::{CallsAndErrors, Doubt, Totals};
pub use predict::{PredictInputs, PredictPoint, PredictProfile, PredictSensitivity, PredictView, predict};
pub use range::{Bounds, InputFigure, Range, Sensitivity};
pub use replay::{
    ReplayClass, ReplayDifference, ReplayDifferences, ReplaySkipped, ReplayTimes, ReplayView, replay,
};
pub use report::{
    Command, Directory, Failure, FileSystem, MissedName, PathRow, Recorder, Recording, ReportView, ServedBy,
    StartUp, Syscall, report,
};
pub use schemas::SCHEMAS;
pub use searches::{SearchEntry, Searches, Wanted};
pub use validate::{
    Alternative, NotReproducible, PublishedFigure, RowElasticity, ValidateView, ValidationRow, validation,
};

/// Version of every object. It changes when a field is removed or gets another meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// Rows of each table: the whole is in the trace itself.
const ROWS: usize = 1000;
