//! The conductor: starts a process for each rank, lets all begin at once, and adds up what they report.
//!
//! A rank is this program again, with one socket as its standard input: over it the plan comes, then the word to begin, and
//! over it the report goes back. Where the conductor dies, ranks see their socket's end and end too, so that
//! nothing is left behind, whatever ends it.

use super::confined::Confined;
use super::package::{self, Head};
use super::place::PREFIX;
use super::play::Report;
use super::wire::{self, BEGIN, Order, READY};
use super::writes::Prepared;
use super::{Plan, ReplayError, Tally};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::MemfdFlags;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The first argument by which a process of a replay knows what it is; no command has this name.
pub const ARGUMENT: &str = "replay-process";
/// This program, however it was started; no path is walked for it.
const OURSELVES: &str = "/proc/self/exe";

/// A process that was started.
#[derive(Debug)]
pub(super) struct Child {
    socket: UnixStream,
    process: std::process::Child,
}

impl Child {
    /// Starts a process that plays what `order` says, with these open files.
    pub(super) fn start(order: &Order, package: &File, files: &[BorrowedFd<'_>]) -> std::io::Result<Self> {
        Self::start_as(Path::new(OURSELVES), order, package, files)
    }

    fn start_as(
        program: &Path,
        order: &Order,
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
        wire::send(&mut socket, order)?;
        let files: Vec<BorrowedFd<'_>> =
            std::iter::once(package.as_fd()).chain(files.iter().copied()).collect();
        wire::send_files(&socket, &files)?;
        Ok(Self { socket, process })
    }

    /// Waits for its report and its end.
    pub(super) fn report(&mut self) -> std::io::Result<Report> {
        let report = wire::receive(&mut self.socket);
        // It may still wait for our end of the socket only where it failed.
        _ = self.socket.shutdown(std::net::Shutdown::Both);
        self.process.wait()?;
        report
    }
}

/// How a replay is played.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The directory to replay against, absolute.
    pub root: PathBuf,
    /// The first rank's number, and how many there are here.
    pub first: u32,
    /// Range: 1 and up.
    pub ranks: u32,
    /// Times between calls are multiplied by this; `None` for full speed.
    pub think: Option<f64>,
    /// A name for a private directory that nobody else chooses.
    pub nonce: u64,
}

/// What ranks did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Performance {
    /// From the word to begin until the last rank's end. Unit: seconds.
    pub seconds: f64,
    /// Shape: one entry a rank. Unit: seconds.
    pub rank_seconds: Vec<f64>,
    /// All ranks together.
    pub tally: Tally,
}

impl Performance {
    /// Adds what other ranks did at the same time.
    pub fn merge(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.rank_seconds.extend(other.rank_seconds);
        self.tally.merge(&other.tally);
    }
}

/// Ranks that are ready to begin. Dropping it ends them, and removes what they wrote.
#[derive(Debug)]
pub struct Conductor {
    children: Vec<Child>,
    private: Option<PathBuf>,
}

impl Conductor {
    /// Checks the root and the directory in it where the program was started, starts the ranks and waits until each is ready.
    ///
    /// # Errors
    /// [`ReplayError::Root`] when one of them is no directory, [`ReplayError::Private`] when nothing may be written there and
    /// the plan writes, [`ReplayError::Process`] when a process cannot be started.
    pub fn start(plan: &Plan, manner: &Manner, interrupted: &AtomicBool) -> Result<Self, ReplayError> {
        check_directory(&manner.root)?;
        if let Some(directory) = &plan.directory {
            check_directory(&manner.root.join(OsStr::from_bytes(directory)))?;
        }
        let mut conductor = Self { children: Vec::new(), private: None };
        if let Some(prepared) = &plan.prepared {
            conductor.prepare(prepared, manner)?;
        }
        let head = Head {
            root: manner.root.as_os_str().as_bytes().to_vec(),
            private: conductor.private.as_ref().map(|private| private.as_os_str().as_bytes().to_vec()),
            think: manner.think,
            directory: plan.directory.clone(),
            processes: plan.programmes.len() as u32,
        };
        let failure = |attempt| move |source| ReplayError::Process { attempt, source };
        let package = package::write(plan, &head).map_err(failure("keep the plan in memory"))?;
        let program = program(&manner.root).map_err(failure("copy this program into memory"))?;
        for number in 0..manner.ranks {
            let order = Order {
                process: 0,
                rank: manner.first.saturating_add(number),
                waits: true,
                slots: Vec::new(),
            };
            let child =
                Child::start_as(&program.path, &order, &package, &[]).map_err(failure("start a rank"))?;
            conductor.children.push(child);
        }
        let mut ready = vec![false; conductor.children.len()];
        while let Some(number) = ready.iter().position(|ready| !ready) {
            conductor.wait_for(number, interrupted)?;
            let mut word = [0];
            let heard = conductor.children[number].socket.read_exact(&mut word);
            heard.map_err(failure("hear of a rank that it is ready"))?;
            ready[number] = word == [READY];
        }
        Ok(conductor)
    }

    /// Lets all ranks begin, and waits for them.
    ///
    /// # Errors
    /// [`ReplayError::Interrupted`] when the user ended it, [`ReplayError::Process`] when a rank ended before it reported.
    pub fn perform(mut self, interrupted: &AtomicBool) -> Result<Performance, ReplayError> {
        let failure = |attempt| move |source| ReplayError::Process { attempt, source };
        let began = Instant::now();
        for child in &mut self.children {
            child.socket.write_all(&[BEGIN]).map_err(failure("let a rank begin"))?;
        }
        let mut performance = Performance::default();
        for number in 0..self.children.len() {
            self.wait_for(number, interrupted)?;
            let report = self.children[number].report().map_err(failure("hear what a rank did"))?;
            performance.rank_seconds.push(report.nanos as f64 / 1e9);
            performance.tally.merge(&report.tally);
        }
        performance.seconds = began.elapsed().as_secs_f64();
        Ok(performance)
    }

    /// Waits until a rank says something, or the user has had enough.
    fn wait_for(&self, number: usize, interrupted: &AtomicBool) -> Result<(), ReplayError> {
        const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
        loop {
            if interrupted.load(Ordering::Relaxed) {
                return Err(ReplayError::Interrupted);
            }
            let mut sockets = [PollFd::new(&self.children[number].socket, PollFlags::IN)];
            // A signal ends the wait: then the flag is looked at again.
            if rustix::event::poll(&mut sockets, Some(&PAUSE)).is_ok_and(|ready| ready > 0) {
                return Ok(());
            }
        }
    }

    /// Makes the directories in which ranks may write, with what must be in them.
    fn prepare(&mut self, prepared: &[(Vec<u8>, Prepared)], manner: &Manner) -> Result<(), ReplayError> {
        let private = manner.root.join(format!("{PREFIX}{:016x}", manner.nonce));
        let failure = |path: &Path| {
            let path = path.to_owned();
            move |source| ReplayError::Private { path, source }
        };
        let make = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path).map_err(failure(path));
        // What was there before is never used: then this fails.
        make(&private)?;
        self.private = Some(private.clone());
        Confined::open(private.as_os_str().as_bytes())
            .map_err(|errno| ReplayError::Unconfined { source: errno.into() })?;
        for rank in 0..manner.ranks {
            let own = private.join(manner.first.saturating_add(rank).to_string());
            make(&own)?;
            for (name, what) in prepared {
                let path = own.join(OsStr::from_bytes(name));
                match what {
                    Prepared::Directory => make(&path)?,
                    Prepared::File(size) => {
                        let file = File::create_new(&path).map_err(failure(&path))?;
                        file.set_len(*size).map_err(failure(&path))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        for child in &mut self.children {
            _ = child.socket.shutdown(std::net::Shutdown::Both);
            _ = child.process.wait();
        }
        if let Some(private) = &self.private {
            // What a rank that was stopped still writes is removed at the second try; what then stays has the user's name on it.
            _ = std::fs::remove_dir_all(private).or_else(|_| std::fs::remove_dir_all(private));
        }
    }
}

fn check_directory(directory: &Path) -> Result<(), ReplayError> {
    let failure = |source| ReplayError::Root { path: directory.to_owned(), source };
    let metadata = directory.metadata().map_err(failure)?;
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(failure(std::io::ErrorKind::NotADirectory.into())),
    }
}

/// What ranks execute.
struct Program {
    path: PathBuf,
    /// Open as long as the path is used.
    _copy: Option<File>,
}

/// This program; a copy in memory where it lies in the tree itself, whose server must not be asked for it.
fn program(root: &Path) -> std::io::Result<Program> {
    let lies = std::fs::read_link(OURSELVES)?;
    if !lies.starts_with(root) {
        return Ok(Program { path: OURSELVES.into(), _copy: None });
    }
    let mut copy = File::from(rustix::fs::memfd_create("quell", MemfdFlags::CLOEXEC)?);
    std::io::copy(&mut File::open(OURSELVES)?, &mut copy)?;
    Ok(Program { path: format!("/proc/self/fd/{}", copy.as_raw_fd()).into(), _copy: Some(copy) })
}
