//! Waits that end: at a deadline, or as soon as the caller wants to stop.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{ErrorKind, Read, Result, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Returns true when the caller wants to stop.
pub type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// The interval at which a wait asks whether the caller wants to stop.
const GLANCE: Duration = Duration::from_millis(20);

/// The limit of a wait.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    until: Option<Instant>,
    stop: Stop<'a>,
}

impl std::fmt::Debug for Patience<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Patience").field("until", &self.until).finish_non_exhaustive()
    }
}

impl<'a> Patience<'a> {
    /// Until the caller wants to stop.
    pub fn endless(stop: Stop<'a>) -> Self {
        Self { until: None, stop }
    }

    /// The same, and no longer than `time` from now.
    pub fn lasting(time: Duration, stop: Stop<'a>) -> Self {
        Self { until: Instant::now().checked_add(time), stop }
    }

    /// True if the wait goes on.
    pub fn lasts(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until) && !(self.stop)()
    }

    /// Waits until `from` has something to read, or has ended.
    ///
    /// # Errors
    /// `ConnectionAborted` when the caller wants to stop, `TimedOut` at the deadline.
    pub fn wait_for(&self, from: &impl AsFd) -> Result<()> {
        let glance = Timespec { tv_sec: 0, tv_nsec: GLANCE.subsec_nanos().into() };
        loop {
            // `Interrupted` would make a reader begin again.
            if (self.stop)() {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            let mut streams = [PollFd::new(from, PollFlags::IN)];
            // A signal ends the poll early: then the caller is asked again.
            if rustix::event::poll(&mut streams, Some(&glance)).is_ok_and(|ready| ready > 0) {
                return Ok(());
            }
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }

    /// `stream`, each read of which waits no longer.
    pub fn listen<'s, S: Read + AsFd>(&'s self, stream: &'s mut S) -> PatientStream<'s, S> {
        PatientStream { stream, patience: self }
    }
}

/// A stream each read of which waits as long as a [`Patience`] lasts.
#[derive(Debug)]
pub struct PatientStream<'a, S> {
    stream: &'a mut S,
    patience: &'a Patience<'a>,
}

impl<S: Read + AsFd> Read for PatientStream<'_, S> {
    fn read(&mut self, bytes: &mut [u8]) -> Result<usize> {
        self.patience.wait_for(self.stream)?;
        self.stream.read(bytes)
    }
}

impl<S: Write> Write for PatientStream<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        self.stream.flush()
    }
}
