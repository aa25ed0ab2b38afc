//! The forecast of creates.

use super::advice::SettingAdvice;
use super::parameters::CreateInput;
use super::point::{CreateDetail, SettingWhatIf};
use super::request::CreateRequest;
use crate::forecast::Forecast;
use crate::profile::ProfileKind;

/// The forecast of many creates.
pub type CreateForecast = Forecast<CreateDetail, CreateSummary>;

/// Creates as a whole, beside their points.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSummary {
    /// The origin of the profile's figures.
    pub kind: ProfileKind,
    /// Their method, in words.
    pub profile_note: Option<String>,
    /// The request.
    pub request: CreateRequest,
    /// The state of the directory, in words, where the file system has tokens.
    pub state: Option<String>,
    /// The largest node count as asked, and with one change after the other. Shape: the first is as asked.
    pub what_ifs: Vec<SettingWhatIf>,
    /// The largest node count with every figure at its median. Unit: seconds.
    pub typical: f64,
    /// Settings with their values, for the largest node count.
    pub advice: Vec<SettingAdvice>,
    /// The figures that the forecast was made from.
    pub inputs: Vec<CreateInput>,
    /// Caveats, a sentence each.
    pub notes: Vec<String>,
}
