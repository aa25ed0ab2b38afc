//! The processes of one node, replayed against its caches: an exact simulation of what they ask, in their own time.
//!
//! Each process goes through the script: it computes on one of the node's cores, asks its client, and waits for
//! answers. Runs of 1, 2, 4 and 8 processes are replayed, other numbers lie on the line through two of them, and those beyond
//! [`REPLAYED`] on the last line: further processes of a node are alike.

use super::state::{ActProgress, CacheEffect, Caches, ProcessNeed};
use super::{Act, Deed, Demand, PAGE, Segment, StartScript};
use crate::chance::Chance;
use crate::parameters::ClientRules;
use crate::{PerOperation, ServerOperation};

/// Most processes of a node that are replayed one by one. More would cost time and change little. Range: a power of two.
pub(super) const REPLAYED: u32 = 8;

/// Segments that a run's acts are cut into. More would follow a changing mix more closely.
pub(super) const SEGMENTS: usize = 64;

/// A node, beside its caches' rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Processes on it.
    pub processes: u32,
    /// Cores that they share; `None` is one for each.
    pub cores: Option<u32>,
    /// Requests of its client that may be under way at once. Range: at least 1; infinite where nothing holds them back.
    pub in_flight: f64,
    /// Processor time of one request on it. Unit: seconds.
    pub cpu: f64,
    /// The same for a byte of data. Unit: seconds.
    pub cpu_of_a_byte: f64,
    /// An answer that a client's daemon gives by itself. Unit: seconds.
    pub own_answer: f64,
    /// The program has run on it before.
    pub is_warm: bool,
    /// The time of one request. Unit: seconds.
    pub latency: PerOperation,
    /// The time of a byte of data beside that. Unit: seconds.
    pub byte: f64,
}

/// The demand of one node.
pub fn demand(script: &StartScript, rules: ClientRules, machine: &Machine) -> Demand {
    let wanted = machine.processes.max(1);
    let mut replays = replays(script, rules, machine, wanted.min(REPLAYED).next_power_of_two()).into_iter();
    let (mut fewer, mut replayed) = (1, 1);
    let mut whole = replays.next().unwrap_or_default();
    let mut before = whole.clone();
    for more in replays {
        (fewer, before, replayed) = (replayed, whole, replayed * 2);
        whole = more;
        // More processes together never wait for less and never ask less.
        whole.at_least(&before);
    }
    if wanted != replayed {
        let share = f64::from(wanted - fewer) / f64::from(replayed - fewer);
        for (more, less) in whole.segments.iter_mut().zip(&before.segments) {
            *more = between(less, more, share);
        }
    }
    whole.processes = f64::from(wanted);
    if machine.is_warm {
        // Names that a client knew are asked for by each process, and a cold one's are by the first. A
        // warm start must never be predicted slower than a cold one.
        whole.at_most(&demand(script, rules, &Machine { is_warm: false, ..*machine }));
    }
    whole
}

/// A segment on the line through two. `share`: 0 gives the first, 1 the second; beyond it only what the node asks grows.
fn between(less: &Segment, more: &Segment, share: f64) -> Segment {
    let line = |less: &PerOperation, more: &PerOperation, share: f64| {
        PerOperation::of(|operation| {
            less.get(operation) + (more.get(operation) - less.get(operation)) * share
        })
    };
    Segment {
        think: more.think,
        own_answers: more.own_answers,
        waits: line(&less.waits, &more.waits, share.min(1.0)),
        asks: line(&less.asks, &more.asks, share),
        bytes: less.bytes + (more.bytes - less.bytes) * share,
        awaited: less.awaited + (more.awaited - less.awaited) * share.min(1.0),
        ..Segment::default()
    }
}

/// Runs of 1, 2, 4 and so on to `most` processes. The last takes as long as all others together, so it has a thread of its own.
fn replays(script: &StartScript, rules: ClientRules, machine: &Machine, most: u32) -> Vec<Demand> {
    let run = |processes| replay(script, rules, machine, processes);
    if most == 1 {
        return vec![run(1)];
    }
    std::thread::scope(|scope| {
        let last = std::thread::Builder::new().spawn_scoped(scope, || run(most));
        let mut all: Vec<Demand> = (0..most.ilog2()).map(|power| run(1 << power)).collect();
        all.push(match last {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // No more threads are allowed here.
            Err(_) => run(most),
        });
        all
    })
}

fn replay(script: &StartScript, rules: ClientRules, machine: &Machine, processes: u32) -> Demand {
    let mut caches = Caches::new(script, rules);
    let begin = match machine.is_warm {
        true => ReplayedNode::new(script, machine, 1, 0.0).run(&mut caches).1,
        false => 0.0,
    };
    ReplayedNode::new(script, machine, processes, begin).run(&mut caches).0
}

/// A process at the next moment at which something happens to it.
#[derive(Clone, Debug)]
struct ReplayedProcess {
    act: usize,
    /// The segment of `act`.
    segment: usize,
    progress: ActProgress,
    /// The event at that moment.
    then: ProcessEvent,
    /// Its own luck.
    chance: Chance,
}

/// The event that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ProcessEvent {
    /// It begins to compute.
    Begin,
    /// It has computed.
    Go,
    /// An answer comes.
    Answered(CacheEffect),
}

/// The steps of a process before another one's turn comes: no other process moves its next moment.
#[derive(Clone, Copy, Debug)]
struct ProcessTurn {
    number: usize,
    /// The next moment at which another process goes on, and its number. Of several at one moment, the lowest number comes first.
    until: (f64, usize),
}

impl ProcessTurn {
    fn lasts(&self, next: f64) -> bool {
        next < self.until.0 || (next == self.until.0 && next.is_finite() && self.number < self.until.1)
    }
}

struct ReplayedNode<'a> {
    script: &'a StartScript,
    machine: &'a Machine,
    processes: Vec<ReplayedProcess>,
    /// The next moment of each. Unit: seconds; infinite behind its last act.
    next: Vec<f64>,
    /// The moment at which each core is free. Shape: empty when there is one for each process.
    cores: Vec<f64>,
    /// The moments at which the client may send a further request. Shape: empty when it may send one for each process.
    slots: Vec<f64>,
    demand: Demand,
}

impl<'a> ReplayedNode<'a> {
    fn new(script: &'a StartScript, machine: &'a Machine, processes: u32, begin: f64) -> Self {
        let process = |number| ReplayedProcess {
            act: 0,
            segment: 0,
            progress: ActProgress::default(),
            then: ProcessEvent::Begin,
            chance: Chance(u64::from(number)),
        };
        let cores = machine.cores.filter(|cores| *cores < processes).unwrap_or(0);
        // Of more processes than are replayed, each has as large a part of the limit as here.
        let replayed = f64::from(REPLAYED) / f64::from(machine.processes.max(REPLAYED));
        let limit = (machine.in_flight * replayed).max(1.0);
        let slots = if limit < f64::from(processes) { limit as usize } else { 0 };
        Self {
            script,
            machine,
            processes: (0..processes).map(process).collect(),
            next: vec![moment(begin); processes as usize],
            cores: vec![begin; cores as usize],
            slots: vec![begin; slots],
            demand: Demand {
                segments: vec![Segment::default(); SEGMENTS],
                processes: f64::from(processes),
                ..Demand::default()
            },
        }
    }

    /// Replays all processes; returns what they asked, and when the last ended.
    fn run(mut self, caches: &mut Caches<'_>) -> (Demand, f64) {
        let mut end = 0.0;
        while let Some(turn) = self.turn() {
            while turn.lasts(self.next[turn.number]) {
                end = self.next[turn.number];
                self.go_on(turn.number, end, caches);
            }
        }
        let share = 1.0 / self.processes.len() as f64;
        for segment in &mut self.demand.segments {
            segment.think *= share;
            segment.own_answers *= share;
            segment.awaited *= share;
            segment.waits.0.iter_mut().for_each(|number| *number *= share);
        }
        // Computing behind the last act is a part of its own: it shares no station with the acts before it.
        self.demand.segments.push(Segment { think: self.script.tail, ..Segment::default() });
        self.demand.alike = caches.alike;
        self.demand.alike.ended = end;
        (self.demand, end)
    }

    fn go_on(&mut self, number: usize, now: f64, caches: &mut Caches<'_>) {
        match self.processes[number].then {
            ProcessEvent::Begin => self.begin(number, now),
            ProcessEvent::Go => self.step(number, now, caches),
            ProcessEvent::Answered(effect) => {
                caches.answered(effect, now);
                let ReplayedProcess { act, progress, .. } = &mut self.processes[number];
                if let Some(act) = self.script.acts.get(*act) {
                    progress.answered(effect, act, self.script);
                }
                self.step(number, now, caches);
            }
        }
    }

    /// The process whose turn is next; `None` when all have ended. There are few: looking at all of them takes less time than keeping them in
    /// order.
    fn turn(&self) -> Option<ProcessTurn> {
        let (mut first, mut then) = (u128::MAX, u128::MAX);
        // Times are never negative or NaN, so their bits sort as they do. `min` and `max` need no branches, which the processor would
        // mispredict. A number fits into 32 bits.
        for (number, at) in self.next.iter().enumerate() {
            let key = u128::from(at.to_bits()) << 32 | number as u128;
            (first, then) = (first.min(key), then.min(first.max(key)));
        }
        let moment = |key: u128| (f64::from_bits((key >> 32) as u64), key as u32 as usize);
        let (at, number) = moment(first);
        let until = if then == u128::MAX { (f64::INFINITY, 0) } else { moment(then) };
        at.is_finite().then_some(ProcessTurn { number, until })
    }

    /// A number from which [`luck`] makes a factor.
    fn chance(&mut self, number: usize) -> f64 {
        self.processes[number].chance.uniform()
    }

    /// Takes a core for the computing before the next act.
    fn begin(&mut self, number: usize, now: f64) {
        let chance = self.chance(number);
        let at = self.processes[number].act;
        let Some(act) = self.script.acts.get(at) else {
            self.next[number] = f64::INFINITY;
            return;
        };
        let think = if act.think > 0.0 { act.think * luck(self.processes.len(), chance) } else { 0.0 };
        let end = first_free(&mut self.cores).map_or(now, |free| {
            let begin = free.max(now);
            *free = begin + think;
            begin
        }) + think;
        let segment = at * SEGMENTS / self.script.acts.len();
        self.demand.segments[segment].think += act.think;
        let process = &mut self.processes[number];
        (process.segment, process.then) = (segment, ProcessEvent::Go);
        self.next[number] = moment(end);
    }

    /// Goes on with an act until something has to be waited for.
    fn step(&mut self, number: usize, now: f64, caches: &mut Caches<'_>) {
        let chance = self.chance(number);
        let processes = self.processes.len();
        let process = &mut self.processes[number];
        let Some(act) = self.script.acts.get(process.act) else { return };
        let segment = &mut self.demand.segments[process.segment];
        self.next[number] = match caches.need(act, &mut process.progress, now) {
            ProcessNeed::Request(operation, effect) => {
                let bytes = fetched(act, effect);
                segment.bytes += bytes;
                segment.awaited += bytes;
                segment.asks.add(operation, 1.0);
                let Machine { latency, byte, .. } = self.machine;
                let slot = first_free(&mut self.slots);
                let sent = slot.as_ref().map_or(now, |slot| slot.max(now));
                segment.waits.add(operation, 1.0 + (sent - now) / latency.get(operation).max(1e-9));
                let handled = handled(&mut self.cores, self.machine, sent, bytes);
                let answer = handled + latency.get(operation) * luck(processes, chance) + byte * bytes;
                slot.into_iter().for_each(|slot| *slot = answer);
                caches.sent(effect, answer);
                process.then = ProcessEvent::Answered(effect);
                moment(answer)
            }
            ProcessNeed::Own(told) => {
                segment.own_answers += 1.0;
                process.progress.step += 1;
                process.then = ProcessEvent::Go;
                let begin = match told {
                    Some(operation) => {
                        segment.asks.add(operation, 1.0);
                        handled(&mut self.cores, self.machine, now, 0.0)
                    }
                    None => now,
                };
                moment(begin + self.machine.own_answer)
            }
            ProcessNeed::Answer { at, of } => {
                let latency = self.machine.latency.get(of).max(1e-9);
                segment.waits.add(of, ((at - now) / latency).min(1.0));
                if of == ServerOperation::Read && self.machine.byte > 0.0 {
                    segment.awaited += (at - now - latency).max(0.0) / self.machine.byte;
                }
                process.then = ProcessEvent::Go;
                // The first asker's turn comes before. Late in a long run two nanoseconds are less than a number's own step.
                moment(at + 2e-9).max(at.next_up())
            }
            ProcessNeed::Nothing => {
                (process.act, process.progress, process.then) =
                    (process.act + 1, ActProgress::default(), ProcessEvent::Begin);
                moment(now)
            }
        };
    }
}

/// A factor of mean 1 for a time: processes of a node do not go in step, since what each does takes now a little more
/// and now a little less. One process alone has no luck: it would change its time and nothing else.
fn luck(processes: usize, chance: f64) -> f64 {
    match processes {
        1 => 1.0,
        _ => 0.5 - 0.5 * (1.0 - chance).ln(),
    }
}

/// The core or slot that is free first; `None` where they are not limited.
fn first_free(moments: &mut [f64]) -> Option<&mut f64> {
    moments.iter_mut().min_by(|a, b| a.total_cmp(b))
}

/// The moment at which a core has time for a request's own work, where processes share cores.
fn handled(cores: &mut [f64], machine: &Machine, now: f64, bytes: f64) -> f64 {
    let Some(free) = first_free(cores) else { return now };
    let begin = free.max(now);
    *free = begin + machine.cpu.max(machine.cpu_of_a_byte * bytes);
    begin
}

/// Data that a request brings. Unit: bytes.
fn fetched(act: &Act, effect: CacheEffect) -> f64 {
    let CacheEffect::Windows(_, first, last) = effect else { return 0.0 };
    let pages = |number: u32| f64::from(number) * PAGE as f64;
    match act.deed {
        Deed::Read(_, begin, end) => {
            let asked = last.min(end) - first;
            act.bytes * f64::from(asked) / f64::from(end - begin) + pages(last - first - asked)
        }
        _ => pages(last - first),
    }
}

/// A time in whole nanoseconds, as long as those are more than a number's own step. Unit: seconds.
fn moment(seconds: f64) -> f64 {
    (seconds * 1e9).floor() / 1e9
}
