//! A modulepath as a scan found it.

use crate::ModulesError;
use crate::access::{Access, Permission};
use crate::cookie::{CACHE, Cookie, NameTreatment, RcKind};
use rustix::io::Errno;
use std::path::PathBuf;

/// Settings of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanOptions {
    /// Requests in flight at most. Range: from 1.
    pub jobs: u16,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self { jobs: 16 }
    }
}

/// Bytes of a file that are read. Modulefiles have a few thousand; a longer one is judged by its beginning.
pub const FILE_LIMIT: usize = 1 << 20;
/// Bytes of a file that show its kind. An archive beside modulefiles is not held in memory.
pub const HEAD_LIMIT: usize = 4096;
/// Bytes of a cache that are read. The cache of 20 000 modulefiles has 50 MB.
pub const CACHE_LIMIT: usize = 1 << 28;
/// The deepest level of directories. Only mistakes, such as links that lead back, make deeper trees.
pub const DEPTH_LIMIT: usize = 64;
/// The largest number of entries of a modulepath. A site of 20 000 modulefiles has 30 000.
pub const ENTRY_LIMIT: usize = 4_000_000;

/// A modulepath as it was found.
#[derive(Clone, Debug)]
pub struct ModuleTree {
    /// The modulepath, as the caller gave it.
    pub root: PathBuf,
    /// Permissions of the modulepath itself.
    pub access: Access,
    /// Everything below it. Shape: sorted by path, bytewise.
    pub entries: Vec<TreeEntry>,
}

/// A name below a modulepath.
#[derive(Clone, Debug)]
pub struct TreeEntry {
    /// Its path below the modulepath, such as `gcc/12.1`.
    pub path: Vec<u8>,
    /// The name itself is a symbolic link.
    pub is_link: bool,
    /// Owner and permissions of the file or directory, behind links; `None` where the name leads to none.
    pub access: Option<Access>,
    /// Device and inode of the file or directory, behind links; `None` where the name leads to none.
    pub identity: Option<(u64, u64)>,
    /// Last change of the content. Unit: nanoseconds since 1970.
    pub modified: i128,
    /// Length of a file; 0 for anything else. Unit: bytes.
    pub size: u64,
    /// The kind of entry.
    pub kind: EntryKind,
}

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory that was listed.
    Directory,
    /// A directory that Environment Modules leaves out because of its name.
    IgnoredDirectory,
    /// A directory that could not be listed.
    Unlistable(Errno),
    /// A regular file with its first [`FILE_LIMIT`] bytes. A cache has its first [`CACHE_LIMIT`], a file that is neither a
    /// modulefile nor an rc file its first [`HEAD_LIMIT`].
    File(Vec<u8>),
    /// A regular file that could not be read.
    Unreadable(Errno),
    /// A link that leads into a directory on the way to itself, or in a circle.
    Loop,
    /// A dangling link.
    Dangling,
    /// Neither file nor directory.
    Special,
    /// A directory deeper than [`DEPTH_LIMIT`].
    TooDeep,
}

impl TreeEntry {
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

    /// The role of the file for Environment Modules, according to its name; `None` for anything but a file, and for a file
    /// that is never read.
    pub fn role(&self) -> Option<FileRole> {
        if !matches!(self.kind, EntryKind::File(_) | EntryKind::Unreadable(_)) {
            return None;
        }
        let at_root = self.parent().is_empty();
        match NameTreatment::of(self.name()) {
            NameTreatment::Ordinary => Some(FileRole::Module),
            // At the root, of all dotfiles, Environment Modules skips only these two.
            NameTreatment::Hidden | NameTreatment::Cache => {
                (!(at_root && self.name() == CACHE)).then_some(FileRole::HiddenModule)
            }
            NameTreatment::Rc(RcKind::Version) if at_root => None,
            NameTreatment::Rc(kind) => Some(FileRole::Rc(kind)),
            NameTreatment::Ignored => None,
        }
    }

    /// The permission that a user needs for the entry: reading for a file, listing for a directory; `None` for anything else
    /// or unknown.
    pub fn permission(&self) -> Option<Permission> {
        match self.kind {
            EntryKind::File(_) | EntryKind::Unreadable(_) => Some(Permission::Read),
            EntryKind::Directory | EntryKind::IgnoredDirectory | EntryKind::Unlistable(_) => {
                Some(Permission::List)
            }
            EntryKind::Loop | EntryKind::Dangling | EntryKind::Special | EntryKind::TooDeep => None,
        }
    }

    /// The content of a file that could be read.
    pub fn content(&self) -> Option<&[u8]> {
        match &self.kind {
            EntryKind::File(content) => Some(content),
            _ => None,
        }
    }

    /// Tells whether [`TreeEntry::content`] is complete.
    pub fn is_whole(&self) -> bool {
        self.content().is_some_and(|content| content.len() as u64 == self.size)
    }

    /// The cookie of a file that could be read.
    pub fn cookie(&self) -> Option<Cookie> {
        self.content().map(Cookie::of)
    }
}

/// The role of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileRole {
    /// A modulefile.
    Module,
    /// A modulefile that is not listed, because its name begins with a dot.
    HiddenModule,
    /// An rc file.
    Rc(RcKind),
}

impl ModuleTree {
    /// The entry at a path below the modulepath.
    pub fn find(&self, path: &[u8]) -> Option<&TreeEntry> {
        let place = self.entries.binary_search_by(|entry| entry.path.as_slice().cmp(path)).ok()?;
        self.entries.get(place)
    }

    /// The files that count for Environment Modules, with their roles. Files below directories that it leaves out do not
    /// count.
    pub fn files(&self) -> impl Iterator<Item = (&TreeEntry, FileRole)> {
        self.entries.iter().filter_map(|entry| entry.role().map(|role| (entry, role)))
    }

    /// Refuses a tree with an entry that is neither file nor directory, before a tool is asked about it.
    ///
    /// **Errors**: [`ModulesError::Special`].
    pub(crate) fn refuse_special(&self) -> Result<(), ModulesError> {
        match self.entries.iter().find(|entry| entry.kind == EntryKind::Special) {
            Some(entry) => Err(ModulesError::Special { path: self.full_path(&entry.path) }),
            None => Ok(()),
        }
    }

    /// The path of an entry; absolute if the modulepath is.
    pub fn full_path(&self, path: &[u8]) -> PathBuf {
        use std::os::unix::ffi::OsStrExt;
        self.root.join(std::ffi::OsStr::from_bytes(path))
    }

    /// The directories between the modulepath and an entry, nearest to the modulepath first.
    pub fn directories<'a>(&'a self, path: &'a [u8]) -> impl Iterator<Item = &'a TreeEntry> {
        above(path).filter_map(|directory| self.find(directory))
    }

    /// Tells whether every user may read a file, the directories on the way to it included.
    pub(crate) fn is_for_everybody(&self, entry: &TreeEntry) -> bool {
        let may = |access: &Option<Access>, permission| {
            access.as_ref().is_some_and(|access| access.everybody(permission))
        };
        may(&entry.access, Permission::Read)
            && self.access.everybody(Permission::List)
            && self.directories(&entry.path).all(|directory| may(&directory.access, Permission::List))
    }

    /// The path of the same file that passes through no loop. Tools follow loops, a scan does not.
    pub(crate) fn around_loops(&self, path: &[u8]) -> Vec<u8> {
        let mut path = path.to_vec();
        // A loop leads to a directory above it, so the path gets shorter each time.
        while let Some(shorter) = self.around_first_loop(&path) {
            path = shorter;
        }
        path
    }

    fn around_first_loop(&self, path: &[u8]) -> Option<Vec<u8>> {
        let link =
            self.directories(path).find(|entry| entry.kind == EntryKind::Loop && entry.identity.is_some())?;
        let rest = &path[link.path.len() + 1..];
        // A loop that leads to no directory below the modulepath leads to the modulepath itself.
        match self.directories(&link.path).find(|entry| entry.identity == link.identity) {
            Some(target) => Some([&target.path, b"/".as_slice(), rest].concat()),
            None => Some(rest.to_vec()),
        }
    }
}

/// The paths of the directories above a path below a modulepath, the highest first.
pub(crate) fn above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| &path[..slash])
}
