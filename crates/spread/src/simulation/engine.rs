//! The events of a simulated job, in order of their times.

use super::file::FileServer;
use super::job::{SimulatedFault, SimulatedJob, SimulatedRun};
use super::joining::FirstNode;
use super::node::{Child, Node};
use crate::fetching::{Pace, SILENCE, SourceVerdict};
use crate::join::JOIN;
use crate::message::WHOLE;
use crate::parts::PART;
use crate::places::CHILDREN_MAX;
use crate::sources::{PartsOrigin, PeerFault, READERS, SourceOrder};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Messages of a node that joins, each after the other one: a connection, its byte and what it is asked, its proof and the other one,
/// the wish for a place. Its last one reaches the first node after so many latencies.
const JOINING: u64 = 7;

/// The same until the first node knows of the connection.
const CONNECTING: u64 = 3;

/// The same of a node that fetches, until the peer knows it.
const APPROACHING: u64 = 7;

/// Messages of a node from its first one until it has asked its parent for parts: it joins, hears its place, reaches its parent,
/// hears the facts of the file, asks. Unit: latencies.
pub const MESSAGES: u64 = JOINING + 1 + APPROACHING + 1 + 1;

/// Messages of a node that gets the key from an ancestor, from the first one of either until the next node can get it.
pub const KEY_MESSAGES: u64 = JOINING - CONNECTING + 1;

/// Messages of such a node from its first one until it has asked its parent for parts, but those that bring the key from level to level.
pub const NUMBERED_MESSAGES: u64 = CONNECTING + APPROACHING + 1 + 1;

/// An event. `connection` is the number of the connection that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedEvent {
    /// A node connects to the first one.
    Connects { node: u32 },
    /// The first node has heard that it wants a place.
    Asks { node: u32 },
    /// It is given one.
    Placed { node: u32 },
    /// A node asks an ancestor for the key.
    AsksKey { node: u32, peer: u32 },
    /// It has the key.
    HasKey { node: u32 },
    /// A node reaches the peer that it is to fetch from.
    Reaches { node: u32, peer: u32, connection: u32 },
    /// A node learns what the file is.
    Learns { node: u32, connection: u32 },
    /// An ask reaches a peer.
    Asked { node: u32, peer: u32, part: u32, connection: u32 },
    /// The next part has left a node.
    Sent { node: u32, plan: u32 },
    /// A part has come from a peer.
    Arrives { node: u32, part: u32, connection: u32 },
    /// It has been digested and written.
    Taken { node: u32, part: u32, connection: u32 },
    /// A part has come from the file system, and was taken.
    Read { node: u32, part: u32 },
    /// The file system was measured, beside a peer.
    Measured { node: u32, connection: u32, part: u64 },
    /// A node judges its peer.
    Judges { node: u32, connection: u32 },
    /// A peer cannot be reached, or has no room.
    Leaves { node: u32, connection: u32 },
    /// A peer tells a node that it reads the file system.
    SentAway { node: u32, connection: u32, first_is_lost: bool },
}

pub(super) struct Simulation<'j> {
    job: &'j SimulatedJob,
    nodes: Vec<Node>,
    file: FileServer,
    first_node: FirstNode,
    queue: BinaryHeap<Reverse<(u64, u64, SimulatedEvent)>>,
    number: u64,
    run: SimulatedRun,
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

fn time(now: u64) -> Duration {
    Duration::from_nanos(now)
}

impl<'j> Simulation<'j> {
    pub(super) fn new(job: &'j SimulatedJob) -> Self {
        let parts = job.bytes.div_ceil(PART as u64) as u32;
        let mut random = job.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let start = |node: u32| if node == 0 { 0 } else { next(&mut random) % (nanos(job.skew) + 1) };
        let starts: Vec<u64> = (0..job.nodes).map(start).collect();
        let mut nodes: Vec<Node> =
            starts.iter().map(|began| Node::new(parts, job.link_rate / 1e9, *began)).collect();
        for (node, fault) in &job.faults {
            let Some(node) = nodes.get_mut(*node as usize) else { continue };
            match fault {
                SimulatedFault::Dies(at) => node.died = Some(nanos(*at)),
                SimulatedFault::SlowLink(rate) => node.link.rate = rate / 1e9,
            }
        }
        let run = SimulatedRun { seed: job.seed, ..SimulatedRun::default() };
        let (file, first_node) = (FileServer::new(job), FirstNode::new(job, parts));
        Self { job, nodes, file, first_node, queue: BinaryHeap::new(), number: 0, run }
    }

    pub(super) fn run(mut self) -> SimulatedRun {
        self.nodes[0].has_key = true;
        self.read_file(0, 0);
        for node in 1..self.job.nodes {
            let began = self.nodes[node as usize].began;
            self.at(began + CONNECTING * self.latency(), SimulatedEvent::Connects { node });
        }
        while let Some(Reverse((now, _, event))) = self.queue.pop() {
            self.handle(now, event);
        }
        let mut run = self.run;
        for node in self.nodes.iter().filter(|node| node.died.is_none()) {
            // The end of each is sure: the last source is the file system.
            let done = node.done.unwrap_or(u64::MAX);
            run.last_start = run.last_start.max(node.began as f64 / 1e9);
            run.seconds = run.seconds.max(done as f64 / 1e9);
            run.slowest_node = run.slowest_node.max((done - node.began.min(done)) as f64 / 1e9);
            run.readers += u32::from(node.reads);
        }
        run
    }

    fn at(&mut self, time: u64, event: SimulatedEvent) {
        self.number += 1;
        self.queue.push(Reverse((time, self.number, event)));
    }

    fn latency(&self) -> u64 {
        nanos(self.job.latency)
    }

    /// Bytes of a part.
    fn bytes(&self, part: u32) -> f64 {
        let start = u64::from(part) * PART as u64;
        self.job.bytes.saturating_sub(start).min(PART as u64) as f64
    }

    fn handle(&mut self, now: u64, event: SimulatedEvent) {
        let (SimulatedEvent::Connects { node }
        | SimulatedEvent::Asks { node }
        | SimulatedEvent::Placed { node }
        | SimulatedEvent::AsksKey { node, .. }
        | SimulatedEvent::HasKey { node }
        | SimulatedEvent::Reaches { node, .. }
        | SimulatedEvent::Learns { node, .. }
        | SimulatedEvent::Asked { node, .. }
        | SimulatedEvent::Sent { node, .. }
        | SimulatedEvent::Arrives { node, .. }
        | SimulatedEvent::Taken { node, .. }
        | SimulatedEvent::Read { node, .. }
        | SimulatedEvent::Measured { node, .. }
        | SimulatedEvent::Judges { node, .. }
        | SimulatedEvent::Leaves { node, .. }
        | SimulatedEvent::SentAway { node, .. }) = event;
        let me = &self.nodes[node as usize];
        if me.is_dead_at(now) {
            return;
        }
        match event {
            SimulatedEvent::Connects { node } if self.job.is_numbered => self.look_for_key(now, node),
            SimulatedEvent::Connects { node } => self.connect(now, node),
            SimulatedEvent::AsksKey { node, peer } => match &mut self.nodes[peer as usize] {
                them if them.has_key => self.give_key(now, node),
                them => them.waiting.push(node),
            },
            SimulatedEvent::HasKey { node } => self.have_key(now, node),
            SimulatedEvent::Asks { node } => {
                let given = self.first_node.serve(now);
                self.at(given, SimulatedEvent::Placed { node });
            }
            SimulatedEvent::Placed { node } => self.placed(now, node),
            SimulatedEvent::Asked { node, peer, part, connection } => {
                self.asked(now, peer, (node, connection), part)
            }
            SimulatedEvent::Sent { node, plan } if me.link.plan == plan => self.sent(now, node),
            SimulatedEvent::Read { node, part } => self.read(now, node, part),
            SimulatedEvent::Reaches { node, peer, connection } if me.connection == connection => {
                self.reach(now, node, peer)
            }
            SimulatedEvent::Learns { node, connection } if me.connection == connection => {
                self.learn(now, node)
            }
            SimulatedEvent::Arrives { node, part, connection } if me.connection == connection => {
                self.arrive(now, node, part)
            }
            SimulatedEvent::Taken { node, part, connection } if me.connection == connection => {
                self.take(now, node, part)
            }
            SimulatedEvent::Measured { node, part, connection } if me.connection == connection => {
                self.nodes[node as usize].rival.ended(time(part));
                self.compare(now, node);
            }
            SimulatedEvent::Judges { node, connection } if me.connection == connection => {
                self.judge(now, node)
            }
            SimulatedEvent::Leaves { node, connection } if me.connection == connection => {
                self.leave(now, node, PeerFault::Fails)
            }
            SimulatedEvent::SentAway { node, connection, first_is_lost } if me.connection == connection => {
                self.leave(now, node, PeerFault::Alone { first_is_lost })
            }
            _ => {}
        }
    }

    fn connect(&mut self, now: u64, node: u32) {
        let (children, first_lives) = (self.nodes[0].children.len(), !self.nodes[0].is_dead_at(now));
        if first_lives && self.first_node.opens(children) {
            let asks = now + (JOINING - CONNECTING) * self.latency();
            return self.at(asks, SimulatedEvent::Asks { node });
        }
        self.run.refused += u64::from(first_lives);
        let me = &mut self.nodes[node as usize];
        let answer = if first_lives { nanos(self.job.latency) } else { nanos(SILENCE) };
        let again = now + answer + nanos(me.pauses.take());
        if again < me.began + nanos(JOIN) {
            self.at(again + CONNECTING * self.latency(), SimulatedEvent::Connects { node });
        } else {
            self.move_on(now, node);
        }
    }

    /// A node that places itself looks for an ancestor that has begun: its parent, and at each further try one more.
    fn look_for_key(&mut self, now: u64, node: u32) {
        let above = self.first_node.above(node);
        let me = &mut self.nodes[node as usize];
        me.near = above.len().min(me.near + 1);
        let near = me.near;
        let begun = above[..near].iter().position(|above| {
            let them = &self.nodes[*above as usize];
            them.began <= now && !them.is_dead_at(now)
        });
        if let Some(nearest) = begun {
            self.nodes[node as usize].ancestors = above[nearest..].to_vec();
            return self.at(now, SimulatedEvent::AsksKey { node, peer: above[nearest] });
        }
        let me = &mut self.nodes[node as usize];
        let again = now + nanos(self.job.latency) + nanos(me.pauses.take());
        if again < me.began + nanos(JOIN) {
            self.at(again + CONNECTING * self.latency(), SimulatedEvent::Connects { node });
        } else {
            self.move_on(now, node);
        }
    }

    fn give_key(&mut self, now: u64, node: u32) {
        let has = now + KEY_MESSAGES * self.latency() + nanos(self.job.redeeming);
        self.at(has, SimulatedEvent::HasKey { node });
    }

    fn have_key(&mut self, now: u64, node: u32) {
        let me = &mut self.nodes[node as usize];
        me.has_key = true;
        self.run.slowest_place = self.run.slowest_place.max((now - me.began) as f64 / 1e9);
        me.order = SourceOrder::new(me.ancestors.len());
        let waiting = std::mem::take(&mut me.waiting);
        self.move_on(now, node);
        waiting.into_iter().for_each(|node| self.give_key(now, node));
    }

    fn placed(&mut self, now: u64, node: u32) {
        if self.nodes[0].is_dead_at(now) {
            return self.move_on(now + nanos(JOIN), node);
        }
        let ancestors = self.first_node.place(node);
        let now = now + self.latency();
        let me = &mut self.nodes[node as usize];
        self.run.slowest_place = self.run.slowest_place.max((now - me.began) as f64 / 1e9);
        (me.order, me.ancestors) = (SourceOrder::new(ancestors.len()), ancestors);
        self.move_on(now, node);
    }

    /// The node turns to the source that is next.
    fn move_on(&mut self, now: u64, node: u32) {
        let latency = self.latency();
        let me = &mut self.nodes[node as usize];
        me.connection += 1;
        me.asked_whole = false;
        me.fetching.moved(time(now));
        (me.heard, me.turned, me.pace, me.rival) = (now, now, Pace::default(), me.order.rival());
        let connection = me.connection;
        match me.order.current() {
            PartsOrigin::Ancestor(nearest) => {
                let peer = me.ancestors[nearest];
                me.upstream = Some(peer);
                self.at(now + APPROACHING * latency, SimulatedEvent::Reaches { node, peer, connection });
            }
            PartsOrigin::File => {
                me.upstream = None;
                self.read_file(now, node);
            }
        }
    }

    fn leave(&mut self, now: u64, node: u32, fault: PeerFault) {
        let me = &mut self.nodes[node as usize];
        me.order.leave(fault);
        self.run.left += 1;
        if let Some(peer) = me.upstream {
            self.forget_child(now, peer, node);
        }
        self.move_on(now, node);
    }

    fn forget_child(&mut self, now: u64, peer: u32, node: u32) {
        let peer_state = &mut self.nodes[peer as usize];
        peer_state.children.retain(|child| child.node != node);
        peer_state.link.keep(now, |sending| sending.to != node);
        self.plan(now, peer);
    }

    fn reach(&mut self, now: u64, node: u32, peer: u32) {
        let me = &self.nodes[node as usize];
        let (latency, connection, patience) = (self.latency(), me.connection, me.order.patience());
        let them = &mut self.nodes[peer as usize];
        if them.is_dead_at(now) {
            return self.at(now + nanos(patience), SimulatedEvent::Leaves { node, connection });
        }
        if them.children.len() >= CHILDREN_MAX {
            return self.at(now + latency, SimulatedEvent::Leaves { node, connection });
        }
        if them.reads && peer != 0 {
            let first_is_lost = them.order.first_is_lost();
            return self.at(now + latency, SimulatedEvent::SentAway { node, connection, first_is_lost });
        }
        let knows = them.knows;
        them.children.push(Child { node, connection, knows, serving: Default::default() });
        if knows {
            self.at(now + latency, SimulatedEvent::Learns { node, connection });
        }
        self.at(now + latency, SimulatedEvent::Judges { node, connection });
    }

    fn learn(&mut self, now: u64, node: u32) {
        let me = &mut self.nodes[node as usize];
        me.knows = true;
        let waiting = me.children.iter_mut().filter(|child| !child.knows);
        let told: Vec<(u32, u32)> = waiting
            .map(|child| {
                child.knows = true;
                (child.node, child.connection)
            })
            .collect();
        for (node, connection) in told {
            self.at(now + nanos(self.job.latency), SimulatedEvent::Learns { node, connection });
        }
        if self.nodes[node as usize].upstream.is_some() {
            self.ask(now, node);
        }
    }

    /// The node asks its peer for all that may be asked for.
    fn ask(&mut self, now: u64, node: u32) {
        let me = &mut self.nodes[node as usize];
        let Some(peer) = me.upstream else { return };
        let connection = me.connection;
        let mut parts = Vec::new();
        if me.fetching.has_all() && !me.asked_whole {
            me.asked_whole = true;
            parts.push(WHOLE);
        }
        parts.extend(std::iter::from_fn(|| me.fetching.ask()));
        for part in parts {
            self.at(now + nanos(self.job.latency), SimulatedEvent::Asked { node, peer, part, connection });
        }
    }

    fn asked(&mut self, now: u64, peer: u32, (node, connection): (u32, u32), part: u32) {
        let them = &mut self.nodes[peer as usize];
        if them.is_dead_at(now) {
            return;
        }
        them.fetching.want(part);
        let child =
            them.children.iter_mut().find(|child| (child.node, child.connection) == (node, connection));
        let accepted = child.map(|child| child.serving.ask(part));
        debug_assert_ne!(accepted, Some(false), "no node asks for more than a peer takes");
        self.send(now, peer);
    }

    /// Sends each peer the first part that it waits for, one at a time.
    fn send(&mut self, now: u64, node: u32) {
        let me = &mut self.nodes[node as usize];
        let (mut parts, mut whole) = (Vec::new(), Vec::new());
        for child in &mut me.children {
            if me.link.is_sending_to(child.node, child.connection) {
                continue;
            }
            let can_answer = |part: &u32| match *part {
                WHOLE => me.fetching.is_complete(),
                part => me.fetching.has(part),
            };
            match child.serving.next(can_answer) {
                Some(WHOLE) => whole.push((child.node, child.connection)),
                Some(part) => parts.push(((child.node, child.connection), part)),
                None => {}
            }
        }
        for (node, connection) in whole {
            self.at(now + nanos(self.job.latency), SimulatedEvent::Arrives { node, part: WHOLE, connection });
        }
        for (to, part) in &parts {
            let bytes = self.bytes(*part);
            let receiver = &mut self.nodes[to.0 as usize];
            receiver.fetching.begun(time(now));
            let most = receiver.link.rate;
            self.nodes[node as usize].link.send(now, *to, *part, (bytes, most));
        }
        if !parts.is_empty() {
            self.plan(now, node);
        }
    }

    /// Plans the time at which the next part has left.
    fn plan(&mut self, now: u64, node: u32) {
        let link = &mut self.nodes[node as usize].link;
        if let Some(end) = link.next_end() {
            let plan = link.plan;
            self.at(end.max(now), SimulatedEvent::Sent { node, plan });
        }
    }

    fn sent(&mut self, now: u64, node: u32) {
        let latency = self.latency();
        for sending in self.nodes[node as usize].link.ended(now) {
            let (to, part, connection) = (sending.to, sending.part, sending.connection);
            self.at(now + latency, SimulatedEvent::Arrives { node: to, part, connection });
        }
        self.plan(now, node);
        self.send(now, node);
    }

    fn arrive(&mut self, now: u64, node: u32, part: u32) {
        let bytes = if part == WHOLE { 0.0 } else { self.bytes(part) };
        let me = &mut self.nodes[node as usize];
        me.heard = now;
        me.fetching.heard(time(now));
        me.busy = me.busy.max(now) + (bytes / self.job.taking * 1e9) as u64;
        let (taken, connection) = (me.busy, me.connection);
        self.at(taken, SimulatedEvent::Taken { node, part, connection });
    }

    fn take(&mut self, now: u64, node: u32, part: u32) {
        let bytes = self.bytes(part) as u64;
        let me = &mut self.nodes[node as usize];
        if part == WHOLE {
            me.fetching.confirm();
            me.done = Some(now);
        } else if me.fetching.arrived(part, time(now)) {
            me.pace.arrived(time(now));
            self.run.from_peers += bytes;
        }
        if !self.compare(now, node) {
            self.ask(now, node);
        }
        self.send(now, node);
    }

    /// The node compares its peer with the file system, where its users have waited. True if it has left the peer.
    fn compare(&mut self, now: u64, node: u32) -> bool {
        let me = &mut self.nodes[node as usize];
        let missing = me.fetching.missing(READERS);
        if !self.job.has_users || me.upstream.is_none() || missing.is_empty() {
            return false;
        }
        if me.rival.wins(&me.pace, time(now)) {
            self.leave(now, node, PeerFault::Slower);
            return true;
        }
        if me.rival.begins(time(now - me.turned)) {
            let (connection, link) = (me.connection, me.link.rate);
            let mut readers = super::file::Readers::default();
            let mut ended = now;
            for part in &missing {
                let bytes = self.bytes(*part);
                ended = ended.max(self.file.read(now, bytes, (link, &mut readers)));
                self.run.from_file += bytes as u64;
            }
            let part = (ended - now) / missing.len() as u64;
            self.at(ended, SimulatedEvent::Measured { node, connection, part });
        }
        false
    }

    /// A peer that lives tells so; a dead one says nothing.
    fn judge(&mut self, now: u64, node: u32) {
        let Some(peer) = self.nodes[node as usize].upstream else { return };
        let last = self.nodes[peer as usize].died.map_or(now, |died| died.min(now));
        let me = &mut self.nodes[node as usize];
        if last > me.heard {
            me.heard = last;
            me.fetching.heard(time(last));
        }
        let connection = me.connection;
        match me.fetching.verdict(time(now)) {
            SourceVerdict::Complete => {}
            SourceVerdict::Leave => self.leave(now, node, PeerFault::Fails),
            SourceVerdict::Wait(until) => {
                let next = nanos(if self.job.has_users {
                    until.min(time(now) + crate::fetching::PULSE)
                } else {
                    until
                });
                self.at(next, SimulatedEvent::Judges { node, connection });
                self.compare(now, node);
            }
        }
    }

    /// The node reads what is missing from the file system. Those who fetch from it turn to its ancestors.
    fn read_file(&mut self, now: u64, node: u32) {
        let latency = self.latency();
        let me = &mut self.nodes[node as usize];
        me.reads = true;
        if node != 0 {
            let first_is_lost = me.order.first_is_lost();
            for Child { node, connection, .. } in std::mem::take(&mut me.children) {
                self.at(now + latency, SimulatedEvent::SentAway { node, connection, first_is_lost });
            }
            self.nodes[node as usize].link.keep(now, |_| false);
        }
        let opened = now + self.file.round_trip();
        self.learn(opened, node);
        self.read_on(opened, node);
    }

    fn read_on(&mut self, now: u64, node: u32) {
        loop {
            let me = &mut self.nodes[node as usize];
            if me.readers.are_all_busy() {
                return;
            }
            let Some(part) = me.fetching.ask() else { break };
            me.readers.begin();
            let bytes = self.bytes(part);
            let me = &mut self.nodes[node as usize];
            let read = self.file.read(now, bytes, (me.link.rate, &mut me.readers));
            self.run.from_file += bytes as u64;
            let taken = read + (bytes / self.job.taking * 1e9) as u64;
            self.at(taken, SimulatedEvent::Read { node, part });
        }
        let me = &mut self.nodes[node as usize];
        if me.fetching.has_all() && me.done.is_none() {
            me.fetching.confirm();
            me.done = Some(now + self.file.round_trip());
            self.send(now, node);
        }
    }

    fn read(&mut self, now: u64, node: u32, part: u32) {
        let me = &mut self.nodes[node as usize];
        me.readers.end();
        me.fetching.arrived(part, time(now));
        self.send(now, node);
        self.read_on(now, node);
    }
}

/// The next random number, by xorshift.
fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}
