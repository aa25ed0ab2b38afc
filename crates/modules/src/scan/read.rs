//! The system calls of a scan: a directory's names, then each file once, by descriptors.

use super::pool::{Pool, work};
use super::tree::{
    CACHE_LIMIT, DEPTH_LIMIT, ENTRY_LIMIT, EntryKind, FILE_LIMIT, HEAD_LIMIT, ModuleTree, ScanOptions,
    TreeEntry,
};
use crate::ModulesError;
use crate::access::{ATTRIBUTE, Access, Acl};
use crate::cookie::{Cookie, NameTreatment, is_ignored_directory};
use crate::tools::unless_ended;
use crate::walk::{self, ReadingUser};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of files that one job reads, one after the other.
const BATCH: usize = 32;

/// A directory on the way down, for the detection of loops.
struct Way {
    device: u64,
    inode: u64,
    depth: usize,
    up: Option<Arc<Way>>,
}

impl Way {
    fn passes(&self, device: u64, inode: u64) -> bool {
        let mut place = Some(self);
        while let Some(here) = place {
            if (here.device, here.inode) == (device, inode) {
                return true;
            }
            place = here.up.as_deref();
        }
        false
    }
}

/// An open directory.
struct Opened {
    descriptor: OwnedFd,
    path: Vec<u8>,
    way: Arc<Way>,
    access: Access,
    /// The user as which it was reached, and as which everything below it is read.
    reader: ReadingUser,
}

/// The way in which a name is opened.
#[derive(Clone, Copy, Debug)]
struct Step {
    is_link: IsLink,
    /// The user as which it is opened, where it is a link that another user could have made.
    reader: ReadingUser,
}

impl Step {
    fn stat_flags(self) -> AtFlags {
        if self.is_link { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW }
    }

    /// A name that was no link when it was listed is not followed.
    fn open_flags(self) -> OFlags {
        OFlags::RDONLY | OFlags::CLOEXEC | if self.is_link { OFlags::empty() } else { OFlags::NOFOLLOW }
    }
}

enum Job {
    /// List this directory: its parent, and its name there.
    Directory(Arc<Opened>, CString, Step),
    /// List the modulepath.
    Root(Arc<Opened>),
    /// Read these files.
    Files(Arc<Opened>, Vec<(CString, Step)>),
}

type IsLink = bool;

impl ModuleTree {
    /// Reads a modulepath.
    ///
    /// **Errors**: [`ModulesError::Read`] where the modulepath itself cannot be listed, and after [`crate::tools::end_flag`] is
    /// set; [`ModulesError::TooLarge`].
    pub fn scan(root: &Path, options: ScanOptions) -> Result<Self, ModulesError> {
        let tree = tree(root, options)?;
        // Jobs that had not begun by then are missing from the tree.
        unless_ended().map_err(ModulesError::read(root))?;
        Ok(tree)
    }
}

fn tree(root: &Path, options: ScanOptions) -> Result<ModuleTree, ModulesError> {
    let failed = |errno: Errno| ModulesError::read(root)(errno);
    let (descriptor, reader) = walk::open(root, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
    let stat = rustix::fs::fstat(&descriptor).map_err(failed)?;
    let access = access(&stat, Some(&descriptor));
    let way = Arc::new(Way { device: stat.st_dev, inode: stat.st_ino, depth: 0, up: None });
    let opened = Arc::new(Opened { descriptor, path: Vec::new(), way, access: access.clone(), reader });
    // A modulepath that cannot be listed is an error.
    Dir::read_from(&opened.descriptor).map_err(failed)?;
    let total = AtomicUsize::new(0);
    let gathered =
        work(options.jobs.max(1).into(), Job::Root(opened), |job, pool, found: &mut Vec<TreeEntry>| {
            let before = found.len();
            run_as(job, pool, found);
            if total.fetch_add(found.len() - before, Ordering::Relaxed) > ENTRY_LIMIT {
                pool.stop();
            }
        });
    if total.into_inner() > ENTRY_LIMIT {
        return Err(ModulesError::TooLarge { path: root.to_owned(), limit: ENTRY_LIMIT });
    }
    let mut entries: Vec<TreeEntry> = gathered.into_iter().flatten().collect();
    entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    Ok(ModuleTree { root: root.to_owned(), access, entries })
}

/// Runs a job as the user as which its directory was reached.
fn run_as(job: Job, pool: &Pool<Job>, found: &mut Vec<TreeEntry>) {
    let (Job::Root(directory) | Job::Directory(directory, ..) | Job::Files(directory, _)) = &job;
    let reader = directory.reader;
    let work = || {
        let mut found = Vec::new();
        run(job, pool, &mut found);
        Ok(found)
    };
    // If this process cannot act as that user, nothing was read.
    found.extend(walk::read_as(reader, work).unwrap_or_default());
}

fn run(job: Job, pool: &Pool<Job>, found: &mut Vec<TreeEntry>) {
    match job {
        Job::Root(opened) => {
            // The modulepath was listed a moment ago. Later errors leave entries out.
            _ = list(&opened, pool, found);
        }
        Job::Directory(parent, name, step) => {
            let failed = |errno| vec![unread(&parent, &name, step, errno)];
            let work = || Ok(directory(&parent, &name, step, pool));
            found.extend(walk::read_as(step.reader, work).unwrap_or_else(failed));
        }
        Job::Files(parent, names) => found.extend(names.iter().map(|(name, step)| {
            let work = || Ok(file(&parent, name, *step));
            walk::read_as(step.reader, work).unwrap_or_else(|errno| unread(&parent, name, *step, errno))
        })),
    }
}

/// The entry for a name, if this process cannot act as the user that would follow it.
fn unread(parent: &Opened, name: &CStr, step: Step, errno: Errno) -> TreeEntry {
    bare(parent, name, step.is_link, EntryKind::Unreadable(errno))
}

/// Opens and lists a directory; returns its own entry, and the entries in it that need no job.
fn directory(parent: &Arc<Opened>, name: &CStr, step: Step, pool: &Pool<Job>) -> Vec<TreeEntry> {
    let mut entry = bare(parent, name, step.is_link, EntryKind::Directory);
    let stat = match rustix::fs::statat(&parent.descriptor, name, step.stat_flags()) {
        Ok(stat) => stat,
        Err(errno) => {
            entry.kind = absent(errno, step.is_link);
            return vec![entry];
        }
    };
    entry.modified = modified(&stat);
    entry.identity = Some((stat.st_dev, stat.st_ino));
    entry.access = Some(access(&stat, None));
    if parent.way.passes(stat.st_dev, stat.st_ino) {
        entry.kind = EntryKind::Loop;
        return vec![entry];
    }
    if is_ignored_directory(name.to_bytes()) {
        entry.kind = EntryKind::IgnoredDirectory;
        return vec![entry];
    }
    if parent.way.depth + 1 > DEPTH_LIMIT {
        entry.kind = EntryKind::TooDeep;
        return vec![entry];
    }
    let flags = step.open_flags() | OFlags::DIRECTORY;
    let opened = rustix::fs::openat(&parent.descriptor, name, flags, Mode::empty());
    let (descriptor, stat) = match opened.and_then(|file| rustix::fs::fstat(&file).map(|stat| (file, stat))) {
        Ok(opened) => opened,
        Err(errno) => {
            entry.kind = EntryKind::Unlistable(errno);
            return vec![entry];
        }
    };
    // Another directory may have taken its place since.
    entry.identity = Some((stat.st_dev, stat.st_ino));
    let access = access(&stat, Some(&descriptor));
    entry.access = Some(access.clone());
    let way = Way {
        device: stat.st_dev,
        inode: stat.st_ino,
        depth: parent.way.depth + 1,
        up: Some(Arc::clone(&parent.way)),
    };
    let reader = parent.reader.or(step.reader);
    let opened = Opened { descriptor, path: entry.path.clone(), way: Arc::new(way), access, reader };
    let opened = Arc::new(opened);
    let mut found = Vec::new();
    if let Err(errno) = list(&opened, pool, &mut found) {
        entry.kind = EntryKind::Unlistable(errno);
    }
    found.push(entry);
    found
}

/// Turns a directory's names into jobs. Names that can be judged by their type alone become entries.
fn list(opened: &Arc<Opened>, pool: &Pool<Job>, found: &mut Vec<TreeEntry>) -> Result<(), Errno> {
    let mut files = Vec::new();
    let mut jobs = Vec::new();
    for entry in Dir::read_from(&opened.descriptor)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let (kind, step) = kind(opened, name, entry.file_type());
        match kind {
            Ok(FileType::Directory) => jobs.push(Job::Directory(Arc::clone(opened), name.to_owned(), step)),
            Ok(FileType::RegularFile) => files.push((name.to_owned(), step)),
            Ok(_) => found.push(bare(opened, name, step.is_link, EntryKind::Special)),
            Err(errno) => found.push(bare(opened, name, step.is_link, absent(errno, step.is_link))),
        }
    }
    let batches = files.chunks(BATCH).map(|batch| Job::Files(Arc::clone(opened), batch.to_vec()));
    jobs.extend(batches);
    pool.add(jobs);
    Ok(())
}

/// The type of a name, behind links, and the way to open it.
fn kind(opened: &Opened, name: &CStr, listed: FileType) -> (Result<FileType, Errno>, Step) {
    let plain = Step { is_link: false, reader: None };
    if !matches!(listed, FileType::Unknown | FileType::Symlink) {
        return (Ok(listed), plain);
    }
    let stat = match rustix::fs::statat(&opened.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(errno) => return (Err(errno), plain),
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let reader = match opened.reader {
                // This thread has that user's rights already.
                Some(_) => None,
                None => walk::follower(&opened.access, &stat),
            };
            let step = Step { is_link: true, reader };
            let follow = || rustix::fs::statat(&opened.descriptor, name, AtFlags::empty());
            let target = walk::read_as(reader, follow);
            (target.map(|stat| FileType::from_raw_mode(stat.st_mode)), step)
        }
        known => (Ok(known), plain),
    }
}

fn absent(errno: Errno, is_link: IsLink) -> EntryKind {
    match errno {
        Errno::LOOP => EntryKind::Loop,
        Errno::NOENT if is_link => EntryKind::Dangling,
        errno => EntryKind::Unreadable(errno),
    }
}

fn bare(opened: &Opened, name: &CStr, is_link: IsLink, kind: EntryKind) -> TreeEntry {
    let path = below(&opened.path, name);
    TreeEntry { path, is_link, access: None, identity: None, modified: 0, size: 0, kind }
}

fn file(parent: &Opened, name: &CStr, step: Step) -> TreeEntry {
    let is_link = step.is_link;
    // Without O_NONBLOCK, a pipe that has taken the file's place would block us.
    let flags = step.open_flags() | OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = rustix::fs::openat(&parent.descriptor, name, flags, Mode::empty());
    let stat = match &opened {
        Ok(descriptor) => rustix::fs::fstat(descriptor),
        Err(_) => rustix::fs::statat(&parent.descriptor, name, step.stat_flags()),
    };
    let mut entry = bare(parent, name, is_link, EntryKind::Special);
    let stat = match stat {
        Ok(stat) => stat,
        Err(errno) => {
            entry.kind = absent(errno, is_link);
            return entry;
        }
    };
    entry.modified = modified(&stat);
    entry.identity = Some((stat.st_dev, stat.st_ino));
    entry.access = Some(access(&stat, opened.as_ref().ok()));
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return entry;
    }
    entry.size = u64::try_from(stat.st_size).unwrap_or(0);
    let is_cache = parent.path.is_empty() && NameTreatment::of(name.to_bytes()) == NameTreatment::Cache;
    let limit = if is_cache { CACHE_LIMIT } else { FILE_LIMIT };
    entry.kind = match opened.and_then(|descriptor| content(&descriptor, name.to_bytes(), entry.size, limit))
    {
        Ok(content) => EntryKind::File(content),
        Err(errno) => EntryKind::Unreadable(errno),
    };
    entry
}

/// Reads at most `limit` bytes of a file, and only the head of a file that means nothing to a tool.
fn content(descriptor: &OwnedFd, name: &[u8], size: u64, limit: usize) -> Result<Vec<u8>, Errno> {
    let limit = usize::try_from(size).unwrap_or(limit).min(limit);
    let mut content = Vec::new();
    add(descriptor, limit.min(HEAD_LIMIT), &mut content)?;
    let by_name = matches!(NameTreatment::of(name), NameTreatment::Rc(_) | NameTreatment::Cache)
        || name.ends_with(b".lua");
    if content.len() < limit && (by_name || Cookie::of(&content).is_some()) {
        add(descriptor, limit, &mut content)?;
    }
    content.shrink_to_fit();
    Ok(content)
}

/// Continues reading until there are `until` bytes, or no more.
fn add(descriptor: &OwnedFd, until: usize, content: &mut Vec<u8>) -> Result<(), Errno> {
    let mut length = content.len();
    content.resize(until, 0);
    while length < until {
        match rustix::io::read(descriptor, &mut content[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    content.truncate(length);
    Ok(())
}

fn modified(stat: &Stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

/// Permissions, with the access control list if there is one. The list of a file that cannot be opened is unknown; the
/// mode's middle bits are then the list's mask.
fn access(stat: &Stat, descriptor: Option<&OwnedFd>) -> Access {
    let acl = descriptor.and_then(|file| Acl::read(|value| rustix::fs::fgetxattr(file, ATTRIBUTE, value)));
    Access { mode: stat.st_mode & 0o7777, uid: stat.st_uid, gid: stat.st_gid, acl }
}

fn below(directory: &[u8], name: &CStr) -> Vec<u8> {
    let name = name.to_bytes();
    match directory {
        [] => name.to_vec(),
        directory => [directory, b"/", name].concat(),
    }
}
