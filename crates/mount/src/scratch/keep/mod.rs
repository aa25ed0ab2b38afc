//! `--keep`: puts what programs made and changed to the real directory.
//!
//! ```text
//! rooms of spilled files --> their names say that they are kept: a kill leaves them
//! everything else        --> staged in a room in the scratch directory, with its attributes, on stable storage
//! each file of the room  --> renamed to its place
//! ```
//!
//! Nothing is removed: at any moment, and whatever fails, the old file lies at its place, or the new one does, and what was
//! written to a disk and is not at its place lies in a room. What fails is counted, and the rest goes on.
//!
//! Other users may own the real directory. So a path serves only to reach the directory of a name, without links, and attributes
//! are set on what a descriptor was opened for.

mod attributes;
mod survey;

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, fsync};
use rustix::io::Errno;

use super::content::Content;
use super::originals::{DIRECTORY, FILE, KIND, LINK, OriginalState, Originals};
use super::request::ScratchKept;
use super::room::{RoomKind, ScratchRoom};
use super::stores::Source;
use super::tree::{Kind, Tree};
use crate::fuse::abi::Attr;
use crate::fuse::original::{os, reach};
pub(super) use survey::end_of;
use survey::{Fresh, fresh};

/// The use of spilled files when everything is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spilled {
    /// None: those that lie in the scratch directory move to their places.
    Move,
    /// A process that outlives the ranks goes on to use them: they are copied.
    Copy,
}

/// Puts what programs made and changed to the real directory.
pub(super) fn keep(tree: &mut Tree, spilled: Spilled) -> ScratchKept {
    tree.stores.change_kind(RoomKind::Kept);
    let mut keeper = Keeper {
        originals: Arc::clone(&tree.originals),
        tree,
        spilled,
        owns_store: false,
        kept: ScratchKept::default(),
        barred: Vec::new(),
        groups: HashMap::new(),
    };
    let fresh = keeper.all_fresh();
    // Programs may have given a directory the permissions to make names in it.
    _ = keeper.settle(&[], Settled::Open);
    let made = if fresh.is_empty() { Vec::new() } else { keeper.keep_names(&fresh) };
    keeper.end_stores();
    // New names in a directory change its times. Programs may also have made it read-only, so its mode is set last as well.
    for (path, errno) in keeper.settle(&made, Settled::Finally) {
        keeper.fail(&path, errno);
    }
    keeper.kept
}

struct Keeper<'t> {
    tree: &'t mut Tree,
    originals: Arc<Originals>,
    spilled: Spilled,
    /// The room is that of the files that spilled to the scratch directory.
    owns_store: bool,
    kept: ScratchKept,
    /// Originals that programs moved and that could not be taken along: nothing may take their place.
    barred: Vec<(Vec<u8>, Errno)>,
    /// The group that new names get in each new directory, where that passes on its own.
    groups: HashMap<Vec<u8>, Option<u32>>,
}

/// A name for which an inode lies in the room, under a number.
struct Staged {
    path: Vec<u8>,
    id: u64,
    number: String,
    attr: Attr,
    identity: Identity,
    /// The error by which it has not become what it must be: it stays in the room.
    refused: Option<Errno>,
}

/// Device and inode.
type Identity = (u64, u64);

/// The two times at which directories get their attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// With all permissions for the owner besides.
    Open,
    Finally,
}

impl Keeper<'_> {
    fn fail(&mut self, path: &[u8], errno: Errno) {
        self.kept.failed += 1;
        let number = u16::try_from(errno.raw_os_error()).unwrap_or_default();
        self.kept.first.get_or_insert_with(|| (quell_base::shown(Path::new(os(path))), number));
    }

    /// Lets no file take the place of an original that programs moved, and of which there is no copy at its new place.
    fn bar(&mut self, id: u64, errno: Errno) {
        let origins = self.tree.inode(id).map(|inode| inode.origins.clone()).unwrap_or_default();
        self.barred.extend(origins.into_iter().map(|origin| (origin, errno)));
    }

    /// Names that are not the original's; a directory that was renamed is made anew with all that is in it.
    fn all_fresh(&mut self) -> Vec<Fresh> {
        let mut tried = HashSet::new();
        loop {
            let found = fresh(self.tree);
            let mut unread = found.iter().filter(|(_, id)| self.tree.is_directory(*id) == Ok(true));
            let unread: Vec<_> = unread.by_ref().filter(|(_, id)| tried.insert(*id)).cloned().collect();
            if unread.is_empty() {
                return found;
            }
            for (path, id) in unread {
                if let Err(errno) = self.tree.entries(id) {
                    self.fail(&path, errno);
                    self.bar(id, errno);
                }
            }
        }
    }

    /// Puts names to their places. Returns the directories that were made.
    fn keep_names(&mut self, fresh: &[Fresh]) -> Vec<Staged> {
        let mut room = match self.room() {
            Ok(room) => room,
            Err(errno) => {
                for (path, id) in fresh {
                    self.fail(path, errno);
                    self.leave_stored(path, *id);
                }
                return Vec::new();
            }
        };
        let numbered = self.numbered(fresh, &room);
        let mut staged = self.stage_all(&mut room, numbered);
        for staged in &staged {
            match self.put(&room, staged) {
                Ok(()) => self.has_put(staged),
                Err(errno) => {
                    self.fail(&staged.path, errno);
                    room.leave(staged.number.clone(), &staged.path);
                    self.tree.stay(staged.id);
                }
            }
        }
        let top = Arc::clone(&self.originals.top);
        self.kept.left.extend(room.close(&top, self.tree.stores.last_path()));
        staged.retain(|staged| staged.attr.mode & KIND == DIRECTORY);
        staged
    }

    /// The room in which everything is staged. Files that spilled to the scratch directory lie in it already, so that a full
    /// one can take them.
    fn room(&mut self) -> Result<ScratchRoom, Errno> {
        if self.spilled == Spilled::Move
            && let Some(room) = self.tree.stores.take_last()
        {
            self.owns_store = true;
            return Ok(room);
        }
        ScratchRoom::make(&self.originals.top, RoomKind::Kept)
    }

    /// Gives each name a number, and writes down which belongs to which, in each room that has or gets the file.
    fn numbered(&self, fresh: &[Fresh], room: &ScratchRoom) -> Vec<(String, Fresh)> {
        let first_free = if self.owns_store { self.tree.next_number() } else { 0 };
        let (mut seen, mut in_stores) = (HashSet::new(), HashMap::<usize, Vec<_>>::new());
        let mut numbered = Vec::new();
        for (number, (path, id)) in (first_free..).zip(fresh) {
            let is_in_room = self.is_in_room(*id) && seen.insert(*id);
            let number = if is_in_room { *id } else { number };
            if let (false, Some(stored)) = (self.is_in_room(*id), self.tree.stored(*id)) {
                let paths = in_stores.entry(stored.number).or_default();
                paths.push((id.to_string(), path.clone()));
            }
            numbered.push((number.to_string(), (path.clone(), *id)));
        }
        for (number, paths) in in_stores {
            self.tree.stores.note(number, &paths);
        }
        // Without it what a kill leaves is harder to sort, and nothing else.
        _ = room.note(numbered.iter().map(|(number, (path, _))| (&**number, &**path)));
        numbered
    }

    /// True for a spilled file that lies in the room anyhow: there is no other copy of it.
    fn is_in_room(&self, id: u64) -> bool {
        let stored = self.tree.stored(id);
        self.owns_store && stored.is_some_and(|stored| self.tree.stores.is_last(stored.number))
    }

    fn stage_all(&mut self, room: &mut ScratchRoom, numbered: Vec<(String, Fresh)>) -> Vec<Staged> {
        let mut staged: Vec<Staged> = Vec::new();
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for (number, (path, id)) in numbered {
            let outcome = match seen.get(&id).map(|first| &staged[*first]) {
                Some(first) => link(room, first, &number, &path),
                None => self.stage(&room.directory, &number, &path, id),
            };
            match outcome {
                Ok(made) => {
                    if let Some(errno) = made.refused {
                        self.bar(id, errno);
                    }
                    seen.entry(id).or_insert(staged.len());
                    staged.push(made);
                }
                Err(errno) => {
                    self.fail(&path, errno);
                    self.bar(id, errno);
                    self.give_up(room, number, &path, id);
                }
            }
        }
        staged
    }

    /// Removes what was staged of a name, unless it is the only copy.
    fn give_up(&mut self, room: &mut ScratchRoom, number: String, path: &[u8], id: u64) {
        if self.is_in_room(id) {
            room.leave(id.to_string(), path);
            self.tree.stay(id);
        } else {
            _ = rustix::fs::unlinkat(&*room.directory, &*number, AtFlags::empty());
            self.leave_stored(path, id);
        }
    }

    /// A spilled file that has not come further stays in its store.
    fn leave_stored(&mut self, path: &[u8], id: u64) {
        if let Some(number) = self.tree.stored(id).map(|stored| stored.number) {
            self.tree.stores.leave(number, id, path);
            self.tree.stay(id);
        }
    }

    fn end_stores(&mut self) {
        let left = match self.spilled {
            Spilled::Move => self.tree.stores.close(),
            Spilled::Copy => {
                self.tree.stores.change_kind(RoomKind::Scratch);
                self.tree.stores.left()
            }
        };
        self.kept.left.extend(left);
    }

    fn has_put(&mut self, staged: &Staged) {
        if staged.attr.mode & KIND == DIRECTORY {
            return;
        }
        self.kept.files += 1;
        self.kept.bytes += staged.attr.size;
        if self.spilled == Spilled::Copy {
            self.tree.has_moved(staged.id, &staged.path);
        }
    }

    /// Puts an inode into the room. A file is on stable storage then: a crash of the node after the rename to its place would
    /// leave an empty one otherwise.
    fn stage(&mut self, room: &OwnedFd, number: &str, path: &[u8], id: u64) -> Result<Staged, Errno> {
        let attr = self.tree.attr(id)?;
        let content = self.fill(room, number, id, attr)?;
        let (made, stat) = reach(room, number.as_bytes())?;
        let dressed = self.dress(&made, path, id, attr);
        let stable = content.as_ref().map_or(Ok(()), |file| fsync(&**file));
        let lies_in_store = self.tree.stored(id).is_some() && !self.is_in_room(id);
        // The store has the better copy.
        stable.or_else(|errno| if lies_in_store { Err(errno) } else { Ok(()) })?;
        let (path, number, identity) = (path.to_vec(), number.to_owned(), (stat.st_dev, stat.st_ino));
        Ok(Staged { path, id, number, attr, identity, refused: dressed.and(stable).err() })
    }

    /// Makes what an inode is. Returns a file's content.
    fn fill(&self, room: &OwnedFd, number: &str, id: u64, attr: Attr) -> Result<Option<Arc<OwnedFd>>, Errno> {
        let nothing = |()| None;
        match attr.mode & KIND {
            DIRECTORY => rustix::fs::mkdirat(room, number, Mode::RWXU).map(nothing),
            LINK => rustix::fs::symlinkat(os(&self.tree.read_link(id)?), room, number).map(nothing),
            FIFO => {
                rustix::fs::mknodat(room, number, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map(nothing)
            }
            FILE => self.content(room, number, id, attr.size).map(Some),
            // A socket is of no use without its process, and a device has no place on a shared file system.
            _ => Err(Errno::OPNOTSUPP),
        }
    }

    fn content(&self, room: &OwnedFd, number: &str, id: u64, size: u64) -> Result<Arc<OwnedFd>, Errno> {
        match &self.tree.inode(id)?.kind {
            Kind::File(Content::Stored(stored)) if self.is_in_room(id) => stored.open(),
            Kind::File(Content::Stored(stored)) => copy(room, number, &Source::File(&*stored.open()?, size)),
            Kind::File(Content::Memory(pieces)) => copy(room, number, &Source::Pieces(pieces, size)),
            _ => {
                let original = self.tree.open_original(id)?;
                let before = OriginalState::of(&original)?;
                if u64::try_from(before.size) != Ok(size) {
                    return Err(Errno::STALE);
                }
                let copied = copy(room, number, &Source::File(&original, size))?;
                // A file that another node writes to meanwhile would be kept half old, half new.
                before.must_be_that_of(&original)?;
                Ok(copied)
            }
        }
    }

    /// Renames from the room to the place.
    fn put(&self, room: &ScratchRoom, staged: &Staged) -> Result<(), Errno> {
        if let Some(errno) = staged.refused {
            return Err(errno);
        }
        let is_below = |origin: &Vec<u8>| {
            staged.path.strip_prefix(&**origin).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        if let Some((_, errno)) = self.barred.iter().find(|(origin, _)| is_below(origin)) {
            return Err(*errno);
        }
        let (parent, name) = self.originals.parent(&staged.path)?;
        if staged.attr.mode & KIND != DIRECTORY {
            return rustix::fs::renameat(&*room.directory, &*staged.number, &parent, os(name));
        }
        let flags = RenameFlags::NOREPLACE;
        let moved =
            match rustix::fs::renameat_with(&*room.directory, &*staged.number, &parent, os(name), flags) {
                // Not every file system knows the flag.
                Err(Errno::INVAL | Errno::NOSYS) if reach(&parent, name).is_err() => {
                    rustix::fs::renameat(&*room.directory, &*staged.number, &parent, os(name))
                }
                Err(Errno::INVAL | Errno::NOSYS) => Err(Errno::EXIST),
                moved => moved,
            };
        let is_there = || reach(&parent, name).is_ok_and(|(_, stat)| stat.st_mode & KIND == DIRECTORY);
        match moved {
            Err(Errno::EXIST) if is_there() => {
                rustix::fs::unlinkat(&*room.directory, &*staged.number, AtFlags::REMOVEDIR)
            }
            moved => moved,
        }
    }
}

/// `S_IFIFO`.
const FIFO: u32 = 0o010_000;

fn copy(room: &OwnedFd, number: &str, content: &Source<'_>) -> Result<Arc<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(room, number, flags, Mode::RUSR | Mode::WUSR)?;
    content.write_to(&file)?;
    Ok(Arc::new(file))
}

/// Another name of what is staged.
fn link(room: &ScratchRoom, first: &Staged, number: &str, path: &[u8]) -> Result<Staged, Errno> {
    let directory = &*room.directory;
    rustix::fs::linkat(directory, &*first.number, directory, number, AtFlags::empty())?;
    Ok(Staged { path: path.to_vec(), number: number.to_owned(), ..*first })
}
