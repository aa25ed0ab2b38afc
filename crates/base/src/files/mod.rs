//! Files on paths that other users may change: checks of path components, and outputs that appear whole.
//!
//! [`WalkedPath`] walks a path once, name by name, by descriptors. Later operations use the descriptor of the last
//! directory, so that no component can be exchanged in between. An [`OutputFile`] is written aside and renamed; a
//! [`Folder`] is a new directory that is written through its descriptor. Links of other users are not followed at the
//! end of a path, whatever `fs.protected_symlinks` says.

mod folder;
mod output;
mod private;
mod way;

pub use folder::Folder;
pub use output::{Durability, OutputFile, OutputMode, OutputPlace, put, replace};
pub use private::read_private;
pub use way::{
    PathStep, RefusedLink, WalkedPath, changeable_by_others, directory_of, is_anothers, is_unmapped,
};
