//! Directories that hold what memory does not: one of the node, if there is one, then the scratch directory itself. Files in them
//! have a number for a name.
//!
//! ```text
//! DIR/.quell-scratch-RANDOM/17        content of a file
//!                          /.owner    a symbolic link whose target names the process, in JSON
//! DIR/.quell-kept-RANDOM/             the same, for files that are on their way to their places
//! ```
//!
//! A run removes those whose process is gone: after a kill. Files that were to be kept are never removed so.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quell_cache::{ProcessIdentity, ProcessLife};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom};
use rustix::io::Errno;

use super::content::Pieces;
use super::descriptors::Descriptors;
use super::stored::Stored;
use crate::fuse::original::{self, os};

/// The beginning of the names of stores. Names that begin like this are not shown.
pub(super) const PREFIX: &str = ".quell-scratch-";

/// The same for files that are being kept.
const KEPT_PREFIX: &str = ".quell-kept-";

/// The link in a store that names its process. A store without it is being made, or is none.
const OWNER: &str = ".owner";

/// The file in a store of files that are being kept that tells the path of each.
const PATHS: &str = "paths";

/// Where files go that do not fit into memory.
#[derive(Debug)]
pub(super) struct Stores {
    stores: Vec<Store>,
    /// Stores of earlier runs in the scratch directory whose files were to be kept.
    pub(super) found: Vec<String>,
    descriptors: Arc<Descriptors>,
}

#[derive(Debug)]
struct Store {
    /// The directory in which it lies.
    parent: Arc<OwnedFd>,
    path: PathBuf,
    state: State,
    spilled: u64,
}

#[derive(Debug)]
enum State {
    /// Not needed yet.
    Unmade,
    Made(ScratchRoom),
    /// It may not be written to, whatever is removed from it.
    Refused(Errno),
}

impl Stores {
    /// Those in these directories, in the order in which they are filled. Removes what dead runs left in them.
    pub(super) fn new(directories: Vec<(Arc<OwnedFd>, PathBuf)>, descriptors: Arc<Descriptors>) -> Self {
        let mut found = Vec::new();
        for (parent, _) in &directories {
            found = remove_leftovers(parent);
        }
        let store = |(parent, path)| Store { parent, path, state: State::Unmade, spilled: 0 };
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

    /// Tells whether the store of this number is the scratch directory's own.
    pub(super) fn is_last(&self, number: usize) -> bool {
        number + 1 == self.stores.len()
    }

    /// Removes all that is left.
    pub(super) fn remove(&mut self) {
        for store in &mut self.stores {
            if let State::Made(room) = std::mem::replace(&mut store.state, State::Unmade) {
                room.remove(&store.parent);
            }
        }
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
        let made = ScratchRoom::make(&self.parent, PREFIX);
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
        Ok(stored)
    }
}

impl Source<'_> {
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

/// Makes a range of a file read as zeros.
///
/// **Errors** `EOPNOTSUPP` where the file system punches no holes, as the program would have met there.
pub(super) fn zero(file: &OwnedFd, offset: u64, length: u64) -> Result<(), Errno> {
    if length == 0 {
        return Ok(());
    }
    rustix::fs::fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length)
}

/// **Errors** `ENOSPC` where the file takes a part alone.
pub(super) fn write_all(file: &OwnedFd, data: &[u8], offset: u64) -> Result<(), Errno> {
    match original::write_at(file, data, offset)? {
        written if written == data.len() => Ok(()),
        written => match original::write_at(file, &data[written..], offset + written as u64)? {
            rest if rest == data.len() - written => Ok(()),
            _ => Err(Errno::NOSPC),
        },
    }
}

/// A directory of this process's that no other user can look into.
#[derive(Debug)]
pub(super) struct ScratchRoom {
    pub(super) name: String,
    pub(super) directory: Arc<OwnedFd>,
}

impl ScratchRoom {
    /// One for files that are being kept.
    pub(super) fn for_kept(parent: &OwnedFd) -> Result<Self, Errno> {
        Self::make(parent, KEPT_PREFIX)
    }

    fn make(parent: &OwnedFd, prefix: &str) -> Result<Self, Errno> {
        let mut outcome = Err(Errno::EXIST);
        for _ in 0..TRIES {
            // Other users cannot know the name beforehand. Source: the keys of `RandomState` are the kernel's random numbers.
            let name = format!("{prefix}{:016x}", RandomState::new().build_hasher().finish());
            outcome = Self::make_named(parent, name);
            // A name that is there; or a run that begins has taken it for a leftover, as long as it was empty.
            if !matches!(outcome, Err(Errno::EXIST | Errno::NOENT)) {
                break;
            }
        }
        outcome
    }

    fn make_named(parent: &OwnedFd, name: String) -> Result<Self, Errno> {
        rustix::fs::mkdirat(parent, &*name, Mode::RWXU)?;
        let marked = open_own(parent, name.as_bytes()).and_then(|directory| {
            // The owner of `parent` may have put another directory of this user's there.
            if !listed(&directory).is_empty() {
                return Err(Errno::EXIST);
            }
            // What a file gets from its directory would be this one's instead of its own one's.
            for list in ["system.posix_acl_default", "system.posix_acl_access"] {
                _ = rustix::fs::fremovexattr(&directory, list);
            }
            rustix::fs::fchmod(&directory, Mode::RWXU)?;
            let owner = serde_json::to_string(&ProcessIdentity::own()).map_err(|_| Errno::INVAL)?;
            // Made with all that it says, unlike a file.
            rustix::fs::symlinkat(owner, &directory, OWNER)?;
            Ok(directory)
        });
        match marked {
            Ok(directory) => Ok(Self { name, directory: Arc::new(directory) }),
            Err(errno) => {
                _ = rustix::fs::unlinkat(parent, &*name, AtFlags::REMOVEDIR);
                Err(errno)
            }
        }
    }

    /// Writes down which file belongs where, for the user who finds them after a kill.
    pub(super) fn note(&self, paths: &[u8]) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*self.directory, PATHS, flags, Mode::RUSR | Mode::WUSR)?;
        write_all(&file, paths, 0)
    }

    /// Removes it with all files that have a number for a name.
    pub(super) fn remove(&self, parent: &OwnedFd) {
        remove(parent, self.name.as_bytes(), &self.directory);
    }
}

/// Names that are tried. One is enough, but where others interfere.
const TRIES: u32 = 16;

/// The mark goes last: what is left by a kill is still known.
fn remove(parent: &OwnedFd, name: &[u8], directory: &OwnedFd) {
    let files = listed(directory);
    for file in files.iter().map(|file| &**file).filter(|file| is_number(file)).chain([PATHS.as_bytes()]) {
        if rustix::fs::unlinkat(directory, os(file), AtFlags::empty()).is_err() {
            _ = rustix::fs::unlinkat(directory, os(file), AtFlags::REMOVEDIR);
        }
    }
    _ = rustix::fs::unlinkat(directory, OWNER, AtFlags::empty());
    _ = rustix::fs::unlinkat(parent, os(name), AtFlags::REMOVEDIR);
}

/// Removes the stores in `directory` whose process was this user's on this node, and is gone. Returns the names of those whose files
/// were to be kept: they stay.
fn remove_leftovers(directory: &OwnedFd) -> Vec<String> {
    let Ok(directory) = original::reopen(directory, OFlags::RDONLY | OFlags::DIRECTORY) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for name in listed(&directory) {
        let is_kept = name.starts_with(KEPT_PREFIX.as_bytes());
        if !is_kept && !name.starts_with(PREFIX.as_bytes()) {
            continue;
        }
        let Ok(store) = open_own(&directory, &name) else { continue };
        let owner = rustix::fs::readlinkat(&store, OWNER, Vec::new());
        let owner =
            owner.ok().and_then(|owner| serde_json::from_slice::<ProcessIdentity>(owner.as_bytes()).ok());
        match owner.map(|owner| owner.life()) {
            Some(ProcessLife::Dead) if is_kept && listed(&store).iter().any(|file| is_number(file)) => {
                found.push(quell_base::shown(Path::new(os(&name))));
            }
            Some(ProcessLife::Dead) => remove(&directory, &name, &store),
            // Of processes of another node or container this one knows nothing.
            Some(ProcessLife::Alive | ProcessLife::Unknown) => {}
            // Killed before it was marked: it is empty then.
            None => _ = rustix::fs::unlinkat(&directory, os(&name), AtFlags::REMOVEDIR),
        }
    }
    found
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
        assert_eq!(remove_leftovers(&top_file), [format!("{KEPT_PREFIX}dead")]);
        for (name, _, stays) in &names {
            assert_eq!(top.path().join(name).join("17").exists(), *stays, "{name}");
        }
        assert!(!top.path().join(format!("{PREFIX}empty")).exists());
        // A kept one in which nothing is left.
        std::fs::remove_file(top.path().join(format!("{KEPT_PREFIX}dead/17"))).unwrap();
        assert!(remove_leftovers(&top_file).is_empty());
        assert!(!top.path().join(format!("{KEPT_PREFIX}dead")).exists());
    }

    #[test]
    fn leftovers_go_from_all_directories() {
        let own = serde_json::to_string(&ProcessIdentity::own()).unwrap();
        let dead = format!("{}:1}}", own.rsplit_once(':').unwrap().0);
        let tops = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        for top in &tops {
            let store = top.path().join(format!("{PREFIX}dead"));
            make_private(&store);
            symlink(&dead, store.join(OWNER)).unwrap();
        }
        let open = |top: &tempfile::TempDir| {
            (Arc::new(std::fs::File::open(top.path()).unwrap().into()), top.path().to_owned())
        };
        Stores::new(tops.iter().map(open).collect(), Descriptors::of_this_process());
        assert!(tops.iter().all(|top| std::fs::read_dir(top.path()).unwrap().next().is_none()));
    }

    #[test]
    fn a_store_is_not_made_in_what_another_put_in_its_place() {
        let top = tempfile::tempdir().unwrap();
        let parent = std::fs::File::open(top.path()).unwrap().into();
        std::fs::create_dir(top.path().join("taken")).unwrap();
        assert_eq!(ScratchRoom::make_named(&parent, "taken".to_owned()).map(|_| ()), Err(Errno::EXIST));
        let room = ScratchRoom::for_kept(&parent).unwrap();
        assert!(top.path().join(&room.name).join(OWNER).is_symlink());
        room.remove(&parent);
        assert!(!top.path().join(&room.name).exists());
    }
}
