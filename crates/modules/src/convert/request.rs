//! The request for a conversion: strategy, destination and options.

use std::path::PathBuf;

/// The form into which modulepaths are converted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// rc files of directories become commands of the one at the root.
    Rc,
    /// The same, and trees that give the same answers with `mcookie_check=eval`, which opens no file to learn its kind.
    Eval,
    /// The same, and modulepaths that hold only an rc file, which names every modulefile.
    Virtual,
}

impl Strategy {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Eval => "eval",
            Self::Virtual => "virtual",
        }
    }

    /// Variables that users must set. Shape: name and value.
    pub fn variables(self) -> Vec<(String, String)> {
        match self {
            Self::Rc => Vec::new(),
            Self::Eval | Self::Virtual => vec![("MODULES_MCOOKIE_CHECK".into(), "eval".into())],
        }
    }
}

/// Options of a conversion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Leave out files that are no modulefiles, rather than hide them.
    pub delete_strays: bool,
    /// Refuse a change even of the reason for which a request is refused. Without this, a hidden file may be "not there"
    /// where it was "permission denied" before.
    pub exact: bool,
}

/// The place where new modulepaths get their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// In this directory, each by the last component of the old one.
    Out(PathBuf),
    /// In place of the old ones, which are kept beside them as `NAME.quell-before`. A modulepath without changes stays.
    InPlace,
}
