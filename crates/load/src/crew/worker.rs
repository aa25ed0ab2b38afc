//! A process of the load: prepares what it is told to, waits for the start, does it, tells how long it took.

use super::computing::Computing;
use super::protocol::{Done, Hello, LONGEST, Names, Order, Reply, Task, VERSION};
use super::{data, look::Looker, steps};
use crate::operation::{Operation, RENAMED, Target, Took, elapsed, reopen, resolve};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{CStr, CString, OsStr};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// An operation that failed: on what, and how.
pub(super) type Failed = (String, Errno);

/// What was prepared; it runs when the start is given.
pub(super) type Prepared<'a> = Box<dyn FnOnce() -> Result<Done, Failed> + 'a>;

/// Serves the one that leads, in the directory that its first order names. When `orders` ends, `leave` is called at once, by another thread and whatever
/// is being done: it has to end the process, so that nothing is made any more in a directory that is being removed.
///
/// **Errors**: those of the two streams; a line that is no order ends it as `InvalidData`.
pub fn serve(
    orders: impl Read + Send + 'static,
    mut replies: impl Write,
    leave: impl FnOnce() + Send + 'static,
) -> std::io::Result<()> {
    use_all_descriptors();
    let orders = received(orders, leave);
    let directory = match next(&orders)? {
        Some(Order::Directory(directory)) => directory,
        Some(Order::Task(_) | Order::Go) => return Err(std::io::ErrorKind::InvalidData.into()),
        None => return Ok(()),
    };
    let root = match open_directory(rustix::fs::CWD, OsStr::from_bytes(&directory)) {
        Ok(root) => root,
        Err(errno) => {
            return reply(&mut replies, &Reply::Failed { name: String::new(), errno: errno.raw_os_error() });
        }
    };
    reply(&mut replies, &Reply::Hello(hello(root.as_fd())?))?;
    let mut looker = Looker::new(root.as_fd());
    while let Some(order) = next(&orders)? {
        let Order::Task(task) = order else { return Err(std::io::ErrorKind::InvalidData.into()) };
        let done = match prepare(&task, root.as_fd(), &mut looker) {
            Ok(prepared) => {
                reply(&mut replies, &Reply::Ready)?;
                match next(&orders)? {
                    Some(Order::Go) => timed(prepared),
                    Some(Order::Task(_) | Order::Directory(_)) => {
                        return Err(std::io::ErrorKind::InvalidData.into());
                    }
                    None => return Ok(()),
                }
            }
            Err(failed) => Err(failed),
        };
        let said = match done {
            Ok(done) => Reply::Done(done),
            Err((name, errno)) => Reply::Failed { name, errno: errno.raw_os_error() },
        };
        reply(&mut replies, &said)?;
    }
    Ok(())
}

/// Lets this process, and those that it starts, have as many files open as the system allows; the usual soft limit is 1024.
pub(super) fn use_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where that is refused the phases that need many are made smaller.
    _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Orders as they come in.
fn received(orders: impl Read + Send + 'static, leave: impl FnOnce() + Send + 'static) -> Orders {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut orders = BufReader::new(orders);
        while let Some(order) = read(&mut orders).transpose() {
            if sender.send(order).is_err() {
                return;
            }
        }
        leave();
    });
    receiver
}

type Orders = mpsc::Receiver<std::io::Result<Order>>;

fn next(orders: &Orders) -> std::io::Result<Option<Order>> {
    orders.recv().ok().transpose()
}

fn read(orders: &mut impl BufRead) -> std::io::Result<Option<Order>> {
    let mut line = String::new();
    if orders.take(LONGEST).read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

fn reply(replies: &mut impl Write, reply: &Reply) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    replies.write_all(&line)?;
    replies.flush()
}

fn hello(root: BorrowedFd<'_>) -> std::io::Result<Hello> {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let device = rustix::fs::fstat(root)?.st_dev;
    Ok(Hello { version: VERSION, kernel: kernel.trim().to_owned(), device })
}

fn prepare<'a>(
    task: &'a Task,
    root: BorrowedFd<'a>,
    looker: &'a mut Looker<'_>,
) -> Result<Prepared<'a>, Failed> {
    match task {
        Task::Names(names) => prepare_names(names, root),
        Task::Data(data) => data::prepare(data, root),
        Task::Look(look) => Ok(Box::new(|| looker.look(look))),
        Task::Steps(task) => steps::prepare(task, root),
        Task::Change(change) => Ok(Box::new(|| looker.change(change))),
    }
}

fn timed(prepared: Prepared<'_>) -> Result<Done, Failed> {
    let (began, cpu) = (now(ClockId::Monotonic), now(ClockId::ProcessCPUTime));
    let mut done = prepared()?;
    (done.began, done.ended) = (began, now(ClockId::Monotonic));
    done.cpu_us = now(ClockId::ProcessCPUTime).saturating_sub(cpu) / 1000;
    Ok(done)
}

pub(super) fn now(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    u64::try_from(now.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000)
        + u64::try_from(now.tv_nsec).unwrap_or(0)
}

pub(super) fn open_directory(at: BorrowedFd<'_>, path: impl rustix::path::Arg) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(at, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// What one thread does, made before the clock runs.
struct Share {
    directory: OwnedFd,
    names: Vec<Named>,
}

struct Named {
    name: CString,
    other: CString,
    resolved: Option<OwnedFd>,
}

fn prepare_names<'a>(names: &'a Names, root: BorrowedFd<'_>) -> Result<Prepared<'a>, Failed> {
    // Names of operations by descriptor are asked for here: at once, as each takes round trips.
    let shares = std::thread::scope(|scope| {
        let share = |thread| scope.spawn(move || prepare_share(names, root, thread));
        let running: Vec<_> = (0..names.threads.max(1)).map(share).collect();
        running.into_iter().map(joined).collect::<Result<Vec<_>, Failed>>()
    })?;
    Ok(Box::new(move || {
        let limit = Limit::of(names.limit_ms);
        match &shares[..] {
            [share] => run_share(names, share, limit),
            shares => in_threads(shares.len(), |thread| run_share(names, &shares[thread], limit)),
        }
    }))
}

fn prepare_share(names: &Names, root: BorrowedFd<'_>, thread: u16) -> Result<Share, Failed> {
    let directories = &names.directories;
    let own = directories.get(usize::from(thread) % directories.len().max(1));
    let own = own.ok_or_else(|| (String::new(), Errno::INVAL))?;
    let directory = open_directory(root, own.as_str()).map_err(|errno| (own.clone(), errno))?;
    let number =
        |k: u64| names.first.saturating_add(thread.into()).saturating_add(k.saturating_mul(names.stride));
    let count =
        if names.operation.is_by_descriptor() { names.count.min(room(names.threads)) } else { names.count };
    let named = (0..count).map(|k| named(names, number(k), &directory)).collect::<Result<_, Failed>>()?;
    Ok(Share { directory, names: named })
}

/// Names that each of so many threads may hold open: a phase of fewer is as good a measurement.
fn room(threads: u16) -> u64 {
    let threads = u64::from(threads.max(1));
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    (limit.saturating_sub(SPARE) / threads).saturating_sub(OF_THREAD).max(1)
}

/// Descriptors of the process beside those: streams, directories, entries that are watched.
const SPARE: u64 = 256;
/// Descriptors of a thread beside its names: its directory, and what is open for a moment.
const OF_THREAD: u64 = 4;

fn named(names: &Names, number: u64, directory: &OwnedFd) -> Result<Named, Failed> {
    let text = format!("{}{number:06}{}", names.prefix, names.suffix);
    let invalid = |_| (text.clone(), Errno::INVAL);
    let name = CString::new(text.as_str()).map_err(invalid)?;
    let other = CString::new(format!("{text}{RENAMED}")).map_err(invalid)?;
    let resolved = match names.operation.is_by_descriptor() {
        true => Some(resolved(names.operation, directory, &name).map_err(|errno| (text.clone(), errno))?),
        false => None,
    };
    Ok(Named { name, other, resolved })
}

/// A descriptor for the name. A file that is to be opened again has been open before: a client may have fetched what the
/// first open needs along with the name.
fn resolved(operation: Operation, directory: &OwnedFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let resolved = resolve(directory.as_fd(), name)?;
    if operation == Operation::Reopen {
        drop(reopen(resolved.as_fd())?);
    }
    Ok(resolved)
}

/// When to begin no further operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    began: Instant,
    lasts: Duration,
}

impl Limit {
    pub(super) fn of(milliseconds: u64) -> Self {
        Self { began: Instant::now(), lasts: Duration::from_millis(milliseconds) }
    }

    pub(super) fn is_over(&self) -> bool {
        elapsed(self.began) >= u64::try_from(self.lasts.as_nanos()).unwrap_or(u64::MAX)
    }
}

fn run_share(names: &Names, share: &Share, limit: Limit) -> Result<Done, Failed> {
    let mut done = Done::default();
    let mut computing = Computing::new(names.computing_us);
    let directory = share.directory.as_fd();
    for Named { name, other, resolved } in &share.names {
        if limit.is_over() {
            break;
        }
        done.computed += computing.run(names.computing_us);
        let target = Target { directory, name, other, resolved: resolved.as_ref() };
        let took =
            target.apply(names.operation).map_err(|errno| (name.to_string_lossy().into_owned(), errno))?;
        done.add(took);
    }
    Ok(done)
}

/// What several threads of one process did, as one.
pub(super) fn in_threads(
    threads: usize,
    share: impl Fn(usize) -> Result<Done, Failed> + Sync,
) -> Result<Done, Failed> {
    let share = &share;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let mut sum = Done::default();
        for thread in running {
            let done = joined(thread)?;
            sum.count += done.count;
            sum.latencies.extend(done.latencies);
            sum.closes.extend(done.closes);
            sum.computed += done.computed;
        }
        Ok(sum)
    })
}

/// What a thread returned. A panic of it is one of ours, and goes on.
fn joined<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

impl Done {
    /// One more operation.
    pub(super) fn add(&mut self, took: Took) {
        self.count += 1;
        self.latencies.push(took.operation);
        self.closes.extend(took.close);
    }
}
