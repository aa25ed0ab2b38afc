//! The sources of a node, one after the other, and the comparison of a peer with the file system. Pure: time comes in as an argument.

use crate::fetching::Pace;
use std::time::Duration;

/// Parts that a node reads from the file system at once: enough for its round trips to overlap.
pub const READERS: usize = 4;

/// Peers found slower than the file system after which a node reads the file system.
const SLOWER_MAX: u32 = 2;

/// The factor by which the file system must be faster than a peer: it was measured while peers kept the other nodes from it.
const CLEARLY: u32 = 2;

/// Once users have waited so long for peers, the file system is measured; again after each further wait of this length.
const HURRY: Duration = Duration::from_millis(200);

/// A place to fetch from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartsOrigin {
    /// The ancestor with this index.
    Ancestor(usize),
    /// The file system, which is the last.
    File,
}

/// The reason that a peer is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerFault {
    /// It is dead, slow or wrong: another one may do better.
    Fails,
    /// It brings less in the same time than the file system.
    Slower,
}

/// The ancestors that a node fetches from, the nearest first, and then the file system.
#[derive(Clone, Debug)]
pub(crate) struct SourceOrder {
    ancestors: usize,
    next: usize,
    slower: u32,
}

impl SourceOrder {
    /// Of a node with so many ancestors.
    pub(crate) fn new(ancestors: usize) -> Self {
        Self { ancestors, next: 0, slower: 0 }
    }

    /// The source to fetch from.
    pub(crate) fn current(&self) -> PartsOrigin {
        // A single slow peer may have a slow link of its own. With two, the other peers are likely to be slow too.
        match self.next < self.ancestors && self.slower < SLOWER_MAX {
            true => PartsOrigin::Ancestor(self.next),
            false => PartsOrigin::File,
        }
    }

    /// The peer is left.
    pub(crate) fn leave(&mut self, fault: PeerFault) {
        self.next += 1;
        self.slower += u32::from(fault == PeerFault::Slower);
    }
}

/// The file system, to which a peer is compared.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rival {
    /// Times that it was measured, or is being measured.
    measured: u32,
    is_running: bool,
    /// The time that it takes for a part when several are read at once.
    part: Option<Duration>,
}

impl Rival {
    /// True if the file system is to be measured now, since users have waited so long for peers.
    pub(crate) fn begins(&mut self, waited: Duration) -> bool {
        let begins = !self.is_running && waited >= HURRY * (self.measured + 1);
        self.measured += u32::from(begins);
        self.is_running |= begins;
        begins
    }

    /// It took so long for each of the parts that were read at once. A file system that gives nothing is not measured again.
    pub(crate) fn ended(&mut self, part: Duration) {
        self.is_running = false;
        self.part = Some(part);
    }

    /// True if the file system has proved to be faster than the peer.
    pub(crate) fn wins(&self, pace: &Pace, now: Duration) -> bool {
        self.part.is_some_and(|part| pace.is_slower_than(part * CLEARLY, now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetching::SAMPLE;

    #[test]
    fn peers_come_first_and_two_slow_ones_are_enough() {
        let mut order = SourceOrder::new(4);
        assert_eq!(order.current(), PartsOrigin::Ancestor(0));
        order.leave(PeerFault::Slower);
        assert_eq!(order.current(), PartsOrigin::Ancestor(1));
        order.leave(PeerFault::Fails);
        assert_eq!(order.current(), PartsOrigin::Ancestor(2));
        order.leave(PeerFault::Slower);
        assert_eq!(order.current(), PartsOrigin::File);
        let mut short = SourceOrder::new(1);
        short.leave(PeerFault::Fails);
        assert_eq!((short.current(), SourceOrder::new(0).current()), (PartsOrigin::File, PartsOrigin::File));
    }

    #[test]
    fn the_file_system_is_measured_once_for_each_wait_and_must_be_clearly_faster() {
        let mut rival = Rival::default();
        assert!(!rival.begins(HURRY / 2) && rival.begins(HURRY) && !rival.begins(HURRY * 9), "it is running");
        let mut pace = Pace::default();
        (0..=2).for_each(|_| pace.arrived(Duration::ZERO));
        assert!(!rival.wins(&pace, SAMPLE * 9), "nothing is known");
        rival.ended(SAMPLE / 2);
        assert!(!rival.wins(&pace, SAMPLE * 2) && rival.wins(&pace, SAMPLE * 3));
        assert!(!rival.begins(HURRY) && rival.begins(HURRY * 2));
    }
}
