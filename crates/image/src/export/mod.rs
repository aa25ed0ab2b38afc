//! Taking out what an image holds: as a directory, a tar archive, a squashfs or an EROFS file system.
//!
//! ```text
//! image --find--> starts --select--> members and what is left out --+--> directory
//!                                                                   +--> tar --mksquashfs--> squashfs
//! image --rebuild--> tree --write--> EROFS with more content        (erofs)
//! ```
//!
//! Only what is held comes out, or with [`Missing::Fill`] also what the originals still have unchanged; whatever is left
//! out is named. Nothing of the image is trusted: names are those of directory entries, each directory is met once, and
//! paths end where Linux ends them.

pub mod directory;
pub mod erofs;
pub mod find;
mod select;
pub mod squashfs;
pub mod tar;
mod walk;

pub use select::{Body, LeftOut, Member, Missing, Reason, Selection, select};
pub use walk::{Found, Walk};

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::Corrupt;
use crate::tree::TreeError;
use crate::write::WriteError;

/// Why nothing, or not everything, could be taken out of an image.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The image contradicts itself.
    #[error("damaged image")]
    Corrupt(#[from] Corrupt),
    /// The output could not be written, or an original not be read.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The image has what a tree cannot have.
    #[error("the image cannot be written anew")]
    Tree(#[from] TreeError),
    /// The directory has something in it already.
    #[error("`{}` exists and is not an empty directory", .path.display())]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// The program that makes squashfs file systems cannot be started: usually it is not installed.
    #[error("cannot start `{}`", .tool.display())]
    ToolMissing {
        /// The program.
        tool: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// That program failed.
    #[error("`{}` failed: {said}", .tool.display())]
    ToolFailed {
        /// The program.
        tool: PathBuf,
        /// The last line that it said.
        said: String,
    },
}

/// Where bytes go.
type Sink<'s> = dyn FnMut(&[u8]) -> Result<(), WriteError> + 's;

/// The failure of writing `needed` bytes to `path`.
fn write_error(action: &'static str, path: &Path, needed: u64, source: io::Error) -> WriteError {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            WriteError::NoSpace { path: path.to_path_buf(), needed, source }
        }
        _ => WriteError::Output { action, path: path.to_path_buf(), source },
    }
}
