//! A hidden directory for files that have a number for a name, on a disk of the node or in the scratch directory itself.
//!
//! ```text
//! DIR/.quell-scratch-RANDOM/17        content of a file
//!                          /.owner    a symbolic link whose target names the kind and the process, in JSON
//! DIR/.quell-kept-RANDOM/             the same for files that are to be kept
//!                          /paths     tells for each number the path at which the file belongs
//! ```
//!
//! A run removes the rooms whose process is gone, as after a kill. A room for kept files is never removed with a file in it. So a
//! room is removed only if both its name and its mark say that its files are of no use any more.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_cache::{ProcessIdentity, ProcessLife};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::request::ScratchLeft;
use super::stored::write_all;
use crate::fuse::original::{self, os};

/// The purpose of a room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RoomKind {
    /// Its files are of no use when their process has ended.
    Scratch,
    /// Its files are to be kept.
    Kept,
}

impl RoomKind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Scratch => PREFIX,
            Self::Kept => KEPT_PREFIX,
        }
    }
}

/// The beginning of the names of rooms. Names that begin like this are not shown.
pub(super) const PREFIX: &str = ".quell-scratch-";

/// The same for files that are being kept.
const KEPT_PREFIX: &str = ".quell-kept-";

/// The link in a room that names its owner. A room without it is being made, or is none.
const OWNER: &str = ".owner";

/// A new owner, before it takes the place of the one before.
const NEXT_OWNER: &str = ".owner-next";

/// The file in a room for kept files that tells the path of each.
const PATHS: &str = "paths";

/// A new one, before it takes the place of the one before.
const NEXT_PATHS: &str = ".paths-next";

/// Names in a room that are no files of programs.
const OWN_NAMES: [&str; 4] = [OWNER, NEXT_OWNER, PATHS, NEXT_PATHS];

/// The target of a room's mark.
#[derive(Serialize, Deserialize)]
struct RoomOwner {
    /// Absent in rooms of earlier versions, whose name tells it.
    kind: Option<RoomKind>,
    #[serde(flatten)]
    process: ProcessIdentity,
}

impl RoomOwner {
    fn own(kind: RoomKind) -> Result<String, Errno> {
        let own = Self { kind: Some(kind), process: ProcessIdentity::own() };
        serde_json::to_string(&own).map_err(|_| Errno::INVAL)
    }
}

/// A directory of this process's that no other user can look into.
#[derive(Debug)]
pub(super) struct ScratchRoom {
    name: String,
    /// As it was made, or changed last.
    kind: RoomKind,
    pub(super) directory: Arc<OwnedFd>,
    /// The paths of files that stay in it when it is closed, by number.
    left: BTreeMap<String, Vec<u8>>,
}

impl ScratchRoom {
    pub(super) fn make(parent: &OwnedFd, kind: RoomKind) -> Result<Self, Errno> {
        let mut outcome = Err(Errno::EXIST);
        for _ in 0..TRIES {
            // Other users cannot know the name beforehand. Source: the keys of `RandomState` are the kernel's random numbers.
            let random = RandomState::new().build_hasher().finish();
            outcome = Self::make_named(parent, format!("{}{random:016x}", kind.prefix()), kind);
            // The name is taken; or a run that began just now removed the room, still empty, as a leftover. A network file
            // system then says `ESTALE`.
            if !matches!(outcome, Err(Errno::EXIST | Errno::NOENT | Errno::STALE)) {
                break;
            }
        }
        outcome
    }

    fn make_named(parent: &OwnedFd, name: String, kind: RoomKind) -> Result<Self, Errno> {
        rustix::fs::mkdirat(parent, &*name, Mode::RWXU)?;
        let marked = open_own(parent, name.as_bytes()).and_then(|directory| {
            // The owner of `parent` may have put another directory of this user's there.
            if !listed(&directory).is_empty() {
                return Err(Errno::EXIST);
            }
            // A file would get the access control list of this directory, and keep it at its place.
            for list in ["system.posix_acl_default", "system.posix_acl_access"] {
                _ = rustix::fs::fremovexattr(&directory, list);
            }
            rustix::fs::fchmod(&directory, Mode::RWXU)?;
            // A symbolic link is made together with its target; a file could be left empty by a kill.
            rustix::fs::symlinkat(RoomOwner::own(kind)?, &directory, OWNER)?;
            Ok(directory)
        });
        match marked {
            Ok(directory) => Ok(Self { name, kind, directory: Arc::new(directory), left: BTreeMap::new() }),
            Err(errno) => {
                _ = rustix::fs::unlinkat(parent, &*name, AtFlags::REMOVEDIR);
                Err(errno)
            }
        }
    }

    /// Changes the kind of the room, in its name, by which a user knows it after a kill, and then in its mark. If only one of them can be changed to [`RoomKind::Kept`], that is
    /// enough: no run removes it. If neither can, the mark is removed, which has the same effect. Open files stay valid.
    pub(super) fn change_kind(&mut self, parent: &OwnedFd, kind: RoomKind) {
        if std::mem::replace(&mut self.kind, kind) == kind {
            return;
        }
        let random = self.name.rsplit_once('-').map_or("", |(_, random)| random);
        let name = format!("{}{random}", kind.prefix());
        let is_named = rename_new((parent, self.name.as_bytes()), (parent, name.as_bytes())).is_ok();
        if is_named {
            self.name = name;
        }
        let is_marked = self.mark(kind).is_ok();
        match kind {
            RoomKind::Scratch => _ = rustix::fs::unlinkat(&*self.directory, PATHS, AtFlags::empty()),
            RoomKind::Kept if is_marked || is_named => {}
            RoomKind::Kept => _ = rustix::fs::unlinkat(&*self.directory, OWNER, AtFlags::empty()),
        }
    }

    fn mark(&self, kind: RoomKind) -> Result<(), Errno> {
        let directory = &*self.directory;
        rustix::fs::symlinkat(RoomOwner::own(kind)?, directory, NEXT_OWNER)?;
        rustix::fs::renameat(directory, NEXT_OWNER, directory, OWNER)
    }

    /// Writes down which file belongs where, for the user who finds them after a kill.
    ///
    /// **Parameters** `paths`: numbers and paths below the scratch directory.
    pub(super) fn note<'p>(&self, paths: impl Iterator<Item = (&'p str, &'p [u8])>) -> Result<(), Errno> {
        let line = |(number, path)| format!("{number} {}\n", quell_base::shown(Path::new(os(path))));
        let lines: String = paths.map(line).collect();
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*self.directory, NEXT_PATHS, flags, Mode::RUSR | Mode::WUSR)?;
        let written = write_all(&file, lines.as_bytes(), 0).and_then(|()| rustix::fs::fsync(&file));
        let directory = &*self.directory;
        let noted = written.and_then(|()| rustix::fs::renameat(directory, NEXT_PATHS, directory, PATHS));
        if noted.is_err() {
            // A part would hide that the rest is missing.
            _ = rustix::fs::unlinkat(directory, NEXT_PATHS, AtFlags::empty());
        }
        noted
    }

    /// The file of this number stays when the room is closed.
    pub(super) fn leave(&mut self, number: String, path: &[u8]) {
        self.left.insert(number, path.to_vec());
    }

    pub(super) fn keeps_nothing(&self) -> bool {
        self.left.is_empty()
    }

    /// The files that stay, written down.
    ///
    /// **Parameters** `around`: the path of the directory in which it lies.
    pub(super) fn left(&self, around: &Path) -> Option<ScratchLeft> {
        if self.left.is_empty() {
            return None;
        }
        let noted = self.note(self.left.iter().map(|(number, path)| (&**number, &**path)));
        // One that was written before tells these paths among others.
        let is_there = || rustix::fs::statat(&*self.directory, PATHS, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let is_noted = noted.is_ok() || is_there();
        Some(ScratchLeft { path: quell_base::shown(around.join(&self.name)), is_noted })
    }

    /// Removes it with all files that have a number for a name, or those of them that are not to stay.
    pub(super) fn close(&self, parent: &OwnedFd, around: &Path) -> Option<ScratchLeft> {
        if self.left.is_empty() {
            remove(parent, self.name.as_bytes(), &self.directory);
            return None;
        }
        for file in listed(&self.directory).into_iter().filter(|file| is_number(file)) {
            if std::str::from_utf8(&file).is_ok_and(|number| !self.left.contains_key(number)) {
                remove_file(&self.directory, &file);
            }
        }
        let left = self.left(around);
        if left.as_ref().is_some_and(|left| !left.is_noted) {
            self.name_files();
        }
        left
    }

    /// Gives files names that tell where they belong, which needs no room. Those with too long a path keep their number.
    fn name_files(&self) {
        for (number, path) in &self.left {
            let mut name = Vec::from(*b"path:");
            for byte in path {
                match byte {
                    b'%' => name.extend(b"%25"),
                    b'/' => name.extend(b"%2F"),
                    byte => name.push(*byte),
                }
            }
            _ = rename_new((&self.directory, number.as_bytes()), (&self.directory, &name));
        }
    }
}

/// Renames to a name that is free.
fn rename_new(from: (&OwnedFd, &[u8]), to: (&OwnedFd, &[u8])) -> Result<(), Errno> {
    match rustix::fs::renameat_with(from.0, os(from.1), to.0, os(to.1), RenameFlags::NOREPLACE) {
        // Not every file system knows the flag. The name is random, or in a directory that no other user can change.
        Err(Errno::INVAL | Errno::NOSYS) => rustix::fs::renameat(from.0, os(from.1), to.0, os(to.1)),
        renamed => renamed,
    }
}

/// Names that are tried. The first one is free, unless another run interferes.
const TRIES: u32 = 16;

/// The mark is removed last, so that what a kill leaves is still known as a leftover.
fn remove(parent: &OwnedFd, name: &[u8], directory: &OwnedFd) {
    let files = listed(directory);
    let ours = |file: &&[u8]| {
        is_number(file) || OWN_NAMES.iter().any(|name| name.as_bytes() == *file && *name != OWNER)
    };
    files.iter().map(|file| &**file).filter(ours).for_each(|file| remove_file(directory, file));
    _ = rustix::fs::unlinkat(directory, OWNER, AtFlags::empty());
    _ = rustix::fs::unlinkat(parent, os(name), AtFlags::REMOVEDIR);
}

fn remove_file(directory: &OwnedFd, name: &[u8]) {
    if rustix::fs::unlinkat(directory, os(name), AtFlags::empty()).is_err() {
        _ = rustix::fs::unlinkat(directory, os(name), AtFlags::REMOVEDIR);
    }
}

/// Removes the rooms in `directory` whose process was this user's on this node, and is gone. Returns the paths of those whose
/// files were to be kept: they stay.
pub(super) fn remove_leftovers(directory: &OwnedFd, path: &Path) -> Vec<PathBuf> {
    let Ok(directory) = original::reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Vec::new();
    };
    let names = listed(&directory)
        .into_iter()
        .filter(|name| [PREFIX, KEPT_PREFIX].iter().any(|prefix| name.starts_with(prefix.as_bytes())));
    let mut found: Vec<_> =
        names.filter(|name| is_found(&directory, name)).map(|name| path.join(os(&name))).collect();
    found.sort();
    found
}

/// Removes a leftover, or tells that it holds files that were to be kept.
fn is_found(directory: &OwnedFd, name: &[u8]) -> bool {
    let Ok(room) = open_own(directory, name) else { return false };
    let owner = rustix::fs::readlinkat(&room, OWNER, Vec::new());
    let owner = owner.ok().and_then(|owner| serde_json::from_slice::<RoomOwner>(owner.as_bytes()).ok());
    let Some(owner) = owner else {
        // Killed before it was marked: it is empty then.
        _ = rustix::fs::unlinkat(directory, os(name), AtFlags::REMOVEDIR);
        return false;
    };
    let is_kept = name.starts_with(KEPT_PREFIX.as_bytes()) || owner.kind == Some(RoomKind::Kept);
    match owner.process.life() {
        ProcessLife::Dead if is_kept && holds_files(&room) => true,
        ProcessLife::Dead => {
            remove(directory, name, &room);
            false
        }
        // Of processes of another node or container this one knows nothing.
        ProcessLife::Alive | ProcessLife::Unknown => false,
    }
}

fn holds_files(room: &OwnedFd) -> bool {
    listed(room).iter().any(|file| !OWN_NAMES.map(str::as_bytes).contains(&&**file))
}

fn is_number(name: &[u8]) -> bool {
    name.iter().all(u8::is_ascii_digit)
}

/// Opens a directory of this user's that no other one can change.
fn open_own(parent: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, os(name), flags, Mode::empty())?;
    let stat = rustix::fs::fstat(&directory)?;
    let is_own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o077 == 0;
    if is_own { Ok(directory) } else { Err(Errno::ACCESS) }
}

fn listed(directory: &OwnedFd) -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    _ = original::list(directory, 0, &mut |listed| {
        if !matches!(listed.name, b"." | b"..") {
            names.push(listed.name.to_vec());
        }
        crate::fuse::listing::Pushed::Yes
    });
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, symlink};

    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn make_private(path: &Path) {
        std::fs::DirBuilder::new().mode(0o700).create(path).unwrap();
    }

    #[test]
    fn stores_of_the_dead_are_removed_and_no_others() {
        let top = tempfile::tempdir().unwrap();
        let own = serde_json::to_string(&ProcessIdentity::own()).unwrap();
        let start = own.rsplit_once(':').unwrap().0;
        let boot = own.replacen("\"boot\":\"", "\"boot\":\"another", 1);
        let names = [
            (format!("{PREFIX}alive"), own.clone(), true),
            (format!("{PREFIX}dead"), format!("{start}:1}}"), false),
            (format!("{PREFIX}elsewhere"), boot, true),
            (format!("{PREFIX}unmarked"), String::new(), true),
            (format!("{KEPT_PREFIX}dead"), format!("{start}:1}}"), true),
            ("mine".to_owned(), format!("{start}:1}}"), true),
        ];
        for (name, owner, _) in &names {
            let store = top.path().join(name);
            make_private(&store);
            std::fs::write(store.join("17"), "x").unwrap();
            if !owner.is_empty() {
                symlink(owner, store.join(OWNER)).unwrap();
            }
        }
        make_private(&top.path().join(format!("{PREFIX}empty")));
        let top_file = std::fs::File::open(top.path()).unwrap().into();
        assert_eq!(
            remove_leftovers(&top_file, Path::new("/top")),
            [PathBuf::from(format!("/top/{KEPT_PREFIX}dead"))]
        );
        for (name, _, stays) in &names {
            assert_eq!(top.path().join(name).join("17").exists(), *stays, "{name}");
        }
        assert!(!top.path().join(format!("{PREFIX}empty")).exists());
        // A kept one in which nothing is left.
        std::fs::remove_file(top.path().join(format!("{KEPT_PREFIX}dead/17"))).unwrap();
        assert!(remove_leftovers(&top_file, top.path()).is_empty());
        assert!(!top.path().join(format!("{KEPT_PREFIX}dead")).exists());
    }

    #[test]
    fn a_store_is_not_made_in_what_another_put_in_its_place() {
        let top = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(top.path()).unwrap().into();
        std::fs::create_dir(top.path().join("taken")).unwrap();
        assert_eq!(
            ScratchRoom::make_named(&parent, "taken".to_owned(), RoomKind::Scratch).map(|_| ()),
            Err(Errno::EXIST)
        );
        let room = ScratchRoom::make(&parent, RoomKind::Kept).unwrap();
        assert!(top.path().join(&room.name).join(OWNER).is_symlink());
        assert_eq!(room.close(&parent, top.path()), None);
        assert!(!top.path().join(&room.name).exists());
    }

    /// Marks the room at `path` as that of a process that is gone.
    fn mark_dead(path: &Path, kind: &str) {
        let own = serde_json::to_string(&ProcessIdentity::own()).unwrap();
        let start = own.rsplit_once(':').unwrap().0.strip_prefix('{').unwrap();
        std::fs::remove_file(path.join(OWNER)).unwrap();
        symlink(format!("{{\"kind\":\"{kind}\",{start}:1}}"), path.join(OWNER)).unwrap();
    }

    #[test]
    fn a_room_is_removed_if_its_name_and_its_mark_agree() {
        let top = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(top.path()).unwrap().into();
        let cases = [
            (RoomKind::Scratch, "scratch", false),
            (RoomKind::Scratch, "kept", true),
            (RoomKind::Kept, "scratch", true),
            (RoomKind::Kept, "kept", true),
            (RoomKind::Scratch, "of another version", true),
        ];
        for (kind, marked, stays) in cases {
            let room = ScratchRoom::make(&parent, kind).unwrap();
            let path = top.path().join(&room.name);
            std::fs::write(path.join("17"), "x").unwrap();
            mark_dead(&path, marked);
            remove_leftovers(&parent, top.path());
            assert_eq!(path.join("17").exists(), stays, "{kind:?} {marked}");
        }
    }

    #[test]
    fn a_room_that_becomes_another_tells_so_by_name_and_mark() {
        let top = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(top.path()).unwrap().into();
        let mut room = ScratchRoom::make(&parent, RoomKind::Scratch).unwrap();
        for kind in [RoomKind::Kept, RoomKind::Scratch, RoomKind::Kept] {
            room.change_kind(&parent, kind);
            assert!(room.name.starts_with(kind.prefix()));
            let mark = std::fs::read_link(top.path().join(&room.name).join(OWNER)).unwrap();
            let owner: RoomOwner = serde_json::from_slice(mark.as_os_str().as_bytes()).unwrap();
            assert_eq!((owner.kind, owner.process), (Some(kind), ProcessIdentity::own()));
            assert_eq!(std::fs::read_dir(top.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn files_that_stay_are_told_by_paths_or_by_their_names() {
        let top = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(top.path()).unwrap().into();
        let mut room = ScratchRoom::make(&parent, RoomKind::Kept).unwrap();
        let path = top.path().join(&room.name);
        for number in ["1", "2", "3"] {
            std::fs::write(path.join(number), number).unwrap();
        }
        room.leave("1".to_owned(), b"sub/a%");
        room.leave("3".to_owned(), &[b'x'; 300]);
        let left = room.close(&parent, top.path()).unwrap();
        assert_eq!((left.path, left.is_noted), (path.display().to_string(), true));
        let paths = std::fs::read_to_string(path.join(PATHS)).unwrap();
        assert_eq!(paths, format!("1 sub/a%\n3 {}\n", "x".repeat(300)));
        assert!(!path.join("2").exists());
        room.name_files();
        assert!(path.join("path:sub%2Fa%25").exists() && path.join("3").exists());
    }
}
