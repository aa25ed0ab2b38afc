//! The delay line: packets in the order of arrival, each with the time at which it is due.
//!
//! All packets wait equally long, so the order of arrival is the order of departure and a queue is enough. When the
//! delay is made shorter, packets that arrive then wait behind those that are under way: nothing is reordered.
//!
//! A processor that slept wakes late, by some 30 us on a virtual machine. So the line aims earlier than due by a *lead*
//! that follows the median of its own lateness: half of the packets leave too early by a little, half too late.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::packet::LARGEST;

/// Packets held at most. 4096 small packets are far more than a round trip of the nodes' clients needs, and bulk data
/// of 64 KiB packets at 1 GB/s and 10 ms holds 160.
const CAPACITY: usize = 4096;

/// Spare buffers kept for reuse, so that bulk data needs no allocation and a burst does not keep its memory.
const SPARES: usize = 256;

/// The step by which one packet's lateness moves the lead. Small steps of one size make it follow the median, whatever the
/// outliers; the lead settles within a hundred packets.
const LEAD_STEP: Duration = Duration::from_micros(1);

/// Largest lead: a machine that wakes later than this is overloaded, which is not for the wire to hide.
const LEAD_MOST: Duration = Duration::from_micros(100);

/// One packet under way.
pub(crate) struct Held {
    aim: Instant,
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

    /// The time by which `now` is later than due.
    pub(crate) fn lateness(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.due)
    }
}

/// Packets under way, and buffers for more.
pub(crate) struct DelayLine {
    delay: Duration,
    lead: Duration,
    held: VecDeque<Held>,
    spares: Vec<Box<[u8]>>,
}

impl DelayLine {
    /// An empty line without delay.
    pub(crate) fn new() -> Self {
        Self {
            delay: Duration::ZERO,
            lead: Duration::ZERO,
            held: VecDeque::with_capacity(CAPACITY),
            spares: Vec::new(),
        }
    }

    /// Time that each packet waits, one way.
    pub(crate) fn delay(&self) -> Duration {
        self.delay
    }

    /// Sets the one-way delay of packets that arrive from now on.
    pub(crate) fn set_delay(&mut self, delay: Duration) {
        self.delay = delay;
    }

    /// Tells whether there is no room for another packet.
    pub(crate) fn is_full(&self) -> bool {
        self.held.len() >= CAPACITY
    }

    /// The time to check the first packet again: its due time, less the lead.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.held.front().map(|packet| packet.aim)
    }

    /// The time by which the line aims earlier than due.
    pub(crate) fn lead(&self) -> Duration {
        self.lead
    }

    /// Learns from a packet for which the line slept and that leaves at `now`.
    pub(crate) fn learn(&mut self, packet: &Held, now: Instant) {
        // A packet that waits for nothing tells nothing about sleeping.
        if self.delay.is_zero() {
            return;
        }
        self.lead = if now > packet.due {
            (self.lead + LEAD_STEP).min(LEAD_MOST)
        } else {
            self.lead.saturating_sub(LEAD_STEP)
        };
    }

    /// A buffer of [`LARGEST`] bytes to read a packet into; give it back by [`Self::hold`] or [`Self::recycle`].
    pub(crate) fn buffer(&mut self) -> Box<[u8]> {
        self.spares.pop().unwrap_or_else(|| vec![0; LARGEST].into_boxed_slice())
    }

    /// Takes in the first `length` bytes of `buffer`, a packet for `port` that arrived at `now`.
    pub(crate) fn hold(&mut self, buffer: Box<[u8]>, length: usize, port: usize, now: Instant) {
        let due = now + self.delay;
        let aim = due - self.lead.min(self.delay);
        let aim = self.held.back().map_or(aim, |last| last.aim.max(aim));
        self.held.push_back(Held { aim, due, port, buffer, length });
    }

    /// The first packet, if it may leave at `now`.
    pub(crate) fn release(&mut self, now: Instant) -> Option<Held> {
        self.next_release().filter(|aim| *aim <= now)?;
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
        assert_eq!(line.next_release(), Some(start + 2 * MS));
        assert!(line.release(start + MS).is_none());
        let packet = line.release(start + 3 * MS).expect("due since 1 ms");
        assert_eq!((packet.port(), packet.lateness(start + 3 * MS)), (7, MS));
        assert!(line.next_release().is_none());
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
    fn the_lead_follows_the_lateness() {
        let start = Instant::now();
        let late = Duration::from_micros(30);
        let mut line = line(MS);
        for _ in 0..100 {
            hold(&mut line, 0, start);
            let wake = line.next_release().expect("just held") + late;
            let packet = line.release(wake).expect("just due");
            line.learn(&packet, wake);
        }
        assert!(line.lead().abs_diff(late) <= LEAD_STEP, "lead {:?}", line.lead());
    }

    #[test]
    fn no_delay_needs_no_lead() {
        let start = Instant::now();
        let mut line = line(Duration::ZERO);
        hold(&mut line, 0, start);
        let packet = line.release(start).expect("due at once");
        line.learn(&packet, start + MS);
        assert_eq!(line.lead(), Duration::ZERO);
    }

    #[test]
    fn full_at_capacity() {
        let mut line = line(MS);
        (0..CAPACITY).for_each(|_| line.hold(Box::new([0]), 1, 0, Instant::now()));
        assert!(line.is_full());
    }
}
