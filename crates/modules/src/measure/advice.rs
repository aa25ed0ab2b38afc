//! Recommendations from a measurement: for each modulepath and command the strategy that takes least time, and its cost for
//! other commands.

use super::measurement::{CommandCost, MeasuredCommand, Measurement, StrategyCost};
use crate::tools::ToolKind;
use std::time::Duration;

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StrategyAdvice {
    /// The modulepath, counted from 0 in the order of the request.
    pub modulepath: usize,
    /// The command.
    pub action: MeasuredCommand,
    /// The strategy that takes least time for it.
    pub strategy: String,
    /// The recommendation and its cost, in one sentence.
    pub text: String,
}

/// The commands with a recommendation each. [`super::of_site`] has the one for all commands.
const ADVISED: [MeasuredCommand; 3] = [MeasuredCommand::Avail, MeasuredCommand::Terse, MeasuredCommand::Load];

/// A time above this part of the plain time is no gain: CPU times vary more.
const WORTH_IT: f64 = 0.9;

/// For each modulepath and command the strategy that takes least time if each call on a tree takes `latency`.
///
/// A strategy is left out if its listing has another number of modulefiles than the plain tree, or if it makes no fewer
/// calls: its time differs by chance alone.
pub fn advise(measurement: &Measurement, modulepaths: usize, latency: Duration) -> Vec<StrategyAdvice> {
    let Some(plain) = measurement.strategies.iter().find(|strategy| strategy.name == "plain") else {
        return Vec::new();
    };
    let mut advices = Vec::new();
    for modulepath in 0..modulepaths {
        for action in ADVISED {
            let Some(before) = row(plain, action) else { continue };
            let time = |row: &CommandCost| time_on(row, modulepath, latency);
            let calls = |row: &CommandCost| row.on_each_tree.get(modulepath).copied().unwrap_or(0);
            let is_candidate = |strategy: &&StrategyCost| {
                row(strategy, action)
                    .is_some_and(|row| row.modulefiles == before.modulefiles && calls(row) < calls(before))
            };
            let candidates: Vec<&StrategyCost> = measurement.strategies.iter().filter(is_candidate).collect();
            let of = |strategy: &StrategyCost| row(strategy, action).map_or(f64::INFINITY, time);
            let least = candidates.iter().map(|strategy| of(strategy)).fold(f64::INFINITY, f64::min);
            // Among strategies that are nearly as good, prefer one that needs nothing from the site.
            let good = || candidates.iter().filter(|strategy| WORTH_IT * of(strategy) <= least);
            let best = good().find(|strategy| strategy.note.is_none()).or_else(|| good().next()).copied();
            let best =
                best.filter(|best| row(best, action).is_some_and(|row| time(row) < WORTH_IT * time(before)));
            advices.push(StrategyAdvice {
                modulepath,
                action,
                strategy: best.unwrap_or(plain).name.clone(),
                text: text(measurement, best, plain, modulepath, action, latency),
            });
        }
    }
    advices
}

fn row(strategy: &StrategyCost, action: MeasuredCommand) -> Option<&CommandCost> {
    strategy.rows.iter().find(|row| row.action == action)
}

/// Seconds that a command spends on one tree and on the processor.
fn time_on(row: &CommandCost, modulepath: usize, latency: Duration) -> f64 {
    let calls = row.on_each_tree.get(modulepath).copied().unwrap_or(0);
    calls as f64 * latency.as_secs_f64() + row.cpu.as_secs_f64()
}

fn text(
    measurement: &Measurement,
    best: Option<&StrategyCost>,
    plain: &StrategyCost,
    modulepath: usize,
    action: MeasuredCommand,
    latency: Duration,
) -> String {
    let Some(best) = best else { return "leave it as it is: no strategy is faster".to_owned() };
    let calls = |strategy: &StrategyCost| {
        row(strategy, action).and_then(|row| row.on_each_tree.get(modulepath).copied()).unwrap_or(0)
    };
    let mut text = format!("{}: {} calls instead of {}", best.name, calls(best), calls(plain));
    // A gain for listings must not be paid for by every load.
    let load = |strategy: &StrategyCost| {
        row(strategy, MeasuredCommand::Load).map(|row| time_on(row, modulepath, latency))
    };
    let slows = action != MeasuredCommand::Load
        && load(best).zip(load(plain)).is_some_and(|(best, plain)| WORTH_IT * best > plain);
    let is_cache = best.name.starts_with("cache");
    match (is_cache && slows, measurement.tool.version.is_at_least(5, 7)) {
        (true, true) => text.push_str("; it slows load: set ignore_cache_subcmds to load"),
        (true, false) => {
            text.push_str("; it slows load, which ignore_cache_subcmds of Modules 5.7 can prevent")
        }
        (false, _) if slows => text.push_str("; it slows load"),
        (false, _) => {}
    }
    if let Some(note) = &best.note {
        text.push_str("; ");
        text.push_str(note);
    }
    if measurement.tool.kind == ToolKind::Lmod && best.name.ends_with("cached loads") {
        text.push_str("; needs LMOD_CACHED_LOADS=yes, and so does the listing that Tab asks for");
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tools::{Tool, ToolVersion};

    fn measurement(version: &str) -> Measurement {
        let version = ToolVersion::parse(version).unwrap();
        Measurement {
            tool: Tool { kind: ToolKind::Modules, version, interpreter: "tclsh".into(), script: "m".into() },
            module: "a/1".to_owned(),
            strategies: vec![
                StrategyCost::example("plain", [(13912, 174), (13912, 174), (29, 27)], 1934),
                StrategyCost::example("eval", [(59, 100), (59, 100), (20, 20)], 1999),
                StrategyCost::example("cache", [(88, 159), (88, 159), (10, 139)], 1934),
            ],
        }
    }

    #[test]
    fn a_cache_that_slows_load_is_not_for_load() {
        let advice = advise(&measurement("5.7.0"), 1, Duration::from_millis(1));
        assert_eq!(
            advice[0].text,
            "cache: 88 calls instead of 13912; it slows load: set ignore_cache_subcmds to load"
        );
        assert_eq!(advice[2].strategy, "plain");
        assert_eq!(advice[2].text, "leave it as it is: no strategy is faster");
        let older = advise(&measurement("5.5.0"), 1, Duration::from_millis(1));
        assert!(
            older[0].text.contains("which ignore_cache_subcmds of Modules 5.7 can prevent"),
            "{}",
            older[0].text
        );
        // At 20 ms a call the calls decide, even for load.
        let slow = advise(&measurement("5.7.0"), 1, Duration::from_millis(20));
        assert_eq!((slow[2].strategy.as_str(), slow[0].text.contains("slows")), ("cache", false));
    }

    #[test]
    fn a_listing_that_differs_is_no_choice() {
        let advice = advise(&measurement("5.7.0"), 1, Duration::from_millis(1));
        assert!(advice.iter().all(|advice| advice.strategy != "eval"));
    }

    #[test]
    fn what_makes_no_fewer_calls_is_no_choice_however_fast_it_was() {
        let mut measurement = measurement("5.7.0");
        measurement.strategies.push(StrategyCost::example(
            "cache ignored",
            [(13912, 20), (13912, 20), (29, 3)],
            1934,
        ));
        let advice = advise(&measurement, 1, Duration::from_micros(5));
        assert!(advice.iter().all(|advice| advice.strategy != "cache ignored"), "{advice:?}");
    }
}
