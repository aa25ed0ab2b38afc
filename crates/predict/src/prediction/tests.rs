//! What must hold of a prediction as it is printed, on a script as a recording gives it.

use super::*;
use crate::model::Station;
use crate::profile::{Kind, shipped};
use crate::workload::{Act, Deed, Facts, NameId};
use proptest::prelude::*;

/// A program that asks for `names` absent names in one directory, `rounds` times, and then computes.
fn misses(names: u32, rounds: u32, gap: f64, tail: f64) -> Script {
    let facts = |parent: Option<u32>, exists| Facts {
        parent: parent.map(NameId),
        is_link: false,
        exists,
        is_top: parent.is_none(),
        is_directory: exists,
    };
    let mut script =
        Script { names: vec![facts(None, true), facts(Some(0), true)], tail, ..Script::default() };
    for act in 0..names * rounds {
        if act < names {
            script.names.push(facts(Some(1), false));
        }
        let begin = script.walks.len() as u32;
        script.walks.extend([NameId(0), NameId(1), NameId(2 + act % names)]);
        let walk = begin..script.walks.len() as u32;
        script.acts.push(Act { think: gap, walk, absent: true, bytes: 0.0, deed: Deed::Find });
    }
    script
}

/// 1 ms from a server that does 10 000 requests a second; clients keep directories, and absences for so long.
fn plain(negative: f64) -> Profile {
    let exact = |value| Some(Figure::exact(value));
    let mut profile = Profile::new("plain", Kind::Measured);
    profile.network.round_trip_us = exact(1000.0);
    profile.metadata.servers = exact(1.0);
    profile.rates.lookup = exact(10_000.0);
    profile.client.positive_seconds = exact(0.0);
    profile.client.negative_seconds = exact(negative);
    profile.client.directory_seconds = exact(3600.0);
    profile.client.attribute_seconds = exact(3600.0);
    profile.client.requests_in_flight = exact(64.0);
    profile.data.servers = exact(1.0);
    profile.data.bytes_per_second = exact(1e9);
    profile.data.client_bytes_per_second = exact(1e9);
    profile
}

fn point(script: &Script, profile: &Profile, nodes: u64, processes: u32) -> Point {
    let question = Question { nodes: vec![nodes], processes, samples: 1, ..Question::default() };
    predict(std::slice::from_ref(script), profile, &question).points[0]
}

#[test]
fn a_storm_and_then_computing_lies_within_the_bounds() {
    let found = point(&misses(3000, 1, 0.0, 2.0), &plain(0.0), 1, 32);
    // 96 000 requests at 10 000 a second, then 2 s: single requests in the order of their coming take 11.6 s.
    assert!((11.5..11.7).contains(&found.slowest.p50), "{found:?}");
    assert!((11.6..15.0).contains(&found.bounds.upper), "{found:?}");
}

#[test]
fn computing_behind_a_storm_makes_it_no_smaller() {
    let at = |tail| point(&misses(3000, 1, 0.0, tail), &plain(0.0), 64, 16);
    for tail in [2.0, 60.0, 600.0] {
        let found = at(tail);
        assert!((found.load / at(0.0).load - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.is_saturated() && found.may_fail());
    }
    let storm = Bottleneck::Station(Station::Metadata, Some(Operation::LookupAbsent));
    assert_eq!([2.0, 60.0].map(|tail| at(tail).bottleneck), [storm; 2]);
    // 307 s of waiting, 600 s of computing.
    assert_eq!(at(600.0).bottleneck, Bottleneck::Own(Own::Computing));
}

#[test]
fn what_decides_is_what_the_time_is_made_of() {
    let script = misses(3000, 1, 0.0, 2.0);
    let decided = |nodes, processes| point(&script, &plain(0.0), nodes, processes).bottleneck;
    assert_eq!(decided(1, 1), Bottleneck::Own(Own::RoundTrips));
    // 4.8 s of requests, longer than the 3.3 s that they take alone.
    assert_eq!(decided(2, 8), Bottleneck::Station(Station::Metadata, Some(Operation::LookupAbsent)));
}

#[test]
fn a_profile_that_says_nothing_is_the_wide_prior() {
    let script = misses(300, 1, 0.0, 0.1);
    let (nothing, wide) = (Profile::new("nothing", Kind::Prior), shipped("wide").unwrap());
    assert!(Parameters::median(&nothing).assumed.contains(&"threads"));
    assert_eq!(Parameters::median(&nothing).threads, Parameters::median(&wide).threads);
    assert_eq!(point(&script, &nothing, 1, 1).slowest.p50, point(&script, &wide, 1, 1).slowest.p50);
    assert_eq!(Parameters::median(&plain(0.0)).threads, 1.0);
}

fn p50(script: &Script, nodes: u64, processes: u32) -> f64 {
    // Names that are asked again and again, and kept for 5 s: a slow start forgets them all.
    point(script, &plain(5.0), nodes, processes).slowest.p50
}

/// Each replay costs time: so many choices of lifetimes may not need as many replays.
#[test]
fn few_replays_serve_all_runs() {
    for name in ["wide", "nfs"] {
        let profile = shipped(name).unwrap();
        let question = Question { nodes: vec![1563], processes: 64, ..Question::default() };
        let scripts = [misses(50, 2, 0.0, 1.0)];
        let mut engine = Engine::new(&scripts, &profile, &question);
        let (median, runs) = (Parameters::median(&profile), engine.runs());
        engine.point(1563, &median, &runs);
        assert!(engine.replayed.len() <= 30, "{name}: {}", engine.replayed.len());
    }
}

#[test]
fn time_grows_with_nodes_processes_and_computing_and_without_cliffs() {
    let script = misses(40, 2, 0.0, 0.1);
    let mut before = p50(&script, 1, 1);
    for step in 1..60 {
        let (nodes, less) = (1.2_f64.powi(step), 1.2_f64.powi(step - 1));
        let (nodes, less) = (nodes.round(), less.round());
        let now = p50(&script, nodes as u64, 1);
        assert!(now >= before * 0.99, "{less} to {nodes} nodes: {before} to {now}");
        // Where names begin to be forgotten, a node more asks its share and makes all others ask more.
        let most = (nodes / less).powf(if now < 30.0 { 2.5 } else { 1.0 });
        assert!(now <= before * most * 1.01, "{less} to {nodes} nodes: {before} to {now}");
        before = now;
    }
    for nodes in [700, 880, 1250, 9000] {
        let (now, next) = (p50(&script, nodes, 4), p50(&script, nodes + 1, 4));
        assert!(now <= next && next <= now * 1.1, "{nodes} nodes and one more: {now} to {next}");
    }
    for nodes in [1, 1000] {
        let by_processes = [1, 2, 3, 8, 12, 64].map(|processes| p50(&script, nodes, processes));
        assert!(by_processes.windows(2).all(|two| two[1] >= two[0] * 0.99), "{nodes}: {by_processes:?}");
        let by_think = [0.0, 1.0, 10.0, 100.0].map(|think| {
            let mut slower = script.clone();
            slower.scale_think(think);
            p50(&slower, nodes, 4)
        });
        assert!(by_think.windows(2).all(|two| two[1] >= two[0] * 0.99), "{nodes}: {by_think:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_prediction_lies_within_its_bounds(
        names in 1u32..60, rounds in 1u32..4, gap in 0.0..0.002_f64, tail in 0.0..3.0_f64, negative in 0.0..2.0_f64,
        nodes in 1u64..24, processes in 1u32..40, skew in prop_oneof![Just(0.0), 0.0..3.0_f64], background in 0.0..0.9_f64,
        cores in proptest::option::of(1u32..9), is_shared_host in any::<bool>(),
    ) {
        let question = Question {
            nodes: vec![nodes], processes, skew, background, cores, is_shared_host, samples: 1, ..Question::default()
        };
        let found = predict(&[misses(names, rounds, gap, tail)], &plain(negative), &question).points[0];
        let (p50, slack) = (found.slowest.p50, 1.0 + 1e-6);
        prop_assert!(found.bounds.lower <= p50 * slack && p50 <= found.bounds.upper * slack, "{found:?}");
    }
}
