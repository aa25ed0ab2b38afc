//! Conversions of modulepaths: a plan that is looked at first, a tree that is written aside, and a judge who compares the two
//! before the new one gets its name.
//!
//! ```text
//! scan -> plan (changes, what is left, why not at all) -> diff, or
//!              `-> write (aside) -> judge -> rename in, or remove
//! ```
//!
//! Only what the rules prove safe is changed; what stays, stays as it is, beside what is changed. Where a whole modulepath
//! cannot be converted the plan says why, and nothing is written.

mod aside;
mod beside;
mod copy;
mod diff;
mod eval;
mod fingerprint;
mod name;
mod names;
mod places;
mod plan;
mod rc;
mod together;
mod undo;
mod virtual_modules;
mod write;

pub use diff::diff;
pub use names::{Names, SystemNames};
pub use plan::{Change, Plan, Refusal, TreePlan, plan};
pub use undo::{Undone, undo, would_undo};
pub(crate) use write::resolved;
pub use write::{Destination, Written, write};

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
