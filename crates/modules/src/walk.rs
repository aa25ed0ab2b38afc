//! Root's walk along paths that other users can change: from one directory's descriptor to the next. A link that another
//! user could have made is followed with that user's rights alone.

use crate::access::{ATTRIBUTE, Access, Acl};
use crate::tools::User;
use crate::trust::{self, NOBODY};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::{CStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// The user as which something is read; `None` for the user of this process.
pub(crate) type ReadingUser = Option<u32>;

/// Runs `work` as a reader.
///
/// **Errors**: what `work` says; EINVAL or EPERM for a number that is no user here.
pub(crate) fn read_as<T: Send>(
    reader: ReadingUser,
    work: impl FnOnce() -> Result<T, Errno> + Send,
) -> Result<T, Errno> {
    let Some(user) = reader else { return work() };
    let user = User::new("reader", user, NOBODY, Vec::new());
    let done = user.act(|| Ok(work()));
    done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))?
}

/// The user as which a link in a directory is followed. Root follows its own links, where no other user could have put them;
/// any other link with the rights of its owner, who could have followed it without us.
pub(crate) fn follower(directory: &Access, link: &Stat) -> ReadingUser {
    if !trust::is_root() {
        return None;
    }
    let mut owners = [link.st_uid, directory.uid].into_iter().filter(|user| *user != 0);
    match (link.st_uid == 0 && trust::is_roots(directory), owners.next()) {
        (true, _) => None,
        (false, owner) => Some(owner.unwrap_or(NOBODY)),
    }
}

/// Permissions of a directory on the way to a place.
fn access_of(directory: &OwnedFd) -> Result<Access, Errno> {
    let stat = rustix::fs::fstat(directory)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let listed = rustix::fs::openat(directory, c".", flags, Mode::empty());
    let acl = listed.ok().and_then(|file| Acl::read(|value| rustix::fs::fgetxattr(&file, ATTRIBUTE, value)));
    Ok(Access { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, acl })
}

/// The flags with which directories on the way to a place are opened.
const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Links that are followed on the way to a place, as in the kernel's own walk.
const MOST_LINKS: usize = 40;

/// Opens a path, and tells the user as which it was reached.
///
/// **Errors**: what the system says.
pub(crate) fn open(path: &Path, flags: OFlags) -> Result<(OwnedFd, ReadingUser), Errno> {
    let flags = flags | OFlags::CLOEXEC;
    if !trust::is_root() {
        return Ok((rustix::fs::open(path, flags, Mode::empty())?, None));
    }
    let path = &std::path::absolute(path).map_err(|_| Errno::NOENT)?;
    let root = || rustix::fs::openat(CWD, c"/", STEP, Mode::empty());
    let mut stack: Vec<OwnedFd> = vec![root()?];
    let mut rest: VecDeque<OsString> = steps(path);
    let mut links = 0;
    while let Some(name) = rest.pop_front() {
        if name == ".." {
            if stack.len() > 1 {
                stack.pop();
            }
            continue;
        }
        let Some(here) = stack.last() else { return Err(Errno::NOENT) };
        let stat = rustix::fs::statat(here, name.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            let is_last = rest.is_empty();
            let how = if is_last { flags | OFlags::NOFOLLOW } else { STEP };
            let opened = rustix::fs::openat(here, name.as_bytes(), how, Mode::empty())?;
            if is_last {
                return Ok((opened, None));
            }
            stack.push(opened);
            continue;
        }
        links += 1;
        if links > MOST_LINKS {
            return Err(Errno::LOOP);
        }
        let reader = follower(&access_of(here)?, &stat);
        if reader.is_some() {
            let left: PathBuf = std::iter::once(name).chain(rest).collect();
            let opened = read_as(reader, || rustix::fs::openat(here, &left, flags, Mode::empty()))?;
            return Ok((opened, reader));
        }
        let target = rustix::fs::readlinkat(here, name.as_bytes(), Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        if target.is_absolute() {
            stack = vec![root()?];
        }
        for name in steps(&target).into_iter().rev() {
            rest.push_front(name);
        }
    }
    // The path ends in a directory that is open already.
    match stack.pop() {
        Some(here) => Ok((rustix::fs::openat(&here, c".", flags, Mode::empty())?, None)),
        None => Err(Errno::NOENT),
    }
}

/// The names of a path, without those that mean the same place.
pub(crate) fn steps(path: &Path) -> VecDeque<OsString> {
    let named = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    };
    path.components().filter_map(named).collect()
}

/// Opens a path that does not lead behind another user's link.
///
/// **Errors**: what the system says; ELOOP for such a link.
pub(crate) fn open_plain(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    match open(path, flags)? {
        (opened, None) => Ok(opened),
        (_, Some(_)) => Err(Errno::LOOP),
    }
}

/// Opens a name in a directory, unless it is a link.
pub(crate) fn open_in(directory: impl AsFd, name: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
