//! The leader's side: worker processes of one client, started or connected to, given tasks, and ended.

use super::protocol::{DataAccess, LeaderOrder, PhaseResult, PhaseTask, VERSION, WorkerHello, WorkerReply};
use super::worker::use_all_descriptors;
use crate::error::CalibrateError;
use quell_talk::{Patience, Stop};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::ffi::OsString;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A worker that says nothing for so long, beyond the limit of its phase, hangs with its file system.
const PATIENCE: Duration = Duration::from_secs(120);

/// The time in which a worker may end by itself.
const FAREWELL: Duration = Duration::from_secs(1);

/// The delay of our own flag after a signal that all processes get.
const FLAG: Duration = Duration::from_millis(20);

/// Worker processes of one client.
#[derive(Debug)]
pub(crate) struct WorkerGroup {
    workers: Vec<Worker>,
}

/// One process.
#[derive(Debug)]
struct Worker {
    name: String,
    /// `None` for a process that another one started.
    child: Option<Child>,
    /// Its end tells the process to end; `None` only while this value goes away.
    orders: Option<File>,
    replies: File,
    hello: Option<WorkerHello>,
}

impl WorkerGroup {
    /// Starts `count` processes by `command` and waits until each has opened the working directory.
    pub(crate) fn start(
        command: &[OsString],
        directory: &Path,
        count: usize,
        name: &str,
        stop: Stop<'_>,
    ) -> Result<Self, CalibrateError> {
        // Each process has two pipes here.
        use_all_descriptors();
        let named = |number| if count == 1 { name.to_owned() } else { format!("{name} {number}") };
        let started = (0..count).map(|number| Worker::start(command, named(number)));
        Self::greeted(started.collect::<Result<_, _>>()?, directory, stop)
    }

    /// A worker that serves at the other end of a connection.
    pub(crate) fn over(
        stream: &File,
        directory: &Path,
        name: String,
        stop: Stop<'_>,
    ) -> Result<Self, CalibrateError> {
        let streams = stream.try_clone().and_then(|orders| Ok((orders, stream.try_clone()?)));
        let (orders, replies) =
            streams.map_err(|source| CalibrateError::Start { process: name.clone(), source })?;
        let worker = Worker { name, child: None, orders: Some(orders), replies, hello: None };
        Self::greeted(vec![worker], directory, stop)
    }

    /// Waits until each has opened the working directory.
    fn greeted(mut workers: Vec<Worker>, directory: &Path, stop: Stop<'_>) -> Result<Self, CalibrateError> {
        for worker in &mut workers {
            // To one that has ended nothing can be said; the greeting then tells how it ended.
            _ = worker.order(&LeaderOrder::Directory(directory.as_os_str().as_bytes().to_vec()));
        }
        for worker in &mut workers {
            worker.greet(stop)?;
        }
        Ok(Self { workers })
    }

    /// True if both use one mount of one kernel, and so one cache.
    pub(crate) fn shares_client_with(&self, other: &Self) -> bool {
        let client = |group: &Self| group.workers.first().and_then(|worker| worker.hello.clone());
        let (ours, theirs) = (client(self), client(other));
        ours.is_some_and(|ours| {
            !ours.kernel.is_empty()
                && theirs.is_some_and(|theirs| (ours.kernel, ours.device) == (theirs.kernel, theirs.device))
        })
    }

    /// One task for each of the first workers, all at once. Shape: one result a task.
    pub(crate) fn run(
        &mut self,
        tasks: Vec<PhaseTask>,
        stop: Stop<'_>,
    ) -> Result<Vec<PhaseResult>, CalibrateError> {
        together(vec![(self, tasks)], stop)
    }

    /// One task for one worker.
    pub(crate) fn one(&mut self, task: PhaseTask, stop: Stop<'_>) -> Result<PhaseResult, CalibrateError> {
        Ok(self.run(vec![task], stop)?.pop().unwrap_or_default())
    }
}

/// Tasks of several groups behind one barrier. Shape: the results of the first group, then those of the next.
pub(crate) fn together(
    groups: Vec<(&mut WorkerGroup, Vec<PhaseTask>)>,
    stop: Stop<'_>,
) -> Result<Vec<PhaseResult>, CalibrateError> {
    let mut busy = Vec::new();
    for (group, tasks) in groups {
        for (worker, task) in group.workers.iter_mut().zip(tasks) {
            busy.push((worker, task));
        }
    }
    for (worker, task) in &mut busy {
        worker.order(&LeaderOrder::Task(task.clone()))?;
    }
    for (worker, task) in &mut busy {
        match worker.reply(task.patience(), stop)? {
            WorkerReply::Ready => {}
            reply => return Err(worker.refused(task, reply)),
        }
    }
    for (worker, _) in &mut busy {
        worker.order(&LeaderOrder::Go)?;
    }
    let results = busy.iter_mut().map(|(worker, task)| match worker.reply(task.patience(), stop)? {
        WorkerReply::Done(done) => Ok(done),
        reply => Err(worker.refused(task, reply)),
    });
    results.collect()
}

impl Worker {
    fn start(command: &[OsString], name: String) -> Result<Self, CalibrateError> {
        let failed = |source| CalibrateError::Start { process: name.clone(), source };
        let (program, arguments) =
            command.split_first().ok_or_else(|| failed(ErrorKind::InvalidInput.into()))?;
        let mut process = Command::new(program);
        process.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.spawn().map_err(failed)?;
        let (Some(orders), Some(replies)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(ErrorKind::BrokenPipe.into()));
        };
        let file = |stream: OwnedFd| File::from(stream);
        let (orders, replies) = (file(orders.into()), file(replies.into()));
        Ok(Self { name, child: Some(child), orders: Some(orders), replies, hello: None })
    }

    fn greet(&mut self, stop: Stop<'_>) -> Result<(), CalibrateError> {
        match self.reply(PATIENCE, stop)? {
            WorkerReply::Hello(hello) if hello.version == VERSION => {
                self.hello = Some(hello);
                Ok(())
            }
            WorkerReply::Hello(_) => Err(self.fault("is another version of quell")),
            WorkerReply::Failed { errno, .. } => {
                let errno = Errno::from_raw_os_error(errno);
                Err(CalibrateError::operation("open", "the working directory", &self.name, errno))
            }
            WorkerReply::Ready | WorkerReply::Done(_) => {
                Err(self.fault("did not begin as a worker of quell does"))
            }
        }
    }

    fn order(&mut self, order: &LeaderOrder) -> Result<(), CalibrateError> {
        let sent = self.orders.as_mut().map(|orders| quell_talk::send(orders, order));
        sent.and_then(Result::ok).ok_or_else(|| self.fault("ended early"))
    }

    fn reply(&mut self, time: Duration, stop: Stop<'_>) -> Result<WorkerReply, CalibrateError> {
        let patience = Patience::lasting(time, stop);
        let reply = quell_talk::receive(&mut patience.listen(&mut self.replies));
        reply.map_err(|error| match error.kind() {
            ErrorKind::ConnectionAborted => CalibrateError::Interrupted,
            ErrorKind::TimedOut => {
                let minutes = time.as_secs().div_ceil(60);
                self.fault(&format!("has not answered for {minutes} minutes: its file system hangs"))
            }
            ErrorKind::UnexpectedEof => {
                // A Ctrl-C ends it too, perhaps before our own flag is up.
                std::thread::sleep(FLAG);
                if stop() { CalibrateError::Interrupted } else { self.fault("ended early") }
            }
            _ => self.fault("said what no worker of quell says"),
        })
    }

    fn refused(&self, task: &PhaseTask, reply: WorkerReply) -> CalibrateError {
        match reply {
            WorkerReply::Failed { name, errno } => {
                CalibrateError::operation(task.name(), &name, &self.name, Errno::from_raw_os_error(errno))
            }
            _ => self.fault("answered out of turn"),
        }
    }

    fn fault(&self, what: &str) -> CalibrateError {
        CalibrateError::Process { process: self.name.clone(), what: what.to_owned() }
    }
}

impl Drop for Worker {
    /// Ends the process that was started here: by the end of its orders, so that one on another node ends too; after a second
    /// by `SIGKILL`, as one that hangs in its file system must not keep us.
    fn drop(&mut self) {
        drop(self.orders.take());
        let Some(child) = &mut self.child else {
            // The caller still has the connection. The process at its other end must make nothing from now on.
            _ = rustix::net::shutdown(&self.replies, Shutdown::Both);
            return;
        };
        let began = Instant::now();
        while began.elapsed() < FAREWELL && matches!(child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Over already is as good.
        _ = child.kill();
        _ = child.wait();
    }
}

impl PhaseTask {
    /// Its name in errors.
    fn name(&self) -> &'static str {
        match self {
            Self::Names(names) => names.operation.name(),
            Self::Data(data) if data.access == DataAccess::Write => "write",
            Self::Data(_) => "read",
            Self::Look(_) => "look",
            Self::Change(_) => "change",
            Self::Steps(_) => "single calls",
        }
    }

    /// The longest wait for an answer.
    fn patience(&self) -> Duration {
        let limit_ms = match self {
            Self::Names(names) => names.limit_ms,
            Self::Data(data) => data.limit_ms,
            Self::Look(_) | Self::Change(_) | Self::Steps(_) => 0,
        };
        PATIENCE.saturating_add(Duration::from_millis(limit_ms))
    }
}
