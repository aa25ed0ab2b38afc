//! The stations that nodes share, and what each part of a node's run wants of them.

use crate::workload::{Demand, Segment};
use crate::{PerOperation, ServerOperation, StartParameters};

/// A station that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Station {
    /// The metadata servers.
    Metadata,
    /// The data servers.
    Data,
    /// The cores of the one machine that all nodes run on.
    Cores,
    /// The gateways between nodes and servers.
    Gateways,
}

/// The number of stations.
pub(super) const STATIONS: usize = Station::ALL.len();

impl Station {
    /// Every station. Shape: index equals discriminant.
    pub const ALL: [Self; 4] = [Self::Metadata, Self::Data, Self::Cores, Self::Gateways];

    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata server",
            Self::Data => "data servers",
            Self::Cores => "cores",
            Self::Gateways => "gateways",
        }
    }
}

/// The number of causes that hold a node by itself.
pub(super) const OWN_CAUSES: usize = OwnCause::ALL.len();

/// A cause that holds a node by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnCause {
    /// The program's computing.
    Computing,
    /// Answers that no other node delays.
    RoundTrips,
    /// The cores that its processes share.
    Cores,
    /// Its own link.
    Link,
    /// The number of requests that its client may have under way.
    InFlight,
}

impl OwnCause {
    /// Every cause. Shape: index equals discriminant.
    pub const ALL: [Self; 5] = [Self::Computing, Self::RoundTrips, Self::Cores, Self::Link, Self::InFlight];

    /// The words for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::RoundTrips => "round trips",
            Self::Cores => "cores of a node",
            Self::Link => "link of a node",
            Self::InFlight => "RPC limit",
        }
    }
}

/// The number of nodes, and the load beside them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Nodes that start together. Range: 1 and up.
    pub nodes: f64,
    /// From the first node's start to the last one's, evenly spread. Unit: seconds.
    pub skew: f64,
    /// Share of the metadata servers' time that others take. Range: from 0 to less than 1.
    pub background: f64,
    /// Cores that the processes of a node share; `None` is one for each.
    pub cores: Option<f64>,
    /// All nodes and the servers are one machine, whose cores they share.
    pub is_shared_host: bool,
    /// Data servers that one file is spread over; `None` is as many as the parameters say.
    pub stripes: Option<f64>,
    /// Share of the data that is of the file of which a node reads most. The servers of that file are full first. Range: 0 to 1; 1 for an
    /// image, 0 where the files are not known.
    pub most_read_share: f64,
}

impl Scale {
    /// The start of the last node. One node does not wait for others. Unit: seconds.
    pub(crate) fn last_start(&self) -> f64 {
        if self.nodes > 1.0 { self.skew } else { 0.0 }
    }

    /// Each process's share of work that the first process of a node does while the others wait for it: with these shares, all
    /// processes keep the cores busy for as long as the first ones work. Range: above 0, at most 1.
    pub(crate) fn share_of_first(&self, processes: f64) -> f64 {
        let Some(cores) = self.cores else { return 1.0 };
        let nodes = if self.is_shared_host { self.nodes } else { 1.0 };
        ((cores / nodes).max(1.0) / processes.max(1.0)).min(1.0)
    }

    /// True if more run than there are cores: more processes, or as many beside the servers.
    fn shares_cores(&self, processes: f64) -> bool {
        self.cores.is_some_and(|cores| match self.is_shared_host {
            true => self.nodes * processes >= cores,
            false => processes > cores,
        })
    }

    /// Data servers that work at once while the busiest of them is full.
    pub(crate) fn targets(&self, parameters: &StartParameters) -> f64 {
        (self.servers_of_a_file(parameters) / self.most_read_share).min(parameters.data_servers).max(1.0)
    }

    /// Data servers that one file is spread over.
    pub(crate) fn servers_of_a_file(&self, parameters: &StartParameters) -> f64 {
        self.stripes.unwrap_or(parameters.stripes).min(parameters.data_servers).max(1.0)
    }
}

/// A part of a node's run as the engine takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunPart {
    /// Its time alone. Unit: seconds.
    pub alone: f64,
    /// Of that, the seconds that each [`OwnCause`] holds it.
    pub own: [f64; OWN_CAUSES],
    /// A node's demand on each station. Unit: seconds of the whole station.
    pub demand: [f64; STATIONS],
    /// The waits of one process there: visits of a queue, or seconds of a shared core.
    pub weight: [f64; STATIONS],
    /// Of the demand, what one process is served itself and so does not wait for. Unit: seconds. Range: together at most
    /// `alone`.
    pub served: [f64; STATIONS],
}

/// A node's run and the number of nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Shape: in order of time.
    pub parts: Vec<RunPart>,
    /// Nodes.
    pub nodes: f64,
    /// From the first node's start to the last one's; 0 for one. Unit: seconds.
    pub skew: f64,
}

impl Network {
    /// The network of nodes with this demand.
    pub fn new(demand: &Demand, parameters: &StartParameters, scale: &Scale) -> Self {
        let parts = parts(demand, parameters, scale);
        Self { parts, nodes: scale.nodes.max(1.0), skew: scale.last_start() }
    }

    /// One node's demand on each station over its whole run. Unit: seconds.
    pub fn demand(&self) -> [f64; STATIONS] {
        let mut all = [0.0; STATIONS];
        for part in &self.parts {
            (0..STATIONS).for_each(|station| all[station] += part.demand[station]);
        }
        all
    }

    /// The time of one node alone. Unit: seconds.
    pub fn alone(&self) -> f64 {
        self.parts.iter().map(|part| part.alone).sum()
    }
}

/// One process's share of a node's demand; no more than fits into its time alone.
fn served(demand: [f64; STATIONS], processes: f64, alone: f64) -> [f64; STATIONS] {
    let share = demand.map(|seconds| seconds / processes.max(1.0));
    let all: f64 = share.iter().sum();
    let fits = if all > alone { alone / all } else { 1.0 };
    share.map(|seconds| seconds * fits)
}

/// The demand of a part of a node's run on its gateway.
#[derive(Clone, Copy, Debug, Default)]
struct GatewayPart {
    /// One process's time there, beside what servers take. Unit: seconds.
    wait: f64,
    /// Unit: seconds of all gateways.
    demand: f64,
}

impl GatewayPart {
    /// A gateway is full when its requests or its data are, or when the requests are that it may have under way as a client.
    fn of(segment: &Segment, parameters: &StartParameters, scale: &Scale) -> Self {
        let Some(gateways) = parameters.forwarding else { return Self::default() };
        let forwarded = segment.forwarded;
        let under_way = segment.asks.dot(&parameters.latency()) / parameters.in_flight;
        let limits = [forwarded.asks / gateways.rate, forwarded.bytes / gateways.data_rate, under_way];
        Self {
            wait: forwarded.waits * gateways.latency(),
            demand: limits.into_iter().fold(0.0, f64::max) * gateways.share_of_the_busiest(scale.nodes),
        }
    }
}

fn parts(demand: &Demand, parameters: &StartParameters, scale: &Scale) -> Vec<RunPart> {
    let latency = parameters.latency();
    let server = parameters.demand();
    let free = (1.0 - scale.background).max(1e-6);
    // The mean number of requests in front of one: M/D/1 at the load of the others. It assumes that these arrive as a Poisson process and
    // take equal time. Source: Pollaczek and Khinchine.
    let queue_of_others = scale.background / (2.0 * free);
    let targets = scale.targets(parameters);
    let (slower, own_answer) = match scale.shares_cores(demand.processes) {
        true => (parameters.time_shared, parameters.own_answer_shared),
        false => (1.0, parameters.own_answer),
    };
    let part = |segment: &Segment| {
        let bytes = segment.bytes;
        let at_gateway = GatewayPart::of(segment, parameters, scale);
        let requests = segment.asks.metadata().max(segment.forwarded.asks);
        let answered = |asks: &PerOperation| asks.dot(&latency) + asks.dot(&server) * queue_of_others;
        let answers = answered(&segment.waits) + at_gateway.wait;
        let think = parameters.computing * segment.think + parameters.own_answer * segment.own_answers;
        let data = segment.awaited / parameters.client_rate;
        let chain = think + answers + data;
        // A read costs as a request does, or by its size.
        let reading =
            (parameters.cpu * segment.asks.get(ServerOperation::Read)).max(parameters.cpu_of_a_byte * bytes);
        let of_one = slower * parameters.computing * segment.think + own_answer * segment.own_answers;
        let computing = demand.processes * of_one + parameters.cpu * requests + reading;
        let own_cores = scale.cores.filter(|_| !scale.is_shared_host);
        // The bounds of a node by itself: its cores, its link, the requests that it may have under way.
        let local = [
            own_cores.map_or(0.0, |cores| computing / cores),
            bytes.max(segment.forwarded.bytes) / parameters.client_rate,
            match parameters.forwarding {
                Some(_) => 0.0,
                None => answered(&segment.asks) / parameters.in_flight,
            },
        ];
        let alone = local.into_iter().fold(chain, f64::max);
        let mut own = [think, answers, 0.0, data, 0.0];
        if let Some(limit) = local.iter().position(|limit| *limit == alone && *limit > chain) {
            own = [0.0; OWN_CAUSES];
            own[OwnCause::Cores as usize + limit] = alone;
        }
        let cores = scale.cores.filter(|_| scale.is_shared_host);
        let waits = segment.waits.metadata();
        let wanted = [
            segment.asks.dot(&server) / free,
            bytes / (targets * parameters.data_rate),
            cores.map_or(0.0, |cores| computing / cores),
            at_gateway.demand,
        ];
        RunPart {
            alone,
            own,
            demand: wanted,
            served: served(wanted, demand.processes, alone),
            weight: [
                if waits > 0.0 { waits } else { requests },
                if bytes > 0.0 { segment.waits.get(ServerOperation::Read).max(1.0) } else { 0.0 },
                if cores.is_some() { think + parameters.cpu * waits + reading } else { 0.0 },
                if at_gateway.demand > 0.0 { segment.forwarded.waits.max(1.0) } else { 0.0 },
            ],
        }
    };
    let broadcast = demand.broadcast.map(|broadcast| {
        let mut own = [0.0; OWN_CAUSES];
        own[OwnCause::Link as usize] = broadcast.seconds;
        RunPart { alone: broadcast.seconds, own, ..RunPart::default() }
    });
    broadcast.into_iter().chain(demand.segments.iter().map(part)).collect()
}
