//! A point of the forecast of creates, and the same point under another condition.

use super::terms::{Creates, DirectoryState, TimeTerm};
use crate::forecast::Spread;

/// A point of creates, beside its time.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDetail {
    /// The creates.
    pub creates: Creates,
    /// The median of each term. Unit: seconds.
    pub terms: Vec<(TimeTerm, f64)>,
}

/// The same creates under another condition.
#[derive(Clone, Debug, PartialEq)]
pub struct SettingWhatIf {
    /// The change.
    pub change: String,
    /// The creates then.
    pub creates: Creates,
    /// The state of the directory then.
    pub state: DirectoryState,
    /// Unit: seconds.
    pub seconds: Spread,
}
