//! The object of `quell modules check --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// Caches beside their trees.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ModulesCheckView {
    /// The version of this object.
    pub schema_version: u32,
    /// Every cache is what it would be if it were built now.
    pub fresh: bool,
    /// Differences, by modulepath.
    pub changes: Vec<CacheChange>,
    /// Modulepaths that can have no cache, and why.
    pub left_out: Vec<CacheLeftOut>,
}

/// A difference.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheChange {
    /// The modulepath; for what is the matter with a cache of Lmod itself, its directory.
    pub modulepath: String,
    /// Below it; empty for the modulepath as a whole.
    pub path: String,
    /// The cache, or the directory of one of Lmod.
    pub cache: String,
    /// `no-cache`, `unreadable`, `outdated`, `replaced`, `added`, `removed`, `changed`, `touched`, `closed`, `opened` or
    /// `other`.
    pub what: &'static str,
    /// The same for a person.
    #[serde(skip)]
    pub words: &'static str,
}

/// A modulepath without a cache.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CacheLeftOut {
    /// The modulepath.
    pub modulepath: String,
    /// The reason.
    pub why: String,
}
