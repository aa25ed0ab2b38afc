//! Choices of the user for an image.

use std::path::PathBuf;

use quell_image::Beyond;
use quell_image::write::{Audience, ImageForm};

/// What to pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOptions {
    /// Directories to pack whatever their file system; empty to judge by file system.
    pub roots: Vec<PathBuf>,
    /// Who may use the image; [`Audience::Everyone`] takes world-readable originals only.
    pub audience: Audience,
    /// Whether the image is compressed for transport.
    pub form: ImageForm,
    /// What a run may turn to beyond the image.
    pub beyond: Beyond,
    /// Directories of which everything is packed, whatever the recordings looked at.
    pub added: Vec<PathBuf>,
    /// How much of the files that were used.
    pub hold: Hold,
}

/// How much of a file that was used an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The blocks that the recordings used; all of a small file, and of one of which that is not known.
    Used,
    /// All of it.
    Whole,
}

impl Default for PackOptions {
    /// What the recordings say, for its owner.
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            audience: Audience::Owner,
            form: ImageForm::Plain,
            beyond: Beyond::Originals,
            added: Vec::new(),
            hold: Hold::Used,
        }
    }
}
