//! The paths and open files of a process at work, shared by its threads.

use super::below::join;
use super::confined::Confined;
use super::package::PackageHead;
use super::steps::{FileSlot, PathPrefix, Programme, ReplayOperation, ReplayStep};
use quell_base::{escape, lock};
use std::ffi::{CStr, CString};
use std::io::Result;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// The path of an open file that came from another process.
pub(super) const NO_PATH: u32 = u32::MAX;

/// An open file.
#[derive(Debug, Default)]
struct Cell {
    state: Mutex<State>,
    changed: Condvar,
    /// Uses to come, before it may be closed.
    uses: AtomicU32,
}

#[derive(Debug, Default)]
enum State {
    /// Another thread will open it.
    #[default]
    Awaited,
    /// The file, and the path by which it was opened.
    Open(Arc<OwnedFd>, u32),
    /// It could not be opened, or is closed.
    Gone(u32),
}

/// The paths and open files of a process at work.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) programme: Programme,
    pub(super) head: PackageHead,
    paths: Vec<CString>,
    /// The directory in which it may change something; `None` when it changes nothing.
    own: Option<Confined>,
    cells: Vec<Cell>,
}

impl Stage {
    pub(super) fn new(programme: Programme, head: PackageHead, rank: u32) -> Result<Self> {
        let private =
            head.private.as_ref().map(|private| [private.as_slice(), format!("/{rank}").as_bytes()].concat());
        let own = private.as_deref().filter(|_| programme.changes()).map(Confined::open).transpose()?;
        let whole = |(prefix, path): &(PathPrefix, Vec<u8>)| match prefix {
            PathPrefix::None => path.clone(),
            PathPrefix::Root => join(&head.root, path),
            // Without a private directory such a path is empty, and no call finds anything by it.
            PathPrefix::Private => private.as_deref().map_or_else(Vec::new, |private| join(private, path)),
        };
        // A path with a zero byte cannot have been passed; it is cut there as the kernel would.
        let terminated =
            |path: Vec<u8>| CString::new(path.split(|byte| *byte == 0).next().unwrap_or_default().to_vec());
        let paths = programme.paths.iter().map(|path| terminated(whole(path)).unwrap_or_default()).collect();
        let cells: Vec<Cell> = (0..programme.slots).map(|_| Cell::default()).collect();
        let stage = Self { programme, head, paths, own, cells };
        stage.count_uses();
        Ok(stage)
    }

    /// A file is closed when everything that used it in the recording has.
    fn count_uses(&self) {
        let count = |slot: FileSlot| {
            if let Some(cell) = self.cells.get(slot.0 as usize) {
                cell.uses.fetch_add(1, Ordering::Relaxed);
            }
        };
        for step in self.programme.threads.iter().flatten() {
            if let ReplayStep::Issue(issue) = step {
                issue.operation.uses().for_each(count);
            }
        }
    }

    /// Goes to where the program was started.
    pub(super) fn take_position(&self) -> Result<()> {
        match &self.head.directory {
            Some(directory) => Ok(rustix::process::chdir(join(&self.head.root, directory))?),
            None => Ok(rustix::process::chdir("/")?),
        }
    }

    /// Counts that a call has used its files.
    pub(super) fn used(&self, operation: &ReplayOperation) {
        for slot in operation.uses() {
            if let Some(cell) = self.cells.get(slot.0 as usize) {
                // Under the lock, so that a thread that waits to close it does not miss it.
                let _state = lock(&cell.state);
                cell.uses.fetch_sub(1, Ordering::Relaxed);
                cell.changed.notify_all();
            }
        }
    }

    /// The file that a call is about, for people.
    pub(super) fn describe(&self, operation: &ReplayOperation) -> String {
        let of_file = || operation.uses().next().and_then(|slot| self.opened_by(slot));
        let path = operation.at().map(|at| at.path).or_else(of_file);
        let path = path.and_then(|path| self.paths.get(path as usize));
        path.map_or_else(
            || "a file that the process was started with".to_owned(),
            |path| escape(path.to_bytes()),
        )
    }

    fn opened_by(&self, slot: FileSlot) -> Option<u32> {
        let cell = self.cells.get(slot.0 as usize)?;
        match *lock(&cell.state) {
            State::Open(_, path) | State::Gone(path) => Some(path).filter(|path| *path != NO_PATH),
            State::Awaited => None,
        }
    }

    /// True if a call leaves the tree as it is.
    pub(super) fn may_issue(&self, operation: &ReplayOperation) -> bool {
        self.programme.spares_tree(operation)
    }

    /// A path by its number.
    pub(super) fn path(&self, number: u32) -> &CStr {
        self.paths.get(number as usize).map_or(c"", CString::as_c_str)
    }

    /// The same for a call that changes something: the directory that it does not leave, and the name below that.
    pub(super) fn own(&self, number: u32) -> Option<(&Confined, &[u8])> {
        let (prefix, path) = self.programme.paths.get(number as usize)?;
        let name = path.split(|byte| *byte == 0).next().unwrap_or_default();
        self.own.as_ref().filter(|_| *prefix == PathPrefix::Private).map(|own| (own, name))
    }

    /// An open file, when it has been opened; `None` when it could not be.
    pub(super) fn take(&self, slot: FileSlot) -> Option<Arc<OwnedFd>> {
        let cell = self.cells.get(slot.0 as usize)?;
        let mut state = lock(&cell.state);
        loop {
            match &*state {
                State::Open(file, _) => return Some(Arc::clone(file)),
                State::Gone(_) => return None,
                State::Awaited => state = cell.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Says what became of an open.
    pub(super) fn put(&self, slot: FileSlot, file: Option<OwnedFd>, path: u32) {
        let Some(cell) = self.cells.get(slot.0 as usize) else { return };
        let state = file.map_or(State::Gone(path), |file| State::Open(Arc::new(file), path));
        *lock(&cell.state) = state;
        cell.changed.notify_all();
    }

    /// The same for a copy of another open file.
    pub(super) fn put_copy(&self, slot: FileSlot, file: Option<OwnedFd>, of: FileSlot) {
        self.put(slot, file, self.opened_by(of).unwrap_or(NO_PATH));
    }

    /// Closes a file, when all that used it have; false when it was not open.
    pub(super) fn close(&self, slot: FileSlot) -> bool {
        let Some(cell) = self.cells.get(slot.0 as usize) else { return false };
        let mut state = lock(&cell.state);
        while cell.uses.load(Ordering::Relaxed) > 0 || matches!(*state, State::Awaited) {
            state = cell.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let State::Open(_, path) = *state else { return false };
        let open = std::mem::replace(&mut *state, State::Gone(path));
        drop(state);
        // Here the file is closed: no other thread holds it.
        drop(open);
        true
    }
}
