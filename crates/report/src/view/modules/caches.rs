//! The object of `quell modules convert --to cache --json` and `--to lmod-cache`.

use super::{CacheChange, CacheLeftOut, ModulesDifference};
use schemars::JsonSchema;
use serde::Serialize;

/// Caches that were built.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesCachesView {
    /// The version of this object.
    pub schema_version: u32,
    /// The tool that built them.
    pub tool: String,
    /// Shape: one entry a cache; with `--dry-run` the caches as they would be.
    pub caches: Vec<CacheBuilt>,
    /// Modulepaths that have no cache, and why.
    pub left_out: Vec<CacheLeftOut>,
    /// Answers that would differ; such a cache was taken back.
    pub differences: usize,
    /// These answers.
    pub differing: Vec<ModulesDifference>,
    /// With `--dry-run`: why something would be built; null else.
    pub pending: Option<Vec<CacheChange>>,
    /// A cache that could be built was not.
    #[serde(skip)]
    pub failed: bool,
}

/// A cache.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheBuilt {
    /// Its path.
    pub path: String,
    /// Some part of it was built now.
    pub rebuilt: bool,
    /// Its length.
    pub bytes: u64,
    /// Paths below the modulepath that not everybody can read: users are sent to the tree for them.
    pub closed: Vec<String>,
}
