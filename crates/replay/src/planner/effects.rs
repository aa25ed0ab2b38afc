//! The effects of a recorded call on descriptors, directories, and the names that the recording made.

use super::Planner;
use crate::below::below;
use crate::steps::ReplayStep;
use crate::tables::HeldFile;
use crate::writes;
use quell_trace::{Call, Class, Errno, Event, Outcome, PathId};

impl Planner<'_> {
    /// Follows a call that was planned.
    pub(super) fn follow(&mut self, event: &Event) {
        let succeeded = event.outcome.is_success();
        match event.call {
            Call::Close if succeeded || event.outcome.errno() != Some(Errno::EBADF) => {
                self.draft(event).table.files.remove(&event.fd.0);
            }
            Call::CloseRange if succeeded => {
                let closed = self.draft(event).table.close_range(event);
                self.release_held(event, &closed);
            }
            Call::Fcntl => self.draft(event).table.set_flag(event),
            Call::Execve | Call::Execveat if succeeded => {
                let closed = self.draft(event).table.execute();
                self.release_held(event, &closed);
            }
            Call::Chdir | Call::Fchdir if succeeded => self.draft(event).table.directory = event.target,
            _ => {}
        }
        // A descriptor number that is used again without a recorded close belongs to another file.
        if let (Class::Open, Outcome::Success(fd)) = (event.call.class(), event.outcome)
            && let Ok(fd) = i32::try_from(fd)
            && self.draft(event).table.files.get(&fd).is_some_and(|held| held.path != event.target)
        {
            self.draft(event).table.files.remove(&fd);
        }
        self.follow_names(event);
    }

    fn follow_names(&mut self, event: &Event) {
        if !event.outcome.is_success() || !(event.call.class() == Class::Change || writes::writes(event)) {
            return;
        }
        match (event.call, event.target, event.target2) {
            (Call::Unlink | Call::Unlinkat | Call::Rmdir, Some(target), _) => _ = self.made.remove(&target),
            (Call::Rename | Call::Renameat | Call::Renameat2, Some(from), Some(to)) => {
                self.made.remove(&from);
                self.made.insert(to);
            }
            (Call::Link | Call::Linkat, _, Some(to)) => _ = self.made.insert(to),
            (_, Some(target), _) if self.is_new(target) => _ = self.made.insert(target),
            _ => {}
        }
    }

    /// True if a name that was changed had not been there before the recording.
    fn is_new(&self, target: PathId) -> bool {
        let name = below(self.recording.paths.bytes(target), self.from);
        name.is_some_and(|name| !self.changes.prepared.contains_key(name))
    }

    pub(super) fn release(&mut self, event: &Event, numbers: &[i32]) {
        let files = &mut self.draft(event).table.files;
        let held: Vec<HeldFile> = numbers.iter().filter_map(|number| files.remove(number)).collect();
        self.release_held(event, &held);
    }

    fn release_held(&mut self, event: &Event, held: &[HeldFile]) {
        for held in held.iter().filter(|held| held.owner == event.process) {
            self.push(event.thread.0 as usize, ReplayStep::Release(held.slot));
        }
    }
}
