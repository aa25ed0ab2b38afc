//! Operations on the original file system: each is counted, with its path, before it is sent on.
//!
//! The server lives outside the namespace, so an original is reached by its ordinary path. Nothing here follows a
//! symbolic link in the last component, and nothing blocks on a pipe. Of a complete image no operation is sent on:
//! this file is where that is kept.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use quell_image::Beyond;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom, Stat};
use rustix::io::Errno;

use super::acl;
use super::lessons::{Event, Lessons};
use super::nodes::{Access, Held, Node};
use super::slots::{Attempt, Before};
use crate::counters::{Counters, SentOn};
use crate::fuse::abi::{Attr, ListedName, Pushed, Time, Totals, encode_statfs};
use crate::lock;

/// The original file system, as seen from outside the namespace.
#[derive(Debug)]
pub(crate) struct Originals {
    beyond: Beyond,
    counters: Arc<Counters>,
    reading: Mutex<Descriptors>,
    listing: Mutex<HashMap<Node, OpenListing>>,
    totals: Mutex<HashMap<PathBuf, (Instant, Totals)>>,
    lessons: Lessons,
    /// Devices whose file systems know no POSIX access control lists.
    without_acl: Mutex<HashSet<u64>>,
}

/// A directory that is being listed: where the next request probably goes on.
#[derive(Debug)]
struct OpenListing {
    directory: OwnedFd,
    next: u64,
}

impl Originals {
    pub(crate) fn new(beyond: Beyond, counters: Arc<Counters>, lessons: Lessons) -> Self {
        Self {
            beyond,
            counters,
            lessons,
            reading: Mutex::default(),
            listing: Mutex::default(),
            totals: Mutex::default(),
            without_acl: Mutex::default(),
        }
    }

    /// Counts an operation that is about to be sent on; refuses it where there are no originals.
    ///
    /// **Errors** `ENOENT` for a name, `EROFS` for a change, `EIO` for content, which is noted.
    fn send_on(&self, what: SentOn, path: &Path) -> Result<(), Errno> {
        if self.beyond == Beyond::Originals {
            self.counters.sent_on(what, path);
            return Ok(());
        }
        match what {
            SentOn::Lookup | SentOn::Stat => Err(Errno::NOENT),
            SentOn::Write => Err(Errno::ROFS),
            SentOn::Open | SentOn::List | SentOn::Read => {
                self.counters.missed(path);
                Err(Errno::IO)
            }
        }
    }

    /// Notes what happened to `path`, for the image that is made anew of it.
    pub(crate) fn note(&self, path: &Path, event: &Event) {
        self.lessons.note(path, event);
    }

    /// Looks a name up: lstat(2) of its path.
    pub(crate) fn lookup(&self, path: &Path) -> Result<Stat, Errno> {
        self.send_on(SentOn::Lookup, path)?;
        let outcome = rustix::fs::lstat(path);
        match outcome {
            Ok(_) => self.note(path, &Event::Found),
            Err(Errno::NOENT) => self.note(path, &Event::Absent),
            Err(_) => {}
        }
        outcome
    }

    /// Attributes, by the held descriptor if there is one.
    pub(crate) fn stat(&self, path: &Path, held: Option<&Held>) -> Result<Stat, Errno> {
        self.send_on(SentOn::Stat, path)?;
        match held {
            Some(held) => rustix::fs::fstat(&held.descriptor),
            None => rustix::fs::lstat(path).inspect(|_| self.note(path, &Event::Found)),
        }
    }

    /// The access control list of the original that `stat` is of, if its file system has such lists.
    pub(crate) fn acl(&self, path: &Path, stat: &Stat) -> Option<Vec<u8>> {
        if FileType::from_raw_mode(stat.st_mode).is_symlink()
            || lock(&self.without_acl).contains(&stat.st_dev)
        {
            return None;
        }
        let outcome = self.xattr(path, None, OsStr::from_bytes(acl::ACCESS));
        if outcome == Err(Errno::OPNOTSUPP) {
            lock(&self.without_acl).insert(stat.st_dev);
        }
        outcome.ok()
    }

    /// The value of an extended attribute.
    pub(crate) fn xattr(&self, path: &Path, held: Option<&Held>, name: &OsStr) -> Result<Vec<u8>, Errno> {
        self.send_on(SentOn::Stat, path)?;
        let outcome = whole(|buffer| match held {
            Some(held) => rustix::fs::fgetxattr(&held.descriptor, name, buffer),
            None => rustix::fs::lgetxattr(path, name, buffer),
        });
        // Attributes are packed of what was looked at.
        if held.is_none() && matches!(outcome, Ok(_) | Err(Errno::NODATA)) {
            self.note(path, &Event::Found);
        }
        outcome
    }

    /// The names of all extended attributes, each with a zero byte behind it.
    pub(crate) fn xattr_names(&self, path: &Path, held: Option<&Held>) -> Result<Vec<u8>, Errno> {
        self.send_on(SentOn::Stat, path)?;
        whole(|buffer| match held {
            Some(held) => rustix::fs::flistxattr(&held.descriptor, buffer),
            None => rustix::fs::llistxattr(path, buffer).inspect(|_| self.note(path, &Event::Found)),
        })
    }

    /// Where a symbolic link points.
    pub(crate) fn read_link(&self, path: &Path) -> Result<Vec<u8>, Errno> {
        self.send_on(SentOn::Stat, path)?;
        self.note(path, &Event::Found);
        rustix::fs::readlink(path, Vec::new()).map(std::ffi::CString::into_bytes)
    }

    /// Totals of the file system of a root, not older than a second, as the answer to STATFS.
    pub(crate) fn file_system(&self, root: &Path) -> Result<Totals, Errno> {
        let mut totals = lock(&self.totals);
        if let Some((asked, stat)) = totals.get(root)
            && asked.elapsed() < TOTALS_VALID
        {
            return Ok(*stat);
        }
        self.send_on(SentOn::Stat, root)?;
        let stat = encode_statfs(&rustix::fs::statvfs(root)?);
        totals.insert(root.to_owned(), (Instant::now(), stat));
        Ok(stat)
    }

    /// Opens a regular file, or anything with [`Access::Neither`].
    pub(crate) fn open(&self, path: &Path, access: Access) -> Result<Held, Errno> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::WRONLY,
            Access::Both => OFlags::RDWR,
            Access::Neither => OFlags::PATH,
        };
        self.send_on(SentOn::Open, path)?;
        let descriptor = rustix::fs::openat(CWD, path, flags | SAFELY, Mode::empty())?;
        Ok(Held { descriptor, access })
    }

    /// Opens a regular file with everything that the user may do, at least `needed`.
    pub(crate) fn open_widely(&self, path: &Path, needed: Access) -> Result<Held, Errno> {
        match self.open(path, Access::Both) {
            Err(Errno::ACCESS | Errno::ROFS | Errno::PERM) => self.open(path, needed),
            outcome => outcome,
        }
    }

    /// A descriptor for reading `node`, opened once and kept for a while.
    pub(crate) fn reading(&self, node: Node, path: &Path) -> Result<Arc<Held>, Errno> {
        if let Some(held) = lock(&self.reading).get(node) {
            return Ok(held);
        }
        let held = Arc::new(self.open(path, Access::Read)?);
        lock(&self.reading).put(node, Arc::clone(&held));
        Ok(held)
    }

    /// The kept descriptor of `node` is of no use any more.
    pub(crate) fn close(&self, node: Node) {
        lock(&self.reading).remove(node);
    }

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    pub(crate) fn read(
        &self,
        held: &Held,
        path: &Path,
        buffer: &mut [u8],
        offset: u64,
    ) -> Result<usize, Errno> {
        self.send_on(SentOn::Read, path)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&held.descriptor, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        self.note(path, &Event::Read(offset..offset + filled as u64));
        Ok(filled)
    }

    /// Writes all of `data`.
    pub(crate) fn write(&self, held: &Held, path: &Path, data: &[u8], offset: u64) -> Result<(), Errno> {
        self.send_on(SentOn::Write, path)?;
        self.note(path, &Event::Changed);
        let mut written = 0;
        while written < data.len() {
            match rustix::io::pwrite(&held.descriptor, &data[written..], offset + written as u64) {
                Ok(0) => return Err(Errno::IO),
                Ok(bytes) => written += bytes,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Carries out something that changes `path`.
    pub(crate) fn change<T>(
        &self,
        path: &Path,
        action: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.send_on(SentOn::Write, path)?;
        self.note(path, &Event::Changed);
        action()
    }

    /// Carries out something that changes `path` and must not be done twice.
    ///
    /// Where an earlier server began with it, `already` judges what that one did: by the error that the second try
    /// gave, or with `None` when it is known that the first one succeeded.
    pub(crate) fn change_once<T>(
        &self,
        path: &Path,
        attempt: Attempt<'_>,
        action: impl FnOnce() -> Result<T, Errno>,
        already: impl FnOnce(Option<Errno>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let before = attempt.before();
        match before {
            Before::Done(Ok(())) | Before::Complete(Ok(())) => return already(None),
            Before::Done(Err(errno)) | Before::Complete(Err(errno)) => return Err(errno),
            Before::Begun => {}
            Before::Nothing => attempt.begin(),
        }
        let outcome = match self.change(path, action) {
            Err(errno) if before == Before::Begun => already(Some(errno)),
            outcome => outcome,
        };
        attempt.finish(outcome.as_ref().map(|_| ()).map_err(|errno| *errno));
        outcome
    }

    /// Hands the names of a directory from `offset` on to `push`, until it has no room.
    pub(crate) fn list(
        &self,
        node: Node,
        path: &Path,
        offset: u64,
        push: &mut dyn FnMut(&ListedName<'_>) -> Pushed,
    ) -> Result<(), Errno> {
        let directory = self.open_listing(node, path, offset)?;
        self.send_on(SentOn::List, path)?;
        self.note(path, &Event::Listed);
        let next = hand_on(&directory, offset, push)?;
        self.keep_listing(node, OpenListing { directory, next });
        Ok(())
    }

    /// The directory, ready to read from `offset`: the kept one if it stopped there, else opened.
    fn open_listing(&self, node: Node, path: &Path, offset: u64) -> Result<OwnedFd, Errno> {
        let kept = lock(&self.listing).remove(&node).filter(|kept| offset != 0 && kept.next == offset);
        let directory = match kept {
            Some(kept) => kept.directory,
            None => {
                self.send_on(SentOn::Open, path)?;
                rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | SAFELY, Mode::empty())?
            }
        };
        // What did not fit into the last answer was read ahead all the same.
        rustix::fs::seek(&directory, SeekFrom::Start(offset))?;
        Ok(directory)
    }

    fn keep_listing(&self, node: Node, listing: OpenListing) {
        let mut kept = lock(&self.listing);
        if kept.len() >= MAX_LISTINGS {
            kept.clear();
        }
        kept.insert(node, listing);
    }
}

/// Asks for something of unknown length with the room that the kernel allows it at most.
fn whole(ask: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut value = vec![0; XATTR_MAX];
    let length = ask(&mut value)?;
    value.truncate(length);
    Ok(value)
}

/// Longest value, and longest list of names, of extended attributes. Source: xattr(7).
const XATTR_MAX: usize = 64 << 10;

/// Hands names on from where `directory` stands, at `offset`; returns where the next request goes on.
fn hand_on(
    directory: &OwnedFd,
    offset: u64,
    push: &mut dyn FnMut(&ListedName<'_>) -> Pushed,
) -> Result<u64, Errno> {
    let mut space = vec![MaybeUninit::uninit(); LISTING_BUFFER];
    let mut names = RawDir::new(directory, &mut space);
    let mut next = offset;
    while let Some(name) = names.next() {
        let name = name?;
        let listed = ListedName {
            inode: name.ino(),
            next: name.next_entry_cookie(),
            kind: directory_type(name.file_type()),
            name: name.file_name().to_bytes(),
        };
        if push(&listed) == Pushed::Full {
            break;
        }
        next = listed.next;
    }
    Ok(next)
}

/// How originals are opened: for ourselves only, without following a link, waiting for a pipe, or taking a terminal.
const SAFELY: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// How long a file system's totals are kept: tools that walk trees ask for them in every directory, and on a parallel
/// file system each answer takes all its servers.
const TOTALS_VALID: Duration = Duration::from_secs(1);

/// Bytes of names asked for at once. Network file systems answer in units of a few tens of KiB.
const LISTING_BUFFER: usize = 32 << 10;

/// Listings that may be in progress without being opened again.
const MAX_LISTINGS: usize = 16;

/// Follows no link in the last component.
pub(crate) const NO_FOLLOW: AtFlags = AtFlags::SYMLINK_NOFOLLOW;

/// Descriptors that are kept open for reading, the least recently used one given up first.
#[derive(Debug, Default)]
struct Descriptors {
    open: HashMap<Node, (Arc<Held>, u64)>,
    clock: u64,
}

/// Most descriptors kept; well below the usual limit of 1024 for a process.
const MAX_DESCRIPTORS: usize = 256;

impl Descriptors {
    fn get(&mut self, node: Node) -> Option<Arc<Held>> {
        self.clock += 1;
        let (held, used) = self.open.get_mut(&node)?;
        *used = self.clock;
        Some(Arc::clone(held))
    }

    fn put(&mut self, node: Node, held: Arc<Held>) {
        if self.open.len() >= MAX_DESCRIPTORS
            && let Some(oldest) = self.open.iter().min_by_key(|(_, (_, used))| *used).map(|(node, _)| *node)
        {
            self.open.remove(&oldest);
        }
        self.clock += 1;
        self.open.insert(node, (held, self.clock));
    }

    fn remove(&mut self, node: Node) {
        self.open.remove(&node);
    }
}

/// `d_type` of a listed name. Source: readdir(3).
fn directory_type(kind: rustix::fs::FileType) -> u32 {
    kind.as_raw_mode() >> 12
}

/// What `stat` of an original says, for the kernel.
pub(crate) fn attr_of(stat: &Stat) -> Attr {
    let time = |seconds: i64, nanoseconds: u64| Time {
        seconds,
        nanoseconds: u32::try_from(nanoseconds).unwrap_or_default(),
    };
    Attr {
        inode: stat.st_ino,
        size: stat.st_size.cast_unsigned(),
        blocks: stat.st_blocks.cast_unsigned(),
        atime: time(stat.st_atime, stat.st_atime_nsec),
        mtime: time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: time(stat.st_ctime, stat.st_ctime_nsec),
        mode: stat.st_mode,
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: device_number(rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        block_size: u32::try_from(stat.st_blksize).unwrap_or(BLOCK_SIZE),
    }
}

/// What we suggest for reading when the original does not say.
pub(crate) const BLOCK_SIZE: u32 = 4096;

/// A device number as the kernel's `new_encode_dev` packs it, which is what FUSE carries.
pub(crate) fn device_number(major: u32, minor: u32) -> u32 {
    minor & 0xff | major << 8 | (minor & !0xff) << 12
}
