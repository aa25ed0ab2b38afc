//! Files on paths that other users may change: checks of path components, and outputs that appear whole.
//!
//! [`Way`] walks a path once, name by name, by descriptors. Later operations use the descriptor of the last directory,
//! so that no component can be exchanged in between. An [`Output`] is written aside and renamed; a [`Folder`] is a new
//! directory that is written through its descriptor. Links of other users are not followed at the end of a path,
//! whatever `fs.protected_symlinks` says.

mod folder;
mod output;
mod way;

pub use folder::Folder;
pub use output::{Access, Durability, Output, Target, put, replace};
pub use way::{Passed, Refused, Way, changeable_by_others, is_anothers, is_unmapped};
