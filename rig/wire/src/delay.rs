//! The delay line: packets in the order of arrival, each with the time at which it is due.
//!
//! All packets wait equally long, so the order of arrival is the order of departure and a queue is enough. When the
//! delay is made shorter, packets that arrive then wait behind those that are under way: nothing is reordered.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::packet::LARGEST;

/// Packets held at most. 4096 small packets are far more than a round trip of the nodes' clients needs, and bulk data
/// of 64 KiB packets at 1 GB/s and 10 ms holds 160.
const CAPACITY: usize = 4096;

/// Spare buffers kept for reuse, so that bulk data needs no allocation and a burst does not keep its memory.
const SPARES: usize = 256;

/// One packet under way.
pub(crate) struct Held {
    due: Instant,
    port: usize,
    buffer: Box<[u8]>,
    length: usize,
}

impl Held {
    /// Index of the port that the packet leaves by.
    pub(crate) fn port(&self) -> usize {
        self.port
    }

    /// The packet, virtio header included.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.length]
    }

    /// How much later than due `now` is.
    pub(crate) fn lateness(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.due)
    }
}

/// Packets under way, and buffers for more.
pub(crate) struct DelayLine {
    delay: Duration,
    held: VecDeque<Held>,
    spares: Vec<Box<[u8]>>,
}

impl DelayLine {
    /// An empty line without delay.
    pub(crate) fn new() -> Self {
        Self { delay: Duration::ZERO, held: VecDeque::with_capacity(CAPACITY), spares: Vec::new() }
    }

    /// Time that each packet waits, one way.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Sets the one-way delay of packets that arrive from now on.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Whether no more packets can be held.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= CAPACITY
    }

    /// When the first packet is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.held.front().map(|packet| packet.due)
    }

    /// A buffer of [`LARGEST`] bytes to read a packet into; give it back by [`Self::hold`] or [`Self::recycle`].
    pub(crate) fn buffer(&mut self) -> Box<[u8]> {
        self.spares.pop().unwrap_or_else(|| vec![0; LARGEST].into_boxed_slice())
    }

    /// Takes in the first `length` bytes of `buffer`, a packet for `port` that arrived at `now`.
    pub(crate) fn hold(&mut self, buffer: Box<[u8]>, length: usize, port: usize, now: Instant) {
        let due = now + self.delay;
        let due = self.held.back().map_or(due, |last| last.due.max(due));
        self.held.push_back(Held { due, port, buffer, length });
    }

    /// The first packet, if it is due at `now`.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Held> {
        self.next_due().filter(|due| *due <= now)?;
        self.held.pop_front()
    }

    /// Keeps the buffer of a packet that has been passed on.
    pub(crate) fn recycle(&mut self, packet: Held) {
        self.recycle_buffer(packet.buffer);
    }

    /// Keeps a buffer for later.
    pub(crate) fn recycle_buffer(&mut self, buffer: Box<[u8]>) {
        if self.spares.len() < SPARES {
            self.spares.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn line(delay: Duration) -> DelayLine {
        let mut line = DelayLine::new();
        line.set_delay(delay);
        line
    }

    fn hold(line: &mut DelayLine, port: usize, now: Instant) {
        let buffer = line.buffer();
        line.hold(buffer, 1, port, now);
    }

    #[test]
    fn a_packet_leaves_when_due_and_not_before() {
        let start = Instant::now();
        let mut line = line(2 * MS);
        hold(&mut line, 7, start);
        assert_eq!(line.next_due(), Some(start + 2 * MS));
        assert!(line.release(start + MS).is_none());
        let packet = line.release(start + 3 * MS).expect("due since 1 ms");
        assert_eq!((packet.port(), packet.lateness(start + 3 * MS)), (7, MS));
        assert!(line.next_due().is_none());
    }

    #[test]
    fn a_shorter_delay_overtakes_nothing() {
        let start = Instant::now();
        let mut line = line(10 * MS);
        hold(&mut line, 0, start);
        line.set_delay(MS);
        hold(&mut line, 1, start);
        assert!(line.release(start + 5 * MS).is_none());
        let order = [line.release(start + 10 * MS), line.release(start + 10 * MS)];
        assert_eq!(order.map(|packet| packet.map(|held| held.port())), [Some(0), Some(1)]);
    }

    #[test]
    fn full_at_capacity() {
        let mut line = line(MS);
        (0..CAPACITY).for_each(|_| line.hold(Box::new([0]), 1, 0, Instant::now()));
        assert!(line.is_full());
    }
}
