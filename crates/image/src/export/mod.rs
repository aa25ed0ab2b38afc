//! Taking out what an image holds: as a directory, a tar archive, a squashfs or an EROFS file system.
//!
//! ```text
//! image --find--> starts --select--> members and what is left out --+--> directory
//!                                                                   +--> tar --mksquashfs--> squashfs
//! image --rebuild--> tree --write--> EROFS with more content        (erofs)
//! ```
//!
//! Only what is held comes out, or with [`MissingContent::Fill`] also what the originals still have unchanged, except secrets; whatever is
//! left out is named. Nothing of the image is trusted: names are those of directory entries, each directory is met once, and
//! paths end where Linux ends them.

pub mod directory;
pub mod erofs;
mod error;
pub mod find;
mod member;
mod select;
pub mod squashfs;
pub mod tar;
mod walk;

pub use error::ExportError;
pub use member::{ExportMember, IsSecret, LeftOutNode, LeftOutReason, MemberBody};
pub use select::{ExportSelection, MissingContent, select};
pub use walk::{FoundNode, ImageWalk};
