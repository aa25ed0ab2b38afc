//! The order in which a node fetches parts, and when it leaves a source. Pure: time comes in as an argument.
//!
//! A node has one source at a time: a peer, or the file system. It asks a peer for a few parts ahead, in file order, which is the
//! order of first access; a part that a process or a peer waits for goes first. It leaves a peer that says nothing, that takes too
//! long over a part, or that has nothing new for a long time. It then asks the next source for the parts that are missing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Parts that are asked for at once: enough to fill a link over its latency, few enough to be soon overtaken by a part that is
/// waited for.
pub(crate) const WINDOW: usize = 8;

/// A peer that sends nothing for so long has died, or cannot be reached. It tells every [`PULSE`] that it lives.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);

/// The interval at which a peer without news tells that it lives.
pub const PULSE: Duration = Duration::from_millis(200);

/// The longest that a part may be on its way: 1 MB/s. A slower peer is left.
pub(crate) const PART_TIME: Duration = Duration::from_secs(1);

/// A peer that lives and has nothing new for so long waits for a file system that hangs.
pub(crate) const STALL: Duration = Duration::from_secs(30);

/// The longest that a part is left to a user of the copy, who reads it and may have died.
pub(crate) const DEFERRED: Duration = Duration::from_secs(1);

/// The parts of a file that a node has, asks for, and misses.
#[derive(Debug)]
pub struct Fetching {
    states: Vec<PartState>,
    missing: usize,
    /// The file was still the same when its last part had been read.
    confirmed: bool,
    /// No part before is absent.
    next: usize,
    wanted: VecDeque<u32>,
    /// Parts that are left to users of the copy, and the times since which they are.
    deferred: BTreeMap<u32, Duration>,
    asked: usize,
    heard: Duration,
    progressed: Duration,
    receiving: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartState {
    Absent,
    Asked,
    Deferred,
    Present,
}

/// The next step with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceVerdict {
    /// Everything has arrived.
    Complete,
    /// Stay with it at least until then.
    Wait(Duration),
    /// Go to the next source.
    Leave,
}

impl Fetching {
    /// Nothing has arrived of `parts` parts.
    pub fn new(parts: u32) -> Self {
        Self {
            states: vec![PartState::Absent; parts as usize],
            missing: parts as usize,
            confirmed: false,
            next: 0,
            wanted: VecDeque::new(),
            deferred: BTreeMap::new(),
            asked: 0,
            heard: Duration::ZERO,
            progressed: Duration::ZERO,
            receiving: None,
        }
    }

    /// True for a part that has arrived.
    pub fn has(&self, part: u32) -> bool {
        self.states.get(part as usize) == Some(&PartState::Present)
    }

    /// True when every part has arrived.
    pub fn has_all(&self) -> bool {
        self.missing == 0
    }

    /// The first parts that have not arrived, `most` at most.
    pub fn missing(&self, most: usize) -> Vec<u32> {
        let states = self.states.iter().zip(0..);
        let missing = states.filter(|(state, _)| **state != PartState::Present).map(|(_, part)| part);
        missing.take(most).collect()
    }

    /// The parts are of one version of the file.
    pub fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// True when every part has arrived, and the parts are of one version.
    pub fn is_complete(&self) -> bool {
        self.missing == 0 && self.confirmed
    }

    /// A process or a peer waits for `part`: it is the next that is asked for.
    pub fn want(&mut self, part: u32) {
        if self.states.get(part as usize) == Some(&PartState::Absent) && !self.wanted.contains(&part) {
            self.wanted.push_back(part);
        }
    }

    /// The next part to ask for; `None` while as many are on their way as may be, or all are.
    pub fn ask(&mut self) -> Option<u32> {
        if self.asked == WINDOW {
            return None;
        }
        let absent = |states: &[PartState], part: usize| states[part] == PartState::Absent;
        while let Some(part) = self.wanted.pop_front() {
            if absent(&self.states, part as usize) {
                return Some(self.note_ask(part as usize));
            }
        }
        while self.next < self.states.len() && !absent(&self.states, self.next) {
            self.next += 1;
        }
        (self.next < self.states.len()).then(|| self.note_ask(self.next))
    }

    fn note_ask(&mut self, part: usize) -> u32 {
        self.states[part] = PartState::Asked;
        self.asked += 1;
        part as u32
    }

    /// A user of the copy reads this part, which was to be asked for. False if it does so for too long: the part stays asked for.
    pub fn defer(&mut self, part: u32, now: Duration) -> bool {
        let defers = now < *self.deferred.entry(part).or_insert(now) + DEFERRED;
        if defers {
            self.states[part as usize] = PartState::Deferred;
            self.asked -= 1;
        }
        defers
    }

    /// Parts that are left to users are looked at again, before all others: peers may wait for what a user has read by now. True if
    /// there are any.
    pub fn recall(&mut self) -> bool {
        let mut any = false;
        for part in self.deferred.keys().rev() {
            let state = &mut self.states[*part as usize];
            if *state == PartState::Deferred {
                *state = PartState::Absent;
                self.wanted.push_front(*part);
                any = true;
            }
        }
        any
    }

    /// Parts that are left to users.
    pub fn left_to_users(&self) -> Vec<u32> {
        let is_left = |part: &u32| self.states[*part as usize] == PartState::Deferred;
        self.deferred.keys().copied().filter(is_left).collect()
    }

    /// Takes back a part that is left to a user, who has read it. False if another thread has taken it back.
    pub fn take_back(&mut self, part: u32) -> bool {
        let is_left = self.states[part as usize] == PartState::Deferred;
        if is_left {
            self.note_ask(part as usize);
        }
        is_left
    }

    /// The source said something.
    pub fn heard(&mut self, now: Duration) {
        self.heard = now;
    }

    /// The source began to send a part.
    pub fn begun(&mut self, now: Duration) {
        self.receiving = Some(now);
    }

    /// A part has arrived and is what it should be. False for a part that was not asked for: the source is at fault.
    pub fn arrived(&mut self, part: u32, now: Duration) -> bool {
        let Some(state) = self.states.get_mut(part as usize).filter(|state| **state == PartState::Asked)
        else {
            return false;
        };
        *state = PartState::Present;
        self.asked -= 1;
        self.missing -= 1;
        (self.heard, self.progressed, self.receiving) = (now, now, None);
        true
    }

    /// Another source begins now.
    pub fn moved(&mut self, now: Duration) {
        self.recall();
        for state in self.states.iter_mut().filter(|state| **state == PartState::Asked) {
            *state = PartState::Absent;
        }
        (self.next, self.asked) = (0, 0);
        (self.heard, self.progressed, self.receiving) = (now, now, None);
    }

    /// Judges the source.
    pub fn verdict(&self, now: Duration) -> SourceVerdict {
        let limits = [
            Some(self.heard + SILENCE),
            Some(self.progressed + STALL),
            self.receiving.map(|begun| begun + PART_TIME),
        ];
        match limits.into_iter().flatten().min() {
            _ if self.is_complete() => SourceVerdict::Complete,
            Some(limit) if now < limit => SourceVerdict::Wait(limit),
            _ => SourceVerdict::Leave,
        }
    }
}

/// The pace at which a source brings parts, from its first one on: it may have waited for that one itself.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    began: Option<Duration>,
    parts: u32,
}

impl Pace {
    /// A part has arrived.
    pub(crate) fn arrived(&mut self, now: Duration) {
        match self.began {
            None => self.began = Some(now),
            Some(_) => self.parts += 1,
        }
    }

    /// True if another source, that takes `part` for each, is faster. No source is judged by less than [`SAMPLE`].
    pub(crate) fn is_slower_than(&self, part: Duration, now: Duration) -> bool {
        let elapsed = self.began.map_or(Duration::ZERO, |began| now.saturating_sub(began));
        elapsed >= SAMPLE && elapsed > part * self.parts.max(1)
    }
}

/// The time by which a source is judged.
pub(crate) const SAMPLE: Duration = Duration::from_millis(300);

/// The parts that a peer asked for and has not got.
#[derive(Debug)]
pub(crate) struct Serving<Ask>(VecDeque<Ask>);

impl<Ask> Default for Serving<Ask> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<Ask> Serving<Ask> {
    /// Notes that the peer asks. False for a peer that asks for more at once than any does.
    pub(crate) fn ask(&mut self, ask: Ask) -> bool {
        self.0.push_back(ask);
        self.0.len() <= WINDOW
    }

    /// Takes the first of its asks that can be answered.
    pub(crate) fn next(&mut self, can_answer: impl Fn(&Ask) -> bool) -> Option<Ask> {
        let first = self.0.iter().position(can_answer)?;
        self.0.remove(first)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(100);

    fn asks(fetching: &mut Fetching) -> Vec<u32> {
        std::iter::from_fn(|| fetching.ask()).collect()
    }

    #[test]
    fn parts_come_in_order_and_those_that_are_waited_for_first() {
        let mut fetching = Fetching::new(12);
        fetching.moved(START);
        assert_eq!(asks(&mut fetching), (0..8).collect::<Vec<_>>());
        fetching.want(3);
        fetching.want(11);
        fetching.want(99);
        for part in [0, 1] {
            assert!(fetching.arrived(part, START));
        }
        assert_eq!(asks(&mut fetching), [11, 8]);
        assert!(!fetching.arrived(0, START) && !fetching.arrived(9, START) && !fetching.arrived(12, START));
        fetching.moved(START);
        assert_eq!(asks(&mut fetching), (2..10).collect::<Vec<_>>(), "what the last source owes");
        (2..10).for_each(|part| assert!(fetching.arrived(part, START)));
        assert_eq!(asks(&mut fetching), [10, 11]);
        assert!(fetching.arrived(11, START) && !fetching.is_complete());
        assert!(fetching.arrived(10, START) && fetching.has_all() && !fetching.is_complete());
        fetching.confirm();
        assert_eq!(fetching.verdict(START + STALL), SourceVerdict::Complete);
    }

    #[test]
    fn a_silent_a_slow_and_an_idle_source_are_left() {
        let fresh = || {
            let mut fetching = Fetching::new(2);
            fetching.moved(START);
            assert_eq!(asks(&mut fetching), [0, 1]);
            fetching
        };
        let fetching = fresh();
        assert_eq!(fetching.verdict(START), SourceVerdict::Wait(START + SILENCE));
        assert_eq!(fetching.verdict(START + SILENCE), SourceVerdict::Leave);

        let mut slow = fresh();
        slow.begun(START + PULSE);
        slow.heard(START + PART_TIME);
        assert_eq!(slow.verdict(START + PART_TIME), SourceVerdict::Wait(START + PULSE + PART_TIME));
        assert_eq!(slow.verdict(START + PULSE + PART_TIME), SourceVerdict::Leave);
        assert!(slow.arrived(0, START + PART_TIME));
        assert_eq!(slow.verdict(START + PULSE + PART_TIME), SourceVerdict::Wait(START + PART_TIME + SILENCE));

        let mut idle = fresh();
        idle.heard(START + STALL);
        assert_eq!(idle.verdict(START + STALL), SourceVerdict::Leave);
    }

    #[test]
    fn a_part_that_a_user_reads_is_left_to_it_and_keeps_no_other_waiting() {
        let mut fetching = Fetching::new(10);
        fetching.moved(START);
        assert_eq!(fetching.ask(), Some(0));
        assert!(fetching.defer(0, START));
        assert_eq!(asks(&mut fetching), (1..9).collect::<Vec<_>>());
        assert!(fetching.arrived(1, START) && fetching.recall());
        assert_eq!(fetching.ask(), Some(0));
        assert!(fetching.defer(0, START + DEFERRED / 2) && fetching.recall());
        assert_eq!(fetching.ask(), Some(0));
        assert!(!fetching.defer(0, START + DEFERRED), "its reader may have died");
        assert!(!fetching.recall() && fetching.arrived(0, START + DEFERRED));
    }

    #[test]
    fn a_part_that_a_user_has_read_is_looked_at_before_those_that_peers_ask_for() {
        let mut fetching = Fetching::new(10);
        fetching.moved(START);
        assert_eq!(fetching.ask(), Some(0));
        assert!(fetching.defer(0, START));
        (0..8).for_each(|part| fetching.want(part));
        assert!(fetching.recall());
        assert_eq!([fetching.ask(), fetching.ask()], [Some(0), Some(1)]);
    }

    #[test]
    fn a_part_that_a_user_has_read_is_taken_back_once() {
        let mut fetching = Fetching::new(2);
        fetching.moved(START);
        assert_eq!(fetching.ask(), Some(0));
        assert!(fetching.left_to_users().is_empty() && fetching.defer(0, START));
        assert_eq!(fetching.left_to_users(), [0]);
        assert!(fetching.take_back(0) && !fetching.take_back(0));
        assert!(!fetching.recall() && fetching.arrived(0, START));
        assert_eq!(asks(&mut fetching), [1]);
    }

    #[test]
    fn a_source_is_slower_if_it_brings_less_in_the_same_time() {
        let mut pace = Pace::default();
        let part = Duration::from_millis(100);
        assert!(!pace.is_slower_than(part, START + STALL), "no part has come");
        (0..=4).for_each(|_| pace.arrived(START));
        assert!(!pace.is_slower_than(Duration::ZERO, START + SAMPLE / 2));
        assert!(!pace.is_slower_than(part, START + part * 4) && pace.is_slower_than(part, START + part * 5));
    }

    #[test]
    fn no_source_means_no_wait_for_ever() {
        assert_eq!(Fetching::new(0).verdict(START), SourceVerdict::Leave);
        assert_eq!(Fetching::new(1).verdict(START), SourceVerdict::Leave);
    }

    #[test]
    fn a_peer_gets_what_there_is_and_may_not_ask_for_more_than_it_takes() {
        let mut serving = Serving::default();
        assert!((0..8).all(|part| serving.ask(part)));
        assert_eq!(serving.next(|part| *part > 4), Some(5));
        assert_eq!(serving.next(|part| *part > 100), None);
        assert!(serving.ask(8) && !serving.ask(9));
    }
}
