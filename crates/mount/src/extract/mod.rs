//! Runs from an image without FUSE: the content is copied into a tmpfs of the namespace, which is bound over the directories
//! that the image knows completely. A file that it holds in part is made whole from the original, if
//! that is as it was. Names that it lists without content are bound from the original, up to [`BINDS_MAX`]; with more, the
//! directories of which the image holds least stay the original.
//!
//! ```text
//! /lustre               the original: the image knows only some of its names
//! /lustre/env           bind of <tmpfs>/lustre/env, read-only, so that writes fail loudly
//! /lustre/env/unread.so bind of the original, as it was listed and not read
//! /lustre/env/aside     bind of the original directory, of which the image knows nothing
//! /lustre/env/results   bind of the original, a live directory
//! ```
//!
//! After that the program asks the kernel alone, and no server. A complete image has no originals: files that it lists
//! without content exist and cannot be opened.
//!
//! - [`plan`] decides which names are bound from which source
//! - [`complete`] makes parts whole
//! - [`fill`] copies
//! - [`place`] mounts
//! - [`keep`] lets ranks in

pub(crate) mod complete;
pub(crate) mod files;
mod fill;
pub(crate) mod keep;
pub(crate) mod place;
pub(crate) mod plan;

/// The largest number of names that are bound from the originals, those of files that have changed included. Each costs a lookup on the shared file system when the namespace is made,
/// and a mount: this is to stay far below what the program would ask.
pub(crate) const BINDS_MAX: usize = 1000;
