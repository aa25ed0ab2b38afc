//! A rank that stays as its command's parent, because something is to be written when that has ended (`--stats`,
//! `--learn`, `--output`): to other processes it looks like the command.
//!
//! ```text
//! signal from a process  --> sent on to the command
//! signal from the kernel --> the terminal's: the command is in the same group and has it
//! the command stops      --> so do we; SIGCONT is sent on
//! the command ends       --> the holder or collector writes, and we end in the same way
//! we are killed          --> so is the command
//! ```
//!
//! Two signals differ from a command of its own: SIGSTOP that is sent to us alone stops us alone, and one that a process
//! sends to the whole group reaches the command twice, directly and through us. No descriptor of the command is kept: a pipe ends
//! when the command closes it, a lock is released.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::error::{RunError, Step, Unavailable};
use crate::message::{FromRank, FromServer, receive, send};
use crate::rendezvous::MeetingPlace;
use crate::sys::process::{Forked, SingleThreaded, exit_now, fork, keep_only};
use crate::sys::wrapper::{self, Arrived, Before, Signals, hold_back};

/// The part of a parent that is not the command's.
pub(crate) trait Vigil {
    /// Descriptors that stay open.
    fn kept(&self) -> Vec<RawFd>;
    /// A descriptor on which something may come, beside signals.
    fn polled(&self) -> Option<BorrowedFd<'_>>;
    /// Something came.
    fn called(&mut self);
    /// The command has ended. Returns another status for one that ended with 0.
    fn ended(&mut self) -> Option<u8>;
}

/// Has the server that listens at a meeting place write what this rank asked for.
pub(crate) struct Reports<'p>(pub(crate) &'p MeetingPlace);

impl Vigil for Reports<'_> {
    fn kept(&self) -> Vec<RawFd> {
        Vec::new()
    }

    fn polled(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn called(&mut self) {}

    fn ended(&mut self) -> Option<u8> {
        have_it_written(self.0);
        None
    }
}

/// Makes a child, which goes on from here and becomes the command. In the parent this never returns: it ends as the child
/// does, after `vigil` has done its part.
///
/// **Errors** [`Step::StartServer`] where there is no room for another process.
pub(crate) fn stay_behind(vigil: &mut dyn Vigil) -> Result<(), RunError> {
    let failed = |errno| RunError::from(Unavailable::new(Step::StartServer, errno));
    let alone = SingleThreaded::verify().ok_or(RunError::Threads)?;
    let signals = Signals::new().map_err(failed)?;
    let (parent, before) = (rustix::process::getpid(), hold_back());
    match fork(&alone) {
        Ok(Forked::Parent(command)) => stand_for(command, &signals, vigil),
        Ok(Forked::Child) => become_command(parent, &before),
        Err(errno) => {
            before.restore();
            return Err(failed(errno));
        }
    }
    Ok(())
}

fn become_command(parent: Pid, before: &Before) {
    let _lives_on_alone = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    if rustix::process::getppid() != Some(parent) {
        exit_now(OWN_FAILURE);
    }
    before.restore();
}

fn stand_for(command: Pid, signals: &Signals, vigil: &mut dyn Vigil) -> ! {
    // This process has the command's streams, and whatever else was handed down, but no use for them.
    let kept = vigil.kept();
    keep_only(&[&kept[..], &[signals.as_fd().as_raw_fd()]].concat());
    let status = loop {
        let others = wait(signals, vigil);
        let ended =
            std::iter::from_fn(|| signals.take()).filter_map(|arrived| pass_on(arrived, command)).last();
        if let Some(status) = ended {
            break status;
        }
        if others {
            vigil.called();
        }
    };
    let failed = vigil.ended();
    match (status.terminating_signal(), status.exit_status()) {
        (Some(signal), _) => wrapper::end_by(signal),
        (None, Some(0)) => exit_now(failed.map_or(0, i32::from)),
        (None, Some(code)) => exit_now(code),
        (None, None) => exit_now(OWN_FAILURE),
    }
}

/// Waits for a signal, or for what the vigil waits for. Tells whether that has come.
fn wait(signals: &Signals, vigil: &dyn Vigil) -> bool {
    let mut polled: Vec<PollFd<'_>> = [Some(signals.as_fd()), vigil.polled()]
        .into_iter()
        .flatten()
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    let _interrupted = poll(&mut polled, None);
    polled.get(1).is_some_and(|other| !other.revents().is_empty())
}

/// Sends a signal on to the command, or returns the command's end, if that is what it tells.
fn pass_on(Arrived { signal, sender }: Arrived, command: Pid) -> Option<WaitStatus> {
    if signal == Signal::CHILD.as_raw() {
        return watch(command);
    }
    if sender.is_some_and(|sender| sender != command.as_raw_nonzero().get()) {
        wrapper::send(command, signal);
    }
    None
}

/// Ends this process by `signal`, so that a parent sees the end of the command that it stood for.
pub fn end_by_signal(signal: i32) -> ! {
    wrapper::end_by(signal)
}

/// Watches the command: returns its end, if that has come. This process stops when the command stops.
fn watch(command: Pid) -> Option<WaitStatus> {
    loop {
        match rustix::process::waitpid(Some(command), WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((_, status))) if status.stopped() => {
                let _until_it_is_continued =
                    rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
            }
            Ok(Some((_, status))) => return Some(status),
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Asks the holder, or the one after it, to write this rank's files now. Without an answer it will do so at the end.
fn have_it_written(place: &MeetingPlace) {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(connection) = place.visit() {
            let _waits_longer = set_socket_timeout(&connection, Timeout::Recv, Some(PATIENCE));
            if send(&connection, &FromRank::Report, &[]).is_ok()
                && matches!(receive::<FromServer>(&connection), Ok(Some((FromServer::Written, _))))
            {
                return;
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// The time for which a command's end may be put off. A holder answers in milliseconds, unless the file system is slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Between two attempts, while a dead holder is replaced.
const PAUSE: Duration = Duration::from_millis(20);

/// Exit status when it is our failure.
const OWN_FAILURE: i32 = 125;
