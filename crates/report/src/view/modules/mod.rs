//! Objects of the commands of `quell modules`.

mod audit;
mod caches;
mod check;
mod convert;
mod example;
mod measure;
mod verify;

pub use audit::{AuditFinding, ModulesAuditView};
pub use caches::{CacheBuilt, ModulesCachesView};
pub use check::{CacheChange, CacheLeftOut, ModulesCheckView};
pub use convert::{
    ConvertReason, ConvertedCalls, ConvertedFile, ConvertedTree, ModulesConvertView, ModulesUndoView,
};
pub use example::ModulesExampleView;
pub use measure::{
    MeasuredAdvice, MeasuredRecommendation, MeasuredStrategy, MeasuredTool, ModulesMeasureView,
    UnmeasuredStrategy,
};
pub use verify::{ModulesDifference, ModulesVerifyView};
