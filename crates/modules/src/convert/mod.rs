//! Conversions of modulepaths: a plan for review, a tree that is written aside, and a judge that compares old and new before
//! the new tree gets its name.
//!
//! ```text
//! scan -> plan (changes, what is left, why not at all) -> diff, or
//!              `-> write (aside) -> judge -> rename in, or remove
//! ```
//!
//! Only what the rules prove safe is changed; the rest stays as it is. Where a whole modulepath cannot be converted, the
//! plan gives the reasons and nothing is written.

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
mod planner;
mod rc;
mod readers;
mod record;
mod request;
mod together;
mod undo;
mod virtual_modules;
mod ways;
mod write;

pub use diff::diff;
pub use names::{AccountNames, SystemNames};
pub use plan::{ConversionPlan, FileChange, Refusal, TreePlan};
pub use planner::{plan, plan_but};
pub use request::{Consent, Destination, Strategy};
pub use undo::{Undone, commit, has_record, undo, would_undo};
pub use write::{Written, trial, write};
