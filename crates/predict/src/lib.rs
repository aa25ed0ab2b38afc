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

mod chance;
mod changes;
pub mod create;
pub mod model;
pub mod operation;
pub mod parameters;
pub mod prediction;
pub mod profile;
pub mod published;
pub mod question;
pub mod workload;

pub use operation::{OPERATIONS, Operation, PerOperation};
pub use parameters::{ClientRules, Parameters};
pub use prediction::{Bottleneck, Point, Prediction, Range, Sensitivity, predict};
pub use profile::{Figure, Kind, Profile, ProfileError};
pub use question::{Changes, Image, Question};
pub use workload::{Roots, Script};
