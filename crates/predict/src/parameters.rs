//! A profile with every figure decided: the numbers that one run of the model takes.
//!
//! A figure that the profile lacks is taken from the wide prior, and named in [`StartParameters::assumed`]: never silently.

use crate::profile::{ClientSection, Figure, ForwardingSection, Profile, TIME_SHARED, wide};
use crate::{PerOperation, ServerOperation};

/// The numbers of one run of the model.
#[derive(Clone, Debug, PartialEq)]
pub struct StartParameters {
    /// To the metadata server and back. Unit: seconds.
    pub round_trip: f64,
    /// Metadata servers that share the load.
    pub servers: f64,
    /// Requests that one works on at once.
    pub threads: f64,
    /// Requests a second of one server. Shape: infinite for [`ServerOperation::Read`].
    pub rates: PerOperation,
    /// Lifetimes in a client's caches, and what it asks.
    pub client: ClientRules,
    /// Requests of one client under way at once.
    pub in_flight: f64,
    /// The program's computing, against the recording.
    pub computing: f64,
    /// Processor time of client and server for one request. Unit: seconds.
    pub cpu: f64,
    /// The same for a byte of data. Unit: seconds.
    pub cpu_of_a_byte: f64,
    /// An answer that a client's daemon gives by itself, all of it processor time. Unit: seconds.
    pub own_answer: f64,
    /// The same where more processes ask than there are cores. Unit: seconds. Range: at least `own_answer`.
    pub own_answer_shared: f64,
    /// A program's processor time on cores that are shared, over that without interruption. Range: at least 1.
    pub time_shared: f64,
    /// Data servers.
    pub data_servers: f64,
    /// Of one data server. Unit: bytes a second.
    pub data_rate: f64,
    /// Of one client. Unit: bytes a second.
    pub client_rate: f64,
    /// One small read of data. Unit: seconds.
    pub read: f64,
    /// Data servers that one file is spread over; infinite for all of them.
    pub stripes: f64,
    /// From one node to another. Unit: bytes a second.
    pub network_rate: f64,
    /// Gateways between nodes and servers.
    pub forwarding: Option<Gateways>,
    /// The time of a start over the model's, which leaves some of it out.
    pub error: f64,
    /// Keys that the profile does not name and that were taken from the wide prior. Shape: in the order of the file.
    pub assumed: Vec<&'static str>,
}

/// Gateways that nodes ask in place of the servers. A gateway is a client of the servers, for all its nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gateways {
    /// Their number.
    pub number: f64,
    /// Requests that one works on at once.
    pub threads: f64,
    /// Requests a second of one, with all its threads.
    pub rate: f64,
    /// From a node to its gateway and back. Unit: seconds.
    pub round_trip: f64,
    /// Data through one. Unit: bytes a second.
    pub data_rate: f64,
    /// The time for which a node itself keeps names and attributes. Unit: seconds.
    pub node_keeps: f64,
}

impl Gateways {
    /// Gateways that so many nodes have.
    pub(crate) fn used(&self, nodes: f64) -> f64 {
        self.number.min(nodes).max(1.0)
    }

    /// Nodes of the gateway that has the most, over all nodes. The last node to start is one of its own.
    pub(crate) fn share_of_the_busiest(&self, nodes: f64) -> f64 {
        (nodes / self.number).ceil().max(1.0) / nodes.max(1.0)
    }

    /// The time of a request from a node to its gateway and back. Unit: seconds.
    pub(crate) fn latency(&self) -> f64 {
        self.round_trip + self.threads / self.rate
    }

    /// The rules of a node, before a gateway that has these.
    pub(crate) fn node_rules(&self, gateway: &ClientRules) -> ClientRules {
        let keeps = self.node_keeps;
        ClientRules {
            positive: keeps,
            negative: keeps,
            directory: keeps,
            attributes: keeps,
            listing: 0.0,
            entries: f64::INFINITY,
            open_asks: true,
            open_directory_asks: gateway.open_directory_asks,
            atomic_open: false,
            open_rides: 0.0,
            close_asks: gateway.close_asks,
            readdir_fills: false,
            layout_asks: false,
            read_spoils_attributes: false,
            absences_ask_daemon: gateway.absences_ask_daemon,
        }
    }
}

/// The caches of a client, and the requests that it repeats. Unit of lifetimes: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClientRules {
    /// Of a file's name.
    pub positive: f64,
    /// Of an absent name.
    pub negative: f64,
    /// Of a directory's name.
    pub directory: f64,
    /// Of attributes.
    pub attributes: f64,
    /// Of a directory's entries, as a listing brings them.
    pub listing: f64,
    /// Names that are kept at once; infinite where that is not limited.
    pub entries: f64,
    /// An open of a known name costs a request.
    pub open_asks: bool,
    /// So does opening a directory.
    pub open_directory_asks: bool,
    /// Lookup and open are one request.
    pub atomic_open: bool,
    /// For so long after its lookup a file's first open costs a request that no process waits for. Unit: seconds.
    pub open_rides: f64,
    /// Closing costs a request.
    pub close_asks: bool,
    /// Listing brings names and attributes along.
    pub readdir_fills: bool,
    /// The place of a file's data is asked for, unless a lookup brought it.
    pub layout_asks: bool,
    /// Reading makes attributes be asked again.
    pub read_spoils_attributes: bool,
    /// The client's daemon answers for a name that is known to be absent.
    pub absences_ask_daemon: bool,
}

impl ClientRules {
    /// A server on the node that keeps every answer for the run. Unit of lifetimes: seconds.
    pub(crate) const KEPT: Self = Self {
        positive: 1e9,
        negative: 1e9,
        directory: 1e9,
        attributes: 1e9,
        listing: 1e9,
        entries: f64::INFINITY,
        open_asks: false,
        open_directory_asks: false,
        atomic_open: false,
        open_rides: 0.0,
        close_asks: false,
        readdir_fills: false,
        layout_asks: false,
        read_spoils_attributes: false,
        absences_ask_daemon: false,
    };
}

/// A program's time varies from start to start: of 25 starts of one import from a warm local disk, on an idle machine, one in ten took
/// less than 0.88 times the median, and one in ten more than 1.16 times.
static RECORDED: Figure = Figure { p10: 0.88, p50: 1.0, p90: 1.16, count: Some(25), source: None };

/// The model's own error, upwards by starts of one program on the rig (`julia` of `bench/results/predict.md`; the other programs are what
/// `quell validate` counts), downwards by the rows of Hopper that its authors derived. A shortfall is likelier than an excess: what a
/// model leaves out takes time.
pub(crate) static MODEL: Figure = Figure { p10: 0.87, p50: 1.0, p90: 1.2, count: Some(162), source: None };

/// Decides each figure: from its key and itself to a number.
pub type Choice<'a> = &'a dyn Fn(&'static str, &Figure) -> f64;

impl StartParameters {
    /// With every figure at its median.
    pub fn median(profile: &Profile) -> Self {
        Self::choose(profile, &|_, figure| figure.p50)
    }

    /// With every figure as `choice` decides.
    pub fn choose(profile: &Profile, choice: Choice<'_>) -> Self {
        let wide = wide();
        let mut chooser = ParameterChooser { choice, assumed: Vec::new() };
        let rates = chooser.rates(profile, &wide);
        let client = chooser.client_rules(&profile.client, &wide.client);
        let mut take = |key, own: &Option<Figure>, prior: &Option<Figure>| chooser.take(key, own, prior);
        let (own, prior) = (&profile.client, &wide.client);
        let in_flight = take("requests_in_flight", &own.requests_in_flight, &prior.requests_in_flight);
        let (own, prior) = (&profile.data, &wide.data);
        let data_servers = take("data.servers", &own.servers, &prior.servers);
        let data_rate = take("bytes_per_second", &own.bytes_per_second, &prior.bytes_per_second);
        let client_rate =
            take("client_bytes_per_second", &own.client_bytes_per_second, &prior.client_bytes_per_second);
        let round_trip =
            take("round_trip_us", &profile.network.round_trip_us, &wide.network.round_trip_us) / 1e6;
        let servers = take("servers", &profile.metadata.servers, &wide.metadata.servers);
        // Rates of the wide prior are of a server with its threads. A server that was measured may have threads that were
        // not counted: then it works on one request at a time.
        let threads = match (&profile.metadata.threads, names_rates(profile)) {
            (None, true) => 1.0,
            (own, _) => take("threads", own, &wide.metadata.threads),
        };
        let (client_section, data) = (&profile.client, &profile.data);
        let own_answer = chooser.known("own_answer_us", &client_section.own_answer_us, 0.0) / 1e6;
        let shared = chooser.known("own_answer_shared_us", &client_section.own_answer_shared_us, 0.0) / 1e6;
        Self {
            computing: choice("computing", &RECORDED),
            round_trip,
            servers,
            threads,
            rates,
            client,
            in_flight,
            cpu: chooser.known("cpu_us", &client_section.cpu_us, 0.0) / 1e6,
            cpu_of_a_byte: chooser.known("cpu_us_per_mb", &client_section.cpu_us_per_mb, 0.0) / 1e12,
            own_answer,
            own_answer_shared: shared.max(own_answer),
            time_shared: match &client_section.time_shared {
                Some(figure) => choice("time_shared", figure),
                None => choice("time_shared", &TIME_SHARED),
            },
            data_servers,
            data_rate,
            client_rate,
            read: data.read_us.as_ref().map_or(round_trip, |figure| choice("read_us", figure) / 1e6),
            stripes: match data.servers {
                // The servers are the wide prior's, and so is the number of them that one file lies on.
                None => chooser.take("stripes", &data.stripes, &wide.data.stripes),
                Some(_) => chooser.known("stripes", &data.stripes, f64::INFINITY),
            },
            network_rate: chooser.known(
                "network.bytes_per_second",
                &profile.network.bytes_per_second,
                client_rate,
            ),
            forwarding: chooser.gateways(&profile.forwarding),
            error: choice("model", &MODEL),
            assumed: chooser.assumed,
        }
    }

    /// The time for which one request keeps a server busy, all its threads together. Unit: seconds. 0 for data.
    pub fn demand(&self) -> PerOperation {
        PerOperation::of(|operation| {
            if operation.is_metadata() { 1.0 / (self.rates.get(operation) * self.servers) } else { 0.0 }
        })
    }

    /// The time of one request alone. Unit: seconds.
    pub fn latency(&self) -> PerOperation {
        PerOperation::of(|operation| match operation {
            ServerOperation::Read => self.read,
            _ => self.round_trip + self.threads / self.rates.get(operation),
        })
    }
}

/// True if a profile names a rate of its own.
fn names_rates(profile: &Profile) -> bool {
    profile.rates != crate::profile::RatesSection::default()
}

struct ParameterChooser<'a> {
    choice: Choice<'a>,
    assumed: Vec<&'static str>,
}

impl ParameterChooser<'_> {
    /// The profile's own figure, or that of the wide prior.
    fn take(&mut self, key: &'static str, own: &Option<Figure>, prior: &Option<Figure>) -> f64 {
        if let Some(figure) = own {
            return (self.choice)(key, figure);
        }
        self.assumed.push(key);
        let figure =
            prior.as_ref().expect("a test sees that the wide prior names every key that is taken from it");
        (self.choice)(key, figure)
    }

    /// The profile's own figure, or `otherwise`: the wide prior does not have it.
    fn known(&self, key: &'static str, own: &Option<Figure>, otherwise: f64) -> f64 {
        own.as_ref().map_or(otherwise, |figure| (self.choice)(key, figure))
    }

    /// `None` where no number of gateways is named; what else is not named costs nothing.
    fn gateways(&self, own: &ForwardingSection) -> Option<Gateways> {
        let number = own.gateways.as_ref()?;
        Some(Gateways {
            number: (self.choice)("gateways", number),
            threads: self.known("gateway_threads", &own.gateway_threads, 1.0),
            rate: self.known("gateway_requests_per_second", &own.gateway_requests_per_second, f64::INFINITY),
            round_trip: self.known("gateway_round_trip_us", &own.gateway_round_trip_us, 0.0) / 1e6,
            data_rate: self.known("gateway_bytes_per_second", &own.gateway_bytes_per_second, f64::INFINITY),
            node_keeps: self.known("node_keeps_seconds", &own.node_keeps_seconds, 0.0),
        })
    }

    fn client_rules(&mut self, own: &ClientSection, prior: &ClientSection) -> ClientRules {
        ClientRules {
            positive: self.take("positive_seconds", &own.positive_seconds, &prior.positive_seconds),
            negative: self.take("negative_seconds", &own.negative_seconds, &prior.negative_seconds),
            directory: self.take("directory_seconds", &own.directory_seconds, &prior.directory_seconds),
            attributes: self.take("attribute_seconds", &own.attribute_seconds, &prior.attribute_seconds),
            listing: self.known("listing_seconds", &own.listing_seconds, 0.0),
            entries: self.known("cached_entries", &own.cached_entries, f64::INFINITY),
            open_asks: own.open_asks.or(prior.open_asks).unwrap_or(true),
            open_directory_asks: own.open_directory_asks.unwrap_or(false),
            atomic_open: own.atomic_open.unwrap_or(false),
            open_rides: self.known("open_rides_seconds", &own.open_rides_seconds, 0.0),
            close_asks: own.close_asks.unwrap_or(false),
            readdir_fills: own.readdir_fills.unwrap_or(false),
            layout_asks: own.layout_asks.unwrap_or(false),
            read_spoils_attributes: own.read_spoils_attributes.unwrap_or(false),
            absences_ask_daemon: own.absences_ask_daemon.unwrap_or(false),
        }
    }

    /// Rates of one server. An operation that the profile does not name is as fast as one that it names and that asks
    /// the same of a server; only where it names none are the rates of the wide prior taken.
    fn rates(&mut self, profile: &Profile, wide: &Profile) -> PerOperation {
        let own = &profile.rates;
        let is_empty = !names_rates(profile);
        if is_empty {
            self.assumed.push("operations_per_second");
        }
        let rates = if is_empty { &wide.rates } else { own };
        let names = [&rates.lookup, &rates.lookup_absent, &rates.getattr, &rates.readlink];
        let opens = [&rates.open, &rates.readdir, &rates.layout, &rates.close];
        let changes = [&rates.create, &rates.unlink, &rates.rename];
        let first = |own: &Option<Figure>, then: [&[&Option<Figure>]; 3]| {
            let then = then.into_iter().flatten().copied();
            let figure = std::iter::once(own).chain(then).flatten().next();
            (self.choice)("operations_per_second", figure.expect("one at least is named"))
        };
        PerOperation::of(|operation| {
            let name = |own| first(own, [&names, &opens, &changes]);
            let open = |own| first(own, [&opens, &names, &changes]);
            let change = |own| first(own, [&changes, &opens, &names]);
            match operation {
                ServerOperation::Lookup => name(&rates.lookup),
                ServerOperation::LookupAbsent => name(&rates.lookup_absent),
                ServerOperation::Getattr => name(&rates.getattr),
                ServerOperation::Readlink => name(&rates.readlink),
                ServerOperation::Open | ServerOperation::OpenDirectory => open(&rates.open),
                ServerOperation::Close => name(&rates.close),
                ServerOperation::Readdir => open(&rates.readdir),
                ServerOperation::Layout => name(&rates.layout),
                ServerOperation::Create => change(&rates.create),
                ServerOperation::Unlink => change(&rates.unlink),
                ServerOperation::Rename => change(&rates.rename),
                ServerOperation::Read => f64::INFINITY,
            }
        })
    }
}
