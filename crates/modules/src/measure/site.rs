//! One recommendation for a site: the strategy that takes least time for all commands and modulepaths together.

use super::measurement::{CommandCost, MeasuredCommand, Measurement, StrategyCost};
use std::time::Duration;

/// A recommendation for a site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteAdvice {
    /// The strategy: `plain` where nothing is to change.
    pub strategy: String,
    /// The `--to` of `quell modules convert`, and further flags; `None` where nothing is to change.
    pub convert: Option<&'static str>,
    /// Settings that the site's users need, in the form of variables.
    pub settings: Vec<String>,
    /// Time of one listing of each kind and ten of each other command, as it is and with the strategy. Unit: seconds.
    pub seconds: [f64; 2],
}

/// The commands of jobs that fall on one listing by a person.
const JOBS: f64 = 10.0;

/// A time above this part of the plain time is no gain: CPU times vary more.
const WORTH_IT: f64 = 0.9;

/// A strategy that needs nothing from users is recommended up to this many times the least time.
const PREFERRED: f64 = 2.0;

/// The least time by which a cache must slow a command down to be ignored for it. CPU times vary by less.
const SLOWER: f64 = 0.005;

/// The conversion of a site to each strategy, and the settings with it. Strategies that are not here are no conversion.
const CONVERSIONS: [(&str, &str, &[&str]); 8] = [
    ("modulepath rc", "rc", &[]),
    ("eval", "eval", &["MODULES_MCOOKIE_CHECK=eval"]),
    ("virtual", "virtual --eval-enforced", &["MODULES_MCOOKIE_CHECK=eval"]),
    ("cache", "cache", &[]),
    ("cache, 4096 bytes", "cache", &["MODULES_CACHE_BUFFER_BYTES=4096"]),
    ("cache, 1000000 bytes", "cache", &["MODULES_CACHE_BUFFER_BYTES=1000000"]),
    ("system cache", "lmod-cache --out DIR", &["LMOD_RC=DIR/lmodrc.lua"]),
    (
        "system cache, cached loads",
        "lmod-cache --out DIR",
        &["LMOD_RC=DIR/lmodrc.lua", "LMOD_CACHED_LOADS=yes"],
    ),
];

/// The strategy that takes least time, if each call on a tree takes `latency` and ten commands of jobs fall on one listing.
///
/// A strategy is left out if its listing has another number of modulefiles than the plain tree. Commands that a cache slows down ignore
/// it, where the tool can.
pub fn of_site(measurement: &Measurement, latency: Duration) -> Option<SiteAdvice> {
    let plain = measurement.strategies.iter().find(|strategy| strategy.name == "plain")?;
    let before = total(&plain.rows, &plain.rows, &[], latency);
    let can_ignore = measurement.tool.version.is_at_least(5, 7);
    let choice = |strategy: &StrategyCost| {
        let (_, convert, settings) = CONVERSIONS.iter().find(|(name, ..)| *name == strategy.name)?;
        let is_same =
            strategy.rows.iter().zip(&plain.rows).all(|(row, old)| row.modulefiles == old.modulefiles);
        if strategy.rows.len() != plain.rows.len() || !is_same {
            return None;
        }
        let ignored = match *convert == "cache" && can_ignore {
            true => slowed(&strategy.rows, &plain.rows, latency),
            false => Vec::new(),
        };
        let mut settings: Vec<String> = settings.iter().map(|setting| (*setting).to_owned()).collect();
        if !ignored.is_empty() {
            let names: Vec<&str> = ignored.iter().map(|command| subcommand(*command)).collect();
            settings.push(format!("MODULES_IGNORE_CACHE_SUBCMDS={}", names.join(":")));
        }
        let seconds = [before, total(&strategy.rows, &plain.rows, &ignored, latency)];
        Some(SiteAdvice { strategy: strategy.name.clone(), convert: Some(convert), settings, seconds })
    };
    let choices: Vec<SiteAdvice> = measurement.strategies.iter().filter_map(choice).collect();
    let least = choices.iter().map(|choice| choice.seconds[1]).fold(f64::INFINITY, f64::min);
    // A conversion that saves nothing is not preferred to one that does.
    let good = |times: f64| {
        let most = (times * least).min(WORTH_IT * before);
        choices.iter().filter(move |choice| choice.seconds[1] <= most)
    };
    let of_time = |one: &&SiteAdvice, other: &&SiteAdvice| one.seconds[1].total_cmp(&other.seconds[1]);
    let free = good(PREFERRED).filter(|choice| choice.settings.is_empty()).min_by(of_time);
    let best = free.or_else(|| good(1.0).next()).cloned();
    let stay = || SiteAdvice {
        strategy: plain.name.clone(),
        convert: None,
        settings: Vec::new(),
        seconds: [before, before],
    };
    Some(best.unwrap_or_else(stay))
}

/// The commands that a cache slows down.
fn slowed(rows: &[CommandCost], plain: &[CommandCost], latency: Duration) -> Vec<MeasuredCommand> {
    let is_slower = |(row, old): &(&CommandCost, &CommandCost)| {
        let (now, before) = (time(row, latency), time(old, latency));
        WORTH_IT * now > before && now > before + SLOWER
    };
    rows.iter().zip(plain).filter(is_slower).map(|(row, _)| row.action).collect()
}

/// The word by which the setting names a command.
fn subcommand(command: MeasuredCommand) -> &'static str {
    match command {
        MeasuredCommand::Terse => "avail",
        MeasuredCommand::Login => "autoinit",
        other => other.name(),
    }
}

/// Seconds of one listing of each kind and of ten of each other command; those that ignore a cache take the plain time.
fn total(rows: &[CommandCost], plain: &[CommandCost], ignored: &[MeasuredCommand], latency: Duration) -> f64 {
    let seconds = rows.iter().zip(plain).map(|(row, old)| {
        let is_ignored = ignored.iter().any(|command| subcommand(*command) == subcommand(row.action));
        let times = if row.action.is_listing() { 1.0 } else { JOBS };
        times * time(if is_ignored { old } else { row }, latency)
    });
    seconds.sum()
}

fn time(row: &CommandCost, latency: Duration) -> f64 {
    row.on_tree as f64 * latency.as_secs_f64() + row.cpu.as_secs_f64()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::tools::{Tool, ToolKind, ToolVersion};

    const PLAIN: [(u64, u64); 6] = [(13912, 174), (13912, 174), (29, 27), (0, 20), (29, 30), (13912, 200)];

    fn advice(version: &str, others: &[StrategyCost], latency: u64) -> SiteAdvice {
        let version = ToolVersion::parse(version).unwrap();
        let tool = Tool { kind: ToolKind::Modules, version, interpreter: "tclsh".into(), script: "m".into() };
        let strategies = [&[StrategyCost::example("plain", PLAIN, 1934)], others].concat();
        of_site(&Measurement { tool, module: "a/1".to_owned(), strategies }, Duration::from_micros(latency))
            .unwrap()
    }

    #[test]
    fn a_cache_is_ignored_by_the_commands_that_it_slows() {
        let cache = [(88, 159), (88, 159), (10, 139), (0, 20), (10, 140), (88, 160)];
        let found = advice("5.7.0", &[StrategyCost::example("cache", cache, 1934)], 1000);
        assert_eq!((found.strategy.as_str(), found.convert), ("cache", Some("cache")));
        assert_eq!(found.settings, ["MODULES_IGNORE_CACHE_SUBCMDS=load:restore"]);
        // Ten loads and restores of the plain time, and no listing of it.
        assert!((found.seconds[1] - (0.742 + 10.0 * (0.056 + 0.02 + 0.059))).abs() < 1e-9, "{found:?}");
        assert!(advice("5.5.0", &[StrategyCost::example("cache", cache, 1934)], 1000).settings.is_empty());
        // At 20 ms a call the calls decide, even for load.
        assert!(advice("5.7.0", &[StrategyCost::example("cache", cache, 1934)], 20_000).settings.is_empty());
    }

    #[test]
    fn one_strategy_is_recommended_and_what_is_no_conversion_never_is() {
        let image = StrategyCost::example("image", [(0, 1); 6], 1934);
        let other = StrategyCost::example("eval", [(0, 1); 6], 1999);
        let stays = advice(
            "5.7.0",
            &[image.clone(), other, StrategyCost::example("cache ignored", PLAIN, 1934)],
            1000,
        );
        assert_eq!(
            (stays.strategy.as_str(), stays.convert, stays.seconds[0]),
            ("plain", None, stays.seconds[1])
        );
        // A strategy without settings is preferred to one that is little faster.
        let virtual_modules = StrategyCost::example("virtual", [(40, 100); 6], 1934);
        let cache = StrategyCost::example("cache", [(50, 110); 6], 1934);
        assert_eq!(advice("5.5.0", &[virtual_modules.clone(), cache, image], 1000).strategy, "cache");
        let slow = StrategyCost::example(
            "modulepath rc",
            [(5000, 150), (5000, 150), (30, 27), (0, 20), (30, 30), (5000, 150)],
            1934,
        );
        assert_eq!(advice("5.2.0", &[virtual_modules, slow], 1000).settings, ["MODULES_MCOOKIE_CHECK=eval"]);
    }

    #[test]
    fn what_needs_no_setting_is_preferred_only_where_it_saves_something_and_then_by_its_time() {
        let of = |calls: u64, name: &str| StrategyCost::example(name, [(calls, 100); 6], 1934);
        // 43.6 s as it is. Without a setting 41.9 s, within twice the 24.1 s of the other one.
        let found = advice("5.5.0", &[of(1170, "modulepath rc"), of(630, "virtual")], 1000);
        assert!(found.seconds[1] < 0.9 * found.seconds[0], "{found:?}");
        assert_eq!(
            (found.strategy.as_str(), &*found.settings),
            ("virtual", &["MODULES_MCOOKIE_CHECK=eval".to_owned()][..])
        );
        let found = advice("5.5.0", &[of(600, "modulepath rc"), of(500, "cache"), of(400, "virtual")], 1000);
        assert_eq!(found.strategy, "cache");
    }
}
