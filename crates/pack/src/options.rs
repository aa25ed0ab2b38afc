//! Choices of the user for an image.

use std::path::PathBuf;

use quell_image::Beyond;
use quell_image::write::{Audience, ImageForm};

/// Options of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackOptions {
    /// Directories to pack whatever their file system; empty to judge by file system.
    pub roots: Vec<PathBuf>,
    /// Tells whether the user named them, for the reason that the image keeps.
    pub roots_by: RootsBy,
    /// The users of the image; [`Audience::Everyone`] takes only what every user may read.
    pub audience: Audience,
    /// Plain, or compressed for transport.
    pub form: ImageForm,
    /// The source of answers that the image does not hold.
    pub beyond: Beyond,
    /// Directories that are packed whole, whatever the recordings looked at.
    pub added: Vec<PathBuf>,
    /// The part of used files that is held.
    pub hold: Hold,
}

/// The party that named the roots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RootsBy {
    /// The user, with a flag.
    User,
    /// quell, because the user named none.
    Quell,
}

/// The part of a used file that an image holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The blocks that the recordings used; all of a small file, and where the used blocks are not known.
    Used,
    /// All of it.
    Whole,
}

impl Default for PackOptions {
    /// Follows the recordings, for their owner.
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            roots_by: RootsBy::User,
            audience: Audience::Owner,
            form: ImageForm::Plain,
            beyond: Beyond::Originals,
            added: Vec::new(),
            hold: Hold::Used,
        }
    }
}
