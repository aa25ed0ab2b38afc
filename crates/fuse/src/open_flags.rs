//! Flags of an open call, as far as they decide anything here.

use rustix::fs::OFlags;

use crate::abi::{OpenFlags, OpenReply};
use crate::request::FileHandle;

/// The answer for an original that is open with these flags.
pub fn opened_as(handle: FileHandle, flags: OFlags) -> OpenReply {
    // An append goes to where the file ends at that moment, of which the kernel's cache knows nothing.
    let cache = if flags.contains(OFlags::APPEND) { OpenFlags::DIRECT_IO } else { OpenFlags::empty() };
    OpenReply { handle: handle.0, flags: cache }
}

/// Tells whether a file that is opened with these flags is, or may be, changed.
pub fn changes_content(flags: OFlags) -> bool {
    flags & OFlags::ACCMODE != OFlags::RDONLY || flags.contains(OFlags::TRUNC)
}

/// The flags of an open call that count for the original. `O_DIRECT` would want aligned memory; the others say how a path is
/// walked, which the kernel has done.
pub fn kept(flags: OFlags) -> OFlags {
    flags & (OFlags::ACCMODE | OFlags::APPEND | OFlags::DSYNC | OFlags::SYNC | OFlags::NOATIME)
}

/// Flags of an open call that count when a file is made.
pub const CREATING: OFlags = OFlags::ACCMODE
    .union(OFlags::EXCL)
    .union(OFlags::TRUNC)
    .union(OFlags::APPEND)
    .union(OFlags::DSYNC)
    .union(OFlags::SYNC);

/// Flags that mean something while a file is made alone.
pub const CREATION_ONLY: u32 = OFlags::CREATE.union(OFlags::EXCL).union(OFlags::TRUNC).bits();

/// The kernel looked at the name before. Another process may have put a link, a pipe or a terminal there meanwhile, which
/// must neither be followed nor be waited for.
pub const SAFELY: OFlags =
    OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
