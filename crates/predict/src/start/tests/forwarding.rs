//! Nodes behind gateways: what reaches these and what the servers, and which of both decides.

use super::*;
use crate::StartParameters;
use crate::forecast::{Bottleneck, ForecastPoint};
use crate::model::Station;
use crate::profile::{Figure, Profile};
use crate::question::{ImageDelivery, StartChanges, StartQuestion};
use crate::start::engine::StartEngine;
use crate::workload::{Act, Deed, NameFacts, NameId, StartScript};

/// A program that stats each of `files` files once, three names below the mount point.
fn program(files: u32) -> StartScript {
    let directory = |parent: Option<u32>| NameFacts {
        parent: parent.map(NameId),
        is_top: parent.is_none(),
        exists: true,
        is_directory: true,
        ..NameFacts::default()
    };
    let names = vec![directory(None), directory(Some(0)), directory(Some(1))];
    let mut script = StartScript { names, ..StartScript::default() };
    for number in 3..3 + files {
        script.names.push(NameFacts { parent: Some(NameId(2)), exists: true, ..NameFacts::default() });
        let begin = script.walks.len() as u32;
        script.walks.extend([0, 1, 2, number].map(NameId));
        let deed = Deed::Stat(NameId(number));
        script.acts.push(Act { think: 1e-4, walk: begin..begin + 4, absent: false, bytes: 0.0, deed });
    }
    script
}

/// Ten gateways of 10 000 requests a second, 100 us away; a client that keeps everything, and a server of 100 000 requests a second.
fn profile() -> Profile {
    let exact = |value| Some(Figure::exact(value));
    let mut profile = plain(3600.0);
    profile.network.round_trip_us = exact(50.0);
    profile.rates.lookup = exact(100_000.0);
    profile.client.positive_seconds = exact(3600.0);
    profile.data.bytes_per_second = exact(1e10);
    profile.forwarding.gateways = exact(10.0);
    profile.forwarding.gateway_requests_per_second = exact(10_000.0);
    profile.forwarding.gateway_round_trip_us = exact(100.0);
    profile
}

fn asked(profile: &Profile, question: &StartQuestion) -> ForecastPoint<StartDetail> {
    let script = program(500);
    let mut engine = StartEngine::new(std::slice::from_ref(&script), profile, question);
    engine.point(question.nodes[0], &StartParameters::median(profile), &[]).0
}

fn on(nodes: u64) -> StartQuestion {
    StartQuestion { nodes: vec![nodes], processes: 2, ..StartQuestion::default() }
}

/// Of each walk every name is asked for, and the top's attributes; the file's own came with its name.
const OF_A_WALK: f64 = 4.0;

#[test]
fn every_level_of_a_path_is_asked_of_a_gateway_and_once_a_gateway_of_the_server() {
    let found = asked(&profile(), &on(1000));
    // 500 files, their two directories and the top's attributes; the ten gateways meet each of them once, and the processes that begin at
    // once may each ask for the top.
    let (by_gateways, processes) = (10.0 * 503.0, 2000.0);
    let operations = found.detail.operations.metadata();
    assert!((by_gateways..=by_gateways + processes).contains(&operations), "{operations}");
    // 1000 nodes of 2 processes, over ten gateways.
    let least = 1000.0 * 2.0 * 500.0 * OF_A_WALK / (10.0 * 10_000.0);
    assert!((found.seconds.p50 / least - 1.0).abs() < 0.02, "{} {least}", found.seconds.p50);
    assert_eq!(found.bottleneck, Bottleneck::Station(Station::Gateways, None));
    assert!(found.detail.load > 1.0);
}

#[test]
fn gateways_that_keep_nothing_ask_the_server_for_everything() {
    let mut profile = profile();
    profile.forwarding.gateway_requests_per_second = Some(Figure::exact(1e9));
    for kept in [
        &mut profile.client.positive_seconds,
        &mut profile.client.directory_seconds,
        &mut profile.client.attribute_seconds,
    ] {
        *kept = Some(Figure::exact(0.0));
    }
    let found = asked(&profile, &on(1000));
    let all = 1000.0 * 2.0 * 500.0 * OF_A_WALK;
    assert!((found.detail.operations.metadata() / all - 1.0).abs() < 0.01, "{:?}", found.detail.operations);
    assert!((found.seconds.p50 / (all / 1e5) - 1.0).abs() < 0.02, "{}", found.seconds.p50);
    assert!(matches!(found.bottleneck, Bottleneck::Station(Station::Metadata, _)));
}

#[test]
fn one_node_waits_for_each_level_and_for_the_server_once() {
    let found = asked(&profile(), &StartQuestion { processes: 1, ..on(1) });
    let gateway = 500.0 * OF_A_WALK * (100e-6 + 100e-6);
    let server = 503.0 * (50e-6 + 10e-6);
    let expected = 500.0 * 1e-4 + gateway + server;
    assert!((found.seconds.p50 / expected - 1.0).abs() < 0.02, "{} {expected}", found.seconds.p50);
}

#[test]
fn gateways_that_cost_nothing_are_none() {
    let mut profile = profile();
    for figure in
        [&mut profile.forwarding.gateway_requests_per_second, &mut profile.forwarding.gateway_round_trip_us]
    {
        *figure = None;
    }
    profile.forwarding.gateways = Some(Figure::exact(1e6));
    let mut plain = profile.clone();
    plain.forwarding.gateways = None;
    for nodes in [1, 50, 5000] {
        let (with, without) = (asked(&profile, &on(nodes)), asked(&plain, &on(nodes)));
        assert!((with.seconds.p50 / without.seconds.p50 - 1.0).abs() < 0.02, "{nodes}: {with:?} {without:?}");
        assert_eq!(with.detail.operations, without.detail.operations, "{nodes}");
    }
}

#[test]
fn an_image_is_read_by_gateways_and_passes_them_for_each_node() {
    let image = |image| {
        let changes = StartChanges { image: Some(image), ..StartChanges::default() };
        asked(&profile(), &StartQuestion { changes, ..on(1000) })
    };
    let read = image(ImageDelivery::Read);
    let plain = asked(&profile(), &on(1000));
    assert!(read.seconds.p50 < plain.seconds.p50 / 10.0, "{read:?}");
    assert!(read.detail.operations.metadata() < plain.detail.operations.metadata() / 10.0, "{read:?}");
}

/// A server on each node asks its gateway once.
#[test]
fn what_a_node_asks_once_is_no_load_for_gateways() {
    let changes = StartChanges { once_a_node: true, ..StartChanges::default() };
    let found = asked(&profile(), &StartQuestion { changes, ..on(1000) });
    assert!(found.seconds.p50 < asked(&profile(), &on(1000)).seconds.p50 / 4.0, "{found:?}");
}

#[test]
fn nodes_forget_while_gateways_make_them_slow() {
    let mut profile = profile();
    profile.forwarding.node_keeps_seconds = Some(Figure::exact(0.002));
    // 2 ms are some files of a node alone, and less than one file where a thousand nodes ask: then every level is asked again.
    let every_level = 1000.0 * 2.0 * 500.0 * OF_A_WALK / (10.0 * 10_000.0);
    let found = asked(&profile, &on(1000)).seconds.p50;
    assert!((0.6 * every_level..1.05 * every_level).contains(&found), "{found} {every_level}");
}

/// Gateways that keep nothing, at nodes that do not divide by their number.
#[test]
fn the_gateway_with_the_most_nodes_decides_and_each_request_reaches_the_servers() {
    let mut profile = profile();
    profile.client.positive_seconds = Some(Figure::exact(0.0));
    profile.client.directory_seconds = Some(Figure::exact(0.0));
    profile.client.attribute_seconds = Some(Figure::exact(0.0));
    profile.forwarding.gateway_requests_per_second = Some(Figure::exact(100.0));
    let at = |nodes| asked(&profile, &StartQuestion { processes: 1, ..on(nodes) });
    for (nodes, busiest) in [(10, 1.0), (11, 2.0), (19, 2.0), (20, 2.0), (25, 3.0)] {
        let found = at(nodes);
        let each = OF_A_WALK * 500.0;
        assert!((found.seconds.p50 / (busiest * each / 100.0) - 1.0).abs() < 0.05, "{nodes}: {found:?}");
        let reached = found.detail.operations.metadata() / (nodes as f64 * each);
        assert!((reached - 1.0).abs() < 0.01, "{nodes}: {reached}");
    }
}
