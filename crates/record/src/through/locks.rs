//! Locks in the trace, as programs ask for them.

use super::operations::on;
use super::served::OpenServed;
use super::service::{MountService, Requester};
use super::walks::OwnedCall;
use quell_fuse::request::{Lock, Operation, Request};
use quell_trace::Call;
use std::sync::Arc;

/// `F_SETLK` and `F_GETLK` of fcntl(2), as the trace has them.
const SET: u64 = 6;
const GET: u64 = 5;

impl MountService {
    /// Tells the recording of a request about a lock.
    pub(super) fn note_locks(&self, request: &Request<'_>) {
        let by = Requester { caller: request.caller, start: self.shared.now() };
        match request.operation {
            Operation::GetLock { lock } => self.note_lock(&lock, GET, by),
            Operation::Lock { lock, .. } => self.note_lock(&lock, SET, by),
            _ => {}
        }
    }

    fn note_lock(&self, wanted: &Lock, command: u64, by: Requester) {
        let Ok(handle): Result<Arc<OpenServed>, _> = self.nodes.handle(wanted.handle) else { return };
        // A process that ends lets its locks go without a call.
        if i32::try_from(wanted.kind) == Ok(libc::F_UNLCK) {
            return;
        }
        let call = |asked| match wanted.whole_file {
            true => on(&handle, asked, Call::Flock),
            false => OwnedCall { flags: command, ..on(&handle, asked, Call::Fcntl) },
        };
        _ = self.note(by, None, Ok(()), call);
    }
}
