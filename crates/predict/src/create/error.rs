//! The reasons for which creates cannot be predicted.

/// The reasons for which creates cannot be predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreateError {
    /// The profile has no rate of creates. Usual cause: it was written by hand, or measured read-only.
    #[error("the profile `{}` says nothing about creates", quell_base::escape(profile.as_bytes()))]
    NotMeasured {
        /// Its name.
        profile: String,
    },
    /// Less than one, or beyond what is meant by it.
    #[error("{what} must be 1 to {most}, not {given}")]
    OutOfRange {
        /// The count, in words.
        what: &'static str,
        /// The count that was asked for.
        given: u64,
        /// The largest that is allowed.
        most: u64,
    },
}

impl CreateError {
    /// A remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotMeasured { .. } => {
                "`quell calibrate DIR -o FILE` measures creates; or add `create` to `[metadata.operations_per_second]`"
            }
            Self::OutOfRange { .. } => "see `quell predict create --help`",
        }
    }
}
