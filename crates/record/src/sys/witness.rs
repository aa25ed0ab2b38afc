//! A process that receives what is sent to the whole group, and nothing else.
//!
//! Slurm signals each process of a step, a terminal or `timeout` each process of a group. A recorder that forwards its
//! signals must know whether the command has got them too. While the recorder traces the command it sees that. Afterwards it
//! asks this process, which belongs to the same group, session and control group, and which no sender means by itself.

use super::checked;
use super::signals::{Mask, Received, send, wait_for};
use quell_trace::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::time::{Duration, Instant};

/// The process. It ends with this value, and with the recorder.
#[derive(Debug)]
pub(crate) struct Witness {
    process: Pid,
    reports: PipeReader,
    /// Signals that were reported and not asked for, with the time of the report.
    seen: Vec<(Instant, i32, Pid)>,
}

/// One report: a signal and its sender, as native words.
const REPORT: usize = 8;

impl Witness {
    /// Creates the process; it reports `signals`.
    pub(crate) fn begin(signals: &Mask) -> io::Result<Self> {
        let (reports, reporter) = io::pipe()?;
        let recorder = std::process::id() as i32;
        // SAFETY: the child calls async-signal-safe functions only, and never returns from `report`.
        let process = checked(unsafe { libc::fork() })?;
        if process == 0 {
            report(recorder, signals, reporter);
        }
        Ok(Self { process: Pid(process as i32), reports, seen: Vec::new() })
    }

    /// True when the process got this signal from the same sender. Waits for the report for a while.
    pub(crate) fn saw(&mut self, received: Received, patience: Duration) -> bool {
        let Some(sender) = received.sender else { return false };
        let began = Instant::now();
        loop {
            // The same signal may come again later, to the recorder alone.
            self.seen.retain(|(at, ..)| at.elapsed() < 2 * patience);
            let same = |&(_, signal, from): &(Instant, i32, Pid)| signal == received.signal && from == sender;
            if let Some(index) = self.seen.iter().position(same) {
                self.seen.swap_remove(index);
                return true;
            }
            let Some(left) = patience.checked_sub(began.elapsed()) else { return false };
            if !self.read_report(left) {
                return false;
            }
        }
    }

    /// Reads one report; false when none comes in time.
    fn read_report(&mut self, patience: Duration) -> bool {
        let patience = Timespec::try_from(patience).ok();
        let mut reports = [PollFd::new(&self.reports, PollFlags::IN)];
        if !matches!(poll(&mut reports, patience.as_ref()), Ok(1..)) {
            return false;
        }
        let mut report = [0; REPORT];
        if self.reports.read_exact(&mut report).is_err() {
            return false;
        }
        let [a, b, c, d, e, f, g, h] = report;
        let (signal, sender) = (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]));
        self.seen.push((Instant::now(), signal, Pid(sender)));
        true
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        let mut status = 0;
        // It was not waited for before, so the number is its own.
        _ = send(self.process, libc::SIGKILL);
        // SAFETY: `status` is a valid place for the result.
        unsafe { libc::waitpid(self.process.0, &raw mut status, 0) };
    }
}

/// Reports signals until the recorder ends.
fn report(recorder: i32, signals: &Mask, mut reporter: PipeWriter) -> ! {
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    Mask::block_all();
    // SAFETY: asks for a number.
    while unsafe { libc::getppid() } == recorder {
        let Some(received) = wait_for(signals) else { continue };
        let sender = received.sender.unwrap_or(Pid(0));
        let [a, b, c, d] = received.signal.to_ne_bytes();
        let [e, f, g, h] = sender.0.to_ne_bytes();
        // The recorder alone reads from the pipe, and ends this process first.
        _ = reporter.write_all(&[a, b, c, d, e, f, g, h]);
    }
    // SAFETY: takes a number and does not return.
    unsafe { libc::_exit(0) }
}
