//! The value of `--compress`: a level of zstd, or `no`.

use quell_image::frames::{CompressionLevel, LevelError};
use quell_image::write::ImageForm;
use std::str::FromStr;

/// The compression of an image, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression(pub ImageForm);

impl FromStr for Compression {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        match text {
            "no" => Ok(Self(ImageForm::Plain)),
            level => level.parse::<CompressionLevel>().map(ImageForm::Compressed).map(Self),
        }
    }
}
