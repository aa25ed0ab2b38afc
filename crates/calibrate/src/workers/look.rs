//! A client's view of an entry that another client changes, and those changes.

use super::phase::{Failed, open_directory};
use super::protocol::{CacheAspect, EntryChange, EntryLook, PhaseResult};
use crate::operation::{OperationTime, elapsed};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::time::Instant;

/// Looks at entries. It holds open the files whose attributes are asked for, and the directories of all others, so that
/// how long a directory's own name is kept does not matter.
#[derive(Debug)]
pub(super) struct Looker<'a> {
    root: BorrowedFd<'a>,
    held: BTreeMap<String, OwnedFd>,
}

impl<'a> Looker<'a> {
    pub(super) fn new(root: BorrowedFd<'a>) -> Self {
        Self { root, held: BTreeMap::new() }
    }

    /// The state of the entry, as a number that the change alters, and the time of the look.
    pub(super) fn look(&mut self, look: &EntryLook) -> Result<PhaseResult, Failed> {
        let failed = |errno| (look.entry.clone(), errno);
        let (directory, name) = look.entry.rsplit_once('/').unwrap_or((".", &look.entry));
        let held = if look.at == CacheAspect::Attributes { look.entry.as_str() } else { directory };
        if !self.held.contains_key(held) {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let open = rustix::fs::openat(self.root, held, flags, Mode::empty()).map_err(failed)?;
            self.held.insert(held.to_owned(), open);
        }
        let held = self.held.get(held).ok_or_else(|| failed(Errno::BADF))?;
        let began = Instant::now();
        let seen = seen(held.as_fd(), look.at, name).map_err(failed)?;
        let mut done = PhaseResult { seen, ..PhaseResult::default() };
        done.add(OperationTime { operation: elapsed(began), close: None });
        Ok(done)
    }

    /// Changes the entry.
    pub(super) fn change(&self, change: &EntryChange) -> Result<PhaseResult, Failed> {
        let changed = match change.of {
            CacheAspect::Absence => self.make(&change.entry),
            CacheAspect::Listing => self.make(&format!("{}/new", change.entry)),
            CacheAspect::Attributes => self.grow(&change.entry),
            CacheAspect::Name => self.replace(&change.entry, Self::make),
            CacheAspect::DirectoryName => self.replace(&change.entry, Self::make_directory),
        };
        changed.map_err(|errno| (change.entry.clone(), errno))?;
        Ok(PhaseResult { count: 1, ..PhaseResult::default() })
    }

    fn make(&self, entry: &str) -> Result<(), Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        rustix::fs::openat(self.root, entry, flags, Mode::from_raw_mode(0o644)).map(drop)
    }

    fn make_directory(&self, entry: &str) -> Result<(), Errno> {
        rustix::fs::mkdirat(self.root, entry, Mode::from_raw_mode(0o755))
    }

    fn grow(&self, entry: &str) -> Result<(), Errno> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.root, entry, flags, Mode::empty())?;
        rustix::fs::ftruncate(file, 8192)
    }

    /// Another file under the same name; the first stays, so that a client that kept it can still ask for it.
    fn replace(&self, entry: &str, make: fn(&Self, &str) -> Result<(), Errno>) -> Result<(), Errno> {
        make(self, &format!("{entry}.new"))?;
        rustix::fs::renameat(self.root, entry, self.root, format!("{entry}.old"))?;
        rustix::fs::renameat(self.root, format!("{entry}.new"), self.root, entry)
    }
}

/// The state of `name` in a directory, or of the held file itself.
fn seen(held: BorrowedFd<'_>, at: CacheAspect, name: &str) -> Result<u64, Errno> {
    match at {
        CacheAspect::Listing => listed(held, name),
        CacheAspect::Attributes => Ok(rustix::fs::fstat(held)?.st_size.unsigned_abs()),
        CacheAspect::Name | CacheAspect::DirectoryName | CacheAspect::Absence => {
            match rustix::fs::statat(held, name, AtFlags::empty()) {
                Ok(found) => Ok(found.st_ino),
                Err(Errno::NOENT) => Ok(0),
                Err(errno) => Err(errno),
            }
        }
    }
}

/// The number of names in a directory.
fn listed(directory: BorrowedFd<'_>, entry: &str) -> Result<u64, Errno> {
    let open = open_directory(directory, entry)?;
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(open.as_fd(), &mut buffer);
    let mut count = 0;
    while let Some(entry) = entries.next() {
        entry?;
        count += 1;
    }
    Ok(count)
}
