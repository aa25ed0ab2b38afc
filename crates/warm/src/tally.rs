//! Counts of what was done, by many threads.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of names and data that were warmed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Warmed {
    /// Names that were looked up and found as they were recorded: there, or absent.
    pub names: u64,
    /// Of these, the ones that are there: their attributes were read.
    pub attributes: u64,
    /// Directories that were listed.
    pub listings: u64,
    /// Symbolic links whose target was read.
    pub links: u64,
    /// Files of which data was read.
    pub files: u64,
    /// Bytes of these that were read.
    pub bytes: u64,
    /// Names that are gone.
    pub missing: u64,
    /// Files that are not as they were, and names that have come.
    pub changed: u64,
    /// Files and directories that could not be read, or that the budget left no room for.
    pub skipped: u64,
}

macro_rules! tally {
    ($($field:ident),*) => {
        /// The counters behind [`Warmed`].
        #[derive(Debug, Default)]
        pub(crate) struct Tally {
            $(pub(crate) $field: AtomicU64,)*
        }

        impl Tally {
            pub(crate) fn so_far(&self) -> Warmed {
                Warmed { $($field: self.$field.load(Ordering::Relaxed),)* }
            }
        }
    };
}

tally!(names, attributes, listings, links, files, bytes, missing, changed, skipped);

impl Tally {
    /// A name was found, with its attributes.
    pub(crate) fn named(&self) {
        count(&self.names);
        count(&self.attributes);
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
