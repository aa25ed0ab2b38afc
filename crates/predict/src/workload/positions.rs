//! The positions of descriptors in their files.

use quell_trace::{Call, Class, Event, Fd, Outcome, ProcessId};
use std::collections::HashMap;

/// Of each open descriptor, where a call without an offset reads.
#[derive(Debug, Default)]
pub(super) struct Positions(HashMap<(ProcessId, Fd), u64>);

impl Positions {
    /// Follows what a call moves. Returns where it began to read, unless it says so itself.
    pub(super) fn follow(&mut self, event: &Event) -> Option<u64> {
        let key = (event.process, event.fd);
        match (event.call.class(), event.call, event.outcome) {
            (Class::Open, _, Outcome::Success(fd)) => {
                let fd = Fd(i32::try_from(fd).ok()?);
                self.0.insert((event.process, fd), 0);
                None
            }
            (Class::Seek, Call::Lseek, Outcome::Success(at)) => {
                self.0.insert(key, u64::try_from(at).ok()?);
                None
            }
            (Class::Read, _, Outcome::Success(_)) if event.offset.is_none() => {
                let at = self.0.entry(key).or_default();
                let begin = *at;
                *at = begin.saturating_add(event.bytes_moved().0);
                Some(begin)
            }
            _ => None,
        }
    }
}
