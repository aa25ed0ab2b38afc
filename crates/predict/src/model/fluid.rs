//! Nodes as a fluid: cohorts that started together flow through the parts of their run, as fast as stations let them.
//!
//! At any moment a cohort in part `p` needs `alone(p) + sum over stations of W(s) weight(p, s)` for the whole part, where
//! `W(s)` is the wait at a station, the same for all requests. A station that is not full has `W = 0`; the others have the
//! `W` at which exactly as much comes as they can do. Between two moments at which a cohort changes parts nothing changes,
//! so the engine goes from one to the next: their number depends on cohorts and parts, never on nodes or requests.
//!
//! The fluid leaves out chance. Waiting below saturation (queues that form and vanish) is none here. Around the knee that
//! makes it too fast: by up to 6 % against equal requests in turn, and by up to 17 % against a machine repairman, whose
//! times are exponential (9 % at 0.7 of the knee, 16 % at the knee, 6 % at 1.3 of it). And single requests that drift apart over two
//! stations which are both nearly full: there it is up to 11 % slow. Nodes of a cohort start at one moment: what they wait for each other
//! is taken off, which leaves up to 3 % of the slowest node's time and 15 % of the mean. `exact.rs` and the tests measure all of these.

use super::network::{OWN_CAUSES, STATIONS};
use super::{Bounds, Network, RunPart};

/// The number of cohorts that the nodes are cut into. With no skew one is exact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cohorts(pub u32);

impl Cohorts {
    /// For a time that is shown by itself.
    pub const FINE: Self = Self(256);
    /// For one of many runs of which a spread is made, and for the search of a run's slowness.
    pub const COARSE: Self = Self(24);
}

/// The end of the nodes' starts. Unit: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EndTimes {
    /// From the first node's start to the end of the last.
    pub slowest: f64,
    /// Of one node, from its own start, over all.
    pub mean: f64,
    /// The causes of the mean.
    pub causes: Causes,
}

/// Seconds of a node by what decides them, the mean over all nodes. While a station is full, its queue takes up whatever
/// nodes save elsewhere: of their own time counts only by how much it is longer than that of those they meet there.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Causes {
    /// Shape: by [`super::OwnCause`].
    pub own: [f64; OWN_CAUSES],
    /// Shape: by [`super::Station`].
    pub stations: [f64; STATIONS],
}

/// Lets the nodes flow.
pub fn solve(network: &Network, cohorts: Cohorts) -> EndTimes {
    let parts: Vec<RunPart> =
        network.parts.iter().copied().filter(|part| part.alone > 0.0 || wants(part)).collect();
    let has_skew = network.skew > 0.0 && network.nodes > 1.0;
    if has_skew && network.nodes * network.demand().into_iter().fold(0.0, f64::max) <= network.skew {
        // Each station does what comes while nodes start, so none has a queue.
        let one = Network { parts: Vec::new(), nodes: 1.0, skew: 0.0 };
        let alone = Flow::new(&parts, &one, 1).run(0.0);
        return EndTimes { slowest: network.skew + alone.slowest, ..alone };
    }
    let number = if has_skew { cohorts.0.min(network.nodes.ceil() as u32).max(2) } else { 1 };
    Flow::new(&parts, network, number).run(Bounds::of(network).lower)
}

fn wants(part: &RunPart) -> bool {
    part.demand.iter().any(|demand| *demand > 0.0)
}

#[derive(Clone, Copy, Debug)]
struct Cohort {
    starts: f64,
    part: usize,
    /// The share of its part that is left. Range: 0 to 1.
    left: f64,
    ended: Option<f64>,
}

struct Flow<'a> {
    parts: &'a [RunPart],
    nodes: f64,
    cohorts: Vec<Cohort>,
    /// The wait at each station.
    waits: [f64; STATIONS],
    now: f64,
    /// A buffer of [`Self::settle`], kept so that no moment allocates one.
    at_station: Vec<StationGroup>,
    /// Of all cohorts together. Unit: seconds of cohorts.
    causes: Causes,
}

impl<'a> Flow<'a> {
    fn new(parts: &'a [RunPart], network: &Network, number: u32) -> Self {
        let last = f64::from(number.max(2) - 1);
        let cohort = |index| Cohort {
            starts: network.skew * f64::from(index) / last,
            part: 0,
            left: 1.0,
            ended: None,
        };
        let cohorts = (0..number).map(cohort).collect();
        Self {
            parts,
            nodes: network.nodes / f64::from(number),
            cohorts,
            waits: [0.0; STATIONS],
            now: 0.0,
            at_station: Vec::new(),
            causes: Causes::default(),
        }
    }

    /// `least`: a lower bound of the last node's end. Unit: seconds.
    fn run(mut self, least: f64) -> EndTimes {
        if self.parts.is_empty() {
            self.cohorts.iter_mut().for_each(|cohort| cohort.ended = Some(cohort.starts));
        }
        while self.cohorts.iter().any(|cohort| cohort.ended.is_none()) {
            self.next();
        }
        let ends = self.cohorts.iter().filter_map(|cohort| Some((cohort.starts, cohort.ended?)));
        let slowest = ends.clone().map(|(_, end)| end).fold(0.0, f64::max);
        let number = self.cohorts.len() as f64;
        let mean = ends.map(|(start, end)| end - start).sum::<f64>() / number;
        let Causes { own, stations } = self.causes;
        let waited = stations.iter().sum::<f64>() / number;
        let together = self.wait_of_starting_together().min((slowest - least).max(0.0));
        let apart = if waited > 0.0 { (1.0 - together / waited).max(0.0) } else { 1.0 };
        let causes = Causes {
            own: own.map(|seconds| seconds / number),
            stations: stations.map(|seconds| apart * seconds / number),
        };
        EndTimes { slowest: slowest - together, mean: mean - together, causes }
    }

    /// The wait that only the cut into cohorts makes: the nodes of a cohort start at one moment here, and in truth evenly until the next
    /// cohort does. It is the time that a cohort by itself takes longer than a node by itself. Each cohort has waited at least so long.
    /// Unit: seconds.
    fn wait_of_starting_together(&self) -> f64 {
        let time = |nodes: f64| -> f64 {
            let longest =
                |part: &RunPart| part.demand.iter().map(|demand| nodes * demand).fold(part.alone, f64::max);
            self.parts.iter().map(longest).sum()
        };
        if self.cohorts.len() > 1 { (time(self.nodes) - time(1.0)).max(0.0) } else { 0.0 }
    }

    /// Goes on to the next moment at which a cohort starts or ends a part.
    fn next(&mut self) {
        let groups = self.groups();
        self.balance(&groups);
        let mut time = vec![f64::INFINITY; self.parts.len()];
        groups.iter().for_each(|(part, _)| time[*part] = self.time(&self.parts[*part]));
        let to_end = |cohort: &Cohort| cohort.left * time[cohort.part];
        let flowing = self.cohorts.iter().filter(|cohort| cohort.flows(self.now)).map(to_end);
        let waiting = self
            .cohorts
            .iter()
            .filter(|cohort| cohort.starts > self.now)
            .map(|cohort| cohort.starts - self.now);
        let step = flowing.chain(waiting).fold(f64::INFINITY, f64::min);
        self.account(&groups, step);
        let now = self.now + step;
        for cohort in self.cohorts.iter_mut().filter(|cohort| cohort.flows(self.now)) {
            cohort.left -= step / time[cohort.part];
            // A cohort that is as good as at the end of a part is there: a step of nothing but rounding would never end.
            if cohort.left <= 1e-9 {
                (cohort.part, cohort.left) = (cohort.part + 1, 1.0);
            }
            if cohort.part == self.parts.len() {
                cohort.ended = Some(now);
            }
        }
        self.now = now;
    }

    /// The parts in which nodes are, and their number.
    fn groups(&self) -> Vec<(usize, f64)> {
        let mut present = vec![0.0; self.parts.len()];
        for cohort in self.cohorts.iter().filter(|cohort| cohort.flows(self.now)) {
            present[cohort.part] += self.nodes;
        }
        present.into_iter().enumerate().filter(|(_, nodes)| *nodes > 0.0).collect()
    }

    /// Adds a step to the causes.
    fn account(&mut self, groups: &[(usize, f64)], step: f64) {
        let hidden = self.hidden(groups);
        for (number, nodes) in groups {
            let (part, time) = (&self.parts[*number], self.time(&self.parts[*number]));
            let all = step * nodes / self.nodes;
            let waits: [f64; STATIONS] =
                std::array::from_fn(|station| self.waits[station] * part.weight[station]);
            let wait: f64 = waits.iter().sum();
            let taken_up: f64 = part.weight.iter().zip(hidden).map(|(weight, hidden)| weight * hidden).sum();
            let left = if wait > 0.0 { (part.alone - taken_up).max(0.0) } else { part.alone };
            let of_own = if part.alone > 0.0 { left / part.alone / time } else { 0.0 };
            let of_wait = if wait > 0.0 { (time - left) / wait / time } else { 0.0 };
            let Causes { own, stations } = &mut self.causes;
            own.iter_mut().zip(part.own).for_each(|(sum, seconds)| *sum += all * of_own * seconds);
            stations.iter_mut().zip(waits).for_each(|(sum, seconds)| *sum += all * of_wait * seconds);
        }
    }

    /// Of each full station, the own time of one visit's way that its queue would take up: the derivative of the wait, with
    /// the station's load held at 1. Unit: seconds for each unit of weight.
    fn hidden(&self, groups: &[(usize, f64)]) -> [f64; STATIONS] {
        std::array::from_fn(|station| {
            let (mut alone, mut weight) = (0.0, 0.0);
            for (part, nodes) in groups {
                let part = &self.parts[*part];
                let slope = nodes * part.demand[station] / self.time(part).powi(2);
                alone += slope * part.alone;
                weight += slope * part.weight[station];
            }
            if self.waits[station] > 0.0 && weight > 0.0 { alone / weight } else { 0.0 }
        })
    }

    /// The time of a part with the waits as they are. Unit: seconds. Range: at least [`LEAST_TIME`].
    fn time(&self, part: &RunPart) -> f64 {
        (part.alone + self.wait(part)).max(LEAST_TIME)
    }

    /// The wait of a part at all stations. Unit: seconds.
    fn wait(&self, part: &RunPart) -> f64 {
        self.waits.iter().zip(part.weight).map(|(wait, weight)| wait * weight).sum()
    }

    /// Finds the waits at which no station gets more than it can do, and none that has a wait gets less.
    fn balance(&mut self, groups: &[(usize, f64)]) {
        let is_wanted =
            |station: &usize| groups.iter().any(|(part, _)| self.parts[*part].demand[*station] > 0.0);
        let (wanted, others): (Vec<usize>, Vec<usize>) = (0..STATIONS).partition(is_wanted);
        others.into_iter().for_each(|station| self.waits[station] = 0.0);
        for _ in 0..SWEEPS {
            let before = self.waits;
            wanted.iter().for_each(|station| self.settle(*station, groups));
            let moved = |(old, new): (f64, f64)| (old - new).abs() > 1e-7 * (old + new);
            // One station alone is settled at once.
            if wanted.len() < 2 || !before.into_iter().zip(self.waits).any(moved) {
                return;
            }
        }
    }

    /// Finds the wait of one station while those of the others stay, by Newton's method on the reciprocal of its load.
    fn settle(&mut self, station: usize, groups: &[(usize, f64)]) {
        let mut at_station = std::mem::take(&mut self.at_station);
        at_station.clear();
        let own = self.waits[station];
        at_station.extend(groups.iter().map(|(part, nodes)| {
            let part = &self.parts[*part];
            let elsewhere = part.alone + self.wait(part) - own * part.weight[station];
            StationGroup { elsewhere, weight: part.weight[station], demand: nodes * part.demand[station] }
        }));
        let load = |wait: f64| {
            let (mut load, mut slope) = (0.0, 0.0);
            for StationGroup { elsewhere, weight, demand } in &at_station {
                let time = (elsewhere + wait * weight).max(LEAST_TIME);
                let rate = demand / time;
                load += rate;
                slope -= rate * weight / time;
            }
            (load, slope)
        };
        // The wait changes little from one moment to the next.
        let mut wait = own;
        for _ in 0..STEPS {
            let (load, slope) = load(wait);
            if slope >= 0.0 || (load - 1.0).abs() <= 1e-10 || (load < 1.0 && wait == 0.0) {
                break;
            }
            // 1/load rises with the wait and is concave: a step from below never passes the root, and one from above ends below it or
            // at 0.
            wait = f64::max(wait + (load - 1.0) * load / -slope, 0.0);
        }
        (self.waits[station], self.at_station) = (wait, at_station);
    }
}

/// The nodes in one part, as a station sees them.
#[derive(Clone, Copy, Debug)]
struct StationGroup {
    /// Their part's time without the wait at the station. Unit: seconds.
    elsewhere: f64,
    /// Waits of one process at the station, as [`RunPart::weight`].
    weight: f64,
    /// Demand of all its nodes. Unit: seconds of the whole station.
    demand: f64,
}

/// The shortest time of a part, so that a part that only waits has no infinite rate. Unit: seconds.
const LEAST_TIME: f64 = 1e-12;

impl Cohort {
    fn flows(&self, now: f64) -> bool {
        self.starts <= now && self.ended.is_none()
    }
}

/// Rounds over the stations. Two stations that are both full settle in a few; more is a guard.
const SWEEPS: usize = 200;
/// Steps to one station's wait.
const STEPS: usize = 60;
