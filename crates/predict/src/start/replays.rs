//! The demand of a node, by replaying the program on it: names are forgotten while a start is slowed down, so the demand
//! depends on the time that it takes.

use crate::parameters::ClientRules;
use crate::profile::Profile;
use crate::question::StartQuestion;
use crate::workload::{Demand, Machine, StartScript, demand};
use crate::{StartParameters, changes};

/// From one replay to the next slower one.
pub(super) const POWER: f64 = 4.0;
/// Requests slower than that forget nothing more: a lookup of a tenth of a millisecond takes half an hour.
pub(super) const MOST_SLOWED: f64 = 16_777_216.0;

/// A state of the clients before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// They know nothing.
    Cold,
    /// The program has run there before.
    Warm,
}

/// A replay, and what it depends on.
#[derive(Clone, Debug)]
pub(super) struct CachedReplay {
    crowd: ReplayedCrowd,
    slowed: f64,
    demand: Demand,
}

/// Processes that share a client's caches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ReplayedCrowd {
    pub(super) rules: ClientRules,
    pub(super) clients: ClientState,
    pub(super) processes: u32,
    /// Requests of the client that may be under way at once.
    pub(super) in_flight: f64,
}

/// Demands of a node by how much its requests are slowed, each replayed once.
pub(super) struct Replays<'a> {
    scripts: Vec<StartScript>,
    profile: &'a Profile,
    question: &'a StartQuestion,
    /// At powers of [`POWER`].
    pub(super) replayed: Vec<CachedReplay>,
    /// Between them, where a point of the curve was found to lie.
    near: Vec<CachedReplay>,
}

impl<'a> Replays<'a> {
    pub(super) fn new(scripts: &[StartScript], profile: &'a Profile, question: &'a StartQuestion) -> Self {
        let scripts = scripts.iter().map(|script| changes::script(script, &question.changes)).collect();
        Self { scripts, profile, question, replayed: Vec::new(), near: Vec::new() }
    }

    /// Computing of one rank. Unit: seconds.
    pub(super) fn think(&self) -> f64 {
        self.scripts.iter().map(StartScript::think).sum::<f64>() / self.scripts.len().max(1) as f64
    }

    /// The demand of a node while requests take `slowed` times as long: between two replays, on a logarithmic scale, so that
    /// time has no step where a replay gives way to the next.
    pub(super) fn slowed(&mut self, slowed: f64, crowd: ReplayedCrowd) -> Demand {
        let power = slowed.ln() / POWER.ln();
        let mut demand = self.demand(power.floor() as u32, crowd);
        if power.fract() <= 0.0 {
            return demand;
        }
        let mut above = self.demand(power.floor() as u32 + 1, crowd);
        let (mut from, mut to) = (power.floor(), power.floor() + 1.0);
        for replay in self.near.iter().filter(|replay| replay.serves(crowd)) {
            let at = replay.slowed.ln() / POWER.ln();
            if at <= power && at > from {
                (from, demand) = (at, replay.demand.clone());
            } else if at > power && at < to {
                (to, above) = (at, replay.demand.clone());
            }
        }
        demand.towards(&above, (power - from) / (to - from));
        demand
    }

    /// Replays at this slowness itself, so that what is asked there is no longer a guess between two powers.
    pub(super) fn look_at(&mut self, slowed: f64, crowd: ReplayedCrowd) {
        let demand = self.replay(slowed, crowd);
        self.near.push(CachedReplay { crowd, slowed, demand });
    }

    /// The processes of a node before its own client, by the profile and the changes that are asked about.
    pub(super) fn node(&self, clients: ClientState, parameters: &StartParameters) -> ReplayedCrowd {
        let rules = changes::rules(parameters.client, &self.question.changes);
        ReplayedCrowd {
            rules,
            clients,
            processes: self.question.processes,
            // The limit belongs to a network file system's client. An image's server on the node has none.
            in_flight: match self.question.changes.image {
                Some(_) => f64::INFINITY,
                None => parameters.in_flight.floor(),
            },
        }
    }

    /// Forgets where the last point of the curve lay: a point does not depend on which others are asked for.
    pub(super) fn leave(&mut self) {
        self.near.clear();
    }

    /// The demand of a node at a power of [`POWER`]; never less than for the one below, nor than where nothing slows requests. (All
    /// lower ones would cost a replay each.)
    fn demand(&mut self, power: u32, crowd: ReplayedCrowd) -> Demand {
        let mut whole = self.replayed_once(power, crowd).clone();
        for lower in (0..power).filter(|lower| *lower == 0 || lower + 1 == power) {
            whole.at_least(self.replayed_once(lower, crowd));
        }
        whole
    }

    fn replayed_once(&mut self, power: u32, crowd: ReplayedCrowd) -> &Demand {
        let slowed = POWER.powf(f64::from(power));
        let serves = |replay: &CachedReplay| replay.slowed == slowed && replay.serves(crowd);
        let at = self.replayed.iter().position(serves).unwrap_or_else(|| {
            let demand = self.replay(slowed, crowd);
            self.replayed.push(CachedReplay { crowd, slowed, demand });
            self.replayed.len() - 1
        });
        &self.replayed[at].demand
    }

    /// Replays with the median's latencies, so that few replays serve many runs: they decide when names are forgotten and
    /// which process comes first, nothing else.
    pub(super) fn replay(&self, slowed: f64, crowd: ReplayedCrowd) -> Demand {
        let ReplayedCrowd { rules, clients, processes, in_flight } = crowd;
        let median = StartParameters::median(self.profile);
        let mut latency = median.latency();
        latency.0.iter_mut().for_each(|seconds| *seconds *= slowed);
        let machine = Machine {
            processes,
            in_flight,
            cores: self.question.cores.map(|cores| cores.ceil() as u32),
            cpu: median.cpu,
            cpu_of_a_byte: median.cpu_of_a_byte,
            own_answer: median.own_answer,
            is_warm: clients == ClientState::Warm,
            latency,
            byte: slowed / median.client_rate,
        };
        let mut demands = self.scripts.iter().map(|script| demand(script, rules, &machine));
        let mut whole = demands.next().unwrap_or_default();
        demands.for_each(|other| whole.add(&other));
        whole.scale(1.0 / self.scripts.len().max(1) as f64);
        whole
    }
}

impl CachedReplay {
    fn serves(&self, crowd: ReplayedCrowd) -> bool {
        let own = self.crowd;
        let holds_back = |crowd: ReplayedCrowd| crowd.in_flight.min(f64::from(crowd.processes));
        (own.clients, own.processes) == (crowd.clients, crowd.processes)
            && holds_back(own) == holds_back(crowd)
            && self.demand.alike.serves(&own.rules, &crowd.rules)
    }
}

/// The computing before each answer that the first process of a cold node waits for, in the mean. Unit: microseconds.
pub(super) fn computing_before_a_request(
    scripts: &[StartScript],
    profile: &Profile,
    question: &StartQuestion,
) -> f64 {
    let replays = Replays::new(scripts, profile, question);
    let node = replays.node(ClientState::Cold, &StartParameters::median(profile));
    let first = replays.replay(1.0, ReplayedCrowd { processes: 1, ..node });
    let answers = first.waits().0.iter().sum::<f64>() + first.own_answers();
    1e6 * first.think() / answers.max(1.0)
}

/// True if a client forgets something within a time.
pub(super) fn forgets(rules: &ClientRules, seconds: f64) -> bool {
    [rules.positive, rules.negative, rules.directory, rules.attributes, rules.listing]
        .iter()
        .any(|life| *life > 0.0 && *life < seconds)
}
