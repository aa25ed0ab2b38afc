//! Many files created at once, in one shared directory or in several: seconds, term by term, and what to set.
//!
//! ```text
//! profile -> parameters (figures, samples) -.
//! flags   -> request    (nodes, files)      +-> terms -> predict: range, bounds, bottleneck
//! levels  -> split      (blocks, laws)     -'         -> what_if, advice
//! ```
//!
//! A file system whose clients pass no tokens has one term only, the creates themselves.

mod advice;
mod error;
mod parameters;
mod predict;
pub mod split;
mod terms;
mod what_if;

pub use advice::Advice;
pub use error::CreateError;
pub use parameters::{Input, Law, Parameters, inputs};
pub(crate) use predict::point;
pub use predict::{Point, Prediction, Request, Sensitivity, Spread, WhatIf, elasticities, predict};
pub use terms::{Connections, Creates, Directory, InodeToken, Rates, Seconds, State, Term, Tokens};

#[cfg(test)]
mod tests;
