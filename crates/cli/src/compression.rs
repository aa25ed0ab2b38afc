//! What `--compress` takes: a level of zstd, or `no`.

use quell_image::frames::{Level, LevelError};
use quell_image::write::Form;
use std::str::FromStr;

/// Whether an image is compressed, as it was typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression(pub Form);

impl FromStr for Compression {
    type Err = LevelError;

    fn from_str(text: &str) -> Result<Self, LevelError> {
        match text {
            "no" => Ok(Self(Form::Plain)),
            level => level.parse::<Level>().map(Form::Compressed).map(Self),
        }
    }
}
