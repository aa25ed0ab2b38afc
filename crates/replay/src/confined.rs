//! The directory in which calls may change something: the rank's own, and nothing that a link in it leads to.
//!
//! Links that the recording makes are made there too, and where they lead to is what a trace says. So the kernel walks every
//! name from an open directory and refuses to leave it: `openat2(2)` with `RESOLVE_BENEATH`, which Linux has since 5.6. The
//! walk asks for the same names as the recorded one below its root.

use super::below::below;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::borrow::Cow;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A directory that calls do not leave.
#[derive(Debug)]
pub(super) struct Confined(OwnedFd);

/// Tries of a walk that a renaming elsewhere on the node disturbed; the kernel then answers `EAGAIN`. Far more
/// than one walk was seen to need. Not part of a format.
const TRIES: usize = 10_000;

impl Confined {
    /// Opens the directory, and looks whether the kernel can confine calls to it. `ENOSYS`: it is older than Linux 5.6.
    pub(super) fn open(directory: &[u8]) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let confined = Self(rustix::fs::openat(rustix::fs::CWD, directory, flags, Mode::empty())?);
        confined.file(b".", flags)?;
        Ok(confined)
    }

    /// Opens what a name below it stands for, links followed as long as they stay below.
    pub(super) fn file(&self, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        const OF_PATH: OFlags =
            OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        // Unlike its elders this call refuses what it would not use.
        let flags = if flags.contains(OFlags::PATH) { flags & OF_PATH } else { flags };
        let mode = if flags.contains(OFlags::CREATE) { Mode::RUSR | Mode::WUSR } else { Mode::empty() };
        let mut tries = 0..TRIES;
        loop {
            match rustix::fs::openat2(&self.0, name, flags, mode, ResolveFlags::BENEATH) {
                Err(Errno::AGAIN) if tries.next().is_some() => {}
                opened => return opened,
            }
        }
    }

    /// The directory of a name, and the name in it, which is no path: a call on it follows nothing.
    pub(super) fn parent<'a>(&'a self, name: &'a [u8]) -> Result<(Parent<'a>, &'a [u8]), Errno> {
        let end = name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let name = &name[..end];
        let (parent, last) = match name.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&name[..at], &name[at + 1..]),
            None => (&[][..], name),
        };
        let parent = match parent {
            [] => Parent::Itself(self.0.as_fd()),
            _ => Parent::Below(self.file(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC)?),
        };
        // The directory itself, which a call on its name could only refuse.
        Ok((parent, if last.is_empty() { b"." } else { last }))
    }
}

/// An open directory: the confined one, or one below it.
#[derive(Debug)]
pub(super) enum Parent<'a> {
    Itself(BorrowedFd<'a>),
    Below(OwnedFd),
}

impl AsFd for Parent<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Itself(directory) => *directory,
            Self::Below(directory) => directory.as_fd(),
        }
    }
}

/// The content of a link whose recorded content leads out of the tree: a name that nothing has.
const NOWHERE: &[u8] = b".quell-replay-outside";

/// The content of a link that is made at `name`, both below the recorded root: what was recorded where that stays below, the
/// way to the same name where it is absolute, and [`NOWHERE`] where it leads out.
pub(super) fn content<'a>(recorded: &'a [u8], root: &[u8], name: &[u8]) -> Cow<'a, [u8]> {
    let depth = parts(name).count().saturating_sub(1);
    if !recorded.starts_with(b"/") {
        return if stays_below(recorded, depth) { recorded.into() } else { NOWHERE.into() };
    }
    match below(recorded, root).filter(|inside| stays_below(inside, 0)) {
        Some(inside) => {
            let up = std::iter::repeat_n(&b".."[..], depth);
            let way: Vec<&[u8]> = up.chain(parts(inside)).collect();
            if way.is_empty() { b".".into() } else { way.join(&b'/').into() }
        }
        None => NOWHERE.into(),
    }
}

/// True if a path that begins `depth` names below a directory never leaves it, by its names alone.
pub(super) fn stays_below(path: &[u8], depth: usize) -> bool {
    let mut depth = depth as i64;
    parts(path).all(|part| {
        depth += match part {
            b"." => 0,
            b".." => -1,
            _ => 1,
        };
        depth >= 0
    })
}

fn parts(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_leads_to_the_same_name_or_nowhere() {
        for (recorded, name, expected) in [
            (&b"file"[..], &b"link"[..], &b"file"[..]),
            (b"../file", b"a/link", b"../file"),
            (b"../file", b"link", NOWHERE),
            (b"a/../../../file", b"a/link", NOWHERE),
            (b"/t/real", b"tmp", b"real"),
            (b"/t//a/./real", b"b/c/tmp", b"../../a/./real"),
            (b"/t", b"a/top", b".."),
            (b"/t", b"top", b"."),
            (b"/t/../etc/passwd", b"tmp", NOWHERE),
            (b"/tree/real", b"tmp", NOWHERE),
            (b"/etc/passwd", b"a/tmp", NOWHERE),
        ] {
            assert_eq!(content(recorded, b"/t", name), expected, "{}", recorded.escape_ascii());
        }
    }

    #[test]
    fn a_walk_follows_links_and_does_not_leave_the_directory() {
        let outer = tempfile::tempdir().unwrap();
        let own = outer.path().join("own");
        std::fs::create_dir_all(own.join("a/b")).unwrap();
        std::fs::write(outer.path().join("real"), "real").unwrap();
        symlink("../in", own.join("a/stays")).unwrap();
        symlink("../../real", own.join("a/leaves")).unwrap();
        symlink(outer.path().join("real"), own.join("absolute")).unwrap();
        symlink("..", own.join("up")).unwrap();
        let confined = Confined::open(own.as_os_str().as_bytes()).unwrap();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC;
        assert!(confined.file(b"a/stays", flags).is_ok() && own.join("in").is_file());
        for name in [&b"a/leaves"[..], b"absolute", b"up/real", b"../real", b"/etc/passwd"] {
            assert_eq!(confined.file(name, flags).unwrap_err(), Errno::XDEV, "{}", name.escape_ascii());
        }
        assert_eq!(confined.parent(b"up/real").unwrap_err(), Errno::XDEV);
        for (name, last) in [(&b"a/b/"[..], &b"b"[..]), (b"in", b"in"), (b"", b"."), (b"a//b", b"b")] {
            assert_eq!(confined.parent(name).unwrap().1, last);
        }
        assert_eq!(std::fs::read(outer.path().join("real")).unwrap(), b"real");
    }
}
