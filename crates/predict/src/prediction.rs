//! Workload, profile and question in; points of a curve, with their spread, out.

use crate::chance::Chance;
use crate::model::{Bounds, Causes, Cohorts, Network, Own, Scale, Station, Times, solve};
use crate::parameters::ClientRules;
use crate::profile::{Figure, Profile};
use crate::question::Question;
use crate::workload::{Demand, Machine, Script, demand};
use crate::{Operation, Parameters, PerOperation, changes};

/// A number that is predicted: a range, and what is in its middle.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Range {
    /// One run in ten is below.
    pub p10: f64,
    /// The median of the runs.
    pub p50: f64,
    /// One run in ten is above.
    pub p90: f64,
}

/// The prediction for one number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Nodes.
    pub nodes: u64,
    /// Processes on all of them.
    pub ranks: u64,
    /// Until the slowest rank has started, the launch included. Unit: seconds.
    pub slowest: Range,
    /// Of a rank, from its own start, over all, the launch included. Unit: seconds.
    pub mean: Range,
    /// With every figure at its median, the launch included.
    pub bounds: Bounds,
    /// What decides the largest part of the time.
    pub bottleneck: Bottleneck,
    /// How often the demand is what the busiest station does in the time of one node's busiest stretch.
    pub load: f64,
    /// Requests at the servers, of all nodes.
    pub operations: PerOperation,
    /// Data that the data servers send. Unit: bytes.
    pub bytes: f64,
}

/// What decides a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// A station that nodes share; of the metadata servers, the operation that takes most of their time.
    Station(Station, Option<Operation>),
    /// Something of each node's own.
    Own(Own),
}

/// How the time changes with one figure. At one number of nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sensitivity {
    /// The figure.
    pub figure: &'static str,
    /// d ln T / d ln figure at the medians.
    pub elasticity: f64,
    /// With this figure at its p10 and all others at their medians. Unit: seconds.
    pub low: f64,
    /// With it at its p90. Unit: seconds.
    pub high: f64,
}

/// What a profile is predicted to do with a program.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The profile's name.
    pub profile: String,
    /// Shape: one a number of nodes, sorted by it.
    pub points: Vec<Point>,
    /// Nodes from which on the busiest station decides; infinite when nothing is shared.
    pub knee: f64,
    /// At the largest number of nodes. Shape: sorted by the swing, largest first.
    pub sensitivities: Vec<Sensitivity>,
    /// Keys that were taken from the wide prior.
    pub assumed: Vec<&'static str>,
    /// Computing of one rank. Unit: seconds.
    pub think: f64,
    /// Size of the image, where one was asked for. Unit: bytes.
    pub image_bytes: Option<f64>,
}

impl Point {
    /// Whether more is asked than the servers can do while one node starts.
    pub fn is_saturated(&self) -> bool {
        self.load > 1.0
    }

    /// Whether the backlog is one under which real file systems have failed. Source: on Hopper, starts of Pynamic hung
    /// beyond 2048 cores, some ten times the knee of source 003's curve.
    pub fn may_fail(&self) -> bool {
        self.load > 10.0
    }
}

/// Predicts. Shape of `scripts`: at least one; ranks run them in turn, and what is said is their mean.
pub fn predict(scripts: &[Script], profile: &Profile, question: &Question) -> Prediction {
    let mut engine = Engine::new(scripts, profile, question);
    let median = Parameters::median(profile);
    let runs = engine.runs();
    let points: Vec<Point> =
        question.nodes.iter().map(|nodes| engine.point(*nodes, &median, &runs)).collect();
    let largest = question.nodes.last().copied().unwrap_or(1);
    let sensitivities = engine.sensitivities(largest);
    let knee = points.first().map_or(f64::INFINITY, |point| point.bounds.knee);
    Prediction {
        profile: profile.name.clone(),
        knee,
        sensitivities,
        assumed: median.assumed.clone(),
        think: engine.scripts.iter().map(Script::think).sum::<f64>() / engine.scripts.len().max(1) as f64,
        image_bytes: question.changes.image.map(|_| engine.image_bytes),
        points,
    }
}

struct Engine<'a> {
    scripts: Vec<Script>,
    profile: &'a Profile,
    question: &'a Question,
    image_bytes: f64,
    /// Demands that were replayed, with what they depend on.
    replayed: Vec<(ClientRules, u32, Demand)>,
}

impl<'a> Engine<'a> {
    fn new(scripts: &[Script], profile: &'a Profile, question: &'a Question) -> Self {
        let number = scripts.len().max(1) as f64;
        let image_bytes = scripts.iter().map(changes::image_bytes).sum::<f64>() / number;
        let scripts = scripts.iter().map(|script| changes::script(script, &question.changes)).collect();
        Self { scripts, profile, question, image_bytes, replayed: Vec::new() }
    }

    /// The parameters of each run of which the spread is made. None when no figure has a spread.
    fn runs(&self) -> Vec<Parameters> {
        let mut profile = self.profile.clone();
        let is_spread = |slot: &crate::profile::Slot<'_>| match slot {
            crate::profile::Slot::Figure(figure, _) => {
                figure.as_ref().is_some_and(|figure| !figure.is_exact())
            }
            crate::profile::Slot::Switch(_) => false,
        };
        let assumes = !Parameters::median(self.profile).assumed.is_empty();
        if !assumes && !profile.slots().iter().any(|(.., slot)| is_spread(slot)) {
            return Vec::new();
        }
        let mut chance = Chance(self.question.seed);
        let samples = self.question.samples as usize;
        let columns: Vec<Vec<f64>> = (0..KEYS.len()).map(|_| chance.stratified(samples)).collect();
        let run = |sample: usize| {
            Parameters::choose(self.profile, &|key, figure| {
                let column = column(key);
                choose(key, figure, columns[column][sample])
            })
        };
        (0..samples).map(run).collect()
    }

    fn point(&mut self, nodes: u64, median: &Parameters, runs: &[Parameters]) -> Point {
        let (demand, network, times) = self.times(nodes, median, Cohorts::FINE);
        let mut slowest = Vec::with_capacity(runs.len());
        let mut mean = Vec::with_capacity(runs.len());
        for run in runs {
            let (.., times) = self.times(nodes, run, Cohorts::COARSE);
            slowest.push(times.slowest);
            mean.push(times.mean);
        }
        let launch = self.question.launch;
        let bounds = Bounds::of(&network);
        let mut operations = PerOperation::default();
        operations.add_all(&demand.asks(), nodes as f64);
        Point {
            nodes,
            ranks: nodes.saturating_mul(u64::from(self.question.processes)),
            slowest: range(slowest, times.slowest, launch),
            mean: range(mean, times.mean, launch),
            bounds: Bounds { lower: bounds.lower + launch, upper: bounds.upper + launch, ..bounds },
            bottleneck: bottleneck(&times.causes, &demand, median),
            load: bounds.load(nodes as f64),
            operations,
            bytes: demand.bytes() * nodes as f64,
        }
    }

    /// The time of one run. Names are forgotten while a start is slowed down, so what is asked depends on the time that
    /// it takes: what is asked is found again with the waits that came out, until the time holds or [`ROUNDS`] are done.
    fn times(&mut self, nodes: u64, parameters: &Parameters, cohorts: Cohorts) -> (Demand, Network, Times) {
        let scale = self.scale(nodes);
        let mut found = self.run(1.0, parameters, &scale, cohorts);
        let think = parameters.computing * found.0.think() + parameters.own_answer * found.0.own_answers();
        let answers = found.1.alone() - think;
        for _ in 0..ROUNDS {
            let seconds = found.2.slowest - scale.skew;
            // The replay above a slowdown takes up to POWER times as long: what outlives that is never forgotten.
            let is_for_ever = !forgets(&parameters.client, POWER * seconds);
            if self.question.changes.image.is_some() || is_for_ever || answers <= 0.0 {
                break;
            }
            let slowed = ((seconds - think) / answers).clamp(1.0, MOST_SLOWED);
            let again = self.run(slowed, parameters, &scale, cohorts);
            let holds = again.2.slowest <= found.2.slowest * (1.0 + 1e-3);
            if again.2.slowest > found.2.slowest {
                found = again;
            }
            if holds {
                break;
            }
        }
        found
    }

    fn run(
        &mut self,
        slowed: f64,
        parameters: &Parameters,
        scale: &Scale,
        cohorts: Cohorts,
    ) -> (Demand, Network, Times) {
        let mut demand = self.slowed(slowed, parameters);
        if let Some(image) = self.question.changes.image {
            let (bytes, warm) = (self.image_bytes, self.question.is_warm);
            demand = changes::from_image(&demand, bytes, image, scale.nodes, parameters, warm);
        }
        let network = Network::new(&demand, parameters, scale);
        let times = solve(&network, cohorts);
        (demand, network, times)
    }

    /// What a node asks while requests take `slowed` times as long: between two replays, on a logarithmic scale, so that
    /// time has no step where a replay gives way to the next.
    fn slowed(&mut self, slowed: f64, parameters: &Parameters) -> Demand {
        let power = slowed.ln() / POWER.ln();
        let mut demand = self.demand(power.floor() as u32, parameters);
        if power.fract() > 0.0 {
            let above = self.demand(power.floor() as u32 + 1, parameters);
            demand.towards(&above, power.fract());
        }
        demand
    }

    /// The same for a power of [`POWER`]; never less than for a lower one.
    fn demand(&mut self, power: u32, parameters: &Parameters) -> Demand {
        let rules = changes::rules(parameters.client, &self.question.changes);
        let serves = |(own, at, demand): &&(ClientRules, u32, Demand)| {
            *at == power && own.are_alike(&rules, demand.ended)
        };
        if let Some((.., known)) = self.replayed.iter().find(serves) {
            return known.clone();
        }
        let mut whole = self.replay(power, rules);
        if power > 0 {
            whole.at_least(&self.demand(power - 1, parameters));
        }
        self.replayed.push((rules, power, whole.clone()));
        whole
    }

    /// Replays with the median's latencies, so that few replays serve many runs: they decide when names are forgotten and
    /// which process comes first, nothing else.
    fn replay(&self, power: u32, rules: ClientRules) -> Demand {
        let median = Parameters::median(self.profile);
        let mut latency = median.latency();
        latency.0.iter_mut().for_each(|seconds| *seconds *= POWER.powf(f64::from(power)));
        let machine = Machine {
            processes: self.question.processes,
            cores: self.question.cores,
            cpu: median.cpu,
            cpu_of_a_byte: median.cpu_of_a_byte,
            own_answer: median.own_answer,
            is_warm: self.question.is_warm,
            latency,
        };
        let mut demands = self.scripts.iter().map(|script| demand(script, rules, &machine));
        let mut whole = demands.next().unwrap_or_default();
        demands.for_each(|other| whole.add(&other));
        whole.scale(1.0 / self.scripts.len().max(1) as f64);
        whole
    }

    fn scale(&self, nodes: u64) -> Scale {
        Scale {
            nodes: nodes as f64,
            skew: self.question.skew,
            background: self.question.background,
            cores: self.question.cores.map(f64::from),
            is_shared_host: self.question.is_shared_host,
            stripes: self.question.stripes.map(f64::from),
        }
    }

    fn sensitivities(&mut self, nodes: u64) -> Vec<Sensitivity> {
        let profile = self.profile;
        let mut found: Vec<Sensitivity> = KEYS
            .iter()
            .map(|figure| {
                let mut seconds = |at: &dyn Fn(&Figure) -> f64| {
                    let choice =
                        |key: &'static str, own: &Figure| if key == *figure { at(own) } else { own.p50 };
                    self.times(nodes, &Parameters::choose(profile, &choice), Cohorts::COARSE).2.slowest
                };
                let (low, high) = (seconds(&|figure| figure.p10), seconds(&|figure| figure.p90));
                // Each value of a lifetime is a replay, so one on one side has to do.
                let less = match is_lifetime(figure) {
                    true => seconds(&|figure| figure.p50),
                    false => seconds(&|figure| figure.p50 / STEP),
                };
                let more = seconds(&|figure| figure.p50 * STEP);
                let steps = if is_lifetime(figure) { 1.0 } else { 2.0 };
                let elasticity = (more / less).ln() / (steps * STEP.ln());
                Sensitivity { figure, elasticity, low, high }
            })
            .filter(|found| found.elasticity.abs() > 5e-4 || found.low != found.high)
            .collect();
        let swing = |found: &Sensitivity| ((found.high - found.low).abs(), found.elasticity.abs());
        found.sort_by(|a, b| swing(b).partial_cmp(&swing(a)).unwrap_or(std::cmp::Ordering::Equal));
        found
    }
}

/// From one replay to the next slower one.
const POWER: f64 = 4.0;
/// Requests slower than that forget nothing more: a lookup of a tenth of a millisecond takes half an hour.
const MOST_SLOWED: f64 = 16_777_216.0;
/// How often what is asked is found again.
const ROUNDS: u32 = 2;

/// Step of a derivative.
const STEP: f64 = 1.05;

/// The figures that runs vary. All rates of a server vary together: a server that is slow is slow at everything.
const KEYS: &[&str] = &[
    "computing",
    "operations_per_second",
    "round_trip_us",
    "servers",
    "threads",
    "positive_seconds",
    "negative_seconds",
    "directory_seconds",
    "attribute_seconds",
    "requests_in_flight",
    "cpu_us",
    "cpu_us_per_mb",
    "own_answer_us",
    "data.servers",
    "bytes_per_second",
    "client_bytes_per_second",
    "read_us",
];

/// Which column of choices a key takes. A client that keeps names long keeps the rest long, so lifetimes take one, and
/// few replays serve all runs; a server with more threads does more in a second, and an idle one takes threads / rate for
/// a request, so those two take one.
fn column(key: &str) -> usize {
    let first = match key {
        "threads" => "operations_per_second",
        key if is_lifetime(key) => "positive_seconds",
        key => key,
    };
    KEYS.iter().position(|known| *known == first).unwrap_or(0)
}

fn is_lifetime(key: &str) -> bool {
    key.ends_with("_seconds")
}

/// Lifetimes decide what is replayed, so they take one of three values; everything else any.
fn choose(key: &str, figure: &Figure, u: f64) -> f64 {
    match is_lifetime(key) {
        true if u < 0.3 => figure.p10,
        true if u > 0.7 => figure.p90,
        true => figure.p50,
        false => figure.quantile(u),
    }
}

/// Whether a client forgets something within a time.
fn forgets(rules: &ClientRules, seconds: f64) -> bool {
    [rules.positive, rules.negative, rules.directory, rules.attributes]
        .iter()
        .any(|life| *life > 0.0 && *life < seconds)
}

/// The run with every figure at its median, between percentiles of the others by nearest rank. That run and not the runs'
/// own median, because the bounds are of it.
fn range(mut runs: Vec<f64>, median: f64, launch: f64) -> Range {
    runs.sort_by(f64::total_cmp);
    let Some(last) = runs.len().checked_sub(1) else {
        return Range { p10: median + launch, p50: median + launch, p90: median + launch };
    };
    let at = |share: f64| runs[(share * last as f64).round() as usize] + launch;
    let p50 = median + launch;
    Range { p10: at(0.1).min(p50), p50, p90: at(0.9).max(p50) }
}

fn bottleneck(causes: &Causes, demand: &Demand, parameters: &Parameters) -> Bottleneck {
    let own = Own::ALL.map(|own| (Bottleneck::Own(own), causes.own[own as usize]));
    let stations = Station::ALL.map(|station| {
        let operation = if station == Station::Metadata { costliest(demand, parameters) } else { None };
        (Bottleneck::Station(station, operation), causes.stations[station as usize])
    });
    let all = own.into_iter().chain(stations);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Bottleneck::Own(Own::Computing), |(cause, _)| cause)
}

/// The operation that takes most of the metadata servers' time.
fn costliest(demand: &Demand, parameters: &Parameters) -> Option<Operation> {
    let (asks, time) = (demand.asks(), parameters.demand());
    let cost = |operation: &Operation| asks.get(*operation) * time.get(*operation);
    Operation::ALL.iter().copied().max_by(|a, b| cost(a).total_cmp(&cost(b)))
}

#[cfg(test)]
mod tests;
