//! A job of thousands of nodes, simulated: the code that schedules parts, with links and a clock that are numbers.
//!
//! Each node's link sends one part after the other, and carries what it receives at the same time. A message without a part takes
//! the latency alone.
#![allow(clippy::unwrap_used, reason = "a test")]

use quell_spread::{Fetching, NodePlaces, Serving, SourceVerdict, fan_out};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

/// Of a link, both ways together. Unit: ns.
const LATENCY: u64 = 20_000;

/// The time in which the first node gives a place. Unit: ns.
const PLACE: u64 = 50_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    /// The first node has read a part.
    Read { part: u32 },
    /// An ask reaches the parent of `node`.
    Asked { node: u32, part: u32 },
    /// A part has arrived.
    Arrived { node: u32, part: u32 },
    /// The link of a node is free again.
    Free { node: u32 },
    /// A node has joined.
    Joined { node: u32 },
    /// A node dies.
    Dies { node: u32 },
    /// A node judges its source.
    Judges { node: u32 },
}

struct Node {
    fetching: Fetching,
    parent: u32,
    children: Vec<(u32, Serving<u32>)>,
    turn: usize,
    busy: bool,
    dead: bool,
    done: Option<u64>,
}

struct Job {
    nodes: Vec<Node>,
    queue: BinaryHeap<Reverse<(u64, u64, Happening)>>,
    number: u64,
    /// Time of a part on a link. Unit: ns.
    part_time: u64,
}

impl Job {
    fn new(nodes: u32, parts: u32, part_time: u64) -> Self {
        let mut places = NodePlaces::new(nodes, fan_out(nodes, parts));
        let address = |node: u32| SocketAddr::from(((node + 1).to_be_bytes(), 1));
        let numbers: HashMap<SocketAddr, u32> = (0..nodes).map(|node| (address(node), node)).collect();
        let parent = |node: u32, places: &mut NodePlaces| match node {
            0 => 0,
            _ => numbers[&places.join(address(node), address(0)).unwrap().ancestors[0]],
        };
        let nodes: Vec<Node> = (0..nodes)
            .map(|node| Node {
                fetching: Fetching::new(parts),
                parent: parent(node, &mut places),
                children: Vec::new(),
                turn: 0,
                busy: false,
                dead: false,
                done: None,
            })
            .collect();
        let mut job = Self { nodes, queue: BinaryHeap::new(), number: 0, part_time };
        for part in 0..parts {
            job.at(u64::from(part + 1) * part_time, Happening::Read { part });
        }
        for node in 1..job.nodes.len() as u32 {
            job.at(u64::from(node) * PLACE, Happening::Joined { node });
        }
        job
    }

    fn at(&mut self, time: u64, happening: Happening) {
        self.number += 1;
        self.queue.push(Reverse((time, self.number, happening)));
    }

    /// Runs the job; the time at which the last living node had everything.
    fn run(&mut self) -> Duration {
        while let Some(Reverse((now, _, happening))) = self.queue.pop() {
            self.happen(now, happening);
        }
        let last = self.nodes.iter().filter(|node| !node.dead).map(|node| node.done.unwrap()).max();
        Duration::from_nanos(last.unwrap())
    }

    fn happen(&mut self, now: u64, happening: Happening) {
        match happening {
            Happening::Read { part } => {
                let first = &mut self.nodes[0];
                assert!(first.fetching.ask().is_some());
                self.arrive(now, 0, part);
            }
            Happening::Joined { node } => self.approach(now, node, self.nodes[node as usize].parent),
            Happening::Asked { node, part } => {
                let parent = self.nodes[node as usize].parent;
                let peer = &mut self.nodes[parent as usize];
                peer.fetching.want(part);
                let child = peer.children.iter_mut().find(|(child, _)| *child == node);
                if let Some((_, serving)) = child {
                    assert!(serving.ask(part));
                    self.send(now, parent);
                }
            }
            Happening::Arrived { node, part } => self.arrive(now, node, part),
            Happening::Free { node } => {
                self.nodes[node as usize].busy = false;
                self.send(now, node);
            }
            Happening::Dies { node } => self.nodes[node as usize].dead = true,
            Happening::Judges { node } => self.judge(now, node),
        }
    }

    fn approach(&mut self, now: u64, node: u32, parent: u32) {
        self.nodes[parent as usize].children.push((node, Serving::default()));
        let me = &mut self.nodes[node as usize];
        me.parent = parent;
        me.fetching.moved(Duration::from_nanos(now));
        self.ask(now, node);
        self.at(now, Happening::Judges { node });
    }

    fn ask(&mut self, now: u64, node: u32) {
        while let Some(part) = self.nodes[node as usize].fetching.ask() {
            self.at(now + LATENCY, Happening::Asked { node, part });
        }
    }

    fn arrive(&mut self, now: u64, node: u32, part: u32) {
        let me = &mut self.nodes[node as usize];
        if me.dead || !me.fetching.arrived(part, Duration::from_nanos(now)) {
            return;
        }
        if me.fetching.has_all() {
            me.fetching.confirm();
            me.done = Some(now);
        }
        if node != 0 {
            self.ask(now, node);
        }
        self.send(now, node);
    }

    /// The link takes the next part that a child waits for, of each child in turn.
    fn send(&mut self, now: u64, node: u32) {
        let me = &mut self.nodes[node as usize];
        if me.busy || me.dead || me.children.is_empty() {
            return;
        }
        let count = me.children.len();
        for _ in 0..count {
            me.turn = (me.turn + 1) % count;
            let (child, serving) = &mut me.children[me.turn];
            if let Some(part) = serving.next(|part| me.fetching.has(*part)) {
                let child = *child;
                me.busy = true;
                self.at(now + self.part_time, Happening::Free { node });
                self.at(now + self.part_time + LATENCY, Happening::Arrived { node: child, part });
                return;
            }
        }
    }

    /// A peer that lives tells so; a dead one says nothing.
    fn judge(&mut self, now: u64, node: u32) {
        let parent = self.nodes[node as usize].parent;
        let lives = !self.nodes[parent as usize].dead;
        let time = Duration::from_nanos(now);
        let me = &mut self.nodes[node as usize];
        if lives {
            me.fetching.heard(time);
        }
        match me.fetching.verdict(time) {
            _ if me.dead => {}
            SourceVerdict::Complete => {}
            SourceVerdict::Leave => {
                let above = self.nodes[parent as usize].parent;
                self.nodes[parent as usize].children.retain(|(child, _)| *child != node);
                self.approach(now, node, above);
            }
            SourceVerdict::Wait(until) => {
                let next = until.min(time + quell_spread::PULSE).as_nanos() as u64;
                self.at(next, Happening::Judges { node });
            }
        }
    }
}

/// 1 MiB at 1 GB/s.
const GIGABYTE_A_SECOND: u64 = 1_048_576;

#[test]
fn sixty_four_megabytes_reach_4096_nodes_in_less_than_a_second() {
    let mut job = Job::new(4096, 64, GIGABYTE_A_SECOND);
    let seconds = job.run().as_secs_f64();
    // Twice the file on each link, a level of the tree after the other, and the places of 4096 nodes.
    assert!((0.15..0.6).contains(&seconds), "{seconds}");
}

#[test]
fn a_hundred_thousand_nodes_have_it_a_moment_after_the_last_has_joined() {
    let mut job = Job::new(100_000, 16, 4 * GIGABYTE_A_SECOND);
    let seconds = job.run().as_secs_f64();
    let joined = 100_000.0 * PLACE as f64 / 1e9;
    assert!(seconds < joined + 0.5, "{seconds} {joined}");
}

#[test]
fn sixteen_nodes_are_hardly_slower_than_one() {
    let alone = Job::new(1, 64, GIGABYTE_A_SECOND).run().as_secs_f64();
    let all = Job::new(16, 64, GIGABYTE_A_SECOND).run().as_secs_f64();
    assert!(all < 1.3 * alone, "{all} {alone}");
}

#[test]
fn dead_nodes_cost_those_below_them_a_silence_each() {
    for seed in 0..20_u64 {
        let mut job = Job::new(500, 32, GIGABYTE_A_SECOND);
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut next = move || {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random
        };
        for _ in 0..25 {
            let node = 1 + (next() % 499) as u32;
            job.at(next() % 60_000_000, Happening::Dies { node });
        }
        let seconds = job.run().as_secs_f64();
        // At most a few of a node's ancestors have died, one above the other.
        assert!(seconds < 10.0, "seed {seed}: {seconds}");
    }
}
