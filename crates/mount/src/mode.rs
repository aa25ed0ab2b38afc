//! How a command may run from an image.

/// What may be tried, and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// A mount, and where there is no FUSE an extraction.
    #[default]
    Auto,
    /// A mount.
    Mount,
    /// An extraction.
    Extract,
}
