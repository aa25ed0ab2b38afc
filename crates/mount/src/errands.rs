//! Errands after the last process of a namespace: removing a published outcome of the check, refreshing the image.
//!
//! The holder does it when all is over, and no rank waits for it. A refresh is a process of its own, with the lowest priority
//! and no descriptor of the job. Where a launcher kills the holder first, nothing is done: the image is as it was.

use std::ffi::CString;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, Stat};
use rustix::io::{Errno, FdFlags};
use serde::{Deserialize, Serialize};

use crate::published::remove_own;
use crate::request::path_of;
use crate::sys::process::{Forked, SingleThreaded, close_all_but, exec, exit_now, fork, reset_signals};

/// The errands of one rank.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errands {
    /// A file that this rank published, with its inode number: bytes of an absolute path.
    pub(crate) remove: Option<(Vec<u8>, u64)>,
    pub(crate) refresh: Option<RefreshErrand>,
}

/// An image to make anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RefreshErrand {
    /// Bytes of an absolute path.
    pub(crate) image: Vec<u8>,
    /// The file that was run: another one was refreshed by another job.
    pub(crate) version: FileVersion,
    /// Arguments of this program.
    pub(crate) arguments: Vec<Vec<u8>>,
}

/// Inode number and time of modification.
pub(crate) type FileVersion = (u64, i64, u64);

/// The version that `stat` shows.
pub(crate) fn version_of(stat: &Stat) -> FileVersion {
    (stat.st_ino, stat.st_mtime, stat.st_mtime_nsec)
}

impl Errands {
    /// Does them all, in a process with one thread.
    pub(crate) fn run(&self) {
        if let Some((path, inode)) = &self.remove {
            remove_own(&path_of(path.clone()), *inode);
        }
        if let (Some(refresh), Some(alone)) = (&self.refresh, SingleThreaded::verify())
            && let Ok(Forked::Child) = fork(&alone)
        {
            let _stays_as_it_is = refresh.become_refresher();
            exit_now(1);
        }
    }
}

impl RefreshErrand {
    /// Becomes the refreshing program, unless another process is at it.
    fn become_refresher(&self) -> Result<(), Errno> {
        let _already_leader = rustix::process::setsid();
        close_all_but(&[]);
        reset_signals(&[]);
        let _as_it_was = rustix::process::setpriority_process(None, LOWEST);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let image = rustix::fs::openat(CWD, path_of(self.image.clone()), flags, Mode::empty())?;
        // Held until the new image is in place. Where locks do not work, two may do the same.
        if rustix::fs::flock(&image, FlockOperation::NonBlockingLockExclusive) == Err(Errno::AGAIN)
            || version_of(&rustix::fs::fstat(&image)?) != self.version
        {
            return Ok(());
        }
        rustix::io::fcntl_setfd(&image, FdFlags::empty())?;
        let argument = |argument: &Vec<u8>| CString::new(argument.clone()).map_err(|_| Errno::INVAL);
        let arguments: Vec<CString> = self.arguments.iter().map(argument).collect::<Result<_, _>>()?;
        Err(exec(c"/proc/self/exe", &arguments))
    }
}

/// Source: setpriority(2).
const LOWEST: i32 = 19;
