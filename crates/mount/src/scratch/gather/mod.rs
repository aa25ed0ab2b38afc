//! Directories whose new files go to a container of their node (`run --gather`).
//!
//! ```text
//! change --> tree, in memory --marks--> Gatherer::changed
//! 8 MiB, fsync, 5 s, the end --> Tree::record --> Log (container), one batch
//! ```
//!
//! A batch leads from the last recorded state to the present one, by comparison: what was made and removed in between leaves no trace.
//! Content that is recorded is read from the container.

mod container;
mod content;
mod earlier;
mod gatherer;
mod place;
mod recording;

pub(super) use container::{finish, seal};
pub(super) use content::Gathered;
pub(super) use earlier::{EarlierFile, is_container};
pub(super) use gatherer::Gatherer;
pub(super) use recording::Scope;
