//! Starting the user's command, for `quell run` and `quell record`: from an image, plain, or one inside the other.
//!
//! The command must start whatever quell lacks, unless the user asked otherwise.

mod image;
mod nested;
mod plain;
mod step;

pub(crate) use image::in_image;
pub(crate) use nested::wrapped_run;
pub(crate) use plain::plain;
