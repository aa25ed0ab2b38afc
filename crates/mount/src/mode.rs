//! The modes in which a command may run from an image.

/// The modes that may be tried; no other is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ImageMode {
    /// A mount, and where there is no FUSE an extraction.
    #[default]
    Auto,
    /// A mount.
    Mount,
    /// An extraction.
    Extract,
}
