//! The conductor: starts a process for each rank, lets all begin at once, and adds up what they report.
//!
//! The plan goes to a rank over its socket, then the signal to begin, and the report comes back. When the conductor dies,
//! ranks see the end of their socket and end too, so that nothing is left behind.

use super::child::{OURSELVES, PlayingProcess, ProcessOrder, StartSignal};
use super::confined::Confined;
use super::error::ReplayError;
use super::package::{self, PackageHead};
use super::performance::ReplayPerformance;
use super::plan::ReplayPlan;
use super::root::PREFIX;
use super::writes::PreparedEntry;
use quell_talk::{Patience, Stop, receive, send};
use rustix::fs::MemfdFlags;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The manner in which a replay is played.
#[derive(Clone, Debug)]
pub struct ReplayManner {
    /// The directory to replay against, absolute.
    pub root: PathBuf,
    /// The first rank's number, and how many there are here.
    pub first: u32,
    /// Range: 1 and up.
    pub ranks: u32,
    /// Times between calls are multiplied by this; `None` for full speed.
    pub think: Option<f64>,
    /// A name for a private directory that no other replay chooses.
    pub nonce: u64,
}

/// Ranks that are ready to begin. Dropping it ends them, and removes what they wrote.
#[derive(Debug)]
pub struct ReplayConductor {
    children: Vec<PlayingProcess>,
    private: Option<PathBuf>,
}

impl ReplayConductor {
    /// Checks the root and the directory in it where the program was started, starts the ranks and waits until each is ready.
    ///
    /// # Errors
    /// [`ReplayError::Root`] when one of them is no directory, [`ReplayError::Private`] when nothing may be written there and
    /// the plan writes, [`ReplayError::Process`] when a process cannot be started.
    pub fn start(plan: &ReplayPlan, manner: &ReplayManner, stop: Stop<'_>) -> Result<Self, ReplayError> {
        check_directory(&manner.root)?;
        if let Some(directory) = &plan.directory {
            check_directory(&manner.root.join(OsStr::from_bytes(directory)))?;
        }
        let mut conductor = Self { children: Vec::new(), private: None };
        if let Some(prepared) = &plan.prepared {
            conductor.prepare(prepared, manner)?;
        }
        let head = PackageHead {
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
            let order = ProcessOrder {
                process: 0,
                rank: manner.first.saturating_add(number),
                waits: true,
                slots: Vec::new(),
            };
            let child = PlayingProcess::start_as(&program.path, &order, &package, &[])
                .map_err(failure("start a rank"))?;
            conductor.children.push(child);
        }
        for child in &mut conductor.children {
            wait_for(child, stop)?;
            let _ready: StartSignal =
                receive(&mut child.socket).map_err(failure("hear of a rank that it is ready"))?;
        }
        Ok(conductor)
    }

    /// Lets all ranks begin, and waits for them.
    ///
    /// # Errors
    /// [`ReplayError::Interrupted`] when the user ended it, [`ReplayError::Process`] when a rank ended before it reported.
    pub fn perform(mut self, stop: Stop<'_>) -> Result<ReplayPerformance, ReplayError> {
        let failure = |attempt| move |source| ReplayError::Process { attempt, source };
        let began = Instant::now();
        for child in &mut self.children {
            send(&mut child.socket, &StartSignal::Begin).map_err(failure("let a rank begin"))?;
        }
        let mut performance = ReplayPerformance::default();
        for child in &mut self.children {
            wait_for(child, stop)?;
            let report = child.report().map_err(failure("hear what a rank did"))?;
            performance.rank_seconds.push(report.nanos as f64 / 1e9);
            performance.tally.merge(&report.tally);
        }
        performance.seconds = began.elapsed().as_secs_f64();
        Ok(performance)
    }

    /// Makes the directories in which ranks may write, with what must be in them.
    fn prepare(
        &mut self,
        prepared: &[(Vec<u8>, PreparedEntry)],
        manner: &ReplayManner,
    ) -> Result<(), ReplayError> {
        let private = manner.root.join(format!("{PREFIX}{:016x}", manner.nonce));
        let failure = |path: &Path| {
            let path = path.to_owned();
            move |source| ReplayError::Private { path, source }
        };
        let make = |path: &Path| std::fs::DirBuilder::new().mode(0o700).create(path).map_err(failure(path));
        // A directory that was there before is never used: then this fails.
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
                    PreparedEntry::Directory => make(&path)?,
                    PreparedEntry::File(size) => {
                        let file = File::create_new(&path).map_err(failure(&path))?;
                        file.set_len(*size).map_err(failure(&path))?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Drop for ReplayConductor {
    fn drop(&mut self) {
        self.children.iter_mut().for_each(PlayingProcess::end);
        if let Some(private) = &self.private {
            // The second try removes files that a stopped rank still wrote. A directory that then stays bears the name by which `leftovers` finds it.
            _ = std::fs::remove_dir_all(private).or_else(|_| std::fs::remove_dir_all(private));
        }
    }
}

/// Waits until a rank says something, or the caller wants to stop.
fn wait_for(child: &PlayingProcess, stop: Stop<'_>) -> Result<(), ReplayError> {
    Patience::endless(stop).wait_for(&child.socket).map_err(|_| ReplayError::Interrupted)
}

fn check_directory(directory: &Path) -> Result<(), ReplayError> {
    let failure = |source| ReplayError::Root { path: directory.to_owned(), source };
    let metadata = directory.metadata().map_err(failure)?;
    match metadata.is_dir() {
        true => Ok(()),
        false => Err(failure(std::io::ErrorKind::NotADirectory.into())),
    }
}

/// The file that ranks execute.
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
