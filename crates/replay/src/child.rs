//! A process of a replay: this program again, with one socket as its standard input.

use super::tally::ReplayTally;
use quell_talk::{receive, send, send_files};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first message to a process. The package comes along, then one file for each slot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessOrder {
    /// The recorded process that it plays.
    pub(super) process: u32,
    /// The rank that it belongs to.
    pub(super) rank: u32,
    /// True if it waits for [`StartSignal::Begin`], as ranks do.
    pub(super) waits: bool,
    /// The slots that it is given.
    pub(super) slots: Vec<u32>,
}

/// A message between a rank and the conductor before all begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StartSignal {
    /// From the rank: it stands where the program was started.
    Ready,
    /// From the conductor: all ranks are ready.
    Begin,
}

/// The report of a process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProcessReport {
    /// From the signal to begin to the end of all processes that it started.
    pub(super) nanos: u64,
    pub(super) tally: ReplayTally,
}

/// The first argument by which a process of a replay knows what it is; no command has this name.
pub const ARGUMENT: &str = "replay-process";
/// This program, however it was started; no path is walked for it.
pub(super) const OURSELVES: &str = "/proc/self/exe";

/// A process that was started.
#[derive(Debug)]
pub(super) struct PlayingProcess {
    pub(super) socket: UnixStream,
    process: std::process::Child,
}

impl PlayingProcess {
    /// Starts a process that plays what `order` says, with these open files.
    pub(super) fn start(
        order: &ProcessOrder,
        package: &File,
        files: &[BorrowedFd<'_>],
    ) -> std::io::Result<Self> {
        Self::start_as(Path::new(OURSELVES), order, package, files)
    }

    /// The same, by another path to this program.
    pub(super) fn start_as(
        program: &Path,
        order: &ProcessOrder,
        package: &File,
        files: &[BorrowedFd<'_>],
    ) -> std::io::Result<Self> {
        let (mut socket, theirs) = UnixStream::pair()?;
        let mut command = Command::new(program);
        command
            .arg0("quell-replay")
            .arg(ARGUMENT)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null());
        let process = command.spawn()?;
        drop(command);
        send(&mut socket, order)?;
        let files: Vec<BorrowedFd<'_>> =
            std::iter::once(package.as_fd()).chain(files.iter().copied()).collect();
        send_files(&socket, &files)?;
        Ok(Self { socket, process })
    }

    /// Waits for its report and its end.
    pub(super) fn report(&mut self) -> std::io::Result<ProcessReport> {
        let report = receive(&mut self.socket);
        // It may still wait for our end of the socket only where it failed.
        _ = self.socket.shutdown(Shutdown::Both);
        self.process.wait()?;
        report
    }

    /// Ends it, whatever it is doing.
    pub(super) fn end(&mut self) {
        _ = self.socket.shutdown(Shutdown::Both);
        _ = self.process.wait();
    }
}
