//! The sources of a node, one after the other, and the comparison of a peer with the file system. Pure: time comes in as an argument.

use crate::fetching::{Pace, SILENCE};
use std::time::Duration;

/// Parts that a node reads from the file system at once: enough for its round trips to overlap.
pub const READERS: usize = 4;

/// The longest that a node waits for an ancestor to answer, while there are others.
const ANSWER: Duration = Duration::from_millis(300);

/// The longest that it waits for the first node, which has not answered another one.
const LOST_ANSWER: Duration = Duration::from_millis(500);

/// Ancestors to which the first node is lost, after which it is so to those below them. One alone may have lost its own way to it.
const LOST_MAX: u32 = 2;

/// Peers found slower than the file system after which a node reads the file system.
const SLOWER_MAX: u32 = 2;

/// The factor by which the file system must be faster than a peer: it was measured while peers kept the other nodes from it.
const CLEARLY: u32 = 2;

/// Once users of a node that fetches from the first one have waited so long, it measures the file system; again after twice the time,
/// and so on.
const HURRY: Duration = Duration::from_millis(200);

/// The same for other nodes. Their peers wait for the first node's too, and many nodes that measure a file system slow it down.
const HURRY_BELOW: Duration = Duration::from_millis(800);

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
    /// It reads the file system.
    Alone {
        /// Since the first node does not answer it.
        first_is_lost: bool,
    },
}

/// The ancestors that a node fetches from, the nearest first, and then the file system.
#[derive(Clone, Debug)]
pub(crate) struct SourceOrder {
    ancestors: usize,
    next: usize,
    slower: u32,
    /// Ancestors to which the first node is lost.
    lost: u32,
    /// The first node does not answer this one.
    first_failed: bool,
}

impl SourceOrder {
    /// Of a node with so many ancestors.
    pub(crate) fn new(ancestors: usize) -> Self {
        Self { ancestors, next: 0, slower: 0, lost: 0, first_failed: false }
    }

    /// The source to fetch from.
    pub(crate) fn current(&self) -> PartsOrigin {
        // A single slow peer may have a slow link of its own. With two, the other peers are likely to be slow too.
        match self.next < self.ancestors && self.slower < SLOWER_MAX && self.lost < LOST_MAX {
            true => PartsOrigin::Ancestor(self.next),
            false => PartsOrigin::File,
        }
    }

    /// The longest that the current ancestor may take to answer.
    pub(crate) fn patience(&self) -> Duration {
        match (self.next + 1 < self.ancestors, self.lost > 0) {
            (true, _) => ANSWER,
            (false, true) => LOST_ANSWER,
            (false, false) => SILENCE,
        }
    }

    /// True if the first node is lost: to this node, or to enough of those above it. So nodes of a long chain need not wait for it one
    /// after the other.
    pub(crate) fn first_is_lost(&self) -> bool {
        self.first_failed || self.lost >= LOST_MAX
    }

    /// The file system, to which the current ancestor is compared.
    pub(crate) fn rival(&self) -> Rival {
        let is_first_node = self.next + 1 == self.ancestors;
        Rival::after(if is_first_node { HURRY } else { HURRY_BELOW })
    }

    /// The peer is left.
    pub(crate) fn leave(&mut self, fault: PeerFault) {
        self.next += 1;
        self.slower += u32::from(fault == PeerFault::Slower);
        self.lost += u32::from(fault == PeerFault::Alone { first_is_lost: true });
        self.first_failed |= self.next == self.ancestors && fault == PeerFault::Fails;
    }
}

/// The file system, to which a peer is compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rival {
    /// The wait of users after which it is measured first.
    hurry: Duration,
    /// Times that it was measured, or is being measured.
    measured: u32,
    is_running: bool,
    /// The time that it takes for a part when several are read at once.
    part: Option<Duration>,
}

impl Rival {
    fn after(hurry: Duration) -> Self {
        Self { hurry, measured: 0, is_running: false, part: None }
    }

    /// True if the file system is to be measured now, since users have waited so long for peers.
    pub(crate) fn begins(&mut self, waited: Duration) -> bool {
        let begins = !self.is_running && waited >= self.hurry * (1 << self.measured.min(8));
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
    fn two_ancestors_to_which_the_first_node_is_lost_are_enough() {
        let alone = |first_is_lost| PeerFault::Alone { first_is_lost };
        let mut order = SourceOrder::new(8);
        assert_eq!(order.patience(), ANSWER);
        [alone(true), alone(false), PeerFault::Fails].into_iter().for_each(|fault| order.leave(fault));
        assert_eq!((order.current(), order.first_is_lost()), (PartsOrigin::Ancestor(3), false));
        order.leave(alone(true));
        assert_eq!((order.current(), order.first_is_lost()), (PartsOrigin::File, true));
        let mut second = SourceOrder::new(2);
        second.leave(alone(true));
        assert_eq!((second.current(), second.patience()), (PartsOrigin::Ancestor(1), LOST_ANSWER));
        second.leave(PeerFault::Fails);
        assert_eq!((second.current(), second.first_is_lost()), (PartsOrigin::File, true));
        let mut slow = SourceOrder::new(1);
        slow.leave(PeerFault::Slower);
        assert!(!slow.first_is_lost());
        assert_eq!(SourceOrder::new(1).patience(), SILENCE);
    }

    #[test]
    fn the_file_system_is_measured_once_for_each_wait_and_must_be_clearly_faster() {
        let mut rival = SourceOrder::new(1).rival();
        assert!(!rival.begins(HURRY / 2) && rival.begins(HURRY) && !rival.begins(HURRY * 9), "it is running");
        let mut pace = Pace::default();
        (0..=2).for_each(|_| pace.arrived(Duration::ZERO));
        assert!(!rival.wins(&pace, SAMPLE * 9), "nothing is known");
        rival.ended(SAMPLE / 2);
        assert!(!rival.wins(&pace, SAMPLE * 2) && rival.wins(&pace, SAMPLE * 3));
        assert!(!rival.begins(HURRY) && rival.begins(HURRY * 2));
        rival.ended(SAMPLE / 2);
        assert!(!rival.begins(HURRY * 3) && rival.begins(HURRY * 4), "twice as late each time");
    }

    #[test]
    fn nodes_far_from_the_first_one_measure_the_file_system_later() {
        let mut order = SourceOrder::new(2);
        assert!(!order.rival().begins(HURRY) && order.rival().begins(HURRY_BELOW));
        order.leave(PeerFault::Fails);
        assert!(order.rival().begins(HURRY));
    }
}
