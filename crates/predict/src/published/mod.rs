//! The published figures, each beside what the model says: calibration and validation kept apart, misses as misses.
//!
//! ```text
//! shipped profiles (fitted to rows C) -> directory, startup -.
//! published/module-avail.csv          -> arithmetic          +-> PublishedRow: published, predicted, rule, verdict
//!                                        striping           -|
//! published/figures.csv               -> figures            -'
//!                                        missing: what no row can be made of
//!                                        doubt: what the rows cannot tell apart
//! ```
//!
//! Rules are stated in the rows and follow from what a figure may be used for. Nothing is fitted here: a profile's parameters are
//! what its file says.

mod arithmetic;
mod counts;
mod coverage;
mod directory;
mod doubt;
mod engine;
mod figures;
mod missing;
mod row;
mod startup;
mod striping;

pub use counts::StartCounts;
pub use coverage::{COVERAGE, Coverage, SEPARATED, SeparatedStarts};
pub use doubt::{Alternative, Elasticity};
pub use missing::{MISSING, MissingFigure};
pub use row::{Published, PublishedRow, RowRule, RowUnit, RowUse, RowVerdict};

/// Everything that is compared.
#[derive(Clone, Debug)]
pub struct Validation {
    /// Shape: by source, in the order of their figures.
    pub rows: Vec<PublishedRow>,
    /// Figures that no row can be made of.
    pub missing: &'static [MissingFigure],
    /// Assumptions that the rows cannot tell apart.
    pub alternatives: Vec<Alternative>,
    /// The change of the validated times with each figure.
    pub elasticities: Vec<Elasticity>,
}

/// Computes every row.
pub fn validate() -> Validation {
    Validation {
        rows: [startup::rows(), directory::rows(), striping::rows(), arithmetic::rows()].concat(),
        missing: MISSING,
        alternatives: doubt::alternatives(),
        elasticities: doubt::elasticities(),
    }
}

#[cfg(test)]
mod tests;
