//! The forecast of creates.

use super::advice::Advice;
use super::parameters::Input;
use super::point::{CreateDetail, WhatIf};
use super::request::Request;
use crate::forecast::Forecast;
use crate::profile::Kind;

/// The forecast of many creates.
pub type CreateForecast = Forecast<CreateDetail, CreateSummary>;

/// Creates as a whole, beside their points.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSummary {
    /// The origin of the profile's figures.
    pub kind: Kind,
    /// Their method, in words.
    pub profile_note: Option<String>,
    /// The request.
    pub request: Request,
    /// The state of the directory, in words, where the file system has tokens.
    pub state: Option<String>,
    /// The largest node count as asked, and with one change after the other. Shape: the first is as asked.
    pub what_ifs: Vec<WhatIf>,
    /// The largest node count with every figure at its median. Unit: seconds.
    pub typical: f64,
    /// Settings with their values, for the largest node count.
    pub advice: Vec<Advice>,
    /// The figures that the forecast was made from.
    pub inputs: Vec<Input>,
    /// Caveats, a sentence each.
    pub notes: Vec<String>,
}
