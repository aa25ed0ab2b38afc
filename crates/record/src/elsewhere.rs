//! Names the files of processes in another mount namespace than the recorder's, where names of the recorder's own tree mean other
//! files.
//!
//! The kernel tells a file's name there by the magic link of a descriptor. An open has such a descriptor. For other calls the recorder
//! opens the name itself, from the root of the stopped process. `RESOLVE_CACHED` lets the kernel answer only from what the
//! process's own call has left in its caches: no server is asked, and a server that is itself recorded is not waited for.

use crate::engine::ObservedCall;
use crate::facts;
use quell_trace::flags::{AT_EMPTY_PATH, RESOLVE_IN_ROOT};
use quell_trace::resolve::{CallPlace, follows_last, makes_symlink};
use quell_trace::{Call, Class, Fd, Outcome, Pid};
use rustix::fd::{AsFd, AsRawFd};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// An answer may be refused while another process renames something: so often it is asked again.
const TRIES: u32 = 3;

/// The names of a call's two files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct NamedFiles {
    pub(crate) first: Option<Vec<u8>>,
    pub(crate) second: Option<Vec<u8>>,
}

/// The names of the files of a call that has just ended, from the root of the mount namespace. The thread is stopped.
pub(crate) fn named(observed: &ObservedCall<'_>) -> NamedFiles {
    let arguments = &observed.arguments;
    let of = |fd, path: Option<&[u8]>, place| path.and_then(|path| file(observed, fd, path, place));
    let second = of(arguments.fd2, observed.path2, CallPlace::Second);
    if makes_symlink(observed.call) {
        return NamedFiles { first: second, second: None };
    }
    let first = opened(observed).or_else(|| of(arguments.fd, observed.path, CallPlace::First));
    NamedFiles { first, second }
}

/// The file that an open opened.
fn opened(observed: &ObservedCall<'_>) -> Option<Vec<u8>> {
    match (observed.call.class(), observed.outcome) {
        (Class::Open, Outcome::Success(fd)) => link(observed.thread, &format!("fd/{fd}")),
        _ => None,
    }
}

/// The target of a magic link that is a name: no pipe, and no file that was removed.
fn link(thread: Pid, name: &str) -> Option<Vec<u8>> {
    facts::link(thread, name)
        .filter(|target| target.first() == Some(&b'/') && !target.ends_with(b" (deleted)"))
}

fn file(observed: &ObservedCall<'_>, fd: Fd, path: &[u8], place: CallPlace) -> Option<Vec<u8>> {
    let thread = observed.thread;
    // The call has a root of its own.
    if observed.call == Call::Openat2 && observed.arguments.flags & RESOLVE_IN_ROOT != 0 {
        return None;
    }
    let directory = || match fd.number() {
        Some(fd) => link(thread, &format!("fd/{fd}")),
        None => link(thread, "cwd"),
    };
    let path = match path.first() {
        None if observed.arguments.flags & AT_EMPTY_PATH != 0 && fd.number().is_some() => return directory(),
        None => return None,
        Some(b'/') => path.to_vec(),
        Some(_) => [below(&directory()?, &root(thread)?)?, b"/", path].concat(),
    };
    // A magic link of the process leads elsewhere in the recorder.
    if path.starts_with(b"/proc/") {
        return Some(path);
    }
    let is_absent = matches!(observed.outcome, Outcome::Failure(errno) if errno.is_absence());
    let follows = follows_last(observed.call, observed.arguments.flags, place) || path.ends_with(b"/");
    if follows && !is_absent {
        match open(thread, &path, OFlags::empty())? {
            Opened::Named(name) => return Some(name),
            Opened::Uncached => return None,
            Opened::Nothing => {}
        }
    }
    last_of(thread, &path, is_absent)
}

fn root(thread: Pid) -> Option<Vec<u8>> {
    facts::link(thread, "root")
}

/// A name of the namespace as the process would say it, without its own root.
fn below<'a>(path: &'a [u8], root: &[u8]) -> Option<&'a [u8]> {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).filter(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The name of a file whose last components need not exist: the longest directory that does, and the rest as it was asked. A directory
/// that the caches do not tell counts as absent only for a call that failed for absence, and only where it is no link: any other call has
/// walked it.
fn last_of(thread: Pid, path: &[u8], is_absent: bool) -> Option<Vec<u8>> {
    let mut end = path.len() - path.iter().rev().take_while(|&&byte| byte == b'/').count();
    loop {
        let slash = path[..end].iter().rposition(|&byte| byte == b'/')?;
        let rest = &path[slash..];
        // Behind an absent name `..` is never walked.
        if rest.split(|&byte| byte == b'/').any(|name| name == b"..") {
            return None;
        }
        let directory = match slash {
            0 => Opened::Named(root(thread)?),
            _ => open(thread, &path[..slash], OFlags::empty())?,
        };
        if directory == Opened::Uncached {
            let is_link = matches!(open(thread, &path[..slash], OFlags::NOFOLLOW)?, Opened::Named(_));
            if is_link || !is_absent {
                return None;
            }
        }
        if let Opened::Named(mut name) = directory {
            if name == b"/" {
                name.clear();
            }
            let parts = rest.split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
            parts.for_each(|part| {
                name.push(b'/');
                name.extend_from_slice(part);
            });
            return Some(name);
        }
        end = slash;
    }
}

/// The end of a name that is followed.
#[derive(Debug, PartialEq, Eq)]
enum Opened {
    /// A file of this name.
    Named(Vec<u8>),
    /// No file, none with a name, or one that the recorder may not reach.
    Nothing,
    /// The kernel's caches do not tell.
    Uncached,
}

/// Follows a name from the root of a thread, from the kernel's caches alone; with `O_NOFOLLOW` not a link at its end. `None` where the
/// kernel cannot be asked so.
fn open(thread: Pid, path: &[u8], follow: OFlags) -> Option<Opened> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let root = format!("/proc/{thread}/root");
    let root = rustix::fs::open(root, flags | OFlags::DIRECTORY, Mode::empty()).ok()?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::CACHED;
    for _ in 0..TRIES {
        match rustix::fs::openat2(&root, path, flags | follow, Mode::empty(), resolve) {
            Ok(file) => {
                let name = link(facts::ourselves(), &format!("fd/{}", file.as_fd().as_raw_fd()));
                return Some(name.map_or(Opened::Nothing, Opened::Named));
            }
            Err(Errno::AGAIN) => {}
            // Linux before 5.12 has no `RESOLVE_CACHED`, and before 5.6 no `openat2`.
            Err(Errno::INVAL | Errno::NOSYS) => return None,
            Err(_) => return Some(Opened::Nothing),
        }
    }
    Some(Opened::Uncached)
}
