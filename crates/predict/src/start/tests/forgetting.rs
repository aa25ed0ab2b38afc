//! Clients forget while a start is slow: the engine against a replay of one node whose requests take as long as they did there.

use crate::StartParameters;
use crate::chance::Chance;
use crate::profile::{Figure, Profile, ProfileKind};
use crate::question::StartQuestion;
use crate::start::engine::StartEngine;
use crate::workload::cluster::{Cluster, slowest};
use crate::workload::{Act, Deed, Machine, NameFacts, NameId, StartScript, demand};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A program that stats `files` files and misses as many names, all of them in each round, and computes a little between.
fn program(files: u32, rounds: u32, think: f64) -> StartScript {
    let directory = NameFacts { is_top: true, exists: true, is_directory: true, ..NameFacts::default() };
    let mut script = StartScript { names: vec![directory], ..StartScript::default() };
    for number in 0..2 * files {
        script.names.push(NameFacts {
            parent: Some(NameId(0)),
            exists: number % 2 == 0,
            ..NameFacts::default()
        });
    }
    for number in (0..rounds).flat_map(|_| 1..=2 * files) {
        let (begin, name) = (script.walks.len() as u32, NameId(number));
        script.walks.extend([NameId(0), name]);
        let absent = number % 2 == 0;
        let deed = if absent { Deed::Find } else { Deed::Stat(name) };
        script.acts.push(Act { think, walk: begin..begin + 2, absent, bytes: 0.0, deed });
    }
    script
}

fn profile(round_trip_us: f64, rate: f64, lives: [f64; 3], in_flight: f64) -> Profile {
    let exact = |value| Some(Figure::exact(value));
    let mut profile = Profile::new("random", ProfileKind::Measured);
    profile.network.round_trip_us = exact(round_trip_us);
    profile.metadata.servers = exact(1.0);
    profile.rates.lookup = exact(rate);
    profile.client.positive_seconds = exact(lives[0]);
    profile.client.negative_seconds = exact(lives[1]);
    profile.client.attribute_seconds = exact(lives[2]);
    profile.client.directory_seconds = exact(3600.0);
    profile.client.requests_in_flight = exact(in_flight);
    profile.data.servers = exact(1.0);
    profile.data.bytes_per_second = exact(1e9);
    profile.data.client_bytes_per_second = exact(1e9);
    profile
}

/// A node with each request `slowed` times as long as alone.
fn machine(profile: &Profile, slowed: f64) -> Machine {
    let mut latency = StartParameters::median(profile).latency();
    latency.0.iter_mut().for_each(|seconds| *seconds *= slowed);
    Machine {
        processes: 1,
        cores: None,
        in_flight: f64::INFINITY,
        cpu: 0.0,
        cpu_of_a_byte: 0.0,
        own_answer: 0.0,
        is_warm: false,
        latency,
        byte: 0.0,
    }
}

/// The least and the most of a time with requests as slow as they are, and a little less and more: a slowness is known to two percent, and
/// where all names of a round are forgotten at once, both sides of that step are right.
fn around(seconds: impl Fn(f64) -> f64) -> (f64, f64) {
    let all = [0.97, 1.0, 1.03].map(seconds);
    (all.into_iter().fold(f64::INFINITY, f64::min), all.into_iter().fold(0.0, f64::max))
}

/// Seconds with every figure at its median, and requests of a node.
fn asked(script: &StartScript, profile: &Profile, question: &StartQuestion) -> (f64, f64) {
    let mut engine = StartEngine::new(std::slice::from_ref(script), profile, question);
    let point = engine.point(question.nodes[0], &StartParameters::median(profile), &[]).0;
    (point.seconds.p50, point.detail.operations.metadata() / question.nodes[0] as f64)
}

proptest! {
    // The same profiles each time: a step may lie anywhere.
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(18), failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// The prediction says how long requests took on average. A node whose requests take so long takes the predicted time.
    #[test]
    fn one_node_at_the_latency_that_results_takes_the_predicted_time(
        files in 20u32..80, rounds in 1u32..5, think in 0.0..0.002_f64, round_trip in 20.0..2000.0_f64,
        rate in 2e3..2e5_f64, lives in [0.0..60.0_f64, 0.0..60.0_f64, 0.0..60.0_f64],
        nodes in 0.0..4.5_f64, in_flight in 1.0..64.0_f64,
    ) {
        let (script, profile) = (program(files, rounds, think), profile(round_trip, rate, lives, in_flight));
        let nodes = 10f64.powf(nodes) as u64;
        let question = StartQuestion { nodes: vec![nodes], ..StartQuestion::default() };
        let (seconds, requests) = asked(&script, &profile, &question);
        let alone = StartParameters::median(&profile).latency().get(crate::ServerOperation::Lookup);
        let slowed = (seconds - script.think()) / (requests * alone);
        let rules = StartParameters::median(&profile).client;
        let at = |slowed: f64| demand(&script, rules, &machine(&profile, slowed.max(1.0))).alike.ended;
        let (least, most) = around(|by| at(slowed * by));
        prop_assert!(least <= seconds * 1.1 && seconds <= most * 1.1, "{least} {most} {seconds} {requests} slowed {slowed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn warm_clients_are_never_slower_than_cold_ones(
        files in 10u32..40, rounds in 1u32..4, rate in 2e3..2e5_f64, lives in [0.0..60.0_f64, 0.0..60.0_f64, 0.0..60.0_f64],
        nodes in 0.0..4.5_f64, processes in 1u32..5, in_flight in 1.0..64.0_f64,
    ) {
        let (script, profile) = (program(files, rounds, 0.0005), profile(200.0, rate, lives, in_flight));
        let seconds = |is_warm| {
            let nodes = vec![10f64.powf(nodes) as u64];
            asked(&script, &profile, &StartQuestion { nodes, processes, is_warm, ..StartQuestion::default() }).0
        };
        let (warm, cold) = (seconds(true), seconds(false));
        prop_assert!(warm <= cold * 1.000_001, "{warm} {cold}");
    }
}

/// No machine, and so no error of one: nodes with their caches before one server, request by request. Of 200 random starts nearly all take
/// the predicted time; where a step lies within a round, one latency for the whole start is too coarse.
#[test]
fn single_requests_on_a_simulated_clock_take_the_predicted_time() {
    let mut chance = Chance(18);
    let mut between = |least: f64, most: f64| least * (most / least).powf(chance.uniform());
    let mut ratios: Vec<f64> = Vec::new();
    for _ in 0..200 {
        let script = program(between(20.0, 60.0) as u32, between(1.0, 4.0) as u32, between(1e-6, 1e-3));
        let (round_trip, rate) = (between(20.0, 2000.0), between(1e3, 1e5));
        let lives = [between(0.01, 3.0), between(0.01, 3.0), between(0.01, 3.0)];
        let (nodes, processes) = (between(1.0, 40.0) as u64, between(1.0, 4.0) as u32);
        let in_flight = between(1.0, 16.0).floor();
        let profile = profile(round_trip, rate, lives, in_flight);
        let question = StartQuestion { nodes: vec![nodes], processes, ..StartQuestion::default() };
        let (predicted, _) = asked(&script, &profile, &question);
        let cluster = Cluster {
            nodes: nodes as usize,
            processes: processes as usize,
            in_flight: in_flight as usize,
            round_trip: round_trip / 1e6,
            service: 1.0 / rate,
        };
        ratios.push(predicted / slowest(&script, StartParameters::median(&profile).client, &cluster));
    }
    ratios.sort_by(f64::total_cmp);
    let within = |by: f64| ratios.iter().filter(|ratio| ratio.ln().abs() <= by.ln()).count();
    assert!(within(1.1) >= 180 && within(1.25) >= 190, "{} {} {ratios:?}", within(1.1), within(1.25));
}

/// Each process computes as long as a request takes, and of four two may ask: neither the processes nor the limit alone would take longer than
/// 2 ms a request, and both together do.
#[test]
fn processes_with_few_requests_under_way_wait_for_each_other() {
    let script = program(40, 2, 0.001);
    let seconds = |in_flight| {
        let profile = profile(990.0, 1e5, [0.0; 3], in_flight);
        asked(&script, &profile, &StartQuestion { processes: 4, ..StartQuestion::default() }).0
    };
    let (held, free) = (seconds(2.0), seconds(4.0));
    assert!(held > 1.05 * free && held < 1.5 * free, "{held} {free}");
    assert_eq!(free, seconds(64.0));
}

/// Eight requests at a time for 64 processes: each waits for eight times as long, and forgets what does not live as long.
#[test]
fn a_client_that_holds_requests_back_forgets_meanwhile() {
    let script = program(100, 2, 0.0);
    // Files are asked for each time: 6400 requests of 1 ms in each round, 64 or 8 at once. Absences outlive a round of 0.2 s, none
    // of 0.8 s.
    let at = |in_flight| {
        let profile = profile(1000.0, 1e9, [0.0, 0.5, 0.0], in_flight);
        asked(&script, &profile, &StartQuestion { processes: 64, ..StartQuestion::default() })
    };
    let ((free_seconds, free), (held_seconds, held)) = (at(64.0), at(8.0));
    assert!(
        held > free + 2000.0 && held_seconds > 1.5 * free_seconds,
        "{free} {held} {free_seconds} {held_seconds}"
    );
}
