//! Issues one call: the recorded operation as a system call of this process.

use super::stage::Stage;
use super::steps::{At, FileSlot, ReplayOperation};
use quell_trace::flags as recorded;
use rustix::fs::{
    Access, Advice, AtFlags, CWD, Mode, OFlags, RawDir, RenameFlags, SeekFrom, StatxFlags, Timespec,
    Timestamps,
};
use rustix::io::Errno;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Memory of one thread for what it reads and writes.
#[derive(Debug, Default)]
pub(super) struct Scratch(Vec<u8>);

/// Bytes that one system call moves at most; larger ones are issued in parts. Not part of a format.
const MOST: u64 = 16 << 20;
/// Bytes that the kernel reads of a program's file. Source: `BINPRM_BUF_SIZE`, include/uapi/linux/binfmts.h.
const HEAD: u64 = 256;

impl Scratch {
    fn of(&mut self, size: u64) -> &mut [u8] {
        let size = size.min(MOST) as usize;
        if self.0.len() < size {
            self.0.resize(size, 0);
        }
        &mut self.0[..size]
    }
}

/// The bytes that a call moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MovedBytes {
    /// Unit: bytes.
    pub(super) read: u64,
    /// Unit: bytes.
    pub(super) written: u64,
}

/// The failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallFailure {
    /// The kernel said so.
    Kernel(Errno),
    /// The file that it needs could not be opened.
    Orphan,
}

impl From<Errno> for CallFailure {
    fn from(errno: Errno) -> Self {
        Self::Kernel(errno)
    }
}

type Outcome = Result<MovedBytes, CallFailure>;
const DONE: Outcome = Ok(MovedBytes { read: 0, written: 0 });

/// Issues the operation. `failed`: it failed in the recording.
pub(super) fn issue(
    stage: &Stage,
    operation: &ReplayOperation,
    failed: bool,
    scratch: &mut Scratch,
) -> Outcome {
    use ReplayOperation::*;
    // The plan has seen to it; here it is seen to again, because nothing in the tree may be lost.
    if !stage.may_issue(operation) {
        if let Open { at, slot, .. } = operation {
            stage.put(*slot, None, at.path);
        }
        return Err(CallFailure::Orphan);
    }
    match operation {
        Open { at, flags, slot } if operation.changes() => open_own(stage, *at, *flags, *slot),
        Open { at, flags, slot } => open(stage, *at, *flags, *slot),
        Stat { at, flags } => named(stage, *at, |directory, path| {
            rustix::fs::statat(directory, path, AtFlags::from_bits_retain(*flags)).map(drop)
        }),
        Statx { at, flags } => named(stage, *at, |directory, path| {
            rustix::fs::statx(directory, path, AtFlags::from_bits_retain(*flags), StatxFlags::BASIC_STATS)
                .map(drop)
        }),
        Access { at, mode, flags } => access(stage, *at, *mode, *flags),
        ReadLink(at) => named(stage, *at, |directory, path| {
            rustix::fs::readlinkat(directory, path, Vec::with_capacity(4096)).map(drop)
        }),
        Xattr { at, follow, list } => attribute(stage, *at, *follow, *list, scratch),
        StatFs(at) => named(stage, *at, |_, path| rustix::fs::statfs(path).map(drop)),
        // The kernel refuses before it opens what may not be executed.
        Execute(at) if failed => access(stage, *at, 1, 0),
        Execute(at) => execute(stage, *at, scratch),
        ChangeDirectory(at) => named(stage, *at, |_, path| rustix::process::chdir(path)),
        Rename { .. }
        | Link { .. }
        | SymbolicLink { .. }
        | Unlink { .. }
        | MakeDirectory(_)
        | SetMode(_)
        | SetTimes(_) => change(stage, operation),
        Close(slot) => match stage.close(*slot) {
            true => DONE,
            false => Err(CallFailure::Orphan),
        },
        Duplicate { slot, to } => duplicate(stage, *slot, *to),
        _ => on_open_file(stage, operation, scratch),
    }
}

fn duplicate(stage: &Stage, slot: FileSlot, to: FileSlot) -> Outcome {
    let copy = stage
        .take(slot)
        .ok_or(CallFailure::Orphan)
        .and_then(|file| Ok(rustix::io::fcntl_dupfd_cloexec(&*file, 3)?));
    match copy {
        Ok(copy) => {
            stage.put_copy(to, Some(copy), slot);
            DONE
        }
        Err(error) => {
            stage.put_copy(to, None, slot);
            Err(error)
        }
    }
}

fn named(stage: &Stage, at: At, call: impl FnOnce(BorrowedFd<'_>, &CStr) -> Result<(), Errno>) -> Outcome {
    let directory = directory(stage, at)?;
    let directory = directory.as_deref().map_or(CWD, AsFd::as_fd);
    call(directory, stage.path(at.path))?;
    DONE
}

fn directory(stage: &Stage, at: At) -> Result<Option<Arc<OwnedFd>>, CallFailure> {
    at.directory.map(|slot| stage.take(slot).ok_or(CallFailure::Orphan)).transpose()
}

/// Flags of a recording are those of x86-64; here they become this machine's.
fn open_flags(flags: u64) -> OFlags {
    const SAME: [(u64, OFlags); 9] = [
        (recorded::O_CREAT, OFlags::CREATE),
        (recorded::O_EXCL, OFlags::EXCL),
        (recorded::O_TRUNC, OFlags::TRUNC),
        (recorded::O_APPEND, OFlags::APPEND),
        (recorded::O_DIRECTORY, OFlags::DIRECTORY),
        (recorded::O_NOFOLLOW, OFlags::NOFOLLOW),
        (recorded::O_PATH, OFlags::PATH),
        (0o4000, OFlags::NONBLOCK),
        (0o40000, OFlags::DIRECT),
    ];
    let access = match flags & recorded::O_ACCMODE {
        1 => OFlags::WRONLY,
        2 => OFlags::RDWR,
        _ => OFlags::RDONLY,
    };
    let same = SAME.iter().filter(|(bit, _)| flags & bit != 0);
    same.fold(access | OFlags::CLOEXEC | OFlags::NOCTTY, |sum, (_, flag)| sum | *flag)
}

fn open(stage: &Stage, at: At, flags: u64, slot: FileSlot) -> Outcome {
    let opened = directory(stage, at).and_then(|directory| {
        let directory = directory.as_deref().map_or(CWD, AsFd::as_fd);
        Ok(rustix::fs::openat(directory, stage.path(at.path), open_flags(flags), Mode::empty())?)
    });
    opened_as(stage, at, slot, opened)
}

/// An open that makes a file, or lets it be written to.
fn open_own(stage: &Stage, at: At, flags: u64, slot: FileSlot) -> Outcome {
    let own = stage.own(at.path).ok_or(CallFailure::Orphan);
    let opened = own.and_then(|(own, name)| Ok(own.file(name, open_flags(flags))?));
    opened_as(stage, at, slot, opened)
}

fn opened_as(stage: &Stage, at: At, slot: FileSlot, opened: Result<OwnedFd, CallFailure>) -> Outcome {
    match opened {
        Ok(file) => {
            stage.put(slot, Some(file), at.path);
            DONE
        }
        Err(error) => {
            stage.put(slot, None, at.path);
            Err(error)
        }
    }
}

fn access(stage: &Stage, at: At, mode: u32, flags: u32) -> Outcome {
    named(stage, at, |directory, path| {
        rustix::fs::accessat(
            directory,
            path,
            Access::from_bits_retain(mode),
            AtFlags::from_bits_retain(flags),
        )
    })
}

/// A trace does not name attributes; a server is asked the same for one that is not there.
const ATTRIBUTE: &str = "user.quell";

fn attribute(stage: &Stage, at: At, follow: bool, list: bool, scratch: &mut Scratch) -> Outcome {
    let (path, space) = (stage.path(at.path), scratch.of(1 << 16));
    match (follow, list) {
        (true, false) => rustix::fs::getxattr(path, ATTRIBUTE, space),
        (false, false) => rustix::fs::lgetxattr(path, ATTRIBUTE, space),
        (true, true) => rustix::fs::listxattr(path, space),
        (false, true) => rustix::fs::llistxattr(path, space),
    }?;
    DONE
}

fn execute(stage: &Stage, at: At, scratch: &mut Scratch) -> Outcome {
    let mut read = 0;
    named(stage, at, |directory, path| {
        let file = rustix::fs::openat(directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read = rustix::io::pread(&file, scratch.of(HEAD), 0)? as u64;
        Ok(())
    })?;
    Ok(MovedBytes { read, written: 0 })
}

fn change(stage: &Stage, operation: &ReplayOperation) -> Outcome {
    use ReplayOperation::*;
    match operation {
        Rename { from, to, flags } => two(stage, *from, *to, |from, old, to, new| {
            rustix::fs::renameat_with(from, old, to, new, RenameFlags::from_bits_retain(*flags))
        }),
        Link { from, to } => two(stage, *from, *to, |from, old, to, new| {
            rustix::fs::linkat(from, old, to, new, AtFlags::empty())
        }),
        SymbolicLink { content, at } => {
            one(stage, *at, |directory, name| rustix::fs::symlinkat(stage.path(*content), directory, name))
        }
        Unlink { at, directory } => {
            let flags = if *directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            one(stage, *at, |directory, name| rustix::fs::unlinkat(directory, name, flags))
        }
        MakeDirectory(at) => {
            one(stage, *at, |directory, name| rustix::fs::mkdirat(directory, name, Mode::RWXU))
        }
        SetMode(at) => {
            followed(stage, *at, |file| rustix::fs::chmodat(CWD, file, Mode::RWXU, AtFlags::empty()))
        }
        SetTimes(at) => followed(stage, *at, |file| {
            let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            rustix::fs::utimensat(CWD, file, &times, AtFlags::empty())
        }),
        _ => DONE,
    }
}

/// A call on a name itself.
fn one(stage: &Stage, at: At, call: impl FnOnce(BorrowedFd<'_>, &[u8]) -> Result<(), Errno>) -> Outcome {
    let (own, name) = stage.own(at.path).ok_or(CallFailure::Orphan)?;
    let (directory, name) = own.parent(name)?;
    call(directory.as_fd(), name)?;
    DONE
}

fn two(
    stage: &Stage,
    from: At,
    to: At,
    call: impl FnOnce(BorrowedFd<'_>, &[u8], BorrowedFd<'_>, &[u8]) -> Result<(), Errno>,
) -> Outcome {
    let (own, from) = stage.own(from.path).ok_or(CallFailure::Orphan)?;
    let (_, to) = stage.own(to.path).ok_or(CallFailure::Orphan)?;
    let ((first, old), (second, new)) = (own.parent(from)?, own.parent(to)?);
    call(first.as_fd(), old, second.as_fd(), new)?;
    DONE
}

/// A call on what a name stands for: on the file that the walk found, by the kernel's own link to it.
fn followed(stage: &Stage, at: At, call: impl FnOnce(&str) -> Result<(), Errno>) -> Outcome {
    let (own, name) = stage.own(at.path).ok_or(CallFailure::Orphan)?;
    let file = own.file(if name.is_empty() { b"." } else { name }, OFlags::PATH | OFlags::CLOEXEC)?;
    call(&format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    DONE
}

fn on_open_file(stage: &Stage, operation: &ReplayOperation, scratch: &mut Scratch) -> Outcome {
    use ReplayOperation::*;
    let slot = operation.uses().next().ok_or(CallFailure::Orphan)?;
    let file = stage.take(slot).ok_or(CallFailure::Orphan)?;
    let file = &*file;
    match operation {
        StatOpen(_) => rustix::fs::fstat(file).map(drop)?,
        StatFsOpen(_) => rustix::fs::fstatfs(file).map(drop)?,
        ChangeDirectoryOpen(_) => rustix::process::fchdir(file)?,
        Terminal(_) => rustix::termios::tcgetattr(file).map(drop)?,
        Sync(_) => rustix::fs::fsync(file)?,
        Resize { size, .. } => rustix::fs::ftruncate(file, *size)?,
        XattrOpen { list: true, .. } => rustix::fs::flistxattr(file, scratch.of(1 << 16)).map(drop)?,
        XattrOpen { list: false, .. } => {
            rustix::fs::fgetxattr(file, ATTRIBUTE, scratch.of(1 << 16)).map(drop)?
        }
        List { size, .. } => list(file, *size)?,
        Advise { size, offset, .. } => {
            rustix::fs::fadvise(file, *offset, NonZeroU64::new(*size), Advice::WillNeed)?;
        }
        Seek { offset, origin, .. } => seek(file, *offset, *origin)?,
        Read { size, .. } => return read(scratch, *size, |space, _| rustix::io::read(file, space)),
        ReadAt { size, offset, .. } => {
            return read(scratch, *size, |space, at| {
                rustix::io::pread(file, space, offset.saturating_add(at))
            });
        }
        Touch { extents, .. } => return touch(file, extents, scratch),
        Write { size, .. } => return write(scratch, *size, |bytes, _| rustix::io::write(file, bytes)),
        WriteAt { size, offset, .. } => {
            return write(scratch, *size, |bytes, at| {
                rustix::io::pwrite(file, bytes, offset.saturating_add(at))
            });
        }
        _ => {}
    }
    DONE
}

/// One call of `getdents64` with a buffer of the recorded size.
fn list(file: &OwnedFd, size: u64) -> Result<(), Errno> {
    let mut space = vec![MaybeUninit::<u8>::uninit(); size.clamp(512, 1 << 20) as usize];
    // The first entry costs one call; what else the buffer holds is not looked at.
    RawDir::new(file, &mut space).next().map_or(Ok(()), |entry| entry.map(drop))
}

fn seek(file: &OwnedFd, offset: i64, origin: u64) -> Result<(), Errno> {
    let whole = offset.max(0) as u64;
    let to = match origin {
        0 => SeekFrom::Start(whole),
        1 => SeekFrom::Current(offset),
        2 => SeekFrom::End(offset),
        3 => SeekFrom::Data(whole),
        _ => SeekFrom::Hole(whole),
    };
    rustix::fs::seek(file, to).map(drop)
}

/// A call that reads: as one system call, or several when it asks for very much.
fn read(
    scratch: &mut Scratch,
    size: u64,
    mut call: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> Outcome {
    let mut read = 0;
    loop {
        let got = call(scratch.of(size - read), read)? as u64;
        read += got;
        // A short answer ends a call, as it ended the recorded one.
        if got < MOST || read >= size {
            return Ok(MovedBytes { read, written: 0 });
        }
    }
}

fn write(
    scratch: &mut Scratch,
    size: u64,
    mut call: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> Outcome {
    let mut written = 0;
    loop {
        let got = call(scratch.of(size - written), written)? as u64;
        written += got;
        if got == 0 || got < MOST || written >= size {
            return Ok(MovedBytes { read: 0, written });
        }
    }
}

fn touch(file: &OwnedFd, extents: &[(u64, u64)], scratch: &mut Scratch) -> Outcome {
    let mut all = MovedBytes::default();
    for (offset, size) in extents {
        let part = |space: &mut [u8], at: u64| rustix::io::pread(file, space, offset.saturating_add(at));
        all.read += read(scratch, *size, part)?.read;
    }
    Ok(all)
}
