//! The controlling terminal and its foreground group.

use crate::facts;
use quell_trace::Pid;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid as KernelPid;
use rustix::termios::{tcgetpgrp, tcsetpgrp};
use std::os::fd::OwnedFd;

/// The controlling terminal of this process.
#[derive(Debug)]
pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    /// `None` for a process without terminal.
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(Self)
    }

    /// The process group that may read from it.
    pub(crate) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.0).ok().map(|group| Pid(group.as_raw_nonzero().get()))
    }

    /// True when this process is in that group.
    pub(crate) fn is_ours(&self) -> bool {
        self.foreground() == group_of(facts::ourselves())
    }

    /// Puts another group of the session in the foreground.
    pub(crate) fn give_to(&self, group: Pid) {
        if let Some(group) = KernelPid::from_raw(group.0) {
            // The group may be gone, and then the terminal stays.
            _ = tcsetpgrp(&self.0, group);
        }
    }
}

/// The process group of a process.
pub(crate) fn group_of(process: Pid) -> Option<Pid> {
    let group = rustix::process::getpgid(KernelPid::from_raw(process.0)).ok()?;
    Some(Pid(group.as_raw_nonzero().get()))
}
