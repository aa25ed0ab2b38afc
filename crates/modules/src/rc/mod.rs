//! rc files: a small reader of declarative Tcl, and the meaning of its commands.
//!
//! A file is declarative if every word in it is literal and every command is one of those that rc files consist of. Such a
//! file means the same for every user, at any time and, once its relative names are expanded, in any place. Only such files
//! are moved. A variable, a condition or an unknown command makes a file "not declarative", with the line and the reason.
//! Nothing is evaluated.

mod command;
mod groups;
mod leave;
mod merge;
mod names;
mod words;

pub use command::{Declared, RcCommand, Statement, read};
pub(crate) use groups::{OLDEST, usable};
pub use groups::{RcFile, RcGroup, groups};
pub use leave::LeaveReason;
pub use merge::{MergedRcFiles, Moved, SpokenNames, merge, merge_beside};
pub use names::{NamePlace, expanded, is_plain, is_specification};
pub use words::{NotLiteral, NotLiteralReason, Word, line_of, quoted, words};
