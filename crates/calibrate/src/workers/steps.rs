//! Files and directories whose names are resolved, left alone for a while, then opened, looked at and read step by step: whether a
//! step asks a server shows in how long it takes.

use super::computing::Computing;
use super::phase::{Failed, PreparedPhase, open_directory};
use super::protocol::{CallSteps, CallSubject, PhaseResult};
use crate::operation::{OperationTime, elapsed, entries, reopen, resolve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::CString;
use std::time::{Duration, Instant};

/// The content of a file: a page, so that reading it asks for data.
const PAGE: [u8; 4096] = [0x51; 4096];

/// The directory within each directory that is listed.
const WITHIN: &str = "within";
/// No file has this name.
const ABSENT: &str = "absent";

pub(super) fn prepare<'a>(steps: &'a CallSteps, root: BorrowedFd<'a>) -> Result<PreparedPhase<'a>, Failed> {
    let failed = |errno| (steps.directory.clone(), errno);
    if steps.of == CallSubject::New {
        return Ok(Box::new(move || make(steps, root).map_err(failed)));
    }
    let directory = open_directory(root, steps.directory.as_str()).map_err(failed)?;
    let resolved = (0..steps.count).map(|number| {
        let name = CString::new(name(steps.of, number)).map_err(|_| Errno::INVAL)?;
        resolve(directory.as_fd(), &name)
    });
    let resolved = resolved.collect::<Result<Vec<OwnedFd>, Errno>>().map_err(failed)?;
    std::thread::sleep(Duration::from_millis(steps.rest_ms));
    let step = if steps.of == CallSubject::Files { of_file } else { of_directory };
    Ok(Box::new(move || {
        let mut clock = StepClock::new(steps.computing_us);
        for resolved in &resolved {
            step(resolved.as_fd(), &mut clock).map_err(failed)?;
        }
        Ok(clock.done)
    }))
}

fn name(of: CallSubject, number: u64) -> String {
    let kind = if of == CallSubject::Files { 'f' } else { 'd' };
    format!("{kind}{number:06}")
}

/// Makes both kinds, `count` of each.
fn make(steps: &CallSteps, root: BorrowedFd<'_>) -> Result<PhaseResult, Errno> {
    let directory = open_directory(root, steps.directory.as_str())?;
    let (flags, mode) = (OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o755));
    for number in 0..steps.count {
        let file = rustix::fs::openat(&directory, name(CallSubject::Files, number), flags, mode)?;
        if rustix::io::write(&file, &PAGE)? != PAGE.len() {
            return Err(Errno::IO);
        }
        let listed = name(CallSubject::Directories, number);
        rustix::fs::mkdirat(&directory, &listed, mode)?;
        rustix::fs::mkdirat(&directory, format!("{listed}/{WITHIN}"), mode)?;
    }
    Ok(PhaseResult { count: steps.count, ..PhaseResult::default() })
}

/// Times calls, each after some computing.
#[derive(Debug)]
struct StepClock {
    computing: Computing,
    computing_us: u64,
    done: PhaseResult,
}

impl StepClock {
    fn new(computing_us: u64) -> Self {
        Self { computing: Computing::new(computing_us), computing_us, done: PhaseResult::default() }
    }

    fn time<T>(&mut self, step: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
        self.done.computed += self.computing.run(self.computing_us);
        let began = Instant::now();
        let result = step()?;
        self.done.add(OperationTime { operation: elapsed(began), close: None });
        Ok(result)
    }
}

/// The calls of [`FileStep`](super::protocol::FileStep), in its order.
fn of_file(resolved: BorrowedFd<'_>, clock: &mut StepClock) -> Result<(), Errno> {
    let file = clock.time(|| reopen(resolved))?;
    clock.time(|| rustix::fs::fstat(&file))?;
    clock.time(|| rustix::io::pread(&file, &mut [0; 1], 0))?;
    clock.time(|| rustix::fs::fstat(&file))?;
    clock.time(|| {
        drop(file);
        Ok(())
    })
}

/// The calls of [`DirectoryStep`](super::protocol::DirectoryStep), in its order. Of two looks at the absent name the second is timed: the
/// first asks the server.
fn of_directory(resolved: BorrowedFd<'_>, clock: &mut StepClock) -> Result<(), Errno> {
    let directory = clock.time(|| open_directory(resolved, "."))?;
    clock.time(|| entries(directory.as_fd()))?;
    clock.time(|| rustix::fs::statat(&directory, WITHIN, AtFlags::empty()))?;
    let look_at_absent = || match rustix::fs::statat(&directory, ABSENT, AtFlags::empty()) {
        Err(Errno::NOENT) => Ok(()),
        other => other.map(drop),
    };
    look_at_absent()?;
    clock.time(look_at_absent)
}
