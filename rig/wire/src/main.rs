//! The wire of the rig: joins the network namespaces of the nodes and the server, and adds latency.
//!
//! Each namespace ends in a TUN device whose descriptor the rig hands over on the control socket. A packet that
//! is read from one device is written to the device of its destination address once half the added round trip
//! has passed, in both directions alike. The kernel of a test machine often lacks `sch_netem`, hence a program.
//!
//! It shares the processor with the program that is measured, so it touches a packet as little as it can: devices
//! carry segmentation-offload packets of up to 64 KiB with their virtio header, which is passed on as it came, so
//! that nothing is cut, joined or check-summed on the way; it sleeps by `ppoll` to the nanosecond and never spins.
//!
//! It refuses to model bandwidth, loss, jitter or reordering: its one number is the delay.

mod control;
mod delay;
mod packet;
mod switch;

use std::io::Write as _;
use std::num::NonZeroU64;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::switch::Switch;

/// Timer slack of the sleeping thread. The kernel's default of 50 us would be a tenth of a usual added latency.
const TIMER_SLACK: NonZeroU64 = NonZeroU64::MIN;

/// A reason for which the wire could not start or go on.
#[derive(Debug, thiserror::Error)]
enum WireError {
    /// The command line is not `quell-wire SOCKET`.
    #[error("usage: quell-wire SOCKET")]
    Usage,
    /// The control socket cannot be made: the path is too long, exists, or its directory does not.
    #[error("cannot listen on `{}`", path.display())]
    Listen {
        /// Path of the control socket.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A system call without which the wire cannot work has failed.
    #[error("`{call}` failed")]
    Kernel {
        /// Name of the system call.
        call: &'static str,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
}

/// The descriptors that have something to read.
struct Ready {
    control: bool,
    ports: Vec<usize>,
}

fn main() -> ExitCode {
    let Err(error) = run() else { return ExitCode::SUCCESS };
    let mut message = format!("quell-wire: {error}");
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        message.push_str(&format!(": {inner}"));
        cause = inner.source();
    }
    // Nowhere is left to report that standard error is closed.
    let _ = writeln!(std::io::stderr(), "{message}");
    ExitCode::from(2)
}

/// Serves until it is killed.
fn run() -> Result<(), WireError> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else { return Err(WireError::Usage) };
    let path = PathBuf::from(path);
    rustix::thread::set_current_timer_slack(Some(TIMER_SLACK))
        .map_err(|source| WireError::Kernel { call: "prctl", source })?;
    let listener = UnixListener::bind(&path).map_err(|source| WireError::Listen { path, source })?;
    let mut switch = Switch::new();
    loop {
        let ready = wait(&listener, &switch)?;
        if ready.control {
            control::serve(&listener, &mut switch);
        }
        for port in ready.ports {
            switch.take_in(port);
        }
        switch.hand_over();
    }
}

/// Sleeps until a packet arrives, a held packet is due, or someone calls on the control socket.
fn wait(listener: &UnixListener, switch: &Switch) -> Result<Ready, WireError> {
    let timeout = switch.next_release().map(|due| timespec(due.saturating_duration_since(Instant::now())));
    let mut fds = Vec::with_capacity(1 + switch.ports().len());
    fds.push(PollFd::new(listener, PollFlags::IN));
    // A full delay line reads nothing more: the devices' own queues hold, then drop, as a real wire's do.
    if !switch.is_full() {
        fds.extend(switch.ports().iter().map(|port| PollFd::new(port.device(), PollFlags::IN)));
    }
    match rustix::event::poll(&mut fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(source) => return Err(WireError::Kernel { call: "ppoll", source }),
    }
    let readable = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::IN);
    let ports = fds[1..].iter().enumerate().filter(|(_, fd)| readable(fd)).map(|(port, _)| port).collect();
    Ok(Ready { control: readable(&fds[0]), ports })
}

/// A time span as the kernel takes it; spans over 2^63 s, which no caller sets, wait 1 s and are checked again.
fn timespec(span: Duration) -> Timespec {
    Timespec::try_from(span).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}
