//! The time of one run of a start, and the point of the curve that the runs make.

use super::point::{FAILING_LOAD, MostReadFile, StartDetail};
use super::replays::{ClientState, MOST_SLOWED, POWER, ReplayedCrowd, Replays, forgets};
use crate::forecast::{Bottleneck, ForecastPoint, Spread};
use crate::image::{ImageSize, from_image, image_size};
use crate::model::{self, Bounds, Causes, Cohorts, EndTimes, Network, OwnCause, Scale, Station, solve};
use crate::parameters::Gateways;
use crate::profile::{Figure, Profile};
use crate::question::{ImageDelivery, StartQuestion};
use crate::workload::{Demand, FileBytes, StartScript};
use crate::{ServerOperation, StartParameters};

/// Answers one question about one program and one profile.
pub(super) struct StartEngine<'a> {
    pub(super) profile: &'a Profile,
    pub(super) question: &'a StartQuestion,
    pub(super) replays: Replays<'a>,
    /// No change that is asked about moves them.
    files: FileBytes,
    image: ImageSize,
    /// The figures with which servers are said to be full: a rate of which only the least is known never tells that.
    pub(super) capacity: StartParameters,
    /// At their median: the nodes of a gateway decide what is replayed, and few replays must serve many runs.
    gateways: Option<Gateways>,
}

impl<'a> StartEngine<'a> {
    pub(super) fn new(scripts: &[StartScript], profile: &'a Profile, question: &'a StartQuestion) -> Self {
        let files = FileBytes::of(scripts);
        let image = image_size(scripts, files);
        let gateways = StartParameters::median(profile).forwarding;
        let capacity = |key, figure: &Figure| if figure.is_open_rate(key) { figure.p90 } else { figure.p50 };
        let capacity = StartParameters::choose(profile, &capacity);
        let replays = Replays::new(scripts, profile, question);
        Self { profile, question, replays, files, image, capacity, gateways }
    }

    /// Computing of one rank. Unit: seconds.
    pub(super) fn think(&self) -> f64 {
        self.replays.think()
    }

    /// Size of the image. Unit: bytes.
    pub(super) fn image_bytes(&self) -> f64 {
        self.image.bytes
    }

    /// Share of the data that is of one file. An image is one file.
    fn most_read_share(&self) -> Option<f64> {
        match self.question.changes.image {
            Some(ImageDelivery::Local) => None,
            Some(_) => Some(1.0),
            None => self.files.most_read_share(),
        }
    }

    /// The file of which a start reads most, with every figure at its median.
    pub(super) fn most_read_file(&self, median: &StartParameters) -> Option<MostReadFile> {
        let scale = self.scale(1);
        Some(MostReadFile {
            is_image: self.question.changes.image.is_some(),
            share: self.most_read_share()?,
            servers: scale.servers_of_a_file(median),
            servers_at_once: scale.targets(median),
            data_servers: median.data_servers,
        })
    }

    /// The point of the curve at a number of nodes; `runs` give its ranges. Returns the time of each run too, without the launch. Unit:
    /// seconds.
    pub(super) fn point(
        &mut self,
        nodes: u64,
        median: &StartParameters,
        runs: &[StartParameters],
    ) -> (ForecastPoint<StartDetail>, Vec<f64>) {
        self.replays.leave();
        let ModelRun { demand, network, times, .. } = self.times(nodes, median, Care::Exact);
        let launch = self.question.launch;
        let last_start = self.scale(nodes).last_start();
        let [mut slowest, mut mean, mut lower, mut upper] = [const { Vec::new() }; 4];
        for run in runs {
            let ModelRun { times, network, .. } = self.times(nodes, run, Care::Quick);
            let bounds = Bounds::of(&network);
            slowest.push(times.slowest);
            mean.push(times.mean);
            // The model's error stretches bounds as it stretches times, so that the medians stay in their order.
            let stretched = |bound: f64| last_start + run.error * (bound - last_start);
            lower.push(stretched(bounds.lower));
            upper.push(stretched(bounds.upper));
        }
        let Bounds { lower: least, upper: most } = Bounds::of(&network);
        let bounds = Bounds {
            lower: Spread::of_runs(least, lower).p50 + launch,
            upper: Spread::of_runs(most, upper).p50 + launch,
        };
        let capacity = self.capacity.clone();
        let loads = model::server_loads(&self.unslowed(nodes, &capacity));
        let overrun = loads.iter().filter(|server| server.load > FAILING_LOAD);
        let work = overrun.map(|server| network.nodes * network.demand()[server.station as usize]);
        let backlog = work.fold(0.0, f64::max);
        let once = demand.broadcast.unwrap_or_default();
        let mut operations = once.asks;
        operations.add_all(&demand.asks(), nodes as f64);
        let detail = StartDetail {
            waits: backlog.min(times.slowest - last_start - network.alone()),
            mean: Spread::of_runs(times.mean, mean).map(|seconds| seconds + launch),
            load: loads.iter().map(|server| server.load).fold(0.0, f64::max),
            operations,
            bytes: once.bytes + demand.bytes() * nodes as f64,
        };
        let point = ForecastPoint {
            nodes,
            ranks: nodes.saturating_mul(u64::from(self.question.processes)),
            seconds: Spread::of_runs(times.slowest, slowest.clone()).map(|seconds| seconds + launch),
            bounds,
            bottleneck: bottleneck(&times.causes, &demand, median),
            detail,
        };
        (point, slowest)
    }

    /// Nodes from which on the busiest station is full, as `nodes` of them start.
    pub(super) fn knee(&mut self, nodes: u64, median: &StartParameters) -> f64 {
        model::knee(&self.unslowed(nodes, median))
    }

    /// The network of nodes that do not slow each other down: its load says whether they would.
    fn unslowed(&mut self, nodes: u64, parameters: &StartParameters) -> Network {
        let clients = if self.question.is_warm { ClientState::Warm } else { ClientState::Cold };
        self.network(1.0, clients, parameters, &self.scale(nodes)).1
    }

    /// One run of the model. Clients that know something from before are never slower for it: what a warm client asks is what
    /// each of its processes lost, and nothing keeps these from waiting as cold ones do for the first of them.
    pub(super) fn times(&mut self, nodes: u64, parameters: &StartParameters, care: Care) -> ModelRun {
        let scale = self.scale(nodes);
        let cold = Trial { clients: ClientState::Cold, parameters, scale: &scale };
        let mut found = self.settled(cold, care);
        if self.question.is_warm {
            let warm = self.settled(Trial { clients: ClientState::Warm, ..cold }, care);
            found = if warm.times.slowest <= found.times.slowest { warm } else { found };
        }
        found.times.slowest = scale.last_start() + parameters.error * found.behind(&scale);
        found.times.mean *= parameters.error;
        found
    }

    /// A run in which requests take as long as its clients were replayed with: the slowness is a fixed point, the least of
    /// several, since every start begins fast. The client's own limits make requests slow as a server does.
    fn settled(&mut self, trial: Trial<'_>, care: Care) -> ModelRun {
        let mut found = self.run(1.0, trial, Cohorts::COARSE);
        // The replay above a slowdown takes up to POWER times as long: what outlives that is never forgotten.
        let seconds = POWER * found.behind(trial.scale);
        let crowds = self.crowds(trial.clients, trial.parameters, trial.scale);
        if crowds.into_iter().flatten().any(|crowd| forgets(&crowd.rules, seconds)) {
            found = self.search(found, trial);
            if care == Care::Exact && found.slowed > 1.0 {
                found = self.looked_at(found, trial);
            }
        }
        match care {
            // The slowness that coarse cohorts give serves fine ones too: with a skew of 60 s, no printed number of a curve on lustre, nfs
            // or gpfs moved by more than 1e-4. Without a skew there is one cohort.
            Care::Exact if trial.scale.last_start() > 0.0 => self.run(found.slowed, trial, Cohorts::FINE),
            Care::Exact | Care::Quick => found,
        }
    }

    /// Goes from one slowness to the one that results, and halves where that would lead back.
    fn search(&mut self, mut found: ModelRun, trial: Trial<'_>) -> ModelRun {
        let mut bracket = Bracket::WIDEST;
        for _ in 0..ROUNDS {
            let (at, results) = (found.slowed, self.results(&found, trial));
            if is_close(results, at) {
                break;
            }
            bracket.narrow(at, results);
            let Bracket { low, high } = bracket;
            let goes_on = bracket.holds(results) && high == MOST_SLOWED;
            let next = if goes_on { results } else { f64::sqrt(low * high.min(results.max(at))) };
            found = self.run(next.clamp(low, high), trial, Cohorts::COARSE);
        }
        found
    }

    /// Searches as [`Self::search`] does, with a replay at each slowness in place of a mean of two.
    fn looked_at(&mut self, mut found: ModelRun, trial: Trial<'_>) -> ModelRun {
        let (mut bracket, mut at) = (Bracket::WIDEST, found.slowed);
        for _ in 0..LOOKS {
            for crowd in self.crowds(trial.clients, trial.parameters, trial.scale).into_iter().flatten() {
                self.replays.look_at(at, crowd);
            }
            found = self.run(at, trial, Cohorts::COARSE);
            let results = self.results(&found, trial);
            if is_close(results, at) || bracket.high / bracket.low < 1.0 + CLOSE {
                break;
            }
            bracket.narrow(at, results);
            at = if bracket.holds(results) { results } else { f64::sqrt(bracket.low * bracket.high) };
        }
        found
    }

    /// The time of a run's requests over their time alone at the medians, with which clients are replayed.
    fn results(&self, run: &ModelRun, Trial { parameters, scale, .. }: Trial<'_>) -> f64 {
        let median = StartParameters::median(self.profile);
        let ModelRun { demand, .. } = run;
        let think = parameters.computing * demand.think() + parameters.own_answer * demand.own_answers();
        let gateway = median.forwarding.map_or(0.0, |gateways| gateways.latency());
        let alone = demand.waits().dot(&median.latency())
            + demand.forwarded_waits() * gateway
            + demand.awaited() / median.client_rate;
        match alone > 0.0 {
            true => ((run.behind(scale) - think) / alone).clamp(1.0, MOST_SLOWED),
            false => 1.0,
        }
    }

    fn run(&mut self, slowed: f64, trial: Trial<'_>, cohorts: Cohorts) -> ModelRun {
        let Trial { clients, parameters, scale } = trial;
        let (demand, network) = self.network(slowed, clients, parameters, scale);
        let times = solve(&network, cohorts);
        ModelRun { slowed, demand, network, times }
    }

    fn network(
        &mut self,
        slowed: f64,
        clients: ClientState,
        parameters: &StartParameters,
        scale: &Scale,
    ) -> (Demand, Network) {
        let [own, shared] = self.crowds(clients, parameters, scale);
        let mut demand = own.map_or_else(Demand::default, |crowd| self.replays.slowed(slowed, crowd));
        if let Some(crowd) = shared {
            let shared = self.replays.slowed(slowed, crowd);
            // Divided by what was replayed, in whole processes, so that each request counts once.
            demand.through(&shared, f64::from(crowd.processes) / f64::from(self.question.processes));
        }
        if let Some(image) = self.question.changes.image {
            demand = from_image(&demand, self.image, image, parameters, scale, clients == ClientState::Warm);
        }
        let network = Network::new(&demand, parameters, scale);
        (demand, network)
    }

    /// The processes of a node before its client, and those of all nodes of a gateway before that, where there are gateways. An image
    /// answers on the node what its own client would answer or ask for, and is read once by a gateway.
    fn crowds(
        &self,
        clients: ClientState,
        parameters: &StartParameters,
        scale: &Scale,
    ) -> [Option<ReplayedCrowd>; 2] {
        let own = self.replays.node(clients, parameters);
        match self.gateways {
            Some(gateways) if self.question.changes.image.is_none() => {
                let nodes = scale.nodes / gateways.used(scale.nodes);
                let processes = (f64::from(own.processes) * nodes).round() as u32;
                // A server on the node keeps what the node's own client does not.
                let rules = match self.question.changes.once_a_node {
                    true => own.rules,
                    false => gateways.node_rules(&own.rules),
                };
                // The limit is the gateway's, for all that its nodes ask together: the model's, not that of a replay.
                let own = ReplayedCrowd { in_flight: f64::INFINITY, ..own };
                let shared = ReplayedCrowd { rules: parameters.client, processes, ..own };
                [Some(ReplayedCrowd { rules, ..own }), Some(shared)]
            }
            _ => [Some(own), None],
        }
    }

    pub(super) fn scale(&self, nodes: u64) -> Scale {
        Scale {
            nodes: nodes as f64,
            skew: self.question.skew,
            background: self.question.background,
            cores: self.question.cores,
            is_shared_host: self.question.is_shared_host,
            stripes: self.question.stripes.map(f64::from),
            most_read_share: self.most_read_share().unwrap_or(0.0),
        }
    }
}

/// Rounds in which the demand is found again.
const ROUNDS: u32 = 12;
/// Replays at the slowness of a point itself.
const LOOKS: u32 = 10;
/// Two slownesses that differ by less are one: what is forgotten changes by less than its own spread.
const CLOSE: f64 = 0.02;

/// The setting of a run whose slowness is sought.
#[derive(Clone, Copy)]
struct Trial<'p> {
    clients: ClientState,
    parameters: &'p StartParameters,
    scale: &'p Scale,
}

/// The slownesses between which the fixed point lies. Below it more results than was assumed and above it less, so halving never
/// ends in a step that leads away from it.
#[derive(Clone, Copy)]
struct Bracket {
    low: f64,
    high: f64,
}

impl Bracket {
    const WIDEST: Self = Self { low: 1.0, high: MOST_SLOWED };

    fn narrow(&mut self, assumed: f64, results: f64) {
        if results > assumed {
            self.low = assumed;
        } else {
            self.high = assumed;
        }
    }

    fn holds(&self, slowed: f64) -> bool {
        self.low < slowed && slowed < self.high
    }
}

fn is_close(results: f64, assumed: f64) -> bool {
    (results / assumed).ln().abs() < CLOSE
}

/// The care with which a run is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Care {
    /// One of many: between replays that are there.
    Quick,
    /// That with every figure at its median: by replays at its own slowness, and in fine cohorts.
    Exact,
}

/// One run of the model.
#[derive(Clone, Debug)]
pub(super) struct ModelRun {
    /// Requests of the replay took so many times as long as alone at the medians.
    pub(super) slowed: f64,
    pub(super) demand: Demand,
    pub(super) network: Network,
    pub(super) times: EndTimes,
}

impl ModelRun {
    /// The time of a node from the last start on. Unit: seconds.
    fn behind(&self, scale: &Scale) -> f64 {
        self.times.slowest - scale.last_start()
    }
}

fn bottleneck(causes: &Causes, demand: &Demand, parameters: &StartParameters) -> Bottleneck {
    let own = OwnCause::ALL.map(|own| (Bottleneck::Own(own), causes.own[own as usize]));
    let stations = Station::ALL.map(|station| {
        let operation = if station == Station::Metadata { costliest(demand, parameters) } else { None };
        (Bottleneck::Station(station, operation), causes.stations[station as usize])
    });
    // Of equals the first: a start that takes no time is decided by nothing shared.
    let all = own.into_iter().chain(stations).rev();
    all.max_by(|a, b| a.1.total_cmp(&b.1)).map_or(Bottleneck::Own(OwnCause::Computing), |(cause, _)| cause)
}

/// The operation that takes most of the metadata servers' time.
fn costliest(demand: &Demand, parameters: &StartParameters) -> Option<ServerOperation> {
    let (asks, time) = (demand.asks(), parameters.demand());
    let cost = |operation: &ServerOperation| asks.get(*operation) * time.get(*operation);
    ServerOperation::ALL.iter().copied().max_by(|a, b| cost(a).total_cmp(&cost(b)))
}
