//! Views: for each command one object with all that its outputs show.
//!
//! A view is the only input of the terminal, JSON, CSV and HTML. `--json` prints it whole, but for fields that are marked
//! `skip`: only other outputs show those. Names are fixed, fields are only added, and [`SCHEMAS`] makes the schemas from
//! these types.

mod activity;
mod assumptions;
mod cache;
mod calibrate;
mod check;
mod config;
mod counters;
mod create;
mod data;
mod diff;
mod doctor;
mod findings;
mod fix;
mod fleet;
mod folds;
mod gather;
mod headline;
mod image;
mod modules;
mod packages;
mod page;
mod page_start;
mod parts;
mod predict;
mod range;
mod replay;
mod report;
mod schemas;
mod searches;
mod top;
mod validate;
mod warm;

pub use activity::{Activity, OpenFiles, Phase, Series};
pub(crate) use assumptions::{assumptions, doubts, narrowing_measurement, of_each};
pub use cache::{CacheListView, CachedProgram};
pub use calibrate::{
    CalibrateView, CalibratedCase, CalibratedFigure, CalibratedRun, CalibratedValue, CaseGroup, KeptByClient,
    calibrate,
};
pub use check::{ChangedOriginal, LeftStamp, SourceCheckView};
pub use config::{ConfigFile, ConfigProblem, ConfigValue, ConfigView};
pub use counters::{ChangedCounter, CountedFileSystem, CountedOperations, CountersView, UncountedFileSystem};
pub use create::{
    CreateAdvice, CreatePoint, CreateTerm, CreateView, CreateWhatIf, ProfileHead, create, profiles,
};
pub use data::{Data, Family, FileData, Streams, Transfers};
pub use diff::{
    ChangedPath, CommonPaths, DiffView, Increase, LatencyPair, Pair, PathListCounts, PathShare, PathSide,
    Paths, SearchCounts, SearchPair, ServedPair, SyscallPair, diff,
};
pub use doctor::{DoctorProbe, DoctorView};
pub use findings::{Finding, LimitRow, Remedy, Threshold, limits};
pub use fix::{FixStep, FixView, fix};
pub use fleet::{FleetCost, FleetServed, FleetServedJob, FleetTable, FleetView};
pub use folds::FoldRow;
pub use gather::{GatherConflict, GatherListView, GatheredContainer, GatheredFile};
pub use headline::{Headline, ScaledStart};
pub use image::{
    ImageCheckView, ImageDirectories, ImageEntry, ImageFiles, ImageInfoView, ImageListView, ImagePlace,
};
pub use modules::{
    AuditFinding, CacheBuilt, CacheChange, CacheLeftOut, ConvertReason, ConvertedCalls, ConvertedFile,
    ConvertedTree, MeasuredAdvice, MeasuredRecommendation, MeasuredStrategy, MeasuredTool, ModulesAuditView,
    ModulesCachesView, ModulesCheckView, ModulesConvertView, ModulesDifference, ModulesExampleView,
    ModulesMeasureView, ModulesUndoView, ModulesVerifyView, UnmeasuredStrategy,
};
pub use packages::{ImportView, PackageCosts, PackageView};
pub use page::{
    Curve, CurvePoint, MeasuredPoint, PageAdvice, PageInputs, PredictedChange, PredictedChanges,
    PredictionPage, Swing, Tornado, page_of_creates,
};
pub use page_start::page_of_start;
pub use parts::{CallsAndErrors, Doubt, Latency, Totals};
pub(crate) use predict::not_told_apart;
pub use predict::{
    PredictInputs, PredictPeers, PredictPoint, PredictProfile, PredictSensitivity, PredictView,
    peers_beside_reading, predict,
};
pub use range::{Bounds, InputFigure, Range, Sensitivity};
pub use replay::{
    ReplayClass, ReplayDifference, ReplayDifferences, ReplaySkipped, ReplayTimes, ReplayView, replay,
};
pub use report::{
    Command, Directory, Failure, FileSystem, MissedName, PathRow, PathTables, Recorder, Recording,
    ReportView, Served, StartUp, Syscall, report,
};
pub use schemas::{NamedSchema, SCHEMAS, page_schema};
pub use searches::{SearchEntry, SearchList, Searches, Wanted};
pub use top::{TopCounts, TopDirectory, TopProcess, TopView};
pub use validate::{
    Alternative, NotReproducible, PublishedFigure, RangeCoverage, RowElasticity, SeparatedCoverage,
    ValidateView, ValidationRow, ValidationUse, validate,
};
pub use warm::{CvmfsBundleView, WarmView};

/// Version of every object. It changes when a field is removed or gets another meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// The rows of a view's tables: the whole is in the trace itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// At most 1000 rows of each table, and 512 intervals: JSON, the page, the terminal.
    Top,
    /// Every row: CSV.
    Whole,
}

impl Rows {
    /// Rows of a table at most.
    const fn most(self) -> usize {
        match self {
            Self::Top => 1000,
            Self::Whole => usize::MAX,
        }
    }

    /// Intervals of a timeline at most. More than 512 are more than a screen has columns for.
    const fn intervals(self) -> usize {
        match self {
            Self::Top => 512,
            Self::Whole => usize::MAX,
        }
    }
}

/// Rows of the tables that only the terminal shows.
const SCREEN: usize = 10;
