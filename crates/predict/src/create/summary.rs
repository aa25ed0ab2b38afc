//! The forecast of creates.

use super::advice::Advice;
use super::parameters::Input;
use super::point::{CreateDetail, WhatIf};
use super::request::Request;
use crate::forecast::Forecast;
use crate::profile::Kind;

/// How long many creates take.
pub type CreateForecast = Forecast<CreateDetail, CreateSummary>;

/// What holds of all points of creates.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSummary {
    /// Where the profile's figures come from.
    pub kind: Kind,
    /// How they were got.
    pub profile_note: Option<String>,
    /// The request.
    pub request: Request,
    /// How the directory is found, in words, where tokens make that count.
    pub state: Option<String>,
    /// The largest node count as asked, and with one change after the other. Shape: the first is as asked.
    pub what_ifs: Vec<WhatIf>,
    /// The largest node count with every figure at its median. Unit: seconds.
    pub typical: f64,
    /// What to set, with numbers, for the largest node count.
    pub advice: Vec<Advice>,
    /// The figures that the forecast was made from.
    pub inputs: Vec<Input>,
    /// What a reader must know beside the numbers.
    pub notes: Vec<String>,
}
