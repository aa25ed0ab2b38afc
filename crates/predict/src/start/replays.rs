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

/// Demands of a node by how much its requests are slowed, each replayed once.
pub(super) struct Replays<'a> {
    scripts: Vec<StartScript>,
    profile: &'a Profile,
    question: &'a StartQuestion,
    /// Demands that were replayed, with what they depend on.
    pub(super) replayed: Vec<(ClientRules, u32, Demand)>,
}

impl<'a> Replays<'a> {
    pub(super) fn new(scripts: &[StartScript], profile: &'a Profile, question: &'a StartQuestion) -> Self {
        let scripts = scripts.iter().map(|script| changes::script(script, &question.changes)).collect();
        Self { scripts, profile, question, replayed: Vec::new() }
    }

    /// Computing of one rank. Unit: seconds.
    pub(super) fn think(&self) -> f64 {
        self.scripts.iter().map(StartScript::think).sum::<f64>() / self.scripts.len().max(1) as f64
    }

    /// The demand of a node while requests take `slowed` times as long: between two replays, on a logarithmic scale, so that
    /// time has no step where a replay gives way to the next.
    pub(super) fn slowed(&mut self, slowed: f64, parameters: &StartParameters) -> Demand {
        let power = slowed.ln() / POWER.ln();
        let mut demand = self.demand(power.floor() as u32, parameters);
        if power.fract() > 0.0 {
            let above = self.demand(power.floor() as u32 + 1, parameters);
            demand.towards(&above, power.fract());
        }
        demand
    }

    /// The same for a power of [`POWER`]; never less than for a lower one.
    fn demand(&mut self, power: u32, parameters: &StartParameters) -> Demand {
        let rules = changes::rules(parameters.client, &self.question.changes);
        let serves = |(own, at, demand): &&(ClientRules, u32, Demand)| {
            *at == power && demand.alike.serves(own, &rules)
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
        let median = StartParameters::median(self.profile);
        let mut latency = median.latency();
        latency.0.iter_mut().for_each(|seconds| *seconds *= POWER.powf(f64::from(power)));
        let machine = Machine {
            processes: self.question.processes,
            cores: self.question.cores.map(|cores| cores.ceil() as u32),
            cpu: median.cpu,
            cpu_of_a_byte: median.cpu_of_a_byte,
            own_answer: median.own_answer,
            is_warm: self.question.is_warm,
            latency,
            byte: 1.0 / median.client_rate,
        };
        let mut demands = self.scripts.iter().map(|script| demand(script, rules, &machine));
        let mut whole = demands.next().unwrap_or_default();
        demands.for_each(|other| whole.add(&other));
        whole.scale(1.0 / self.scripts.len().max(1) as f64);
        whole
    }
}

/// True if a client forgets something within a time.
pub(super) fn forgets(rules: &ClientRules, seconds: f64) -> bool {
    [rules.positive, rules.negative, rules.directory, rules.attributes]
        .iter()
        .any(|life| *life > 0.0 && *life < seconds)
}
