//! The objects of a recorded call's arguments: a path, as it is issued, or an open file of the process.
//!
//! A path is issued as the program passed it, so that the kernel walks the same names: relative to the same directory, or
//! with the recorded root's part replaced. Only where the given path begins outside the tree and leads into it, by a link,
//! the resolved path is taken.

use super::{Planner, Without};
use crate::below::below;
use crate::confined::stays_below;
use crate::steps::{At, FileSlot, PathPrefix};
use crate::tables::HeldFile;
use crate::writes::ReplayWrites;
use quell_trace::{Event, PathId, ProcessId};

impl Planner<'_> {
    /// The open file of a descriptor argument.
    pub(super) fn held(&mut self, event: &Event, fd: i32) -> Result<FileSlot, Without> {
        let held = self.drafts[event.process.0 as usize].table.files.get(&fd).copied();
        let held = held.ok_or(Without::Elsewhere)?;
        let slot = self.adopt(event.process, held);
        if held.owner != event.process {
            let own = HeldFile { owner: event.process, slot, ..held };
            self.draft(event).table.files.insert(fd, own);
        }
        Ok(slot)
    }

    /// The slot of an open file in a process: its own, or one that comes with its start, handed down from the process that
    /// has it.
    fn adopt(&mut self, process: ProcessId, held: HeldFile) -> FileSlot {
        let key = (held.owner, held.slot);
        let (mut at, mut heirs) = (process, Vec::new());
        let mut slot = loop {
            let draft = &self.drafts[at.0 as usize];
            let has = if at == held.owner { Some(held.slot) } else { draft.adopted.get(&key).copied() };
            match (has, draft.from) {
                (Some(slot), _) => break slot,
                (None, Some(from)) => {
                    heirs.push(at);
                    at = from;
                }
                // No process hands it down: it will not be there.
                (None, None) => {
                    heirs.push(at);
                    break held.slot;
                }
            }
        };
        for heir in heirs.into_iter().rev() {
            let draft = &mut self.drafts[heir.0 as usize];
            let own = draft.slot();
            draft.programme.inherits.push((slot, own));
            draft.adopted.insert(key, own);
            slot = own;
        }
        slot
    }

    /// The place of a path argument, as it is issued.
    pub(super) fn place(
        &mut self,
        event: &Event,
        fd: quell_trace::Fd,
        path: PathId,
        target: Option<PathId>,
    ) -> Result<At, Without> {
        let from = self.from;
        let resolved = target.map(|target| (target, self.recording.paths.bytes(target)));
        let inside = resolved.and_then(|(target, path)| below(path, from).map(|name| (target, path, name)));
        if let Some((target, path, name)) = inside
            && stays_below(name, 0)
            && self.changes.covers(target, path)
        {
            match self.writes {
                ReplayWrites::Private => return Ok(self.at(event, PathPrefix::Private, name)),
                ReplayWrites::Skip if self.made.contains(&target) => return Err(Without::Made),
                ReplayWrites::Skip => {}
            }
        }
        let given = self.recording.paths.bytes(path);
        if given.starts_with(b"/") {
            if let Some(name) =
                below(given, from).filter(|name| stays_below(name, 0) && !self.leads_back(given))
            {
                return Ok(self.at(event, PathPrefix::Root, name));
            }
        } else if let Some(at) = self.relative(event, fd, given) {
            return Ok(at);
        }
        match inside {
            Some((_, _, name)) => Ok(self.at(event, PathPrefix::Root, name)),
            None => Err(Without::Elsewhere),
        }
    }

    /// A relative path that begins in the tree and stays there.
    fn relative(&mut self, event: &Event, fd: quell_trace::Fd, given: &[u8]) -> Option<At> {
        let table = &self.drafts[event.process.0 as usize].table;
        let (directory, base) = match fd.number() {
            None => (None, table.directory?),
            Some(fd) => (Some(fd), table.files.get(&fd)?.path?),
        };
        let depth = below(self.recording.paths.bytes(base), self.from)?;
        let depth = depth.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).count();
        if !stays_below(given, depth) || given.is_empty() {
            return None;
        }
        let directory = match directory {
            Some(fd) => Some(self.held(event, fd).ok()?),
            None => None,
        };
        let at = self.at(event, PathPrefix::None, given);
        Some(At { directory, ..at })
    }

    fn leads_back(&self, given: &[u8]) -> bool {
        self.links.iter().any(|link| given == *link || below(given, link).is_some())
    }

    fn at(&mut self, event: &Event, prefix: PathPrefix, path: &[u8]) -> At {
        At { directory: None, path: self.draft(event).path(prefix, path) }
    }

    /// The place of the first path argument.
    pub(super) fn first(&mut self, event: &Event) -> Result<At, Without> {
        let path = event.path.ok_or(Without::Elsewhere)?;
        self.place(event, event.fd, path, event.target)
    }

    /// The open file of the first descriptor argument.
    pub(super) fn open_file(&mut self, event: &Event) -> Result<FileSlot, Without> {
        self.held(event, event.fd.number().ok_or(Without::Elsewhere)?)
    }
}
