//! A path walked name by name: the directories and links that it passes, and its end.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat};
use rustix::io::Errno;

/// A directory or link on a path.
#[derive(Debug, Clone)]
pub enum PathStep {
    /// A directory.
    Directory {
        /// The result of fstat(2).
        stat: Stat,
        /// The name as it was walked, for messages.
        path: PathBuf,
    },
    /// A symbolic link.
    Link {
        /// The result of fstat(2).
        stat: Stat,
        /// The result of fstat(2) for the directory that holds the link.
        within: Stat,
        /// True for the last name of the path, or of a link in that place.
        last: bool,
        /// The name as it was walked, for messages.
        path: PathBuf,
    },
}

/// The end of a path and everything that the path passes.
#[derive(Debug)]
pub struct WalkedPath {
    /// The directory that holds the last name. Opened with `O_PATH`.
    pub directory: OwnedFd,
    /// The last name; `.` for a directory without a name, such as `/`.
    pub name: OsString,
    /// The file with the last name, never a link, opened with `O_PATH`; `None` when the name is absent.
    pub found: Option<(OwnedFd, Stat)>,
    /// True when the last name stands for an open file of a process (`/proc/self/fd/1`, `/dev/stdout`).
    pub is_descriptor: bool,
    /// Directories and links, in the order of the walk.
    pub passed: Vec<PathStep>,
}

/// A link that is not followed, because of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedLink {
    /// The link.
    pub path: PathBuf,
    /// Its owner.
    pub owner: u32,
}

impl fmt::Display for RefusedLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "`{}` is a symbolic link of user {}, which is not followed",
            self.path.display(),
            self.owner
        )
    }
}

impl std::error::Error for RefusedLink {}

/// The maximum number of links followed on one path, as in the kernel. Source: path_resolution(7).
const LINKS_MAX: usize = 40;

const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl PathStep {
    /// Tells whether a user other than the caller and root can put another file in the place of what lies behind this step.
    fn is_replaceable(&self) -> bool {
        match self {
            Self::Directory { stat, .. } => changeable_by_others(stat),
            Self::Link { stat, within, .. } => changeable_by_others(within) || is_anothers(stat),
        }
    }

    /// The name as it was walked, for messages.
    fn path(&self) -> &Path {
        match self {
            Self::Directory { path, .. } | Self::Link { path, .. } => path,
        }
    }
}

impl WalkedPath {
    /// The first directory or link at which a user other than the caller and root can make the path lead to another file.
    pub fn replaceable(&self) -> Option<&Path> {
        self.passed.iter().find(|step| step.is_replaceable()).map(PathStep::path)
    }

    /// Walks `path` and opens its names with `O_PATH` only. This step refuses nothing.
    ///
    /// # Errors
    /// The error of open(2) for a name; `ENOENT` for a missing directory.
    pub fn walk(path: &Path) -> io::Result<Self> {
        let mut walker = Walker::at(path)?;
        let mut links = 0;
        loop {
            let Some(name) = walker.ahead.pop_front() else {
                return walker.end(OsString::from("."), None);
            };
            if name == "." || name == ".." {
                walker.enter(&name)?;
                continue;
            }
            match walker.open(&name) {
                Ok((found, stat)) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::Symlink => {
                        links += 1;
                        if links > LINKS_MAX {
                            return Err(Errno::LOOP.into());
                        }
                        if let Some(descriptor) = walker.follow(&name, &found, stat)? {
                            return walker.end(name, Some(descriptor));
                        }
                    }
                    _ if walker.ahead.is_empty() => return walker.end(name, Some((found, stat, false))),
                    FileType::Directory => walker.step(found, stat, &name),
                    _ => return Err(Errno::NOTDIR.into()),
                },
                Err(Errno::NOENT) if walker.ahead.is_empty() => return walker.end(name, None),
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Refuses a path through a link that another user could have planted. Root follows links of root; other users
    /// follow links of root and their own. Links of others are followed inside the path, but not at its end, and only
    /// in a directory that only the link's owner can change.
    ///
    /// # Errors
    /// [`RefusedLink`], as the source of an error of the kind `PermissionDenied`.
    pub fn refuse_links_of_others(&self) -> io::Result<()> {
        let refused = self.passed.iter().find_map(|passed| match passed {
            PathStep::Link { stat, within, last, path } if !may_follow(stat, within, *last) => {
                Some(RefusedLink { path: path.clone(), owner: stat.st_uid })
            }
            _ => None,
        });
        refused.map_or(Ok(()), |refused| Err(io::Error::new(io::ErrorKind::PermissionDenied, refused)))
    }
}

fn may_follow(link: &Stat, within: &Stat, last: bool) -> bool {
    let user = rustix::process::geteuid().as_raw();
    let settled = within.st_uid == link.st_uid && within.st_mode & 0o022 == 0;
    let passes = !last && user != 0;
    link.st_uid == 0 || link.st_uid == user || settled && (passes || is_unmapped(link.st_uid))
}

/// The directory that `path` names a file in: `.` for a name alone.
pub fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Tells whether the file of `stat` belongs to a user other than the caller and root.
pub fn is_anothers(stat: &Stat) -> bool {
    let user = rustix::process::geteuid().as_raw();
    stat.st_uid != 0 && stat.st_uid != user && !is_unmapped(stat.st_uid)
}

/// Tells whether a user other than the caller and root can make a name in `directory` refer to another file. The sticky
/// bit reserves names in a writable directory to the owners of the files.
///
/// A group with write permission counts as trusted, because the owner (the user or root) admitted it. A member can only
/// exchange one file of the user's or root's for another.
pub fn changeable_by_others(directory: &Stat) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    let sticky = directory.st_mode & 0o1000 != 0;
    let others = directory.st_mode & 0o002 != 0;
    let group = directory.st_mode & 0o020 != 0 && directory.st_gid != 0 && is_root;
    is_anothers(directory) || !sticky && (others || group)
}

/// The number as which a user namespace shows an unmapped owner. Source: user_namespaces(7); every distribution leaves
/// `/proc/sys/kernel/overflowuid` at this value.
const OVERFLOW: u32 = 65534;

/// Tells whether a user namespace hides an owner. Inside of `quell run` root is hidden in this way: the owner of a file
/// in `/etc` is unknown there, and is no user of the namespace.
pub fn is_unmapped(owner: u32) -> bool {
    owner == OVERFLOW && std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !maps(&map, OVERFLOW))
}

/// Tells whether a map of user numbers contains `user`. Shape of a line: first inside, first outside, count.
fn maps(map: &str, user: u32) -> bool {
    map.lines().any(|line| {
        let mut numbers = line.split_whitespace().filter_map(|number| number.parse::<u32>().ok());
        let (first, count) = (numbers.next(), numbers.nth(1));
        first.zip(count).is_some_and(|(first, count)| user.checked_sub(first).is_some_and(|at| at < count))
    })
}

struct Walker {
    here: OwnedFd,
    stat: Stat,
    path: PathBuf,
    ahead: VecDeque<OsString>,
    passed: Vec<PathStep>,
}

impl Walker {
    fn at(path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let (start, shown) = if path.is_absolute() { ("/", "/") } else { (".", "") };
        let (here, stat) = open_directory(CWD, OsStr::new(start))?;
        let path_so_far = PathBuf::from(shown);
        let ahead = names(path).collect();
        let first =
            PathStep::Directory { stat, path: if shown.is_empty() { ".".into() } else { shown.into() } };
        Ok(Self { here, stat, path: path_so_far, ahead, passed: vec![first] })
    }

    /// Opens a name in this directory. Automounts are triggered, and links are not followed.
    fn open(&self, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
        match open_directory(&self.here, name) {
            Err(Errno::NOTDIR | Errno::LOOP) => {}
            outcome => return outcome,
        }
        let found = rustix::fs::openat(&self.here, name, NAME_ONLY, Mode::empty())?;
        let stat = rustix::fs::fstat(&found)?;
        Ok((found, stat))
    }

    fn enter(&mut self, name: &OsStr) -> io::Result<()> {
        let (here, stat) = open_directory(&self.here, name)?;
        self.step(here, stat, name);
        Ok(())
    }

    fn step(&mut self, here: OwnedFd, stat: Stat, name: &OsStr) {
        self.path.push(name);
        self.passed.push(PathStep::Directory { stat, path: self.path.clone() });
        (self.here, self.stat) = (here, stat);
    }

    /// Continues at the target of a link; returns the open file for a procfs link at the end of the path.
    fn follow(
        &mut self,
        name: &OsStr,
        link: &OwnedFd,
        stat: Stat,
    ) -> io::Result<Option<(OwnedFd, Stat, bool)>> {
        let (last, path) = (self.ahead.is_empty(), self.path.join(name));
        self.passed.push(PathStep::Link { stat, within: self.stat, last, path: path.clone() });
        if rustix::fs::fstatfs(&self.here)?.f_type == PROC_SUPER_MAGIC {
            // A procfs link has no target text to walk; only the kernel resolves it.
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let found = rustix::fs::openat(&self.here, name, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&found)?;
            if last {
                return Ok(Some((found, stat, true)));
            }
            self.step(found, stat, name);
            return Ok(None);
        }
        let target = rustix::fs::readlinkat(link, "", Vec::new())?;
        let target = PathBuf::from(OsString::from_vec(target.into_bytes()));
        for name in names(&target).collect::<Vec<_>>().into_iter().rev() {
            self.ahead.push_front(name);
        }
        if target.is_absolute() {
            (self.here, self.stat) = open_directory(CWD, OsStr::new("/"))?;
            self.path = PathBuf::from("/");
        }
        Ok(None)
    }

    fn end(self, name: OsString, found: Option<(OwnedFd, Stat, bool)>) -> io::Result<WalkedPath> {
        let Self { here, passed, stat, .. } = self;
        let is_descriptor = found.as_ref().is_some_and(|(_, _, descriptor)| *descriptor);
        let found = match (found, name == ".") {
            (Some((found, stat, _)), _) => Some((found, stat)),
            (None, true) => Some((here.try_clone()?, stat)),
            (None, false) => None,
        };
        Ok(WalkedPath { directory: here, name, found, is_descriptor, passed })
    }
}

/// The names of a path, in order.
fn names(path: &Path) -> impl Iterator<Item = OsString> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

fn open_directory(at: impl AsFd, name: &OsStr) -> Result<(OwnedFd, Stat), Errno> {
    let directory = rustix::fs::openat(at, name.as_bytes(), NAME_ONLY | OFlags::DIRECTORY, Mode::empty())?;
    let stat = rustix::fs::statat(&directory, "", AtFlags::EMPTY_PATH)?;
    Ok((directory, stat))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_way_leads_through_directories_and_links_to_what_the_kernel_finds() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        std::fs::create_dir_all(path("a/b")).unwrap();
        std::fs::write(path("a/b/file"), "").unwrap();
        symlink("b", path("a/relative")).unwrap();
        symlink(path("a"), path("absolute")).unwrap();
        symlink("../a/relative/file", path("a/last")).unwrap();
        symlink("self", path("self")).unwrap();
        for name in ["a/b/file", "absolute/relative/file", "a/last", "a/../a/./b/file", "a/b", "a/b/"] {
            let way = WalkedPath::walk(&path(name)).unwrap();
            let (_, stat) = way.found.unwrap();
            assert_eq!(stat.st_ino, rustix::fs::stat(path(name)).unwrap().st_ino, "{name}");
        }
        let absent = WalkedPath::walk(&path("absolute/relative/absent")).unwrap();
        assert!(absent.found.is_none() && absent.name == "absent");
        let errno = |name: &str| WalkedPath::walk(&path(name)).map(drop).unwrap_err().raw_os_error();
        assert_eq!(errno("self"), Some(Errno::LOOP.raw_os_error()));
        assert_eq!(errno("a/none/file"), Some(Errno::NOENT.raw_os_error()));
        assert_eq!(errno("a/b/file/more"), Some(Errno::NOTDIR.raw_os_error()));
        let root = WalkedPath::walk(Path::new("/")).unwrap();
        assert!(root.name == "." && root.found.is_some());
        assert!(WalkedPath::walk(Path::new("/proc/self/fd/0")).unwrap().is_descriptor);
    }

    #[test]
    fn maps_are_ranges() {
        for (map, known) in [
            ("         0          0 4294967295\n", true),
            ("      1000       1000          1\n", false),
            ("0 1000 1\n1 100000 65536\n", true),
            ("0 1000 1\n1 100000 65533\n", false),
            ("", false),
            ("65534 x", false),
        ] {
            assert_eq!(maps(map, OVERFLOW), known, "{map}");
        }
    }
}
