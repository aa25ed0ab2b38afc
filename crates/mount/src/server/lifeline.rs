//! The pipe that tells a holder at once that its server is dead.
//!
//! The end of the process would tell it too late: a thread that waits in the kernel for a lock which a program holds while
//! it waits for an answer, ends only after another server has given that answer. So the server's first thread has a
//! table of descriptors of its own, with the only write end of a pipe in it, and the kernel closes that table as soon
//! as this thread is killed, which waits for nothing.
//!
//! ```text
//!  holder ---.  one table: the device, the image, originals, the door, ranks, read end of the pipe
//!             >
//!  server ---'  threads that answer
//!               first thread       its own table: write end of the pipe
//!               notifier, pusher   their own tables: the device (they may wait for such a lock)
//! ```
//!
//! The other threads may then still be in a system call each, which is carried out to its end. The holder waits for that for
//! a while before it closes descriptors, and the next server before it answers, see [`Tenure`](crate::sys::tenure::Tenure).
//!
//! Until the server's first thread has its own table, the write end is open in the common one; the process has no
//! thread then that could wait, so that its end tells.

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::ranks::Watch;
use crate::sys::process::keep_for_this_thread;

/// The holder's side.
#[derive(Debug)]
pub(crate) struct Lifeline {
    read_end: OwnedFd,
    /// Until the server has the only one.
    start: Option<Start>,
}

#[derive(Debug)]
struct Start {
    #[expect(dead_code, reason = "closed when the server has the only one")]
    write_end: OwnedFd,
    process: Option<Watch>,
}

/// Both ends, before the server is forked: the read end, and the write end.
pub(crate) type LifelinePair = (OwnedFd, OwnedFd);

impl Lifeline {
    /// For a server that is about to be forked.
    pub(crate) fn pair() -> Result<LifelinePair, Errno> {
        pipe_with(PipeFlags::CLOEXEC)
    }

    /// Of the server `process`, which was just forked; `None` if it is over already.
    pub(crate) fn of_child((read_end, write_end): LifelinePair, process: Option<Watch>) -> Self {
        Self { read_end, start: Some(Start { write_end, process }) }
    }

    /// Of a server that has the only write end.
    pub(crate) fn of_server(read_end: OwnedFd) -> Self {
        Self { read_end, start: None }
    }

    /// The descriptors that are readable when the server is dead, or has something to say.
    pub(crate) fn polled(&self) -> impl Iterator<Item = PollFd<'_>> {
        let process = self.start.as_ref().and_then(|start| start.process.as_ref()?.poll());
        [PollFd::new(&self.read_end, PollFlags::IN)].into_iter().chain(process)
    }

    /// Tells whether the server must be looked at periodically, because no descriptor signals its death.
    pub(crate) fn is_unpolled(&self) -> bool {
        self.start
            .as_ref()
            .is_some_and(|start| start.process.as_ref().is_none_or(|watch| watch.poll().is_none()))
    }

    /// Tells whether the server is dead.
    pub(crate) fn is_cut(&mut self) -> bool {
        if !super::ranks::is_readable_now(self.read_end.as_fd()) {
            return self
                .start
                .as_ref()
                .is_some_and(|start| start.process.as_ref().is_none_or(Watch::is_over));
        }
        match rustix::io::read(&self.read_end, &mut [0]) {
            // It says that it has a table of its own: its write end is the only one when ours is closed.
            Ok(1) => {
                self.start = None;
                false
            }
            Err(Errno::INTR) => false,
            _ => true,
        }
    }

    /// The read end.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.read_end.as_raw_fd()
    }

    /// Waits until the server is dead.
    pub(crate) fn wait(mut self) {
        while !self.is_cut() {
            let mut polled: Vec<PollFd<'_>> = self.polled().collect();
            let _interrupted = poll(&mut polled, None);
        }
    }
}

/// In the first thread of a server: gives it a table of its own with the write end in it, and tells the holder. The thread
/// then has nothing to do but to live.
pub(crate) fn keep_alone(write_end: &OwnedFd) -> Result<(), Errno> {
    keep_for_this_thread(&[write_end.as_raw_fd()])?;
    rustix::io::write(write_end, b"!").map(|_byte| ())
}
