//! Processes that do the same phase at once: on this client, and one on a second client behind a command prefix.
//!
//! Processes, not threads only: clients serialise per process or per client in different ways, and ranks are processes. A
//! barrier is a line: a worker says when it is ready, and when all have, each is told to go (mdtest does the same by
//! `MPI_Barrier`). Starts and ends come from the workers' own monotonic clock, so the way through the pipes is not
//! counted.

mod computing;
mod data;
mod look;
mod protocol;
mod steps;
mod worker;

pub(crate) use data::SPOT;
pub use protocol::{Access, Aspect};
pub(crate) use protocol::{Change, Data, Done, Look, Names, Steps, Subject, Task};
pub use worker::serve;

use crate::LoadError;
use protocol::{Hello, LONGEST, Order, Reply, VERSION};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// When the caller wants the load to end.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// How often a wait looks whether the caller wants to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// A worker that says nothing for so long, beyond the limit of its phase, hangs with its file system.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a worker may take to end by itself.
const FAREWELL: Duration = Duration::from_secs(1);

/// Worker processes of one client.
#[derive(Debug)]
pub(crate) struct Crew {
    workers: Vec<Worker>,
}

/// One process, and the thread that reads what it says.
#[derive(Debug)]
struct Worker {
    name: String,
    child: Child,
    /// Its end tells the process to end; `None` only while this value goes away.
    orders: Option<ChildStdin>,
    replies: Receiver<std::io::Result<Reply>>,
    hello: Option<Hello>,
}

impl Crew {
    /// Starts `count` processes by `command` and waits until each has opened the working directory.
    pub(crate) fn start(
        command: &[OsString],
        directory: &Path,
        count: usize,
        name: &str,
        stop: Stop<'_>,
    ) -> Result<Self, LoadError> {
        // Each process has two pipes here.
        worker::use_all_descriptors();
        let named = |number| if count == 1 { name.to_owned() } else { format!("{name} {number}") };
        let started = (0..count).map(|number| Worker::start(command, named(number)));
        let mut workers = started.collect::<Result<Vec<_>, _>>()?;
        for worker in &mut workers {
            // To one that has ended nothing can be said; the greeting then tells how it ended.
            _ = worker.order(&Order::Directory(directory.as_os_str().as_bytes().to_vec()));
        }
        for worker in &mut workers {
            worker.greet(stop)?;
        }
        Ok(Self { workers })
    }

    /// Whether both use one mount of one kernel, and so one cache.
    pub(crate) fn shares_client_with(&self, other: &Self) -> bool {
        let client = |crew: &Self| crew.workers.first().and_then(|worker| worker.hello.clone());
        let (ours, theirs) = (client(self), client(other));
        ours.is_some_and(|ours| {
            !ours.kernel.is_empty()
                && theirs.is_some_and(|theirs| (ours.kernel, ours.device) == (theirs.kernel, theirs.device))
        })
    }

    /// One task for each of the first workers, all at once. Shape: one result a task.
    pub(crate) fn run(&mut self, tasks: Vec<Task>, stop: Stop<'_>) -> Result<Vec<Done>, LoadError> {
        together(vec![(self, tasks)], stop)
    }

    /// One task for one worker.
    pub(crate) fn one(&mut self, task: Task, stop: Stop<'_>) -> Result<Done, LoadError> {
        Ok(self.run(vec![task], stop)?.pop().unwrap_or_default())
    }
}

/// Tasks of several crews behind one barrier. Shape: the results of the first crew, then those of the next.
pub(crate) fn together(crews: Vec<(&mut Crew, Vec<Task>)>, stop: Stop<'_>) -> Result<Vec<Done>, LoadError> {
    let mut busy = Vec::new();
    for (crew, tasks) in crews {
        for (worker, task) in crew.workers.iter_mut().zip(tasks) {
            busy.push((worker, task));
        }
    }
    for (worker, task) in &mut busy {
        worker.order(&Order::Task(task.clone()))?;
    }
    for (worker, task) in &mut busy {
        match worker.reply(task.patience(), stop)? {
            Reply::Ready => {}
            reply => return Err(worker.refused(task, reply)),
        }
    }
    for (worker, _) in &mut busy {
        worker.order(&Order::Go)?;
    }
    let results = busy.iter_mut().map(|(worker, task)| match worker.reply(task.patience(), stop)? {
        Reply::Done(done) => Ok(done),
        reply => Err(worker.refused(task, reply)),
    });
    results.collect()
}

impl Worker {
    fn start(command: &[OsString], name: String) -> Result<Self, LoadError> {
        let failed = |source| LoadError::Start { process: name.clone(), source };
        let (program, arguments) =
            command.split_first().ok_or_else(|| failed(std::io::ErrorKind::InvalidInput.into()))?;
        let mut process = Command::new(program);
        process.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.spawn().map_err(failed)?;
        let (Some(orders), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let replies = listen(stdout);
        Ok(Self { name, child, orders: Some(orders), replies, hello: None })
    }

    fn greet(&mut self, stop: Stop<'_>) -> Result<(), LoadError> {
        match self.reply(PATIENCE, stop)? {
            Reply::Hello(hello) if hello.version == VERSION => {
                self.hello = Some(hello);
                Ok(())
            }
            Reply::Hello(_) => Err(self.fault("is another version of quell")),
            Reply::Failed { errno, .. } => {
                let errno = rustix::io::Errno::from_raw_os_error(errno);
                Err(LoadError::operation("open", "the working directory", &self.name, errno))
            }
            Reply::Ready | Reply::Done(_) => Err(self.fault("did not begin as a worker of quell does")),
        }
    }

    fn order(&mut self, order: &Order) -> Result<(), LoadError> {
        let mut line = serde_json::to_vec(order).map_err(|_| self.fault("cannot be told what to do"))?;
        line.push(b'\n');
        let sent = self.orders.as_mut().map(|orders| orders.write_all(&line).and_then(|()| orders.flush()));
        match sent {
            Some(Ok(())) => Ok(()),
            _ => Err(self.fault("ended early")),
        }
    }

    fn reply(&mut self, patience: Duration, stop: Stop<'_>) -> Result<Reply, LoadError> {
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(GLANCE) {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                    // A Ctrl-C ends it too, perhaps before our own flag is up.
                    std::thread::sleep(GLANCE);
                    return Err(if stop() { LoadError::Interrupted } else { self.fault("ended early") });
                }
                Ok(Err(_)) => return Err(self.fault("said what no worker of quell says")),
                Err(RecvTimeoutError::Disconnected) => return Err(self.fault("ended early")),
                Err(RecvTimeoutError::Timeout) if stop() => return Err(LoadError::Interrupted),
                Err(RecvTimeoutError::Timeout) if began.elapsed() > patience => {
                    let minutes = patience.as_secs().div_ceil(60);
                    return Err(
                        self.fault(&format!("has not answered for {minutes} minutes: its file system hangs"))
                    );
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn refused(&self, task: &Task, reply: Reply) -> LoadError {
        match reply {
            Reply::Failed { name, errno } => LoadError::operation(
                task.name(),
                &name,
                &self.name,
                rustix::io::Errno::from_raw_os_error(errno),
            ),
            _ => self.fault("answered out of turn"),
        }
    }

    fn fault(&self, what: &str) -> LoadError {
        LoadError::Process { process: self.name.clone(), what: what.to_owned() }
    }
}

impl Drop for Worker {
    /// Ends the process that was started here: by the end of its orders, so that one on another node ends too; after a second
    /// by `SIGKILL`, as one that hangs in its file system must not keep us.
    fn drop(&mut self) {
        drop(self.orders.take());
        let began = Instant::now();
        while began.elapsed() < FAREWELL && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Over already is as good.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

impl Task {
    /// What errors call it.
    fn name(&self) -> &'static str {
        match self {
            Self::Names(names) => names.operation.name(),
            Self::Data(data) if data.access == Access::Write => "write",
            Self::Data(_) => "read",
            Self::Look(_) => "look",
            Self::Change(_) => "change",
            Self::Steps(_) => "single calls",
        }
    }

    /// How long an answer may take.
    fn patience(&self) -> Duration {
        let limit_ms = match self {
            Self::Names(names) => names.limit_ms,
            Self::Data(data) => data.limit_ms,
            Self::Look(_) | Self::Change(_) | Self::Steps(_) => 0,
        };
        PATIENCE.saturating_add(Duration::from_millis(limit_ms))
    }
}

/// Reads replies until the process ends. The last word is an `UnexpectedEof`.
fn listen(stdout: ChildStdout) -> Receiver<std::io::Result<Reply>> {
    let (sender, replies) = mpsc::channel();
    std::thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        loop {
            let reply = next(&mut stdout);
            let is_last = reply.is_err();
            if sender.send(reply).is_err() || is_last {
                return;
            }
        }
    });
    replies
}

fn next(stdout: &mut impl BufRead) -> std::io::Result<Reply> {
    let mut line = String::new();
    match stdout.take(LONGEST).read_line(&mut line)? {
        0 => Err(std::io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(serde_json::from_str(&line)?),
    }
}
