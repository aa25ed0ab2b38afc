//! The change of a row between two runs.

use std::cmp::Ordering;

/// The change between the runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// Only the first run asked for it.
    Gone,
    /// Only the second run asked for it.
    New,
    /// The second run asked less often.
    Less,
    /// The second run asked more often.
    More,
    /// Asked as often, of another kind of file system.
    Moved,
    /// Asked as often of the same file systems, with another outcome.
    Otherwise,
    /// No difference.
    Same,
}

impl Change {
    /// Every change, in the order in which reports show them.
    pub const ALL: [Self; 7] =
        [Self::Gone, Self::New, Self::Less, Self::More, Self::Moved, Self::Otherwise, Self::Same];

    /// Its name in JSON and in CSV.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gone => "gone",
            Self::New => "new",
            Self::Less => "less",
            Self::More => "more",
            Self::Moved => "moved",
            Self::Otherwise => "otherwise",
            Self::Same => "same",
        }
    }

    /// By how often it was asked for; [`Self::Otherwise`] when that is equal.
    pub(super) fn of(a: u64, b: u64) -> Self {
        match a.cmp(&b) {
            Ordering::Greater if b == 0 => Self::Gone,
            Ordering::Less if a == 0 => Self::New,
            Ordering::Greater => Self::Less,
            Ordering::Less => Self::More,
            Ordering::Equal => Self::Otherwise,
        }
    }
}
