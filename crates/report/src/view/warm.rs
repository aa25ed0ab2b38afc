//! The objects of `quell warm`.

use schemars::JsonSchema;
use serde::Serialize;

/// The names and data that were read for a trace, an image or a directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WarmView {
    /// The version of this object.
    pub schema_version: u32,
    /// The trace, image or directory.
    pub subject: String,
    /// Names that were looked up and found as they were recorded: there, or absent.
    pub names: u64,
    /// Of these, the ones that are there: their attributes were read.
    pub attributes: u64,
    /// Directories that were listed.
    pub listings: u64,
    /// Symbolic links whose target was read.
    pub links: u64,
    /// Files of which data was read.
    pub files: u64,
    /// Bytes of these that were read.
    pub bytes: u64,
    /// Its duration. Unit: seconds.
    pub seconds: f64,
    /// Names that are gone.
    pub missing: u64,
    /// Files that are not as they were recorded, and names that have come.
    pub changed: u64,
    /// Files and directories that could not be read, or that the budget left no room for.
    pub skipped: u64,
}

/// The list of a CVMFS file bundle. The form is that of cvmfs, version 2.14, and not ours.
#[derive(Debug, Serialize)]
pub struct CvmfsBundleView<'a> {
    name: &'static str,
    version: &'static str,
    encoding: &'static str,
    dependencies: &'a [String],
}

impl<'a> CvmfsBundleView<'a> {
    /// The list of these files, by their paths from the repository.
    pub fn of(dependencies: &'a [String]) -> Self {
        Self { name: "CVMFS_BUNDLE", version: "1.0.0", encoding: "UTF-8", dependencies }
    }
}
