//! Stores for content that memory has no room for: a directory on a disk of the node, if there is one, then the scratch directory
//! itself. Files lie there in a [`ScratchRoom`].

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::content::Pieces;
use super::descriptors::Descriptors;
use super::request::ScratchLeft;
use super::room::{RoomKind, ScratchRoom, remove_leftovers};
use super::stored::{Stored, write_all};
use crate::fuse::original;

/// Directories for files that do not fit into memory.
#[derive(Debug)]
pub(super) struct Stores {
    stores: Vec<Store>,
    /// Rooms of earlier runs whose files were to be kept.
    pub(super) found: Vec<String>,
    descriptors: Arc<Descriptors>,
}

#[derive(Debug)]
struct Store {
    /// The directory in which it lies.
    parent: Arc<OwnedFd>,
    path: PathBuf,
    state: State,
    /// Files that it took.
    spilled: u64,
    /// Bytes that were written to it.
    bytes: u64,
}

#[derive(Debug)]
enum State {
    /// No file has come yet.
    Unmade,
    Made(ScratchRoom),
    /// This user may not write to its directory, so it is not tried again. A full one is.
    Refused(Errno),
}

impl Stores {
    /// Those in these directories, in the order in which they are filled. Removes what dead runs left in them.
    pub(super) fn new(directories: Vec<(Arc<OwnedFd>, PathBuf)>, descriptors: Arc<Descriptors>) -> Self {
        let left = directories.iter().flat_map(|(parent, path)| remove_leftovers(parent, path));
        let found = left.map(|room| quell_base::shown(&room)).collect();
        let store = |(parent, path)| Store { parent, path, state: State::Unmade, spilled: 0, bytes: 0 };
        Self { stores: directories.into_iter().map(store).collect(), found, descriptors }
    }

    /// Moves content to the first store from `first` on that takes it.
    ///
    /// **Errors** those of the last store, which is the scratch directory itself: what the program would have met there.
    pub(super) fn spill(&mut self, inode: u64, first: usize, content: &Source<'_>) -> Result<Stored, Errno> {
        let mut outcome = Err(Errno::NOSPC);
        for number in first..self.stores.len() {
            outcome = self.stores[number].take(inode, number, content, &self.descriptors);
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    /// The number of files that each store took, with its path.
    pub(super) fn spilled(&self) -> impl Iterator<Item = (&Path, u64)> {
        self.stores.iter().map(|store| (&*store.path, store.spilled)).filter(|(_, files)| *files > 0)
    }

    /// Bytes were written to a file of a store.
    pub(super) fn wrote(&mut self, number: usize, bytes: usize) {
        if let Some(store) = self.stores.get_mut(number) {
            store.bytes += bytes as u64;
        }
    }

    /// Files and bytes that went to the disk of the node, and those that went to the scratch directory itself.
    pub(super) fn totals(&self) -> [(u64, u64); 2] {
        let total = |stores: &[Store]| {
            stores.iter().fold((0, 0), |(files, bytes), store| (files + store.spilled, bytes + store.bytes))
        };
        let (disk, own) = self.stores.split_at(self.stores.len().saturating_sub(1));
        [total(disk), total(own)]
    }

    /// Tells whether the store of this number is the scratch directory's own.
    pub(super) fn is_last(&self, number: usize) -> bool {
        number + 1 == self.stores.len()
    }

    /// Removes all rooms, but for files that stay in them.
    ///
    /// **Shape** the rooms that stay.
    pub(super) fn close(&mut self) -> Vec<ScratchLeft> {
        let close = |store: &mut Store| match std::mem::replace(&mut store.state, State::Unmade) {
            State::Made(room) => room.close(&store.parent, &store.path),
            _ => None,
        };
        self.stores.iter_mut().filter_map(close).collect()
    }
}

impl Stores {
    /// From now on a kill leaves the files of all rooms, or removes them.
    pub(super) fn change_kind(&mut self, kind: RoomKind) {
        for store in &mut self.stores {
            if let State::Made(room) = &mut store.state
                && room.keeps_nothing()
            {
                room.change_kind(&store.parent, kind);
            }
        }
    }

    /// The room in the scratch directory itself, if one was made. Nothing spills to it any more.
    pub(super) fn take_last(&mut self) -> Option<ScratchRoom> {
        let last = self.stores.last_mut()?;
        match std::mem::replace(&mut last.state, State::Unmade) {
            State::Made(room) => Some(room),
            other => {
                last.state = other;
                None
            }
        }
    }

    /// The path of the scratch directory.
    pub(super) fn last_path(&self) -> &Path {
        self.stores.last().map_or(Path::new(""), |store| &store.path)
    }

    /// Writes down the paths of the files of a store.
    pub(super) fn note(&self, number: usize, paths: &[(String, Vec<u8>)]) {
        if let Some(State::Made(room)) = self.stores.get(number).map(|store| &store.state) {
            // Without it what a kill leaves is harder to sort, and nothing else.
            _ = room.note(paths.iter().map(|(number, path)| (&**number, &**path)));
        }
    }

    /// The file of this inode stays in its store.
    pub(super) fn leave(&mut self, number: usize, inode: u64, path: &[u8]) {
        if let Some(Store { state: State::Made(room), .. }) = self.stores.get_mut(number) {
            room.leave(inode.to_string(), path);
        }
    }

    /// Rooms with files that stay, although programs go on to use the stores.
    pub(super) fn left(&self) -> Vec<ScratchLeft> {
        let left = |store: &Store| match &store.state {
            State::Made(room) => room.left(&store.path),
            _ => None,
        };
        self.stores.iter().filter_map(left).collect()
    }
}

/// Content that moves into a store.
pub(super) enum Source<'a> {
    Pieces(&'a Pieces, u64),
    File(&'a OwnedFd, u64),
}

impl Store {
    fn directory(&mut self) -> Result<Arc<OwnedFd>, Errno> {
        match &self.state {
            State::Made(room) => return Ok(Arc::clone(&room.directory)),
            State::Refused(errno) => return Err(*errno),
            State::Unmade => {}
        }
        let made = ScratchRoom::make(&self.parent, RoomKind::Scratch);
        if let Err(errno @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) = made {
            self.state = State::Refused(errno);
        }
        let room = made?;
        let directory = Arc::clone(&room.directory);
        self.state = State::Made(room);
        Ok(directory)
    }

    fn take(
        &mut self,
        inode: u64,
        number: usize,
        content: &Source<'_>,
        descriptors: &Arc<Descriptors>,
    ) -> Result<Stored, Errno> {
        let directory = self.directory()?;
        let stored = Stored::make(directory, inode, number, descriptors)?;
        content.write_to(&*stored.open()?)?;
        self.spilled += 1;
        self.bytes += content.size();
        Ok(stored)
    }
}

impl Source<'_> {
    fn size(&self) -> u64 {
        let (Self::Pieces(_, size) | Self::File(_, size)) = self;
        *size
    }

    pub(super) fn write_to(&self, file: &OwnedFd) -> Result<(), Errno> {
        let size = match self {
            Self::Pieces(pieces, size) => {
                pieces.each(|offset, bytes| write_all(file, bytes, offset))?;
                *size
            }
            Self::File(from, size) => {
                copy(from, file, *size)?;
                *size
            }
        };
        rustix::fs::ftruncate(file, size)
    }
}

/// Copies `size` bytes between files, without the holes that are known.
fn copy(from: &OwnedFd, to: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut buffer = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < size {
        offset = match rustix::fs::seek(from, SeekFrom::Data(offset)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(_) => offset,
        };
        let read = original::read_at(from, &mut buffer, offset)?;
        if read == 0 {
            break;
        }
        write_all(to, &buffer[..read], offset)?;
        offset += read as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt, symlink};

    use quell_cache::ProcessIdentity;

    use super::*;
    use crate::scratch::room::PREFIX;

    #[test]
    fn leftovers_go_from_all_directories() {
        let own = serde_json::to_string(&ProcessIdentity::own()).unwrap();
        let dead = format!("{}:1}}", own.rsplit_once(':').unwrap().0);
        let tops = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for top in &tops {
            let store = top.path().join(format!("{PREFIX}dead"));
            std::fs::DirBuilder::new().mode(0o700).create(&store).unwrap();
            symlink(&dead, store.join(".owner")).unwrap();
        }
        let open = |top: &tempfile::TempDir| {
            (Arc::new(std::fs::File::open(top.path()).unwrap().into()), top.path().to_owned())
        };
        Stores::new(tops.iter().map(open).collect(), Descriptors::of_this_process());
        assert!(tops.iter().all(|top| std::fs::read_dir(top.path()).unwrap().next().is_none()));
    }
}
