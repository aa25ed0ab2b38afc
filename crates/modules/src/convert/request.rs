//! What a conversion is asked for: the strategy, the destination, and how far it may go.

use std::path::PathBuf;

/// What modulepaths become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// rc files of directories become commands of the one at the root.
    Rc,
    /// The same, and trees that say the same with `mcookie_check=eval`, which opens no file to see what it is.
    Eval,
    /// The same, and modulepaths of nothing but an rc file that names every modulefile.
    Virtual,
}

impl Strategy {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rc => "rc",
            Self::Eval => "eval",
            Self::Virtual => "virtual",
        }
    }

    /// Variables that users need for what it gives. Shape: name and value.
    pub fn variables(self) -> Vec<(String, String)> {
        match self {
            Self::Rc => Vec::new(),
            Self::Eval | Self::Virtual => vec![("MODULES_MCOOKIE_CHECK".into(), "eval".into())],
        }
    }
}

/// What a conversion may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Leave files out that are no modulefiles. They are hidden otherwise.
    pub delete_strays: bool,
    /// Not even the reason may change for which a request is refused: a name that is hidden is "not there" now, where its
    /// file was looked at and refused before.
    pub exact: bool,
}

/// Where new modulepaths get their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// In this directory, each by the last component of the old one.
    Out(PathBuf),
    /// In place of the old ones, which are kept beside them as `NAME.quell-before`. What would not change stays.
    InPlace,
}
