//! Files on paths that other users may have a hand in: whose the way to one is, and how an output appears.
//!
//! A path is walked once, name by name, by descriptors ([`Way`]); what is done then is done by the descriptor of the
//! last directory, so that nothing on the way can be exchanged meanwhile. An output is written aside and renamed
//! ([`Output`]), or is a new directory that is written to by its descriptor ([`Folder`]). No link that another user owns
//! is followed to one, whatever `fs.protected_symlinks` says.

mod folder;
mod output;
mod way;

pub use folder::Folder;
pub use output::{Access, Durability, Output, Target, put, replace};
pub use way::{Passed, Refused, Way, changeable_by_others, is_anothers, is_unmapped};
