//! Many files created at once, in one shared directory or in several: seconds, term by term, and what to set.
//!
//! ```text
//! profile -> parameters (figures, samples) -.
//! flags   -> request    (nodes, files)      +-> terms -> seconds: range, bounds, bottleneck
//! levels  -> split      (blocks, laws)     -'         -> what_if, setting, advice
//! ```
//!
//! A file system whose clients pass no tokens has one term only, the creates themselves.

mod advice;
mod error;
mod parameters;
mod point;
mod predict;
mod request;
mod seconds;
mod setting;
pub mod split;
mod summary;
mod terms;
mod what_if;

pub use advice::SettingAdvice;
pub use error::CreateError;
pub use parameters::{CreateInput, CreateParameters, SplitLawChoice, inputs};
pub use point::{CreateDetail, SettingWhatIf};
pub use predict::forecast;
pub use request::CreateRequest;
pub(crate) use seconds::{point, sensitivities};
pub use summary::{CreateForecast, CreateSummary};
pub use terms::{
    Connections, CreateRates, CreateSeconds, Creates, DirectoryAge, DirectoryState, InodeToken, TimeTerm,
    TokenCosts,
};

#[cfg(test)]
mod tests;
