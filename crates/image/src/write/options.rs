//! What is written, for whom, in which form, and what came of it.

use crate::frames::CompressionLevel;
use crate::index::ImageIdentity;

/// Who may read an image. Content and names of private files are in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Its owner: mode 0600.
    Owner,
    /// Everybody: mode 0644, for an image of world-readable sources.
    Everyone,
}

impl Audience {
    pub(crate) fn mode(self) -> u32 {
        match self {
            Self::Owner => 0o600,
            Self::Everyone => 0o644,
        }
    }
}

/// How far the writer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// Bytes written.
    pub done: u64,
    /// Bytes that the image will have.
    pub total: u64,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenImage {
    /// What tells the image from others.
    pub identity: ImageIdentity,
    /// Length of the image.
    pub bytes: u64,
    /// Length of the file, which is less if it is compressed.
    pub file_bytes: u64,
}

/// What an image is written as.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageForm {
    /// As it is served.
    #[default]
    Plain,
    /// Compressed for transport, see [`frames`](crate::frames).
    Compressed(CompressionLevel),
}
