//! The flaws for which a profile is refused: one line each, with the line of the file.

/// A flaw for which a profile is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// It is not TOML, or not text. Usual cause: another file.
    #[error("line {line}: {reason}")]
    NotToml {
        /// Range: from 1.
        line: usize,
        /// The parser's message.
        reason: String,
    },
    /// A key or section that no profile has. Usual cause: a slip of the pen.
    #[error("line {line}: `{key}` is not {of}")]
    Unknown {
        /// Range: from 1.
        line: usize,
        /// As the file has it; escaped.
        key: String,
        /// The set that it should belong to.
        of: String,
        /// The one that was probably meant.
        nearest: Option<String>,
    },
    /// A value of another type.
    #[error("line {line}: `{key}` takes {expected}, not {found}")]
    WrongType {
        /// Range: from 1.
        line: usize,
        /// The key.
        key: String,
        /// The type that it takes.
        expected: &'static str,
        /// The type that the file has.
        found: &'static str,
    },
    /// A number that cannot be. Usual cause: another unit, or a zero for "not measured".
    #[error("line {line}: `{key}` is {value}, and must be {least} to {most:e} ({what})")]
    OutOfRange {
        /// Range: from 1.
        line: usize,
        /// The key.
        key: String,
        /// As the file has it.
        value: String,
        /// The least value that is allowed.
        least: f64,
        /// The largest value that is allowed.
        most: f64,
        /// Its unit.
        what: &'static str,
    },
    /// Percentiles that are out of order.
    #[error("line {line}: `{key}` has p10 {p10}, p50 {p50}, p90 {p90}, which must not fall")]
    Disordered {
        /// Range: from 1.
        line: usize,
        /// The key.
        key: String,
        /// As the file has it.
        p10: f64,
        /// As the file has it.
        p50: f64,
        /// As the file has it.
        p90: f64,
    },
    /// Something that every profile has is not there.
    #[error("line {line}: `{key}` is missing")]
    Missing {
        /// Range: from 1; of the whole file, its first.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// A later quell wrote it.
    #[error(
        "line {line}: this profile has version {version}, and this quell reads up to {}",
        super::SCHEMA_VERSION
    )]
    Newer {
        /// Range: from 1.
        line: usize,
        /// Its version.
        version: String,
    },
}

impl ProfileError {
    /// The line of the file. Range: from 1.
    pub fn line(&self) -> usize {
        match self {
            Self::NotToml { line, .. }
            | Self::Unknown { line, .. }
            | Self::WrongType { line, .. }
            | Self::OutOfRange { line, .. }
            | Self::Disordered { line, .. }
            | Self::Missing { line, .. }
            | Self::Newer { line, .. } => *line,
        }
    }

    /// A remedy.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unknown { nearest, .. } => nearest.as_ref().map(|name| format!("perhaps `{name}`")),
            Self::OutOfRange { .. } => Some("leave out what was not measured: absent is not 0".to_owned()),
            Self::NotToml { .. } | Self::Missing { .. } => {
                Some("`quell calibrate DIR -o FILE` writes a profile".to_owned())
            }
            Self::Newer { .. } => Some("read it with the quell that wrote it, or a later one".to_owned()),
            Self::WrongType { .. } | Self::Disordered { .. } => None,
        }
    }
}
