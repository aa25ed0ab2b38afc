//! Reasons for which an rc file is not moved: each with its rule, in words that follow the file's path.

use super::words::{NotLiteral, Word};
use crate::scan::FILE_LIMIT;
use quell_base::escape;
use std::fmt;
use std::path::PathBuf;

/// A reason for which an rc file stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaveReason {
    /// Tcl would substitute something in it, or cannot read it.
    NotLiteral(NotLiteral),
    /// An unknown command.
    UnknownCommand {
        /// The line.
        line: usize,
        /// Its name.
        name: Word,
    },
    /// A command whose arguments some version may refuse, which would end a merged file there.
    Arguments {
        /// The line.
        line: usize,
        /// Its name.
        command: String,
    },
    /// A name with special characters, or a relative name that nothing completes.
    Name {
        /// The line.
        line: usize,
        /// The name.
        name: Word,
    },
    /// `modulepath-ignore`.
    PathIgnore {
        /// The line.
        line: usize,
    },
    /// ModulesVersion with a slash.
    VersionPath {
        /// The line.
        line: usize,
        /// The value.
        value: Word,
    },
    /// ModulesVersion in a `.modulerc`.
    VersionInModulerc {
        /// The line.
        line: usize,
    },
    /// It has no cookie, so it is ignored already.
    NoCookie,
    /// Versions before this one ignore it.
    TooNew {
        /// The version that it asks for.
        version: Vec<u8>,
    },
    /// It could not be read.
    Unread,
    /// It is longer than the part of a file that is read.
    TooLong,
    /// Some users may not read it, or not enter a directory above it.
    Restricted,
    /// It, or a directory above it, is a symbolic link.
    Link,
    /// It names a module outside of its directory.
    Scope {
        /// The line.
        line: usize,
        /// The name.
        name: Word,
    },
    /// Versions of Environment Modules read the files of its group in different orders.
    Order,
    /// Its directory's name sorts before `.modulerc`, so older versions read it before the one at the root.
    SortsFirst,
    /// Something is defined twice.
    Twice {
        /// The name.
        name: Word,
    },
    /// A `.version` overrides a default: the overridden module keeps that name when it is loaded.
    Overridden {
        /// The name with the default.
        name: Word,
    },
    /// A name that stands for itself in the end.
    Circle {
        /// The name.
        name: Word,
    },
    /// Another rc file of the group stays.
    Neighbour {
        /// The file.
        path: Vec<u8>,
    },
    /// Rc files of another modulepath are about the same name.
    Elsewhere {
        /// The modulepath.
        modulepath: PathBuf,
    },
    /// An answer of the tools would change.
    Judged,
    /// Nothing can be added to the rc file at the root.
    Root(Box<LeaveReason>),
}

impl LeaveReason {
    /// The number of the rule for this reason.
    pub fn rule(&self) -> u8 {
        match self {
            Self::Twice { .. }
            | Self::Overridden { .. }
            | Self::Circle { .. }
            | Self::Order
            | Self::Elsewhere { .. }
            | Self::SortsFirst => 6,
            Self::VersionPath { .. } | Self::VersionInModulerc { .. } => 7,
            Self::Name { .. } => 8,
            Self::NoCookie | Self::TooNew { .. } | Self::Unread | Self::TooLong | Self::Restricted => 9,
            Self::Arguments { .. } => 10,
            Self::Scope { .. } => 11,
            Self::NotLiteral(_)
            | Self::UnknownCommand { .. }
            | Self::PathIgnore { .. }
            | Self::Neighbour { .. } => 12,
            Self::Link => 5,
            Self::Judged => 24,
            Self::Root(why) => why.rule(),
        }
    }
}

impl fmt::Display for LeaveReason {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLiteral(NotLiteral { line, reason }) => write!(to, "line {line}: {reason}"),
            Self::UnknownCommand { line, name } => {
                write!(to, "line {line}: `{}` is not among the commands that can be moved", escape(name))
            }
            Self::Arguments { line, command } => {
                write!(to, "line {line}: `{command}` has arguments that some version may refuse")
            }
            Self::Name { line, name } => write!(to, "line {line}: `{}` is not a plain name", escape(name)),
            Self::PathIgnore { line } => {
                write!(to, "line {line}: `modulepath-ignore` depends on the place of its file")
            }
            Self::VersionPath { line, value } => {
                write!(to, "line {line}: ModulesVersion `{}` has a slash, which is an error", escape(value))
            }
            Self::VersionInModulerc { line } => {
                write!(to, "line {line}: ModulesVersion counts only in a `.version`")
            }
            Self::NoCookie => to.write_str("it has no cookie, so it is ignored already"),
            Self::TooNew { version } => {
                write!(to, "versions of Modules before {} ignore it", escape(version))
            }
            Self::Unread => to.write_str("it could not be read"),
            Self::TooLong => write!(to, "it is longer than {} KiB", FILE_LIMIT >> 10),
            Self::Restricted => to.write_str("some users may not read it"),
            Self::Link => to.write_str("a symbolic link leads to it, so it may belong to another place too"),
            Self::Scope { line, name } => {
                write!(to, "line {line}: `{}` is not the name of its directory", escape(name))
            }
            Self::Order => {
                to.write_str("versions of Modules read the rc files of this name in different orders")
            }
            Self::SortsFirst => to.write_str("older versions read it before the rc file at the root"),
            Self::Twice { name } => write!(to, "`{}` is defined twice", escape(name)),
            Self::Overridden { name } => {
                write!(to, "a `.version` overrides the default of `{}` that is set elsewhere", escape(name))
            }
            Self::Circle { name } => write!(to, "`{}` leads back to itself", escape(name)),
            Self::Neighbour { path } => write!(to, "`{}` stays, and both are read together", escape(path)),
            Self::Elsewhere { modulepath } => {
                write!(to, "rc files of `{}` are about the same name", modulepath.display())
            }
            Self::Judged => to.write_str("an answer would differ if it moved"),
            Self::Root(why) => write!(to, "nothing can be added to the `.modulerc` at the root: {why}"),
        }
    }
}
