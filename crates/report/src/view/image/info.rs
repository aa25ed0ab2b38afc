//! The object of `quell image info --json`.

use schemars::JsonSchema;
use serde::Serialize;

/// An image: its origin and its contents.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImageInfoView {
    /// The version of this object.
    pub schema_version: u32,
    /// The image.
    pub image: String,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its content: equal for equal images, whatever their packer and date.
    pub identity: String,
    /// Its format: `erofs`, with quell's index.
    pub format: &'static str,
    /// Version of the index.
    pub index_version: u32,
    /// It has all that a run needs: no operation goes to the originals then.
    pub complete: bool,
    /// The recorded command.
    pub command: Vec<String>,
    /// The directory in which it was started; empty where that is not known.
    pub directory: String,
    /// ImageDirectories that it covers.
    pub roots: Vec<ImagePlace>,
    /// ImageDirectories below them that stay the original.
    pub live_directories: Vec<ImagePlace>,
    /// Names of any kind, without those of quell's index.
    pub names: u64,
    /// Regular files.
    pub files: ImageFiles,
    /// Symbolic links.
    pub symbolic_links: u64,
    /// ImageDirectories, by how much of their names is known.
    pub directories: ImageDirectories,
    /// Names known to be absent, besides all that complete directories do not list.
    pub absences: u64,
}

/// A root or live directory.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ImagePlace {
    /// Its original path.
    pub path: String,
    /// The reason for which it was chosen.
    pub reason: String,
    /// Type of its file system when it was packed; null where it is not known.
    pub file_system: Option<String>,
}

/// Regular files.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ImageFiles {
    /// Files whose content is held whole.
    pub held: u64,
    /// Bytes of that content.
    pub held_bytes: u64,
    /// Of whose content a part is held: the blocks that the recorded run touched.
    pub part: u64,
    /// Bytes of those parts.
    pub part_held_bytes: u64,
    /// Bytes that those files have.
    pub part_bytes: u64,
    /// Files whose content is read from the original.
    pub original: u64,
    /// Bytes that those had.
    pub original_bytes: u64,
}

/// ImageDirectories.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ImageDirectories {
    /// Every name is known.
    pub complete: u64,
    /// Some names and absences are known.
    pub partial: u64,
    /// Nothing but what leads to other directories is known.
    pub uncovered: u64,
}
