//! The time of one run of a start, and the point of the curve that the runs make.

use super::point::StartDetail;
use super::replays::{MOST_SLOWED, POWER, Replays, forgets};
use crate::forecast::{Bottleneck, ForecastPoint, Spread};
use crate::model::{self, Bounds, Causes, Cohorts, Network, Own, Scale, Station, Times, solve};
use crate::profile::Profile;
use crate::question::StartQuestion;
use crate::workload::{Demand, StartScript};
use crate::{ServerOperation, StartParameters, changes};

/// Answers one question about one program and one profile.
pub(super) struct Engine<'a> {
    pub(super) profile: &'a Profile,
    pub(super) question: &'a StartQuestion,
    pub(super) replays: Replays<'a>,
    image_bytes: f64,
}

impl<'a> Engine<'a> {
    pub(super) fn new(scripts: &[StartScript], profile: &'a Profile, question: &'a StartQuestion) -> Self {
        let image_bytes = scripts.iter().map(changes::image_bytes).sum::<f64>() / scripts.len().max(1) as f64;
        Self { profile, question, replays: Replays::new(scripts, profile, question), image_bytes }
    }

    /// Computing of one rank. Unit: seconds.
    pub(super) fn think(&self) -> f64 {
        self.replays.think()
    }

    /// Size of the image. Unit: bytes.
    pub(super) fn image_bytes(&self) -> f64 {
        self.image_bytes
    }

    /// The point of the curve at a number of nodes; `runs` give its ranges.
    pub(super) fn point(
        &mut self,
        nodes: u64,
        median: &StartParameters,
        runs: &[StartParameters],
    ) -> ForecastPoint<StartDetail> {
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
        let once = demand.broadcast.unwrap_or_default();
        let mut operations = once.asks;
        operations.add_all(&demand.asks(), nodes as f64);
        let detail = StartDetail {
            mean: Spread::around(times.mean, mean).map(|seconds| seconds + launch),
            load: model::load(&self.unslowed(nodes, median)),
            operations,
            bytes: once.bytes + demand.bytes() * nodes as f64,
        };
        ForecastPoint {
            nodes,
            ranks: nodes.saturating_mul(u64::from(self.question.processes)),
            seconds: Spread::around(times.slowest, slowest).map(|seconds| seconds + launch),
            bounds: Bounds { lower: bounds.lower + launch, upper: bounds.upper + launch },
            bottleneck: bottleneck(&times.causes, &demand, median),
            detail,
        }
    }

    /// Nodes from which on the busiest station is full, as `nodes` of them start.
    pub(super) fn knee(&mut self, nodes: u64, median: &StartParameters) -> f64 {
        model::knee(&self.unslowed(nodes, median))
    }

    /// The network of nodes that do not slow each other down: its load says whether they would.
    fn unslowed(&mut self, nodes: u64, parameters: &StartParameters) -> Network {
        self.network(1.0, parameters, &self.scale(nodes)).1
    }

    /// The time of one run. Names are forgotten while a start is slowed down, so what is asked depends on the time that
    /// it takes: what is asked is found again with the waits that came out, until the time holds or [`ROUNDS`] are done.
    pub(super) fn times(
        &mut self,
        nodes: u64,
        parameters: &StartParameters,
        cohorts: Cohorts,
    ) -> (Demand, Network, Times) {
        let scale = self.scale(nodes);
        let mut found = self.run(1.0, parameters, &scale, cohorts);
        let think = parameters.computing * found.0.think() + parameters.own_answer * found.0.own_answers();
        let answers = found.1.alone() - think;
        for _ in 0..ROUNDS {
            let seconds = found.2.slowest - scale.last_start();
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
        parameters: &StartParameters,
        scale: &Scale,
        cohorts: Cohorts,
    ) -> (Demand, Network, Times) {
        let (demand, network) = self.network(slowed, parameters, scale);
        let times = solve(&network, cohorts);
        (demand, network, times)
    }

    fn network(&mut self, slowed: f64, parameters: &StartParameters, scale: &Scale) -> (Demand, Network) {
        let mut demand = self.replays.slowed(slowed, parameters);
        if let Some(image) = self.question.changes.image {
            let (bytes, warm) = (self.image_bytes, self.question.is_warm);
            demand = changes::from_image(&demand, bytes, image, parameters, scale, warm);
        }
        let network = Network::new(&demand, parameters, scale);
        (demand, network)
    }

    pub(super) fn scale(&self, nodes: u64) -> Scale {
        Scale {
            nodes: nodes as f64,
            skew: self.question.skew,
            background: self.question.background,
            cores: self.question.cores,
            is_shared_host: self.question.is_shared_host,
            stripes: self.question.stripes.map(f64::from),
        }
    }
}

/// Rounds in which the demand is found again.
const ROUNDS: u32 = 2;

fn bottleneck(causes: &Causes, demand: &Demand, parameters: &StartParameters) -> Bottleneck {
    let own = Own::ALL.map(|own| (Bottleneck::Own(own), causes.own[own as usize]));
    let stations = Station::ALL.map(|station| {
        let operation = if station == Station::Metadata { costliest(demand, parameters) } else { None };
        (Bottleneck::Station(station, operation), causes.stations[station as usize])
    });
    let all = own.into_iter().chain(stations);
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Bottleneck::Own(Own::Computing), |(cause, _)| cause)
}

/// The operation that takes most of the metadata servers' time.
fn costliest(demand: &Demand, parameters: &StartParameters) -> Option<ServerOperation> {
    let (asks, time) = (demand.asks(), parameters.demand());
    let cost = |operation: &ServerOperation| asks.get(*operation) * time.get(*operation);
    ServerOperation::ALL.iter().copied().max_by(|a, b| cost(a).total_cmp(&cost(b)))
}
