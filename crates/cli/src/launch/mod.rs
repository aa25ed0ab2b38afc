//! Starting the user's command, for `quell run` and `quell record`: from an image, plain, or one inside the other.
//!
//! The command must start whatever quell lacks, unless the user asked otherwise.

mod auto;
mod beside;
mod image;
mod launchers;
mod maker;
mod nested;
mod plain;
mod software;
mod step;

pub(crate) use auto::{by_itself, cache_path};
pub(crate) use beside::{BESIDE, beside};
pub(crate) use image::{in_image, is_on_first_node};
pub(crate) use launchers::launcher_in;
pub(crate) use maker::{MAKER, make_waiting, maker};
pub(crate) use nested::wrapped_run;
pub(crate) use plain::plain;
