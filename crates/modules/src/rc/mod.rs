//! rc files: a small reader of declarative Tcl, and what its commands mean.
//!
//! A file is declarative when every word in it is literal and every command is one of those that rc files are made of.
//! Such a file says the same to everybody, whenever it is read, and from wherever it is read once its relative names are
//! expanded: only such files are ever moved. Anything else, a variable, a condition, an unknown command, makes the file "not
//! declarative", with the line and the reason. Nothing is evaluated.

mod command;
mod groups;
mod leave;
mod merge;
mod names;
mod words;

pub use command::{Command, Declared, Statement, read};
pub use groups::{Group, RcFile, groups};
pub(crate) use groups::{OLDEST, usable};
pub use leave::Leave;
pub use merge::{Merged, Moved, Spoken, merge, merge_beside};
pub use names::{Place, expanded, is_plain, is_specification};
pub use words::{NotLiteral, Reason, Word, line_of, quoted, words};
