//! The operations that stand for recorded calls.

use super::{Planner, Without};
use crate::below::below;
use crate::confined;
use crate::steps::{At, FileSlot, PathPrefix, ReplayOperation};
use crate::tables::{HeldFile, ProcessTable};
use crate::writes::{self, ReplayWrites};
use quell_trace::flags::{AT_EMPTY_PATH, LOCK_COMMANDS, O_CLOEXEC};
use quell_trace::{Call, Class, Errno, Event, Outcome, PathId};

impl Planner<'_> {
    /// The operation that stands for an event.
    pub(super) fn operation(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        if event.outcome == Outcome::Unfinished {
            return Err(Without::Elsewhere);
        }
        match event.call.class() {
            Class::Open => self.open(event),
            Class::Stat => self.stat(event),
            Class::Access => {
                let (mode, flags) = match event.call {
                    // A mode is in the low bits, `AT_` flags are above them.
                    Call::Faccessat2 => (event.flags & 7, event.flags & !7),
                    _ => (event.flags & 7, 0),
                };
                Ok(ReplayOperation::Access { at: self.first(event)?, mode: mode as u32, flags: flags as u32 })
            }
            Class::ReadLink => Ok(ReplayOperation::ReadLink(self.first(event)?)),
            Class::List => Ok(ReplayOperation::List { slot: self.open_file(event)?, size: event.size.0 }),
            Class::Xattr => self.attribute(event),
            Class::StatFs if event.path.is_some() => Ok(ReplayOperation::StatFs(self.first(event)?)),
            Class::StatFs => Ok(ReplayOperation::StatFsOpen(self.open_file(event)?)),
            Class::Exec => Ok(ReplayOperation::Execute(self.first(event)?)),
            Class::Directory => self.directory(event),
            Class::Read => self.read(event),
            Class::Map => self.map(event),
            Class::Seek => self.seek(event),
            Class::Descriptor => self.descriptor(event),
            Class::Change => self.change(event),
            Class::Write => self.write(event),
            Class::Sync => match event.call {
                Call::Fsync | Call::Fdatasync => self.changing(event, ReplayOperation::Sync),
                _ => Err(Without::Elsewhere),
            },
            Class::Lock => self.open_file(event).and(Err(Without::Unable)),
            Class::Mount | Class::Watch => self.first(event).and(Err(Without::Unable)),
        }
    }

    fn open(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let at = self.first(event)?;
        if writes::writes(event) {
            self.may_write(event, at)?;
        }
        let flags = if event.call == Call::Creat { 0o1101 } else { event.flags };
        let slot = self.draft(event).slot();
        if let Outcome::Success(fd) = event.outcome
            && let Ok(fd) = i32::try_from(fd)
        {
            let closes_on_exec = flags & O_CLOEXEC != 0;
            let held = HeldFile { owner: event.process, slot, path: event.target, closes_on_exec };
            self.draft(event).table.files.insert(fd, held);
        }
        Ok(ReplayOperation::Open { at, flags, slot })
    }

    /// True if a call that changes something may be issued at this place.
    fn may_write(&mut self, event: &Event, at: At) -> Result<(), Without> {
        let is_private = self
            .draft(event)
            .programme
            .paths
            .get(at.path as usize)
            .is_some_and(|path| path.0 == PathPrefix::Private);
        match self.writes {
            ReplayWrites::Private if is_private => Ok(()),
            _ => Err(Without::Writes),
        }
    }

    fn stat(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        const NO_FOLLOW: u64 = quell_trace::flags::AT_SYMLINK_NOFOLLOW;
        let by_descriptor = event.call == Call::Fstat
            || event.flags & AT_EMPTY_PATH != 0
                && event.path.is_none_or(|path| self.recording.paths.bytes(path).is_empty());
        if by_descriptor {
            return Ok(ReplayOperation::StatOpen(self.open_file(event)?));
        }
        let at = self.first(event)?;
        match event.call {
            Call::Lstat => Ok(ReplayOperation::Stat { at, flags: NO_FOLLOW as u32 }),
            Call::Stat => Ok(ReplayOperation::Stat { at, flags: 0 }),
            Call::Newfstatat => Ok(ReplayOperation::Stat { at, flags: event.flags as u32 }),
            Call::Statx => Ok(ReplayOperation::Statx { at, flags: event.flags as u32 }),
            _ => Err(Without::Unable),
        }
    }

    fn attribute(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let list = matches!(event.call, Call::Listxattr | Call::Llistxattr | Call::Flistxattr);
        match event.call {
            Call::Fgetxattr | Call::Flistxattr => {
                Ok(ReplayOperation::XattrOpen { slot: self.open_file(event)?, list })
            }
            call => {
                let follow = !matches!(call, Call::Lgetxattr | Call::Llistxattr);
                Ok(ReplayOperation::Xattr { at: self.first(event)?, follow, list })
            }
        }
    }

    fn directory(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        match event.call {
            Call::Chdir => Ok(ReplayOperation::ChangeDirectory(self.first(event)?)),
            Call::Fchdir => Ok(ReplayOperation::ChangeDirectoryOpen(self.open_file(event)?)),
            _ => self.first(event).and(Err(Without::Unable)),
        }
    }

    fn read(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let slot = self.open_file(event)?;
        let size = event.size.0;
        let offset = event.offset.and_then(|offset| u64::try_from(offset).ok());
        match (event.call, offset) {
            (Call::Readahead, Some(offset)) => Ok(ReplayOperation::Advise { slot, size, offset }),
            (_, Some(offset)) => Ok(ReplayOperation::ReadAt { slot, size, offset }),
            (_, None) => Ok(ReplayOperation::Read { slot, size }),
        }
    }

    /// The parts of a file that a process touched are read at its first mapping; all of the mapping where the recorder did not look.
    fn map(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let slot = self.open_file(event)?;
        if !event.outcome.is_success() {
            return Err(Without::Elsewhere);
        }
        let whole = || vec![(event.offset.map_or(0, |offset| offset.max(0) as u64), event.size.0)];
        let touched = event.target.map(|path| self.touched.remove(&(event.process, path)));
        let extents = match touched {
            _ if !self.knows_touched => whole(),
            Some(Some(extents)) => extents,
            Some(None) | None => Vec::new(),
        };
        Ok(ReplayOperation::Touch { slot, extents })
    }

    fn seek(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let slot = self.open_file(event)?;
        let offset = event.offset.unwrap_or(0);
        match event.call {
            Call::Lseek => Ok(ReplayOperation::Seek { slot, offset, origin: event.flags }),
            _ => Ok(ReplayOperation::Advise { slot, size: event.size.0, offset: offset.max(0) as u64 }),
        }
    }

    fn descriptor(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        /// `TCGETS`: is it a terminal? Source: `ioctl_tty(2)`.
        const TCGETS: u64 = 0x5401;
        match event.call {
            Call::Close => {
                let slot = self.open_file(event)?;
                match event.outcome.errno() {
                    // Later calls use the file: it was not closed, whatever was open here.
                    Some(Errno::EBADF) => Err(Without::Unable),
                    _ => Ok(ReplayOperation::Close(slot)),
                }
            }
            Call::Dup | Call::Dup2 | Call::Dup3 => self.duplicate(event),
            Call::Fcntl if LOCK_COMMANDS.contains(&event.flags) => {
                self.open_file(event).and(Err(Without::Unable))
            }
            Call::Fcntl => self.duplicate(event),
            Call::Ioctl if event.flags == TCGETS => Ok(ReplayOperation::Terminal(self.open_file(event)?)),
            Call::Ioctl => self.open_file(event).and(Err(Without::Unable)),
            _ => Err(Without::Elsewhere),
        }
    }

    fn duplicate(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let Outcome::Success(value) = event.outcome else { return Err(Without::Elsewhere) };
        let Some((to, closes_on_exec)) = ProcessTable::duplicates(event, value) else {
            return Err(Without::Elsewhere);
        };
        let slot = self.open_file(event)?;
        if event.fd.0 == to {
            return Err(Without::Elsewhere);
        }
        let path = self.draft(event).table.files.get(&event.fd.0).and_then(|held| held.path);
        let new = self.draft(event).slot();
        self.release(event, &[to]);
        let held = HeldFile { owner: event.process, slot: new, path, closes_on_exec };
        self.draft(event).table.files.insert(to, held);
        Ok(ReplayOperation::Duplicate { slot, to: new })
    }

    fn write(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        use Call::{CopyFileRange, Sendfile, Splice, Tee};
        let (source, is_transfer) = match event.call {
            Sendfile => (event.fd2, true),
            CopyFileRange | Splice | Tee => (event.fd, true),
            _ => (event.fd, false),
        };
        if is_transfer {
            // Data of the tree is read, wherever it goes.
            let slot = self.held(event, source.number().ok_or(Without::Elsewhere)?)?;
            return Ok(ReplayOperation::Read { slot, size: event.bytes_moved().0 });
        }
        // The bytes that were written, not those that were asked for: a short write ends a call.
        let size = event.bytes_moved().0;
        match event.offset.and_then(|offset| u64::try_from(offset).ok()) {
            Some(offset) => self.changing(event, |slot| ReplayOperation::WriteAt { slot, size, offset }),
            None => self.changing(event, |slot| ReplayOperation::Write { slot, size }),
        }
    }

    /// A call that changes an open file: such a file is in the table only if it may be written to.
    fn changing(
        &mut self,
        event: &Event,
        operation: impl FnOnce(FileSlot) -> ReplayOperation,
    ) -> Result<ReplayOperation, Without> {
        match self.open_file(event) {
            Ok(slot) if self.writes == ReplayWrites::Private => Ok(operation(slot)),
            Ok(_) => Err(Without::Writes),
            Err(_) if self.is_in_tree(event.target) => Err(Without::Writes),
            Err(error) => Err(error),
        }
    }

    fn is_in_tree(&self, target: Option<PathId>) -> bool {
        target.is_some_and(|target| below(self.recording.paths.bytes(target), self.from).is_some())
    }

    fn change(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        use Call::*;
        if !self.is_in_tree(event.target) && !self.is_in_tree(event.target2) {
            return Err(Without::Elsewhere);
        }
        if self.writes == ReplayWrites::Skip {
            return Err(Without::Writes);
        }
        match event.call {
            Ftruncate => {
                let size = event.size.0;
                return self.changing(event, |slot| ReplayOperation::Resize { slot, size });
            }
            Rename | Renameat | Renameat2 | Link | Linkat => return self.two_names(event),
            Symlink | Symlinkat => return self.symbolic_link(event),
            _ => {}
        }
        let at = self.first(event)?;
        self.may_write(event, at)?;
        match event.call {
            Unlink => Ok(ReplayOperation::Unlink { at, directory: false }),
            Unlinkat => Ok(ReplayOperation::Unlink { at, directory: event.flags & AT_REMOVEDIR != 0 }),
            Rmdir => Ok(ReplayOperation::Unlink { at, directory: true }),
            Mkdir | Mkdirat => Ok(ReplayOperation::MakeDirectory(at)),
            Chmod | Fchmodat | Fchmodat2 => Ok(ReplayOperation::SetMode(at)),
            Utime | Utimes | Futimesat | Utimensat if event.path.is_some() => {
                Ok(ReplayOperation::SetTimes(at))
            }
            _ => Err(Without::Unable),
        }
    }

    fn two_names(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let from = self.first(event)?;
        let path = event.path2.ok_or(Without::Elsewhere)?;
        let to = self.place(event, event.fd2, path, event.target2)?;
        self.may_write(event, from)?;
        self.may_write(event, to)?;
        Ok(match event.call {
            Call::Link | Call::Linkat => ReplayOperation::Link { from, to },
            _ => ReplayOperation::Rename { from, to, flags: event.flags as u32 },
        })
    }

    /// Of `symlink` the first path is the link's content, and the target is what the second names.
    fn symbolic_link(&mut self, event: &Event) -> Result<ReplayOperation, Without> {
        let (content, name) = event.path.zip(event.path2).ok_or(Without::Elsewhere)?;
        let at = self.place(event, event.fd2, name, event.target)?;
        self.may_write(event, at)?;
        let recorded = self.recording.paths.bytes(content);
        let name = self.draft(event).programme.paths[at.path as usize].1.clone();
        let content = confined::content(recorded, self.from, &name);
        let content = self.draft(event).path(PathPrefix::None, &content);
        Ok(ReplayOperation::SymbolicLink { content, at })
    }
}

/// `AT_REMOVEDIR`. Source: `unlinkat(2)`.
const AT_REMOVEDIR: u64 = 0x200;
