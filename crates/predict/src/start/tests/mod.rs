//! Properties of a prediction as it is printed, on a script as a recording gives it.

mod forgetting;
mod forwarding;

use super::engine::StartEngine;
use super::*;
use crate::forecast::{Bottleneck, ForecastPoint};
use crate::model::{OwnCause, Station};
use crate::profile::{Figure, Profile, ProfileKind, ProfileSlot, SHIPPED, shipped};
use crate::question::{ImageDelivery, StartChanges, StartQuestion, ways};
use crate::workload::{Act, Deed, NameFacts, NameId, StartScript};
use crate::{ServerOperation, StartParameters};
use proptest::prelude::*;
use quell_spread::simulation::PLACING;

/// A program that asks for `names` absent names in one directory, `rounds` times, and then computes.
fn misses(names: u32, rounds: u32, gap: f64, tail: f64) -> StartScript {
    let facts = |parent: Option<u32>, exists| NameFacts {
        parent: parent.map(NameId),
        is_link: false,
        exists,
        is_top: parent.is_none(),
        is_directory: exists,
        is_gathered: false,
        path: None,
        pages: None,
    };
    let mut script =
        StartScript { names: vec![facts(None, true), facts(Some(0), true)], tail, ..StartScript::default() };
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
    let mut profile = Profile::new("plain", ProfileKind::Measured);
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

/// The same with 16 data servers, and each file on so many of them.
fn striped(negative: f64, stripes: f64) -> Profile {
    let mut profile = plain(negative);
    profile.data.servers = Some(Figure::exact(16.0));
    profile.data.stripes = Some(Figure::exact(stripes));
    profile
}

fn point(script: &StartScript, profile: &Profile, nodes: u64, processes: u32) -> ForecastPoint<StartDetail> {
    asked(script, profile, &StartQuestion { nodes: vec![nodes], processes, ..StartQuestion::default() })
}

/// The first point, of which nothing but the medians is asked.
fn asked(script: &StartScript, profile: &Profile, question: &StartQuestion) -> ForecastPoint<StartDetail> {
    let mut engine = StartEngine::new(std::slice::from_ref(script), profile, question);
    engine.point(question.nodes[0], &StartParameters::median(profile), &[]).0
}

#[test]
fn a_storm_and_then_computing_lies_within_the_bounds() {
    let found = point(&misses(3000, 1, 0.0, 2.0), &plain(0.0), 1, 32);
    // 96 000 requests at 10 000 a second, then 2 s: single requests in the order of their coming take 11.6 s.
    assert!((11.5..11.7).contains(&found.seconds.p50), "{found:?}");
    assert!((11.6..15.0).contains(&found.bounds.upper), "{found:?}");
}

#[test]
fn computing_behind_a_storm_makes_it_no_smaller() {
    let at = |tail| point(&misses(3000, 1, 0.0, tail), &plain(0.0), 64, 16);
    for tail in [2.0, 60.0, 600.0] {
        let found = at(tail);
        assert!((found.detail.load / at(0.0).detail.load - 1.0).abs() < 0.01, "{found:?}");
        assert!(found.is_saturated() && found.may_fail());
    }
    let storm = Bottleneck::Station(Station::Metadata, Some(ServerOperation::LookupAbsent));
    assert_eq!([2.0, 60.0].map(|tail| at(tail).bottleneck), [storm; 2]);
    // 307 s of waiting, 600 s of computing.
    assert_eq!(at(600.0).bottleneck, Bottleneck::Own(OwnCause::Computing));
}

#[test]
fn what_decides_is_what_the_time_is_made_of() {
    let script = misses(3000, 1, 0.0, 2.0);
    let decided = |nodes, processes| point(&script, &plain(0.0), nodes, processes).bottleneck;
    assert_eq!(decided(1, 1), Bottleneck::Own(OwnCause::RoundTrips));
    // 4.8 s of requests, longer than the 3.3 s that they take alone.
    assert_eq!(decided(2, 8), Bottleneck::Station(Station::Metadata, Some(ServerOperation::LookupAbsent)));
}

#[test]
fn a_profile_that_says_nothing_is_the_wide_prior() {
    let script = misses(300, 1, 0.0, 0.1);
    let (nothing, wide) = (Profile::new("nothing", ProfileKind::Prior), shipped("wide").unwrap());
    assert!(StartParameters::median(&nothing).assumed.contains(&"threads"));
    assert_eq!(StartParameters::median(&nothing).threads, StartParameters::median(&wide).threads);
    assert_eq!(point(&script, &nothing, 1, 1).seconds.p50, point(&script, &wide, 1, 1).seconds.p50);
    assert_eq!(StartParameters::median(&plain(0.0)).threads, 1.0);
}

fn p50(script: &StartScript, nodes: u64, processes: u32) -> f64 {
    // Names that are asked again and again, and kept for 5 s: a slow start forgets them all.
    point(script, &plain(5.0), nodes, processes).seconds.p50
}

/// Each replay costs time: so many choices of lifetimes may not need as many replays.
#[test]
fn few_replays_serve_all_runs() {
    for name in ["wide", "nfs"] {
        let profile = shipped(name).unwrap();
        let question = StartQuestion { nodes: vec![1563], processes: 64, ..StartQuestion::default() };
        let scripts = [misses(50, 2, 0.0, 1.0)];
        let mut engine = StartEngine::new(&scripts, &profile, &question);
        let (median, runs) = (StartParameters::median(&profile), super::runs::runs(&profile, &question));
        engine.point(1563, &median, &runs);
        assert!(engine.replays.replayed.len() <= 30, "{name}: {}", engine.replays.replayed.len());
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
        // Names that were asked for at one time are forgotten at one time: that step is the program's own, and lies between clients
        // that keep all and clients that keep nothing. These have no steps.
        let kept = |seconds| point(&script, &plain(seconds), nodes as u64, 1).seconds.p50;
        let (always, never) = (kept(1e9), kept(0.0));
        assert!(always * 0.99 <= now && now <= never * 1.01, "{nodes} nodes: {always} {now} {never}");
        for (seconds, now) in [(1e9, always), (0.0, never)] {
            let before = point(&script, &plain(seconds), less as u64, 1).seconds.p50;
            assert!(now <= before * (nodes / less) * 1.01, "{less} to {nodes} nodes: {before} to {now}");
        }
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

/// Files, half of them asked for before they are opened, all read, so many bytes of each; and a miss for each.
fn program(files: u32, bytes: f64) -> StartScript {
    let mut script = misses(files, 1, 0.0001, 0.01);
    let misses = std::mem::take(&mut script.acts);
    for (number, miss) in (0..files).zip(misses) {
        let name = NameId(script.names.len() as u32);
        script.names.push(NameFacts { parent: Some(NameId(1)), exists: true, ..NameFacts::default() });
        let begin = script.walks.len() as u32;
        script.walks.extend([NameId(0), NameId(1), name]);
        let walk = begin..script.walks.len() as u32;
        let mut act = |walk, bytes, deed| {
            script.acts.push(Act { think: 0.0001, walk, absent: false, bytes, deed });
        };
        if number % 2 == 0 {
            act(walk.clone(), 0.0, Deed::Stat(name));
        }
        act(walk, 0.0, Deed::Open(name));
        act(0..0, bytes, Deed::Read(name, 0, 256));
        act(0..0, 0.0, Deed::Close(name));
        script.acts.push(miss);
    }
    script
}

/// A question about some nodes with 2 processes each.
fn of(nodes: u64, changes: StartChanges) -> StartQuestion {
    StartQuestion { nodes: vec![nodes], processes: 2, changes, ..StartQuestion::default() }
}

fn image(image: ImageDelivery) -> StartChanges {
    StartChanges { image: Some(image), ..StartChanges::default() }
}

#[test]
fn the_kernel_keeps_an_images_names_whatever_the_client_of_the_file_system_keeps() {
    let script = misses(100, 100, 0.0, 0.0);
    let seconds =
        |negative| asked(&script, &plain(negative), &of(1, image(ImageDelivery::Local))).seconds.p50;
    assert_eq!(seconds(0.0), seconds(3600.0));
}

#[test]
fn no_change_makes_a_start_slower() {
    let script = program(60, 4096.0);
    let all = [
        image(ImageDelivery::Read),
        image(ImageDelivery::Broadcast),
        StartChanges { keeps_absences: true, ..StartChanges::default() },
        StartChanges { fewer_misses: 0.5, ..StartChanges::default() },
        StartChanges { fewer_files: 0.5, ..StartChanges::default() },
        StartChanges { fewer_files: 1.0, ..StartChanges::default() },
        StartChanges { atomic_open: true, ..StartChanges::default() },
    ];
    for (name, _) in SHIPPED.iter().filter(|(name, _)| *name != "coral") {
        let profile = shipped(name).unwrap();
        // An image costs milliseconds to enter, which one node that starts a small program does not get back.
        for (nodes, changes) in [(1, &all[2..]), (100_000, &all)] {
            // Several would drift apart in another way, and so ask together a little more or less.
            let question = |changes| StartQuestion { processes: 1, ..of(nodes, changes) };
            let p50 = |changes| asked(&script, &profile, &question(changes)).seconds.p50;
            let plain = p50(StartChanges::default());
            for changes in changes {
                let changed = p50(changes.clone());
                // The first node of a broadcast gives places to the others one after the other.
                let is_broadcast = changes.image == Some(ImageDelivery::Broadcast);
                let places = if is_broadcast { nodes as f64 * PLACING.as_secs_f64() } else { 0.0 };
                assert!(
                    changed <= plain * 1.001 + places,
                    "{name}, {nodes}: {changes:?}: {plain} to {changed}"
                );
            }
        }
    }
}

#[test]
fn gathered_files_are_read_all_the_same_and_found_once() {
    let (script, mut profile) = (program(30, 1e6), plain(3600.0));
    profile.client.layout_asks = Some(true);
    let point = |fewer_files| {
        asked(&script, &profile, &of(1, StartChanges { fewer_files, ..StartChanges::default() }))
    };
    let (before, after) = (point(0.0), point(1.0));
    assert_eq!((before.detail.bytes, after.detail.bytes), (30e6, 30e6));
    assert_eq!(
        before.detail.operations.get(ServerOperation::Read),
        after.detail.operations.get(ServerOperation::Read)
    );
    assert_eq!(
        after.detail.operations.get(ServerOperation::Open),
        before.detail.operations.get(ServerOperation::Open) / 30.0
    );
    assert_eq!(after.detail.operations.get(ServerOperation::Layout), 0.0);
}

#[test]
fn fewer_misses_are_fewer_names_however_often_each_is_asked_for() {
    let mut script = misses(10, 2, 0.0, 0.0);
    script.acts.sort_by_key(|act| script.walks[act.walk.end as usize - 1]);
    for (fewer_misses, left) in [(0.0, 10.0), (0.5, 5.0), (0.75, 3.0), (1.0, 0.0)] {
        let question =
            StartQuestion { processes: 1, ..of(1, StartChanges { fewer_misses, ..StartChanges::default() }) };
        let point = asked(&script, &plain(3600.0), &question);
        assert_eq!(point.detail.operations.get(ServerOperation::LookupAbsent), left, "{fewer_misses}");
    }
}

#[test]
fn an_image_that_is_broadcast_is_read_once_and_takes_no_processor_and_no_server() {
    let (script, mut profile) = (program(30, 1e6), plain(0.0));
    // Ten seconds for the 30 MB from one server.
    profile.data.bytes_per_second = Some(Figure::exact(3e6));
    profile.data.servers = Some(Figure::exact(10.0));
    let question = |stripes, cores| StartQuestion {
        processes: 64,
        cores,
        stripes,
        ..of(1000, image(ImageDelivery::Broadcast))
    };
    let found = forecast(std::slice::from_ref(&script), &profile, &question(Some(1), None));
    let (point, bytes) = (&found.points[0], found.summary.image_bytes.unwrap());
    assert_eq!((point.detail.bytes, point.detail.operations.get(ServerOperation::Read)), (bytes, 1.0));
    assert_eq!(
        (found.summary.knee, point.detail.load, point.detail.operations.metadata()),
        (f64::INFINITY, 0.0, 4.0)
    );
    assert_eq!(point.bottleneck, Bottleneck::Own(OwnCause::Link));
    let seconds = |question| asked(&script, &profile, &question).seconds.p50;
    let transfer = bytes / 3e6;
    assert!((transfer..transfer + 0.2).contains(&seconds(question(Some(1), None))), "{point:?}");
    assert!(
        (transfer..transfer + 1.0).contains(&seconds(question(Some(1), Some(8.0)))),
        "64 processes on 8 cores"
    );
    assert!((transfer / 10.0..transfer / 10.0 + 0.2).contains(&seconds(question(None, None))), "ten servers");
}

#[test]
fn an_answer_of_an_image_to_the_first_process_of_a_node_serves_the_others() {
    let script = misses(1000, 1, 0.0, 0.0);
    let seconds = |processes| {
        let question = of(1, image(ImageDelivery::Local));
        let question = StartQuestion { processes, cores: Some(2.0), ..question };
        asked(&script, &plain(3600.0), &question).seconds.p50
    };
    let (alone, crowd) = (seconds(1), seconds(8));
    assert!(alone > 0.04 && crowd > alone && crowd < 1.5 * alone, "{alone} {crowd}");
}

#[test]
fn what_a_program_changes_reaches_the_servers_from_an_image_too() {
    let mut script = program(3, 1e6);
    for operation in
        [ServerOperation::Create, ServerOperation::Rename, ServerOperation::Unlink, ServerOperation::Getattr]
    {
        let deed = Deed::Ask(operation);
        script.acts.push(Act { think: 0.0, walk: 0..0, absent: false, bytes: 0.0, deed });
    }
    for changes in [image(ImageDelivery::Read), image(ImageDelivery::Broadcast)] {
        let point = asked(&script, &plain(0.0), &of(500, changes));
        let changes = [ServerOperation::Create, ServerOperation::Rename, ServerOperation::Unlink];
        assert_eq!(changes.map(|operation| point.detail.operations.get(operation)), [1000.0; 3]);
        assert!(point.detail.operations.get(ServerOperation::Getattr) <= 500.0, "{point:?}");
        // 3000 requests at 10 000 a second.
        assert!(point.seconds.p50 > 0.3, "{point:?}");
    }
}

#[test]
fn nodes_that_start_one_after_the_other_are_no_storm() {
    // 3.3 s for one node, 0.3002 s of them at the server: with skew S the server is full from S / 0.3002 nodes on.
    let script = misses(3000, 1, 0.0, 0.0);
    let at = |nodes, skew| {
        asked(&script, &plain(0.0), &StartQuestion { nodes: vec![nodes], skew, ..StartQuestion::default() })
    };
    let (storm, calm) = (at(1000, 0.0), at(1000, 3600.0));
    assert!(
        (storm.detail.load - 1000.0 / 11.0).abs() < 0.1
            && (calm.detail.load - 1000.0 * 0.3002 / 3600.0).abs() < 1e-4
    );
    assert!(storm.may_fail() && !calm.is_saturated(), "{storm:?} {calm:?}");
    assert!((calm.seconds.p50 - 3603.3).abs() < 0.1, "{calm:?}");
    // Above a load of 1 nodes wait for each other.
    let (below, above) = (at(300, 100.0), at(400, 100.0));
    assert!(below.detail.load < 1.0 && (below.seconds.p50 - 103.3).abs() < 0.1, "{below:?}");
    assert!(above.detail.load > 1.0 && above.seconds.p50 > 115.0, "{above:?}");
}

#[test]
fn the_knee_is_the_same_whatever_other_nodes_are_asked_for() {
    // Names are forgotten while a start is slowed down, and then more is asked.
    let (script, profile) = (misses(40, 2, 0.0, 0.1), plain(5.0));
    let of = |nodes: &[u64]| {
        let question = StartQuestion { nodes: nodes.to_vec(), samples: 1, ..StartQuestion::default() };
        forecast(std::slice::from_ref(&script), &profile, &question)
    };
    let (alone, among) = (of(&[20_000]), of(&[1, 100, 20_000]));
    assert_eq!(alone.summary.knee, among.summary.knee);
    assert_eq!(alone.points[0], among.points[2]);
    assert_eq!(alone.points[0].detail.load, 20_000.0 / alone.summary.knee);
}

#[test]
fn cores_that_all_nodes_share_are_no_server_that_may_fail() {
    let question = StartQuestion {
        nodes: vec![100],
        cores: Some(1.0),
        is_shared_host: true,
        samples: 1,
        ..StartQuestion::default()
    };
    let mut profile = plain(0.0);
    profile.client.time_shared = Some(Figure::exact(1.0));
    let found = forecast(&[misses(10, 1, 1.0, 0.0)], &profile, &question);
    assert!((found.summary.knee - 1.0).abs() < 0.01 && !found.points[0].is_saturated(), "{found:?}");
}

#[test]
fn cores_that_slow_each_other_down_do_less_than_their_number() {
    let mut profile = plain(0.0);
    profile.client.time_shared = Some(Figure::exact(1.0));
    let seconds = |nodes| {
        let question = StartQuestion {
            nodes: vec![nodes],
            cores: Some(1.5),
            is_shared_host: true,
            ..StartQuestion::default()
        };
        asked(&misses(1, 1, 0.0, 3.0), &profile, &question).seconds.p50
    };
    assert!((seconds(1) - 3.0).abs() < 0.01, "alone: {}", seconds(1));
    assert!((seconds(2) - 4.0).abs() < 0.01, "together: {}", seconds(2));
}

#[test]
fn nodes_on_which_the_program_has_run_never_take_longer() {
    let (script, profile) = (misses(1000, 1, 0.01, 0.0), plain(5.0));
    for nodes in [1, 100, 1000, 10_000, 100_000] {
        let seconds = |is_warm| {
            let question =
                StartQuestion { nodes: vec![nodes], processes: 2, is_warm, ..StartQuestion::default() };
            asked(&script, &profile, &question).seconds.p50
        };
        assert!(seconds(true) <= seconds(false) * 1.000_001, "{nodes}");
    }
}

#[test]
fn the_launch_is_in_every_bar_of_what_the_time_depends_on() {
    let (script, wide) = (misses(100, 1, 0.0, 0.1), shipped("wide").unwrap());
    let with = |launch, skew| {
        let question =
            StartQuestion { nodes: vec![400], launch, skew, samples: 1, ..StartQuestion::default() };
        forecast(std::slice::from_ref(&script), &wide, &question)
    };
    for skew in [0.0, 3.0] {
        let (plain, launched) = (with(0.0, skew), with(70.0, skew));
        let time = launched.summary.at_medians;
        let rates = |found: &StartForecast| {
            found.sensitivities.iter().find(|found| found.figure == "operations_per_second").unwrap().clone()
        };
        let (before, after) = (rates(&plain), rates(&launched));
        assert!(
            (after.at_p10 - before.at_p10 - 70.0).abs() < 1e-6
                && (after.at_p90 - before.at_p90 - 70.0).abs() < 1e-6
        );
        assert!(after.at_p90 < time && time < after.at_p10, "{after:?} {time}");
        assert!(after.at_p90 > 70.0 + skew, "the slowest rank cannot be there before the last has started");
        // A percent of the start is less of the whole.
        let share = (time - 70.0) / time;
        assert!((after.elasticity / before.elasticity / share - 1.0).abs() < 0.02, "{before:?} {after:?}");
    }
}

#[test]
fn requests_that_take_days_end() {
    let script = program(5, 1e6);
    let mut profile = plain(30.0);
    profile.rates.lookup = Some(Figure::exact(0.001));
    profile.metadata.threads = Some(Figure::exact(1e6));
    profile.client.positive_seconds = Some(Figure::exact(30.0));
    for nodes in [16, 10_000_000] {
        let point = asked(&script, &profile, &of(nodes, StartChanges::default()));
        assert!(point.seconds.p50 > 1e9 && point.seconds.p90.is_finite(), "{point:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn a_prediction_lies_within_its_bounds(
        names in 1u32..60, rounds in 1u32..4, gap in 0.0..0.002_f64, tail in 0.0..3.0_f64, negative in 0.0..2.0_f64,
        nodes in 1u64..24, processes in 1u32..40, skew in prop_oneof![Just(0.0), 0.0..3.0_f64], background in 0.0..0.9_f64,
        cores in proptest::option::of(1.0f64..9.0), is_shared_host in any::<bool>(),
    ) {
        let question = StartQuestion {
            nodes: vec![nodes], processes, skew, background, cores, is_shared_host, ..StartQuestion::default()
        };
        let found = asked(&misses(names, rounds, gap, tail), &plain(negative), &question);
        let (p50, slack) = (found.seconds.p50, 1.0 + 1e-6);
        prop_assert!(found.bounds.lower <= p50 * slack && p50 <= found.bounds.upper * slack, "{found:?}");
    }
}

#[test]
fn one_node_does_not_wait_for_others_to_start() {
    let script = misses(200, 20, 0.001, 0.0);
    let mut profile = plain(0.0);
    profile.client.negative_seconds = Some(Figure::exact(1.0));
    let at = |skew| {
        let question = StartQuestion { nodes: vec![1], processes: 8, skew, ..StartQuestion::default() };
        asked(&script, &profile, &question)
    };
    let (together, apart) = (at(0.0), at(1000.0));
    assert_eq!((together.seconds, together.detail.operations), (apart.seconds, apart.detail.operations));
}

#[test]
fn computing_has_a_spread_where_the_profile_is_exact() {
    let question = StartQuestion { nodes: vec![1], ..StartQuestion::default() };
    let seconds = forecast(&[misses(10, 1, 0.1, 1.0)], &plain(0.0), &question).points[0].seconds;
    assert!(seconds.p10 < 0.95 * seconds.p50 && seconds.p90 > 1.05 * seconds.p50, "{seconds:?}");
}

#[test]
fn more_processes_than_cores_compute_longer_and_as_many_do_not() {
    let mut profile = plain(0.0);
    let seconds = |profile: &Profile, processes, is_shared_host| {
        let question =
            StartQuestion { processes, cores: Some(4.0), is_shared_host, ..StartQuestion::default() };
        asked(&misses(1, 1, 0.0, 10.0), profile, &question).seconds.p50
    };
    let is_near = |seconds: f64, expected: f64| assert!((seconds / expected - 1.0).abs() < 0.01, "{seconds}");
    is_near(seconds(&profile, 4, false), 10.0);
    is_near(seconds(&profile, 8, false), 24.0);
    // The servers run on these cores too.
    is_near(seconds(&profile, 4, true), 12.0);
    profile.client.time_shared = Some(Figure::exact(1.5));
    is_near(seconds(&profile, 8, false), 30.0);
}

#[test]
fn a_program_that_hardly_computes_between_its_calls_does_not_compute_longer_on_shared_cores() {
    let question = StartQuestion { processes: 8, cores: Some(4.0), samples: 0, ..StartQuestion::default() };
    // A second of computing in all; but for the first call, the client answers.
    let seconds = |calls: u32| {
        let script = misses(1, calls, 1.0 / f64::from(calls), 0.0);
        forecast(&[script], &plain(3600.0), &question).points[0].seconds.p50
    };
    let is_near = |seconds: f64, expected: f64| assert!((seconds / expected - 1.0).abs() < 0.01, "{seconds}");
    is_near(seconds(1000), 2.4);
    is_near(seconds(1_000_000), 2.0);
}

#[test]
fn a_daemon_answers_later_where_more_processes_ask_than_there_are_cores() {
    // One absent name: the server answers once, and the daemon ten thousand times.
    let script = misses(1, 10_001, 0.0, 0.0);
    let mut profile = plain(3600.0);
    profile.client.absences_ask_daemon = Some(true);
    profile.client.own_answer_us = Some(Figure::exact(30.0));
    profile.client.own_answer_shared_us = Some(Figure::exact(70.0));
    let seconds = |profile: &Profile, processes| {
        let question = StartQuestion { processes, cores: Some(2.0), samples: 0, ..StartQuestion::default() };
        forecast(std::slice::from_ref(&script), profile, &question).points[0].seconds.p50
    };
    let is_near = |seconds: f64, expected: f64| assert!((seconds / expected - 1.0).abs() < 0.05, "{seconds}");
    is_near(seconds(&profile, 1), 0.3);
    is_near(seconds(&profile, 2), 0.3);
    is_near(seconds(&profile, 8), 8.0 * 0.7 / 2.0);
    profile.client.own_answer_shared_us = None;
    is_near(seconds(&profile, 8), 8.0 * 0.3 / 2.0);
}

#[test]
fn an_image_lies_where_one_file_does() {
    let (script, profile) = (program(30, 1e6), striped(3600.0, 1.0));
    let seconds = |stripes| {
        let question = StartQuestion { stripes, ..of(1024, image(ImageDelivery::Read)) };
        asked(&script, &profile, &question).seconds.p50
    };
    // 31 GB from one server of 1 GB/s, or from sixteen.
    assert!((30.0..34.0).contains(&seconds(None)), "{}", seconds(None));
    assert!((1.9..3.0).contains(&seconds(Some(16))), "{}", seconds(Some(16)));
}

/// The server of a large file is full while the others wait for work; many files of one size keep all servers busy.
#[test]
fn one_large_file_of_a_plain_start_lies_on_as_many_servers_as_its_stripes() {
    let seconds =
        |stripes, script: &StartScript| point(script, &striped(3600.0, stripes), 1024, 1).seconds.p50;
    let near =
        |seconds: f64, expected: f64| assert!((expected..1.2 * expected).contains(&seconds), "{seconds}");
    // 31 GB from servers of 1 GB/s.
    let one_file = program(1, 30e6);
    near(seconds(1.0, &one_file), 30.7);
    near(seconds(4.0, &one_file), 7.7);
    let many_files = program(30, 1e6);
    assert_eq!(seconds(1.0, &many_files), seconds(16.0, &many_files));
}

#[test]
fn a_broadcast_is_a_pipelined_tree_whose_first_node_gives_the_places() {
    let (script, mut profile) = (program(64, 1e6), plain(3600.0));
    profile.network.round_trip_us = Some(Figure::exact(20.0));
    profile.data.client_bytes_per_second = Some(Figure::exact(1e10));
    profile.data.bytes_per_second = Some(Figure::exact(1e10));
    profile.network.bytes_per_second = Some(Figure::exact(1e9));
    let seconds = |nodes| asked(&script, &profile, &of(nodes, image(ImageDelivery::Broadcast))).seconds.p50;
    // Each node sends 64 MB to two others at 1 GB/s. The first one gives 4096 places in 0.41 s, and 256 while it still reads.
    let sent = seconds(256) - seconds(1);
    assert!((0.125..0.145).contains(&sent), "{sent}");
    let places = seconds(4096) - seconds(256);
    assert!((0.35..0.41).contains(&places), "{places}");
}

/// A site asks this before it decides: on many nodes each way is quicker than the one before it, an image that is there
/// already the quickest.
#[test]
fn ways_of_a_program_to_its_nodes_stand_in_their_order() {
    let (script, profile) = (program(60, 1e5), striped(0.0, 1.0));
    let at = |changes| {
        let question = StartQuestion { processes: 16, ..of(2000, changes) };
        let found = asked(&script, &profile, &question);
        (found.seconds.p50, found.detail.operations.metadata() / 2000.0)
    };
    let all = ways().map(|(name, _, changes)| (name, at(changes)));
    let [plain, once, container, read, broadcast, auto, local] = all;
    for (slow, quick) in
        [(plain, once), (once, container), (read, broadcast), (auto, broadcast), (broadcast, local)]
    {
        assert!(quick.1.0 < slow.1.0, "{} {:?}, {} {:?}", slow.0, slow.1, quick.0, quick.1);
    }
    assert!(read.1.0 <= container.1.0);
    // Each name of the tree once a node, its top by all processes that start together; nothing at all where the image is there.
    assert!((120.0..=140.0).contains(&once.1.1), "{once:?}");
    assert_eq!(local.1.1, 0.0);
    // 60 files and their directories, once a job.
    let compared = (auto.1.1 - broadcast.1.1) * 2000.0;
    assert!((60.0..=63.0).contains(&compared), "{auto:?}");
}

#[test]
fn the_median_is_that_of_the_runs_and_lies_within_their_bounds() {
    let script = program(30, 4096.0);
    let names = SHIPPED.iter().map(|(name, _)| *name).filter(|name| *name != "coral");
    for (name, skew) in names.flat_map(|name| [(name, 0.0), (name, 60.0)]) {
        let profile = shipped(name).unwrap();
        let nodes = vec![1, 300];
        let question = StartQuestion { nodes, processes: 4, skew, samples: 41, ..StartQuestion::default() };
        let found = forecast(std::slice::from_ref(&script), &profile, &question);
        for point in &found.points {
            let (seconds, bounds) = (point.seconds, point.bounds);
            assert!(seconds.p10 < seconds.p50 && seconds.p50 < seconds.p90, "{name}: {seconds:?}");
            let slack = 1.0 + 1e-6;
            assert!(
                bounds.lower <= seconds.p50 * slack && seconds.p50 <= bounds.upper * slack,
                "{name}: {point:?}"
            );
        }
    }
}

#[test]
fn every_figure_of_a_start_has_a_column_of_choices() {
    let mut profile = Profile::new("full", ProfileKind::Prior);
    for (_, _, slot) in profile.slots() {
        if let ProfileSlot::Figure(figure, range) = slot {
            *figure = Some(Figure::exact(range.least.max(1.0)));
        }
    }
    assert_eq!(super::runs::runs(&profile, &StartQuestion::default()).len(), 100);
}

#[test]
fn threads_and_rates_are_drawn_apart() {
    let profile = shipped("wide").unwrap();
    let (median, question) = (StartParameters::median(&profile), StartQuestion::default());
    let runs = super::runs::runs(&profile, &question);
    let is_above = |run: &StartParameters| {
        (run.threads > median.threads)
            == (run.rates.get(ServerOperation::Open) > median.rates.get(ServerOperation::Open))
    };
    let alike = runs.iter().filter(|run| is_above(run)).count();
    assert!((30..=70).contains(&alike), "{alike} of {}", runs.len());
}

#[test]
fn a_server_that_was_not_saturated_leaves_the_range_open_below() {
    let script = misses(3000, 1, 0.0, 0.0);
    let mut profile = plain(0.0);
    let range = |profile: &Profile| {
        let question = StartQuestion { nodes: vec![64], ..StartQuestion::default() };
        forecast(std::slice::from_ref(&script), profile, &question).points[0].seconds
    };
    let closed = range(&profile);
    profile.rates.lookup = Some(Figure::at_least(10_000.0, 10_000.0, Figure::MOST_RATE));
    let open = range(&profile);
    // 19 s by the server that was seen, 3 s of round trips by one without a limit.
    assert!(closed.p10 > 15.0 && open.p10 < 4.0 && open.p90 > 19.0, "{closed:?} {open:?}");
}

#[test]
fn a_server_that_was_not_saturated_is_never_said_to_be_full() {
    let mut profile = plain(0.0);
    let question = StartQuestion { nodes: vec![5000], samples: 5, ..StartQuestion::default() };
    let at = |profile: &Profile| forecast(&[misses(3000, 1, 0.0, 0.0)], profile, &question);
    let closed = at(&profile);
    assert!(closed.points[0].may_fail() && closed.summary.knee < 20.0, "{closed:?}");
    profile.rates.lookup = Some(Figure::at_least(10_000.0, 10_000.0, Figure::MOST_RATE));
    let open = at(&profile);
    assert!(!open.points[0].is_saturated(), "{open:?}");
    assert_eq!(open.summary.knee, closed.summary.knee, "the least that it can be");
    assert!(open.summary.is_knee_lower_limit && !closed.summary.is_knee_lower_limit);
    assert_eq!(profile.open_rates(), ["metadata.operations_per_second.lookup"]);
    profile.rates.lookup = None;
    profile.data.bytes_per_second = Some(Figure::at_least(1e9, 1e9, Figure::MOST_BYTES_RATE));
    assert!(!at(&profile).summary.is_knee_lower_limit, "no data is read");
}

#[test]
fn a_request_waits_for_those_of_others_also_where_no_server_is_full() {
    let script = misses(1000, 1, 0.0, 0.0);
    let at = |background| {
        let question = StartQuestion { nodes: vec![1], background, ..StartQuestion::default() };
        asked(&script, &plain(0.0), &question).seconds.p50
    };
    // A request takes a millisecond and 0.1 ms of the server, which has 4.5 requests of others before it in the mean.
    assert!((at(0.9) - at(0.0) - 0.45).abs() < 0.01, "{} {}", at(0.0), at(0.9));
}

/// The client's limit is that of the file system, and an image's server is none.
#[test]
fn requests_under_way_limit_no_start_from_an_image_on_the_nodes() {
    let at = |limit: f64| {
        let mut profile = plain(0.0);
        profile.client.requests_in_flight = Some(Figure::exact(limit));
        let changes = StartChanges { image: Some(ImageDelivery::Local), ..StartChanges::default() };
        let question = StartQuestion { nodes: vec![1], processes: 64, changes, ..StartQuestion::default() };
        asked(&misses(1000, 1, 0.0, 0.0), &profile, &question).seconds.p50
    };
    assert_eq!(at(1.0), at(1000.0));
}

#[test]
fn a_wait_for_data_is_not_laid_on_a_metadata_server_with_many_requests() {
    let mut script = misses(10, 1, 0.0, 0.0);
    script.names.push(NameFacts { pages: Some(1 << 14), ..NameFacts::default() });
    let file = NameId(script.names.len() as u32 - 1);
    script.acts.push(Act {
        think: 0.0,
        walk: 0..0,
        absent: false,
        bytes: 64e6,
        deed: Deed::Read(file, 0, 1 << 14),
    });
    let mut profile = plain(0.0);
    profile.data.bytes_per_second = Some(Figure::at_least(1e9, 1e9, Figure::MOST_BYTES_RATE));
    let found = point(&script, &profile, 1000, 1);
    assert!(found.seconds.p50 > 60.0 && found.detail.load > 10.0, "{found:?}");
    assert!(!found.may_fail(), "ten requests of each node are done in a second: {found:?}");
    // The data server itself is overrun, whatever the metadata server's load.
    profile.data.bytes_per_second = Some(Figure::exact(1e9));
    assert!(point(&script, &profile, 1000, 1).may_fail());
}

#[test]
fn a_backlog_that_is_soon_gone_fails_nothing() {
    // Ten requests of each of 1000 nodes keep the server busy for a second.
    let found = point(&misses(10, 1, 0.0, 0.0), &plain(0.0), 1000, 1);
    assert!(found.detail.load > 10.0 && !found.may_fail(), "{found:?}");
}

#[test]
fn an_image_lies_on_as_many_servers_as_the_prior_that_the_servers_are_of() {
    let bare = StartParameters::median(&Profile::new("bare", ProfileKind::Measured));
    let wide = StartParameters::median(&shipped("wide").unwrap());
    assert_eq!((bare.data_servers, bare.stripes), (wide.data_servers, wide.stripes));
    assert!(bare.assumed.contains(&"stripes"), "{:?}", bare.assumed);
}

#[test]
fn names_that_live_longer_never_make_a_start_slower_by_its_sensitivities() {
    // All names are asked for in each of 40 rounds, and a server that is full makes each round longer than they live.
    let script = misses(60, 40, 0.001, 0.0);
    for life in [0.2, 0.5, 1.0, 2.0] {
        let mut profile = plain(0.0);
        profile.client.negative_seconds = Some(Figure::spread(life * 0.8, life, life * 1.2));
        let question = StartQuestion { nodes: vec![64], ..StartQuestion::default() };
        let found = forecast(std::slice::from_ref(&script), &profile, &question);
        for figure in found.sensitivities.iter().filter(|found| found.figure == "negative_seconds") {
            // A slowness is known to two percent.
            assert!(figure.elasticity < 0.02 && figure.at_p90 <= figure.at_p10 * 1.02, "{life}: {figure:?}");
        }
    }
}
