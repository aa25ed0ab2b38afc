//! Why an rc file is not moved: each reason with the rule that it follows from, in words that follow the file's path.

use super::words::{NotLiteral, Word};
use crate::scan::FILE_LIMIT;
use quell_base::escape;
use std::fmt;
use std::path::PathBuf;

/// Why an rc file stays where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Tcl would substitute something in it, or cannot read it.
    NotLiteral(NotLiteral),
    /// A command that is not understood.
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
    /// A name with signs in it, or a relative one where there is nothing to relate it to.
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
    /// It is ignored today: no cookie.
    NoCookie,
    /// It is ignored by versions before this.
    TooNew {
        /// The version that it asks for.
        version: Vec<u8>,
    },
    /// We could not read it.
    Unread,
    /// It is longer than what is read of a file.
    TooLong,
    /// Some users may not read it, or not pass the directories to it.
    Restricted,
    /// It, or a directory on the way to it, is a symbolic link.
    Link,
    /// It speaks of another name than its directory's.
    Scope {
        /// The line.
        line: usize,
        /// The name.
        name: Word,
    },
    /// Its group's files are read in an order that versions of Environment Modules do not agree on.
    Order,
    /// Its directory's name sorts before `.modulerc`, so older versions read it before the one at the root.
    SortsFirst,
    /// Something is defined twice.
    Twice {
        /// What.
        name: Word,
    },
    /// A `.version` overrides a default: the module that loses it is still known by that name when it is loaded.
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
        /// Which.
        path: Vec<u8>,
    },
    /// Rc files of another modulepath are about the same name.
    Elsewhere {
        /// Which.
        modulepath: PathBuf,
    },
    /// The rc file at the root cannot be added to.
    Root(Box<Leave>),
}

impl Leave {
    /// The number of the rule that keeps it.
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
            Self::Root(why) => why.rule(),
        }
    }
}

impl fmt::Display for Leave {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLiteral(NotLiteral { line, reason }) => write!(to, "line {line}: {reason}"),
            Self::UnknownCommand { line, name } => {
                write!(to, "line {line}: `{}` is not one of the commands that are moved", escape(name))
            }
            Self::Arguments { line, command } => {
                write!(to, "line {line}: `{command}` has arguments that some version may refuse")
            }
            Self::Name { line, name } => write!(to, "line {line}: `{}` is not a plain name", escape(name)),
            Self::PathIgnore { line } => {
                write!(to, "line {line}: `modulepath-ignore` goes by where it stands")
            }
            Self::VersionPath { line, value } => {
                write!(to, "line {line}: ModulesVersion `{}` has a slash, which is an error", escape(value))
            }
            Self::VersionInModulerc { line } => {
                write!(to, "line {line}: ModulesVersion counts in a `.version` only")
            }
            Self::NoCookie => to.write_str("it has no cookie, so it is ignored today"),
            Self::TooNew { version } => {
                write!(to, "versions of Modules before {} ignore it", escape(version))
            }
            Self::Unread => to.write_str("it could not be read"),
            Self::TooLong => write!(to, "it is longer than {} KiB", FILE_LIMIT >> 10),
            Self::Restricted => to.write_str("some users may not read it"),
            Self::Link => to.write_str("a symbolic link leads to it, so it may belong elsewhere too"),
            Self::Scope { line, name } => {
                write!(to, "line {line}: `{}` is another name than its directory's", escape(name))
            }
            Self::Order => {
                to.write_str("versions of Modules read the rc files of this name in different orders")
            }
            Self::SortsFirst => to.write_str("older versions read it before the rc file at the root"),
            Self::Twice { name } => write!(to, "`{}` is defined twice", escape(name)),
            Self::Overridden { name } => {
                write!(to, "a `.version` overrides the default of `{}` that is set elsewhere", escape(name))
            }
            Self::Circle { name } => write!(to, "`{}` stands for itself in the end", escape(name)),
            Self::Neighbour { path } => write!(to, "`{}` stays, and both are read together", escape(path)),
            Self::Elsewhere { modulepath } => {
                write!(to, "rc files of `{}` are about the same name", modulepath.display())
            }
            Self::Root(why) => write!(to, "the `.modulerc` at the root cannot be added to: {why}"),
        }
    }
}
