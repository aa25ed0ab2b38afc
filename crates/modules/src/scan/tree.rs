//! A modulepath as a scan found it.

use crate::ModulesError;
use crate::access::{Access, Permission};
use crate::cookie::{CACHE, Cookie, Name, RcKind};
use rustix::io::Errno;
use std::path::PathBuf;

/// How a modulepath is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Requests in flight at most. Range: from 1.
    pub jobs: u16,
}

impl Default for Options {
    fn default() -> Self {
        Self { jobs: 16 }
    }
}

/// Bytes of a file that are read. Modulefiles have a few thousand; a longer one is judged by these.
pub const FILE_LIMIT: usize = 1 << 20;
/// Bytes of a file that tell what it is. An archive that somebody left beside modulefiles is not held in memory.
pub const HEAD_LIMIT: usize = 4096;
/// Bytes of a cache that are read: with every modulefile in it, one of 20 000 modulefiles has 50 MB.
pub const CACHE_LIMIT: usize = 1 << 28;
/// Directories below each other. Deeper trees exist only by mistake, such as links that lead around.
pub const DEPTH_LIMIT: usize = 64;
/// Entries of a modulepath. A site of 20 000 modulefiles has 30 000.
pub const ENTRY_LIMIT: usize = 4_000_000;

/// A modulepath as it was found.
#[derive(Clone, Debug)]
pub struct Tree {
    /// The modulepath, as it was given.
    pub root: PathBuf,
    /// Who may list it.
    pub access: Access,
    /// Everything below it. Shape: sorted by path, bytewise.
    pub entries: Vec<Entry>,
}

/// A name below a modulepath.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path below the modulepath, such as `gcc/12.1`.
    pub path: Vec<u8>,
    /// Whether the name itself is a symbolic link.
    pub is_link: bool,
    /// Owner and permissions of the file or directory, behind links; `None` where there is none.
    pub access: Option<Access>,
    /// Device and inode of the file or directory, behind links; `None` where there is none.
    pub identity: Option<(u64, u64)>,
    /// Last change of the content. Unit: nanoseconds since 1970.
    pub modified: i128,
    /// Length of the file; of anything else 0. Unit: bytes.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory that was listed.
    Directory,
    /// A directory that Environment Modules leaves out by its name.
    IgnoredDirectory,
    /// A directory that we could not list.
    Unlistable(Errno),
    /// A regular file, and its first [`FILE_LIMIT`] bytes. Of a cache the first [`CACHE_LIMIT`]; of what is neither a modulefile
    /// nor an rc file the first [`HEAD_LIMIT`].
    File(Vec<u8>),
    /// A regular file that we could not read.
    Unreadable(Errno),
    /// A link that leads into a directory on the way to itself, or in a circle.
    Loop,
    /// A link to nothing.
    Dangling,
    /// Neither file nor directory.
    Special,
    /// A directory deeper than [`DEPTH_LIMIT`].
    TooDeep,
}

impl Entry {
    /// The last component of its path.
    pub fn name(&self) -> &[u8] {
        self.path.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// The path of its directory; empty for the modulepath itself.
    pub fn parent(&self) -> &[u8] {
        self.path.iter().rposition(|byte| *byte == b'/').map_or(&[], |slash| &self.path[..slash])
    }

    /// The first component of its path.
    pub fn top(&self) -> &[u8] {
        self.path.split(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// What Environment Modules would look for in it, by its name; `None` for what is no file, or never looked at.
    pub fn role(&self) -> Option<Role> {
        if !matches!(self.kind, Kind::File(_) | Kind::Unreadable(_)) {
            return None;
        }
        let at_root = self.parent().is_empty();
        match Name::of(self.name()) {
            Name::Ordinary => Some(Role::Module),
            // At the root Environment Modules skips no dotfile but these two.
            Name::Hidden | Name::Cache => (!(at_root && self.name() == CACHE)).then_some(Role::HiddenModule),
            Name::Rc(RcKind::Version) if at_root => None,
            Name::Rc(kind) => Some(Role::Rc(kind)),
            Name::Ignored => None,
        }
    }

    /// What a user needs to make use of it: reading for a file, listing for a directory; `None` where it is neither, or is
    /// not known.
    pub fn permission(&self) -> Option<Permission> {
        match self.kind {
            Kind::File(_) | Kind::Unreadable(_) => Some(Permission::Read),
            Kind::Directory | Kind::IgnoredDirectory | Kind::Unlistable(_) => Some(Permission::List),
            Kind::Loop | Kind::Dangling | Kind::Special | Kind::TooDeep => None,
        }
    }

    /// Its content, where it is a file that we could read.
    pub fn content(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::File(content) => Some(content),
            _ => None,
        }
    }

    /// Whether [`Entry::content`] is all that the file holds.
    pub fn is_whole(&self) -> bool {
        self.content().is_some_and(|content| content.len() as u64 == self.size)
    }

    /// What its first characters say, where we could read them.
    pub fn cookie(&self) -> Option<Cookie> {
        self.content().map(Cookie::of)
    }
}

/// What a file is looked at as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A modulefile.
    Module,
    /// A modulefile that is not listed, because of the dot that its name begins with.
    HiddenModule,
    /// An rc file.
    Rc(RcKind),
}

impl Tree {
    /// The entry at a path below the modulepath.
    pub fn find(&self, path: &[u8]) -> Option<&Entry> {
        let place = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(place)
    }

    /// The files that count for Environment Modules, with what each is looked at as: those not below a directory that it
    /// leaves out.
    pub fn files(&self) -> impl Iterator<Item = (&Entry, Role)> {
        self.entries.iter().filter_map(|entry| entry.role().map(|role| (entry, role)))
    }

    /// Refuses a tree with what is neither file nor directory, before a tool is asked about it.
    ///
    /// **Errors**: [`ModulesError::Special`].
    pub(crate) fn refuse_special(&self) -> Result<(), ModulesError> {
        match self.entries.iter().find(|entry| entry.kind == Kind::Special) {
            Some(entry) => Err(ModulesError::Special { path: self.full_path(&entry.path) }),
            None => Ok(()),
        }
    }

    /// The absolute path of an entry, if the modulepath was given by one.
    pub fn full_path(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.root.join(std::ffi::OsStr::from_bytes(path))
    }

    /// The directories between the modulepath and an entry, nearest to the modulepath first.
    pub fn directories<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a Entry> {
        above(path).filter_map(|directory| self.find(directory))
    }

    /// Tells whether every user may read a file, the directories on the way to it included.
    pub(crate) fn is_for_everybody(&self, entry: &Entry) -> bool {
        let may = |access: &Option<Access>, permission| {
            access.as_ref().is_some_and(|access| access.everybody(permission))
        };
        may(&entry.access, Permission::Read)
            && self.access.everybody(Permission::List)
            && self.directories(&entry.path).all(|directory| may(&directory.access, Permission::List))
    }

    /// The path of the same file that leads through no loop: tools follow these, a scan does not.
    pub(crate) fn around_loops(&self, path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        // A loop leads to a directory on the way to it, so the path is shorter each time.
        while let Some(shorter) = self.around_first_loop(&path) {
            path = shorter;
        }
        path
    }

    fn around_first_loop(&self, path: &[u8]) -> Option<Vec<u8>> {
        let link =
            self.directories(path).find(|entry| entry.kind == Kind::Loop && entry.identity.is_some())?;
        let rest = &path[link.path.len() + 1..];
        // One that leads to no directory below the modulepath leads to the modulepath itself.
        match self.directories(&link.path).find(|entry| entry.identity == link.identity) {
            Some(target) => Some([&target.path, b"/".as_slice(), rest].concat()),
            None => Some(rest.to_vec()),
        }
    }
}

/// The paths of the directories on the way to a path below a modulepath, the highest first.
pub(crate) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| &path[..slash])
}
