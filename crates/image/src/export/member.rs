//! A member of an export with its content, or the reason why something is left out.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD};

use crate::export::error::Sink;
use crate::model::{Attributes, NamedValues};
use crate::original::attributes_of;
use crate::tree::{ContentSource, HeldContent};
use crate::write::WriteError;
use crate::write::source::copy;

/// A node that is exported.
#[derive(Debug)]
pub struct ExportMember<'i> {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// Attributes of the original.
    pub attributes: Attributes,
    /// Extended attributes, sorted by name.
    pub xattrs: NamedValues,
    /// Type and content.
    pub body: MemberBody<'i>,
}

/// Type and content of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemberBody<'i> {
    /// A directory.
    Directory,
    /// A file with this content.
    Held(&'i [u8]),
    /// A file whose content is read from this original.
    Original(PathBuf),
    /// A further name of the member at this path.
    Link(Vec<u8>),
    /// A symbolic link to this.
    Symlink(&'i [u8]),
    /// A device or pipe.
    Special,
}

/// A node that is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOutNode {
    /// Original absolute path.
    pub path: Vec<u8>,
    /// The reason.
    pub reason: LeftOutReason,
}

/// The reason why a node is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutReason {
    /// The image does not hold its content.
    NotHeld,
    /// The image holds only a part of its content.
    PartlyHeld,
    /// The image does not hold its content, and the original is gone.
    Gone,
    /// The image does not hold its content, and the original may not be read.
    Unreadable,
    /// The image does not hold its content, and the original has changed.
    Changed,
    /// The image does not hold its content, and the original looks like a secret.
    Secret,
    /// Sockets mean nothing without the process that made them.
    Socket,
}

impl fmt::Display for LeftOutReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotHeld => "the image does not hold its content",
            Self::PartlyHeld => "the image holds only a part of its content",
            Self::Gone => "not held whole, and the original is gone",
            Self::Unreadable => "not held whole, and the original cannot be read",
            Self::Changed => "not held whole, and the original has changed since",
            Self::Secret => "not held, and the original looks like a secret",
            Self::Socket => "a socket",
        })
    }
}

impl ExportMember<'_> {
    /// The path below the directory or archive that everything is put into.
    pub(crate) fn relative_path(&self) -> &[u8] {
        relative(&self.path)
    }

    /// Tells whether content follows its header.
    pub(crate) fn has_content(&self) -> bool {
        matches!(self.body, MemberBody::Held(_) | MemberBody::Original(_))
    }

    /// Hands the content to `sink`.
    ///
    /// **Errors** [`WriteError::Changed`] if an original changed after it was selected.
    pub(crate) fn copy(&self, buffer: &mut [u8], sink: &mut Sink<'_>) -> Result<(), WriteError> {
        match &self.body {
            MemberBody::Held(content) => content.chunks(buffer.len().max(1)).try_for_each(sink),
            MemberBody::Original(path) => {
                let whole = HeldContent { source: ContentSource::File(path.clone()), part: None };
                copy(&whole, &self.attributes, buffer, sink)
            }
            _ => Ok(()),
        }
    }
}

/// A path without its leading slash; `.` for the root.
pub(crate) fn relative(path: &[u8]) -> &[u8] {
    match path.strip_prefix(b"/").unwrap_or(path) {
        b"" => b".",
        relative => relative,
    }
}

/// Tells whether the original at a path is one that an image leaves out as a secret.
pub type IsSecret = fn(&[u8]) -> bool;

/// The unchanged original of a file that the image does not hold.
pub(crate) fn original(
    name: &[u8],
    expected: &Attributes,
    is_secret: IsSecret,
) -> Result<PathBuf, LeftOutReason> {
    let path = Path::new(OsStr::from_bytes(name));
    let now = attributes_of(path).map_err(|error| match error.is_forbidden() {
        true => LeftOutReason::Unreadable,
        false => LeftOutReason::Gone,
    })?;
    let same = |a: &Attributes, b: &Attributes| (a.mode(), a.size, a.mtime) == (b.mode(), b.size, b.mtime);
    if !same(&now, expected) {
        return Err(LeftOutReason::Changed);
    }
    if is_secret(name) {
        return Err(LeftOutReason::Secret);
    }
    let readable = rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS);
    readable.map(|()| path.to_path_buf()).map_err(|_| LeftOutReason::Unreadable)
}
