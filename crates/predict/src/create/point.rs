//! A point of the forecast of creates, and the same point under another condition.

use super::terms::{Creates, State, Term};
use crate::forecast::Spread;

/// What a point of creates says beside its time.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDetail {
    /// What is created.
    pub creates: Creates,
    /// The median of each term. Unit: seconds.
    pub terms: Vec<(Term, f64)>,
}

/// The same creates under another condition.
#[derive(Clone, Debug, PartialEq)]
pub struct WhatIf {
    /// The change.
    pub change: String,
    /// What is created then.
    pub creates: Creates,
    /// How the directory is found then.
    pub state: State,
    /// Unit: seconds.
    pub seconds: Spread,
}
