//! Workload, file-system profile and scale in; seconds with their range out.
//!
//! ```text
//! trace -> workload (what each node asks of the servers) -.
//! TOML  -> profile  (what servers and clients can do)     -+-> model: bounds, knee, fluid -> points
//! flags -> scale, what-ifs                                -'
//! ```
//!
//! Pure: no input or output, no clock, no environment. A prediction is a range, and carries what it was made from.
//! Nothing here has been measured where it is shown: measuring is the job of `quell calibrate`.

mod broadcast;
mod chance;
mod changes;
pub mod create;
mod forecast;
mod image;
pub mod model;
pub mod operation;
pub mod parameters;
pub mod profile;
pub mod published;
pub mod question;
pub mod start;
pub mod workload;

pub use broadcast::{BroadcastJob, all_find_peers};
pub use forecast::{Bottleneck, FigureSensitivity, Forecast, ForecastPoint, Spread};
pub use operation::{OPERATIONS, PerOperation, ServerOperation};
pub use parameters::{ClientRules, StartParameters};
pub use profile::{Figure, Profile, ProfileError, ProfileKind};
pub use question::{ImageDelivery, StartChanges, StartQuestion, ways};
pub use workload::{Roots, StartScript};
