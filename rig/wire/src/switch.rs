//! The switch: which device serves which address, packets in, packets out, and what was counted.

use std::fmt;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::delay::DelayLine;
use crate::packet;

/// Packets read from one device before the others have their turn.
const BURST: usize = 64;

/// One end of the wire: the TUN device of a namespace.
pub(crate) struct Port {
    address: Ipv4Addr,
    device: OwnedFd,
}

impl Port {
    /// Descriptor of the device, non-blocking.
    pub(crate) fn device(&self) -> &OwnedFd {
        &self.device
    }
}

/// Counts since the wire started.
#[derive(Debug, Default)]
struct Counters {
    packets: u64,
    bytes: u64,
    dropped: u64,
    late_most: Duration,
}

/// All ports, and the packets under way between them.
pub(crate) struct Switch {
    ports: Vec<Port>,
    line: DelayLine,
    counters: Counters,
}

impl Switch {
    /// A switch without ports and without delay.
    pub(crate) fn new() -> Self {
        Self { ports: Vec::new(), line: DelayLine::new(), counters: Counters::default() }
    }

    /// All ports, in the order in which they were connected.
    pub(crate) fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The time at which the first packet under way leaves.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.line.next_release()
    }

    /// Tells whether there is no room for another packet.
    pub(crate) fn is_full(&self) -> bool {
        self.line.is_full()
    }

    /// Sets the one-way delay.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.line.set_delay(delay);
    }

    /// Connects a device; packets to `address` go to it from now on.
    ///
    /// **Errors** whatever makes the descriptor non-blocking; `EEXIST` when the address has a device.
    pub(crate) fn connect(&mut self, address: Ipv4Addr, device: OwnedFd) -> Result<(), Errno> {
        if self.port_of(address).is_some() {
            return Err(Errno::EXIST);
        }
        rustix::io::ioctl_fionbio(&device, true)?;
        self.ports.push(Port { address, device });
        Ok(())
    }

    /// Reads what a device has, up to [`BURST`] packets, into the delay line.
    pub(crate) fn take_in(&mut self, port: usize) {
        for _ in 0..BURST {
            if self.line.is_full() || !self.take_one(port) {
                return;
            }
        }
    }

    /// Passes on all packets that are due.
    pub(crate) fn hand_over(&mut self) {
        let now = Instant::now();
        let mut first = true;
        while let Some(held) = self.line.release(now) {
            // The line slept for the first packet only; the others come along.
            if std::mem::take(&mut first) {
                self.line.learn(&held, now);
            }
            self.counters.late_most = self.counters.late_most.max(held.lateness(now));
            match rustix::io::write(&self.ports[held.port()].device, held.bytes()) {
                Ok(_) => {
                    self.counters.packets += 1;
                    self.counters.bytes += held.bytes().len() as u64;
                }
                // As on a real wire, a receiver that cannot take a packet loses it; TCP sends it again.
                Err(_) => self.counters.dropped += 1,
            }
            self.line.recycle(held);
        }
    }

    /// Reads one packet; false when the device has none.
    fn take_one(&mut self, port: usize) -> bool {
        let mut buffer = self.line.buffer();
        let Ok(length) = rustix::io::read(&self.ports[port].device, &mut buffer[..]) else {
            self.line.recycle_buffer(buffer);
            return false;
        };
        match packet::destination(&buffer[..length]).and_then(|address| self.port_of(address)) {
            Some(to) => self.line.hold(buffer, length, to, Instant::now()),
            None => {
                self.counters.dropped += 1;
                self.line.recycle_buffer(buffer);
            }
        }
        true
    }

    /// Index of the port that serves `address`. A rig has few nodes: a search beats a hash.
    fn port_of(&self, address: Ipv4Addr) -> Option<usize> {
        self.ports.iter().position(|port| port.address == address)
    }
}

/// One JSON object, for the rig's `status`.
impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counters { packets, bytes, dropped, late_most } = &self.counters;
        write!(
            f,
            "{{\"ports\":{},\"delay_ns\":{},\"packets\":{packets},\"bytes\":{bytes},\"dropped\":{dropped},\
             \"lead_ns\":{},\"late_most_ns\":{}}}",
            self.ports.len(),
            self.line.delay().as_nanos(),
            self.line.lead().as_nanos(),
            late_most.as_nanos(),
        )
    }
}
