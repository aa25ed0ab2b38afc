//! Forwards signals from the recorder to the command, as if the recorder were absent.
//!
//! A key on the terminal, and a signal to the whole process group, reach the command directly. A signal that another
//! process sends to the recorder alone is forwarded. The sender tells the two apart: signals from the kernel are not
//! forwarded, and a signal that comes both ways, in either order, is delivered once. (A command that takes
//! signals from the queue with `sigwait(3)` takes such a signal twice, because the kernel does not report those.)
//!
//! Once the command is left alone, deliveries to it cannot be seen. A witness then tells the two apart.
//!
//! Stop signals work the other way round: when the terminal stops the command, the recorder stops as well, so that the
//! shell sees its job stop. So does a command that has the terminal and stops itself, as a shell does by `suspend`.
//! Such a command, when the job continues, gets the terminal back and is continued.

use crate::facts;
use crate::sys::ptrace::{Delivery, Stopped};
use crate::sys::signals::{self, Disposition, Mask, Received};
use crate::sys::witness::Witness;
use crate::terminal::{self, Terminal};
use quell_base::lock;
use quell_trace::{Exit, Pid};
use rustix::io::retry_on_intr;
use rustix::process::{WaitOptions, waitpid};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Signals that are forwarded to the command.
const FORWARDED: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGQUIT];
/// Signals that end a program which does not handle them, where a user or a batch system sends them.
const ENDING: [i32; 3] = [libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Signals by which a terminal stops a job.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// The same signal from the same sender within this time, once by each way, counts as one signal.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// The most signals that are remembered: a program may signal itself without end.
const MOST_DELIVERED: usize = 64;
/// A sender that signals many processes, as Slurm does, reaches all of them within this time.
const REPORT_IN: Duration = Duration::from_millis(200);
/// A process number that is never used.
const NO_PROCESS: i32 = 0;

/// Forwards signals while it lives.
#[derive(Debug)]
pub(crate) struct Forwarding {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mask: Mask,
    _ignored: [Disposition; STOPPING.len()],
    _children: Disposition,
    delivered: Vec<Delivered>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicI32,
    ends: AtomicBool,
    /// Interrupts are for the recorder: the command has ended.
    keeps_interrupts: AtomicBool,
    was_interrupted: AtomicBool,
    /// Signals that were forwarded and not yet seen at the command.
    sent: Mutex<Vec<Received>>,
    /// Tells which signals the command got as well, once it is left alone.
    witness: Mutex<Option<Witness>>,
}

/// A signal that reached the command, by one of two ways. It may still come by the other.
#[derive(Debug)]
struct Delivered {
    signal: i32,
    sender: Pid,
    is_forwarded: bool,
    at: Instant,
}

impl Forwarding {
    /// Takes signals that end a program for requests to the recorder: it started no command that could get them.
    pub(super) fn begin_without_command(mask: Mask) -> io::Result<Self> {
        let forwarding = Self::begin(Pid(NO_PROCESS), mask)?;
        forwarding.shared.keeps_interrupts.store(true, Ordering::Relaxed);
        Ok(forwarding)
    }

    /// Forwards signals to `target` from here on. Every signal is blocked on entry. On return the mask is `mask` with
    /// the forwarded signals blocked in addition.
    pub(crate) fn begin(target: Pid, mask: Mask) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            target: AtomicI32::new(target.0),
            ends: AtomicBool::new(false),
            keeps_interrupts: AtomicBool::new(false),
            was_interrupted: AtomicBool::new(false),
            sent: Mutex::default(),
            witness: Mutex::default(),
        });
        let ignored = STOPPING.map(Disposition::ignored);
        let children = Disposition::quiet_children();
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("signals".to_owned()).spawn(move || theirs.forward())?;
        mask.with(&FORWARDED).restore();
        Ok(Self {
            shared,
            thread: Some(thread),
            mask,
            _ignored: ignored,
            _children: children,
            delivered: Vec::new(),
        })
    }

    /// The process that gets the signals.
    pub(super) fn target(&self) -> Pid {
        Pid(self.shared.target.load(Ordering::Relaxed))
    }

    /// Forwards to another process from here on: the command ended, and its descendants run on.
    pub(crate) fn aim(&self, target: Option<Pid>) {
        self.shared.target.store(target.map_or(NO_PROCESS, |target| target.0), Ordering::Relaxed);
    }

    /// Continues in this thread: its mask becomes that of the thread that began.
    pub(super) fn move_here(&self) {
        self.mask.with(&FORWARDED).restore();
    }

    /// Continues without a tracer.
    pub(crate) fn begin_witness(&self) {
        // Without a witness, a signal to the whole group reaches the command twice.
        *self.shared.witness() = Witness::begin(&Mask::of(&FORWARDED)).ok();
    }

    /// Takes `SIGINT` for a request to the recorder from here on. What came before was meant for the command.
    pub(crate) fn keep_interrupts(&self) {
        signals::discard_pending(&Mask::of(&FORWARDED));
        self.shared.keeps_interrupts.store(true, Ordering::Relaxed);
    }

    /// True when such a request came.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.shared.was_interrupted.load(Ordering::Relaxed)
    }

    /// True for a signal that the command got already: one sender sent it to the recorder, which forwards it, and to the command.
    pub(super) fn is_echo(&mut self, signal: i32, stopped: &Stopped<Delivery>) -> bool {
        if !FORWARDED.contains(&signal) {
            return false;
        }
        let is_forwarded = stopped.sender() == Some(facts::ourselves());
        let sender = if is_forwarded { self.shared.origin(signal) } else { stopped.sender() };
        let Some(sender) = sender else { return false };
        self.delivered.retain(|delivered| delivered.at.elapsed() < ONE_SIGNAL);
        let other = self.delivered.iter().position(|delivered| {
            (delivered.signal, delivered.sender, delivered.is_forwarded) == (signal, sender, !is_forwarded)
        });
        if let Some(other) = other {
            self.delivered.remove(other);
            return true;
        }
        if self.delivered.len() == MOST_DELIVERED {
            self.delivered.remove(0);
        }
        self.delivered.push(Delivered { signal, sender, is_forwarded, at: Instant::now() });
        false
    }

    /// Waits for the end of the command, a child that is not traced, and stops with it.
    pub(crate) fn await_end(&self, command: Pid) -> io::Result<Exit> {
        let child = rustix::process::Pid::from_raw(command.0);
        loop {
            let change = retry_on_intr(|| waitpid(child, WaitOptions::UNTRACED))?;
            let Some((_, status)) = change else { continue };
            match (status.stopping_signal(), status.terminating_signal(), status.exit_status()) {
                (Some(signal), ..) => self.stop_with(command, signal),
                (_, Some(signal), _) => return Ok(Exit::Signal(signal)),
                (_, _, Some(code)) => return Ok(Exit::Status(code)),
                (None, None, None) => {}
            }
        }
    }

    /// Stops the recorder with the command if both are one job and the terminal stopped it, or if it had the terminal. A
    /// command without terminal may be stopped and continued by any process, which does not know of the recorder.
    pub(super) fn stop_with(&self, command: Pid, signal: i32) {
        let Some(group) = terminal::group_of(command) else { return };
        let is_one_job = Some(group) == terminal::group_of(facts::ourselves());
        let terminal = Terminal::open().filter(|terminal| terminal.foreground() == Some(group));
        if terminal.is_none() && !(is_one_job && STOPPING.contains(&signal)) {
            return;
        }
        signals::stop_by(if is_one_job && STOPPING.contains(&signal) { signal } else { libc::SIGSTOP });
        if is_one_job {
            return;
        }
        // The shell gave the terminal to the recorder's group, and continued that group alone.
        if let Some(terminal) = terminal.filter(Terminal::is_ours) {
            terminal.give_to(group);
        }
        // It may have been continued or have ended.
        _ = signals::send(Pid(-group.0), libc::SIGCONT);
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            signals::wake(&thread, FORWARDED[0]);
            // The thread only waits and sends, so it cannot panic.
            _ = thread.join();
        }
        // A signal to the whole group may end the command before the thread takes its own. Left pending, that would end the
        // recorder in place of the command's status.
        signals::discard_pending(&Mask::of(&FORWARDED));
        self.mask.restore();
    }
}

impl Shared {
    fn forward(&self) {
        let signals = Mask::of(&FORWARDED);
        while let Some(received) = signals::wait_for(&signals) {
            if self.ends.load(Ordering::Relaxed) {
                return;
            }
            let target = self.target.load(Ordering::Relaxed);
            let ends =
                received.signal == libc::SIGINT || target == NO_PROCESS && ENDING.contains(&received.signal);
            if ends && self.keeps_interrupts.load(Ordering::Relaxed) {
                self.was_interrupted.store(true, Ordering::Relaxed);
                continue;
            }
            let Some(sender) =
                received.sender.filter(|&sender| target != NO_PROCESS && !is_own_tracee(sender))
            else {
                continue;
            };
            if self.witness().as_mut().is_some_and(|witness| witness.saw(received, REPORT_IN)) {
                continue;
            }
            let mut sent = lock(&self.sent);
            sent.push(Received { sender: Some(sender), ..received });
            drop(sent);
            // The target may have ended meanwhile. The signal is then dropped.
            _ = signals::send(Pid(target), received.signal);
        }
    }

    fn witness(&self) -> MutexGuard<'_, Option<Witness>> {
        lock(&self.witness)
    }

    /// The sender of a forwarded signal.
    fn origin(&self, signal: i32) -> Option<Pid> {
        let mut sent = lock(&self.sent);
        let index = sent.iter().position(|received| received.signal == signal)?;
        sent.remove(index).sender
    }
}

/// True when the sender is a recorded process: its signal was meant for its parent or its group, not for the command.
fn is_own_tracee(sender: Pid) -> bool {
    facts::tracer(sender) == Some(facts::ourselves())
}
