//! Options and result of writing an image.

use crate::frames::CompressionLevel;
use crate::index::ImageIdentity;

/// The users who may read an image. It holds content and names of private files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Its owner: mode 0600.
    Owner,
    /// Every user: mode 0644, for an image of what every user may read.
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

/// Progress of the writer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteProgress {
    /// Bytes written.
    pub done: u64,
    /// Bytes that the image will have.
    pub total: u64,
}

/// A written image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrittenImage {
    /// Identity of the image.
    pub identity: ImageIdentity,
    /// Length of the image.
    pub bytes: u64,
    /// Length of the file, which is less if it is compressed.
    pub file_bytes: u64,
}

/// The form of the written file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ImageForm {
    /// As it is served.
    #[default]
    Plain,
    /// Compressed for transport, see [`frames`](crate::frames).
    Compressed(CompressionLevel),
}
