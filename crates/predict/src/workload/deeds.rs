//! The deed of a call at the end of its path, or to its open file.

use super::script::{Deed, PAGE};
use super::tree::NameId;
use crate::ServerOperation;
use quell_trace::flags::{AT_SYMLINK_NOFOLLOW, MAP_ANONYMOUS, O_CREAT, O_DIRECTORY, O_NOFOLLOW};
use quell_trace::{Call, Class, Event, Outcome};
use std::ops::Range;

/// The subject of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActSubject {
    /// The file.
    pub(super) name: NameId,
    /// The last name of the path, which may be a link to it.
    pub(super) last: Option<NameId>,
    /// The file was not there before.
    pub(super) is_new: bool,
    /// The position at which a call without an offset reads. Unit: bytes.
    pub(super) position: Option<u64>,
}

/// The deed of a call, without its mappings.
pub(super) fn deed(event: &Event, subject: ActSubject) -> Option<Deed> {
    let ActSubject { name, last, .. } = subject;
    let ok = event.outcome.errno().is_none();
    Some(match (event.call.class(), event.call) {
        (Class::Open, _) if !ok => Deed::Find,
        (Class::Open, _) if event.flags & O_CREAT != 0 && subject.is_new => {
            Deed::Ask(ServerOperation::Create)
        }
        (Class::Open, _) if event.flags & O_DIRECTORY != 0 => Deed::OpenDirectory(name),
        (Class::Open, _) => Deed::Open(name),
        (Class::Exec, _) if ok => Deed::Open(name),
        (Class::Stat, _) if ok => Deed::Stat(last.unwrap_or(name)),
        (Class::ReadLink, _) if ok => Deed::ReadLink(last.unwrap_or(name)),
        (Class::List, _) => match event.outcome {
            Outcome::Success(bytes) if bytes > 0 => Deed::List(name),
            _ => return None,
        },
        (Class::Xattr, _) if ok || event.path.is_none() => Deed::Ask(ServerOperation::Getattr),
        (Class::StatFs, _) => Deed::Ask(ServerOperation::Getattr),
        (Class::Change, call) if ok => Deed::Ask(change(call)),
        (class, _) if class.is_metadata() => Deed::Find,
        (Class::Read, _) if event.bytes_moved().0 > 0 => {
            let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
            let begin = offset.or(subject.position).unwrap_or(0);
            let pages = pages(begin, begin.saturating_add(event.bytes_moved().0));
            Deed::Read(name, pages.start, pages.end)
        }
        (Class::Descriptor, Call::Close) if ok => Deed::Close(name),
        (Class::Descriptor, Call::Ioctl) => Deed::Tell(name),
        _ => return None,
    })
}

/// True if a call maps a file. The first mapping of a file stands for all parts that the process touched.
pub(super) fn maps(event: &Event) -> bool {
    let is_first = matches!(event.offset, Some(0) | None);
    event.outcome.errno().is_none()
        && match event.call.class() {
            Class::Exec => true,
            Class::Map => event.flags & MAP_ANONYMOUS == 0 && is_first,
            _ => false,
        }
}

/// Bytes that a deed moves: of a call what it moved, of a mapping whole pages.
pub(super) fn bytes_of(deed: Deed, event: &Event) -> f64 {
    match (deed, event.call.class()) {
        (Deed::Read(..), Class::Read) => event.bytes_moved().0 as f64,
        (Deed::Read(_, begin, end) | Deed::Touch(_, begin, end), _) => f64::from(end - begin) * PAGE as f64,
        _ => 0.0,
    }
}

/// The pages of some bytes, one at least.
pub(super) fn pages(begin: u64, end: u64) -> Range<u32> {
    let page = |at: u64| u32::try_from(at / PAGE).unwrap_or(u32::MAX - 1);
    page(begin)..page(end.saturating_sub(1).max(begin)) + 1
}

/// True if a call follows the last name of its path when that is a link.
pub(super) fn follows(event: &Event) -> bool {
    match event.call.class() {
        Class::Open => event.flags & O_NOFOLLOW == 0,
        Class::ReadLink | Class::Change => false,
        Class::Stat | Class::Access => event.call != Call::Lstat && event.flags & AT_SYMLINK_NOFOLLOW == 0,
        _ => true,
    }
}

/// The request of a call that changes something.
fn change(call: Call) -> ServerOperation {
    use Call::{
        Link, Linkat, Mkdir, Mkdirat, Mknod, Mknodat, Rename, Renameat, Renameat2, Rmdir, Symlink, Symlinkat,
        Unlink, Unlinkat,
    };
    match call {
        Mkdir | Mkdirat | Mknod | Mknodat | Link | Linkat | Symlink | Symlinkat => ServerOperation::Create,
        Unlink | Unlinkat | Rmdir => ServerOperation::Unlink,
        Rename | Renameat | Renameat2 => ServerOperation::Rename,
        _ => ServerOperation::Getattr,
    }
}
