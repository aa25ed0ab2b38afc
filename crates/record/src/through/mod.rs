//! The engine that needs no ptrace: it mounts a pass-through file system over the roots, in a namespace of the command's
//! own, and sees what the kernel asks of it.
//!
//! ```text
//! recorder                                  child
//! fork -----------------------------------> user and mount namespace, /dev/fuse mounted over each root
//! threads serve each connection <---------- its descriptor, by SCM_RIGHTS
//! release --------------------------------> execve
//!   LOOKUP, OPEN, READ .. <---------------- the kernel asks: nothing is cached, so every operation shows
//!   the same on the original, by O_PATH --> answer
//! ENODEV: the last process has ended
//! ```
//!
//! Nothing of a request is judged here: each is carried out on the original with the rights of the process that asked,
//! so that names, errors and content are the original's. [`walks`] makes system calls of the requests, [`processes`]
//! finds out who asked.
//!
//! Not seen: operations outside of the roots, calls that ask nothing of a file system, and the calls behind a request
//! (`stat` or `access`, `read` or a page fault). The trace says so ([`NOTES`]).

mod changes;
mod collector;
mod locks;
mod operations;
mod processes;
mod report;
pub(crate) mod roots;
mod served;
mod service;
mod space;
mod walks;

use crate::engine::{CallArguments, Engine, EngineView, Launched, Observation, ObservedCall, Observer};
use crate::ptrace::attach::explain_failure;
use crate::ptrace::births;
use crate::ptrace::forward::Forwarding;
use crate::sys::signals::{self, Mask};
use crate::sys::spawn::{self, SpawnProgram, Waiting};
use crate::{RecordError, facts};
use collector::Collector;
use quell_trace::{Bytes, Call, Exit, Fd, Nanos, Outcome, Pid};
use report::ObservedReport;
use service::MountService;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::Duration;

/// The engine's name in a trace's header.
pub(crate) const NAME: &str = "mount";

/// Sentences for readers of a trace that this engine made.
pub(crate) const NOTES: [&str; 2] = [
    "recorded through a mount: a name that was only found counts as `newfstatat`, a page fault as `pread64`, and what the kernel read ahead as read",
    "calls that ask nothing of a file system (`mmap`, `lseek`, `dup`, reads of cached pages) and the ends of processes are not in the trace",
];

/// Records a command through a mount.
#[derive(Debug)]
pub(crate) struct MountEngine {
    waiting: Waiting,
    mask: Mask,
    shared: Arc<Collector>,
    reports: Receiver<ObservedReport>,
    threads: Vec<JoinHandle<()>>,
    program: PathBuf,
    launched: Launched,
    roots: Vec<PathBuf>,
}

impl MountEngine {
    /// Makes the namespace in the command's process, which waits, and serves it.
    ///
    /// # Errors
    /// [`RecordError::Unmountable`] where the system forbids it.
    pub(crate) fn attach(program: &SpawnProgram, roots: Vec<PathBuf>) -> Result<Self, RecordError> {
        let mask = Mask::block_all();
        Self::attach_blocked(program, roots, mask).inspect_err(|_| mask.restore())
    }

    fn attach_blocked(program: &SpawnProgram, roots: Vec<PathBuf>, mask: Mask) -> Result<Self, RecordError> {
        let plan = space::MountPlan::new(&roots)?;
        let (near, far) = space::channel()?;
        let start = |source| RecordError::Start { action: "create a process for the command", source };
        let waiting = spawn::spawn(program, &mask, || plan.carry_out(&far)).map_err(start)?;
        drop(far);
        let (reporter, reports) = mpsc::channel();
        let shared = Arc::new(Collector::new(waiting.process, reporter));
        let served =
            plan.serve(&near, |number, device, root| MountService::start(&shared, number, device, root));
        let threads = match served {
            Ok(threads) => threads,
            Err(error) => {
                waiting.abandon();
                return Err(error);
            }
        };
        space::raise_descriptor_limit();
        let file = OsStr::from_bytes(program.file.as_bytes());
        let launched = launched(program);
        Ok(Self { waiting, mask, shared, reports, threads, program: file.into(), launched, roots })
    }
}

impl Engine for MountEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn view(&self) -> EngineView {
        EngineView::OfRecorder
    }

    fn notes(&self) -> Vec<String> {
        let roots: Vec<_> = self.roots.iter().map(|root| format!("`{}`", root.display())).collect();
        let within = format!("only operations below {} are in the trace", roots.join(", "));
        NOTES.into_iter().map(str::to_owned).chain([within]).collect()
    }

    fn run(self, observer: &mut dyn Observer) -> Result<Exit, RecordError> {
        let Self { waiting, mask, shared, reports, threads, program, launched, .. } = self;
        let command = waiting.process;
        let start = |source| RecordError::Start { action: "start the command", source };
        let forwarding = Forwarding::begin(command, mask).map_err(start)?;
        forwarding.begin_witness();
        observer.observe(Observation::Born(births::first(command)));
        observer.observe(Observation::Called(execution(command, &program)));
        shared.begin();
        let failure = waiting.release().map_err(start)?;
        let executed = explain_failure(Some(failure), &program);
        let launched = completed(facts::launched(command), launched);
        let at = shared.now();
        observer.observe(Observation::Executed { thread: command, at, launched: Some(&launched) });
        let exit = std::thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                // The kernel reports the end of a child once, to this thread.
                let exit = forwarding.await_end(command).unwrap_or(Exit::Status(125));
                forwarding.keep_interrupts();
                forwarding.aim(None);
                await_the_rest(&shared, &forwarding);
                exit
            });
            reports.iter().for_each(|report| pass_on(&report, observer));
            waiter.join()
        });
        for thread in threads {
            // The reply of a thread that panicked was sent when it was dropped.
            _ = thread.join();
        }
        executed?;
        let exit = exit.unwrap_or(Exit::Status(125));
        observer.observe(Observation::Ended { thread: command, at: shared.now(), exit });
        Ok(exit)
    }
}

/// The command's facts beforehand, for a command that ends before `/proc` was read.
fn launched(program: &SpawnProgram) -> Launched {
    let file = Path::new(OsStr::from_bytes(program.file.as_bytes()));
    let file = file.canonicalize().unwrap_or_else(|_| file.into());
    let environment = program.environment.iter().map(|variable| variable.as_bytes());
    Launched {
        program: Some(file.into_os_string().into_encoded_bytes()),
        arguments: program.arguments.iter().map(|argument| quell_base::escape(argument.as_bytes())).collect(),
        variables: facts::search_variables(environment),
    }
}

/// The command as `/proc` shows it, completed by the facts known beforehand: it may have ended already, or be in its `execve` still.
fn completed(seen: Launched, known: Launched) -> Launched {
    let arguments = if seen.arguments.is_empty() { known.arguments } else { seen.arguments };
    Launched { program: seen.program.or(known.program), arguments, variables: known.variables }
}

/// The command's own `execve`, which is observed before it takes place: what it asks for comes after it.
fn execution(command: Pid, program: &Path) -> ObservedCall<'_> {
    ObservedCall {
        thread: command,
        call: Call::Execve,
        outcome: Outcome::Success(0),
        start: Nanos(0),
        end: Nanos(0),
        arguments: CallArguments { fd: Fd::NONE, fd2: Fd::NONE, flags: 0, size: Bytes(0), offset: None },
        path: Some(program.as_os_str().as_bytes()),
        path2: None,
        opened: None,
    }
}

fn pass_on(report: &ObservedReport, observer: &mut dyn Observer) {
    observer.observe(match report {
        ObservedReport::Born(birth) => Observation::Born(*birth),
        ObservedReport::Called(call) => Observation::Called(call.borrowed()),
        ObservedReport::Executed { thread, at, launched } => {
            Observation::Executed { thread: *thread, at: *at, launched: Some(launched) }
        }
        ObservedReport::Waiting(processes) => Observation::Waiting { processes },
    });
}

/// Waits for the processes that the command left behind. An interrupt ends them: without the recorder they would have no
/// files.
fn await_the_rest(shared: &Collector, forwarding: &Forwarding) {
    for tick in 0_u32.. {
        if shared.is_over() {
            return;
        }
        if tick == TELLS {
            shared.report(ObservedReport::Waiting(shared.living()));
        }
        if forwarding.was_interrupted() {
            // One that ended meanwhile needs no signal.
            shared.living().into_iter().for_each(|process| _ = signals::send(process, libc::SIGKILL));
        }
        std::thread::sleep(TICK);
    }
}

/// The time between two looks at the processes that are left.
const TICK: Duration = Duration::from_millis(50);
/// The look at which the user is told of them: after a second.
const TELLS: u32 = 20;
