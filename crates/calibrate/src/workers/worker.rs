//! A worker process: prepares its task, waits for the start, does it, and reports how long it took.

use super::phase::{Failed, PreparedPhase, now, open_directory};
use super::protocol::{LeaderOrder, PhaseResult, PhaseTask, VERSION, WorkerHello, WorkerReply};
use super::{data, look::Looker, names, steps};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::ClockId;
use std::ffi::OsStr;
use std::io::{ErrorKind, Read, Result, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc;

/// Serves the leader, in the directory that its first order names. When `orders` ends, another thread calls `leave` at once,
/// whatever is being done: it must end the process, so that nothing is made any more in a directory that is being removed.
///
/// # Errors
/// Those of the two streams; `InvalidData` for a message that is no order, or out of turn.
pub fn serve(
    orders: impl Read + Send + 'static,
    mut replies: impl Write,
    leave: impl FnOnce() + Send + 'static,
) -> Result<()> {
    use_all_descriptors();
    let orders = received(orders, leave);
    let directory = match next(&orders)? {
        Some(LeaderOrder::Directory(directory)) => directory,
        Some(LeaderOrder::Task(_) | LeaderOrder::Go) => return Err(ErrorKind::InvalidData.into()),
        None => return Ok(()),
    };
    let root = match open_directory(rustix::fs::CWD, OsStr::from_bytes(&directory)) {
        Ok(root) => root,
        Err(errno) => return quell_talk::send(&mut replies, &failed((String::new(), errno))),
    };
    quell_talk::send(&mut replies, &WorkerReply::Hello(hello(root.as_fd())?))?;
    let mut looker = Looker::new(root.as_fd());
    while let Some(order) = next(&orders)? {
        let LeaderOrder::Task(task) = order else { return Err(ErrorKind::InvalidData.into()) };
        let done = match prepare(&task, root.as_fd(), &mut looker) {
            Ok(prepared) => {
                quell_talk::send(&mut replies, &WorkerReply::Ready)?;
                match next(&orders)? {
                    Some(LeaderOrder::Go) => timed(prepared),
                    Some(LeaderOrder::Task(_) | LeaderOrder::Directory(_)) => {
                        return Err(ErrorKind::InvalidData.into());
                    }
                    None => return Ok(()),
                }
            }
            Err(failed) => Err(failed),
        };
        quell_talk::send(&mut replies, &done.map_or_else(failed, WorkerReply::Done))?;
    }
    Ok(())
}

fn failed((name, errno): Failed) -> WorkerReply {
    WorkerReply::Failed { name, errno: errno.raw_os_error() }
}

/// Lets this process, and those that it starts, have as many files open as the system allows; the usual soft limit is 1024.
pub(super) fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // If that is refused, phases that need many descriptors are smaller.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

type Orders = mpsc::Receiver<Result<LeaderOrder>>;

/// Orders as they come in.
fn received(mut orders: impl Read + Send + 'static, leave: impl FnOnce() + Send + 'static) -> Orders {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        loop {
            match quell_talk::receive(&mut orders) {
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return leave(),
                order => {
                    let is_last = order.is_err();
                    if sender.send(order).is_err() || is_last {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// The next order; `None` when there are no more.
fn next(orders: &Orders) -> Result<Option<LeaderOrder>> {
    orders.recv().ok().transpose()
}

fn hello(root: BorrowedFd<'_>) -> Result<WorkerHello> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = rustix::fs::fstat(root)?.st_dev;
    Ok(WorkerHello { version: VERSION, kernel: kernel.trim().to_owned(), device })
}

fn prepare<'a>(
    task: &'a PhaseTask,
    root: BorrowedFd<'a>,
    looker: &'a mut Looker<'_>,
) -> std::result::Result<PreparedPhase<'a>, Failed> {
    match task {
        PhaseTask::Names(names) => names::prepare(names, root),
        PhaseTask::Data(data) => data::prepare(data, root),
        PhaseTask::Look(look) => Ok(Box::new(|| looker.look(look))),
        PhaseTask::Steps(task) => steps::prepare(task, root),
        PhaseTask::Change(change) => Ok(Box::new(|| looker.change(change))),
    }
}

fn timed(prepared: PreparedPhase<'_>) -> std::result::Result<PhaseResult, Failed> {
    let began = now(ClockId::Monotonic);
    let mut done = prepared()?;
    (done.began, done.ended) = (began, now(ClockId::Monotonic));
    Ok(done)
}
