//! Signals to the recorder: the command gets them, as if the recorder were not there.
//!
//! A key on the terminal, and a signal to the whole process group, reach the command without help. A signal that
//! somebody sends to the recorder alone is sent on. The two are told apart by the sender: what comes from the kernel
//! is not sent on, and what was sent on but had reached the command directly, too, is delivered once. (A command
//! that takes signals from the queue, by `sigwait(3)`, takes such a signal twice: the kernel does not report those.)
//!
//! Signals that stop are the other way round: when the command stops for the terminal, the recorder stops as well,
//! so that the shell sees its job stop.

use crate::sys::ptrace::{Delivery, Stopped};
use crate::sys::signals::{self, Disposition, Mask, Received};
use quell_trace::Pid;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Signals that mean the command when they are sent to the recorder.
const FORWARDED: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGUSR1, libc::SIGUSR2, libc::SIGINT, libc::SIGQUIT];
/// Signals by which a terminal stops a job.
const STOPPING: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
/// The same signal from the same sender within this time is one signal to a group.
const ONE_SIGNAL: Duration = Duration::from_secs(1);
/// No process has this number.
const NOBODY: i32 = 0;

/// Sends signals on while it lives.
#[derive(Debug)]
pub(super) struct Forwarding {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    mask: Mask,
    _ignored: [Disposition; STOPPING.len()],
    _children: Disposition,
    direct: Vec<Direct>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicI32,
    ends: AtomicBool,
    /// Sent on and not yet seen at the command.
    sent: Mutex<Vec<Received>>,
}

/// A signal that reached the command from somebody else than the recorder.
#[derive(Debug)]
struct Direct {
    signal: i32,
    sender: Pid,
    at: Instant,
}

impl Forwarding {
    /// Sends signals on to `target` from here on. Every signal is blocked on entry; on exit the mask is `mask`, and
    /// in addition what is forwarded is blocked.
    pub(super) fn begin(target: Pid, mask: Mask) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            target: AtomicI32::new(target.0),
            ends: AtomicBool::new(false),
            sent: Mutex::default(),
        });
        let ignored = STOPPING.map(Disposition::ignored);
        let children = Disposition::quiet_children();
        let theirs = Arc::clone(&shared);
        let thread =
            std::thread::Builder::new().name("signals".to_owned()).spawn(move || theirs.forward())?;
        mask.restore();
        Mask::of(&FORWARDED).block();
        Ok(Self {
            shared,
            thread: Some(thread),
            mask,
            _ignored: ignored,
            _children: children,
            direct: Vec::new(),
        })
    }

    /// Who gets the signals.
    pub(super) fn target(&self) -> Pid {
        Pid(self.shared.target.load(Ordering::Relaxed))
    }

    /// Sends them to another process: the command ended, and others of its making run on.
    pub(super) fn aim(&self, target: Option<Pid>) {
        self.shared.target.store(target.map_or(NOBODY, |target| target.0), Ordering::Relaxed);
    }

    /// Whether a signal that is about to be delivered to the command was sent on by the recorder, though the command
    /// had been sent it directly.
    pub(super) fn is_echo(&mut self, signal: i32, stopped: &Stopped<Delivery>) -> bool {
        if !FORWARDED.contains(&signal) {
            return false;
        }
        let Some(sender) = stopped.sender() else { return false };
        if sender.0 != std::process::id() as i32 {
            self.direct.retain(|direct| direct.signal != signal);
            self.direct.push(Direct { signal, sender, at: Instant::now() });
            return false;
        }
        let origin = self.shared.origin(signal);
        self.direct.iter().any(|direct| {
            direct.signal == signal && Some(direct.sender) == origin && direct.at.elapsed() < ONE_SIGNAL
        })
    }

    /// Stops the recorder with the command, when the terminal stopped it and both are one job.
    pub(super) fn stop_with(&self, command: Pid, signal: i32) {
        let group_of = |process: i32| rustix::process::getpgid(rustix::process::Pid::from_raw(process)).ok();
        if STOPPING.contains(&signal) && group_of(command.0) == group_of(std::process::id() as i32) {
            signals::stop_by(signal);
        }
    }
}

impl Drop for Forwarding {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            signals::wake(&thread, FORWARDED[0]);
            // The thread cannot panic: it waits, and sends.
            _ = thread.join();
        }
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
            let Some(sender) = received.sender.filter(|&sender| target != NOBODY && !is_own_tracee(sender))
            else {
                continue;
            };
            let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
            sent.push(Received { sender: Some(sender), ..received });
            drop(sent);
            // It may have ended meanwhile: then there is nobody to tell.
            _ = signals::send(Pid(target), received.signal);
        }
    }

    /// Who sent the signal that was sent on.
    fn origin(&self, signal: i32) -> Option<Pid> {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let index = sent.iter().position(|received| received.signal == signal)?;
        sent.remove(index).sender
    }
}

/// Whether the sender is a process of the recording: its signal was meant for its parent or its group, not for the
/// command.
fn is_own_tracee(sender: Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{sender}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.and_then(|tracer| tracer.trim().parse().ok()) == Some(std::process::id())
}
