//! A client's caches: what is asked by the first process of a node, by further ones, and the second time.

use super::*;
use crate::parameters::ClientRules;
use crate::profile::{ClientSection, Figure, Profile, ProfileKind};
use crate::question::StartQuestion;
use crate::start::forecast;
use crate::{PerOperation, ServerOperation};
use proptest::prelude::*;

/// Names: 0 the mount point, 1 a directory, 2 a file in it, 3 an absent name in it, 4 another file in it.
fn script(deeds: &[(&[u32], bool, Deed)]) -> StartScript {
    let name = |parent: Option<u32>, is_directory: bool, exists: bool| NameFacts {
        parent: parent.map(NameId),
        is_link: false,
        exists,
        is_top: parent.is_none(),
        is_directory,
        is_gathered: false,
        path: None,
        pages: None,
    };
    let names = vec![
        name(None, true, true),
        name(Some(0), true, true),
        name(Some(1), false, true),
        name(Some(1), false, false),
        name(Some(1), false, true),
    ];
    let mut script = StartScript { names, ..StartScript::default() };
    for (path, absent, deed) in deeds {
        let begin = script.walks.len() as u32;
        script.walks.extend(path.iter().map(|name| NameId(*name)));
        let walk = begin..script.walks.len() as u32;
        script.acts.push(Act { think: 0.001, walk, absent: *absent, bytes: 4096.0, deed: *deed });
    }
    script
}

const STAT: (&[u32], bool, Deed) = (&[0, 1, 2], false, Deed::Stat(NameId(2)));
const OPEN: (&[u32], bool, Deed) = (&[0, 1, 2], false, Deed::Open(NameId(2)));
const READ: (&[u32], bool, Deed) = (&[], false, Deed::Read(NameId(2), 0, 1));
const MISS: (&[u32], bool, Deed) = (&[0, 1, 3], true, Deed::Find);
const LIST: (&[u32], bool, Deed) = (&[], false, Deed::List(NameId(1)));
const OTHER: (&[u32], bool, Deed) = (&[0, 1, 4], false, Deed::Stat(NameId(4)));
const CREATE: (&[u32], bool, Deed) = (&[0, 1, 4], false, Deed::Ask(ServerOperation::Create));
const UNLINK: (&[u32], bool, Deed) = (&[0, 1, 4], false, Deed::Ask(ServerOperation::Unlink));
const FSTAT: (&[u32], bool, Deed) = (&[], false, Deed::Stat(NameId(2)));

/// A client that keeps everything and asks for opens.
const KEEPS: ClientRules = ClientRules {
    positive: 3600.0,
    negative: 3600.0,
    directory: 3600.0,
    attributes: 3600.0,
    listing: 0.0,
    open_asks: true,
    ..ClientRules::KEPT
};

fn machine(processes: u32, is_warm: bool) -> Machine {
    Machine {
        in_flight: f64::INFINITY,
        processes,
        cores: None,
        cpu: 0.0,
        cpu_of_a_byte: 0.0,
        own_answer: 0.0,
        is_warm,
        latency: PerOperation::of(|_| 0.0005),
        byte: 0.0,
    }
}

/// Operations and their numbers, as `lookup 2 open 1`.
fn asked(deeds: &[(&[u32], bool, Deed)], rules: ClientRules, machine: Machine) -> String {
    let asks = demand(&script(deeds), rules, &machine).asks();
    let said = ServerOperation::ALL.iter().filter(|operation| asks.get(**operation) > 0.0);
    said.map(|operation| format!("{} {}", operation.name(), asks.get(*operation)))
        .collect::<Vec<_>>()
        .join(" ")
}

#[test]
fn a_daemon_answers_again_for_an_absence_that_its_client_knows() {
    let own =
        |rules, processes| demand(&script(&[MISS, MISS]), rules, &machine(processes, false)).own_answers();
    let daemon = ClientRules { absences_ask_daemon: true, ..KEEPS };
    assert_eq!((own(KEEPS, 1), own(KEEPS, 4)), (0.0, 0.0));
    assert_eq!(own(daemon, 1), 1.0);
    // One of four asks the server; the others ask for both again.
    assert_eq!(own(daemon, 4), (1.0 + 3.0 * 2.0) / 4.0);
    assert_eq!(own(ClientRules { negative: 0.0, ..daemon }, 1), 0.0);
}

#[test]
fn a_client_asks_what_its_rules_say() {
    let forgets = ClientRules { positive: 0.0, negative: 0.0, ..KEEPS };
    let nothing = ClientRules { directory: 0.0, attributes: 0.0, ..forgets };
    for (deeds, rules, expected) in [
        (&[STAT, STAT][..], KEEPS, "lookup 2 getattr 1"),
        (&[STAT, STAT], forgets, "lookup 3 getattr 1"),
        (&[STAT, STAT], nothing, "lookup 4 getattr 2"),
        (&[STAT, STAT], ClientRules { directory: 3600.0, ..nothing }, "lookup 3 getattr 1"),
        (&[MISS, MISS], KEEPS, "lookup 1 lookup_absent 1 getattr 1"),
        (&[MISS, MISS], forgets, "lookup 1 lookup_absent 2 getattr 1"),
        (&[OPEN, OPEN], KEEPS, "lookup 2 getattr 1 open 2"),
        (&[OPEN, OPEN], ClientRules { open_asks: false, ..KEEPS }, "lookup 2 getattr 1"),
        (&[OPEN, OPEN], ClientRules { atomic_open: true, ..KEEPS }, "lookup 1 getattr 1 open 2"),
        (
            &[OPEN, OPEN],
            ClientRules { atomic_open: true, open_asks: false, ..KEEPS },
            "lookup 1 getattr 1 open 1",
        ),
        (&[OPEN, OPEN], ClientRules { open_rides: 1.0, ..KEEPS }, "lookup 2 getattr 1 open 2"),
        (&[LIST, OTHER], KEEPS, "lookup 2 getattr 1 readdir 1"),
        (&[LIST, OTHER], ClientRules { readdir_fills: true, ..KEEPS }, "lookup 1 getattr 1 readdir 1"),
        (&[LIST, LIST], KEEPS, "readdir 2"),
        (&[LIST, LIST], ClientRules { listing: 3600.0, ..KEEPS }, "readdir 1"),
        // A directory and two names of three: the oldest goes, and is asked for again.
        (&[STAT, OTHER, STAT], KEEPS, "lookup 3 getattr 1"),
        (&[STAT, OTHER, STAT], ClientRules { entries: 2.0, ..KEEPS }, "lookup 5 getattr 1"),
        (&[CREATE, OTHER, UNLINK], KEEPS, "lookup 2 getattr 1 create 1 unlink 1"),
        (
            &[CREATE, OTHER, UNLINK],
            ClientRules { atomic_open: true, ..KEEPS },
            "lookup 1 getattr 1 create 1 unlink 1",
        ),
        (&[OPEN, READ, READ, FSTAT], KEEPS, "lookup 2 getattr 1 open 1 read 1"),
        (
            &[OPEN, READ, FSTAT],
            ClientRules { read_spoils_attributes: true, ..KEEPS },
            "lookup 2 getattr 2 open 1 read 1",
        ),
        (
            &[LIST, READ],
            ClientRules { readdir_fills: true, layout_asks: true, ..KEEPS },
            "readdir 1 layout 1 read 1",
        ),
    ] {
        assert_eq!(asked(deeds, rules, machine(1, false)), expected, "{deeds:?}");
    }
}

#[test]
fn a_replay_serves_a_client_that_keeps_as_many_names_as_it_needed() {
    let rules = |entries| ClientRules { entries, ..KEEPS };
    let replayed = |entries| demand(&script(&[STAT, OTHER, STAT]), rules(entries), &machine(1, false)).alike;
    for (own, other, serves) in [
        (2.0, 2.0, true),
        (2.0, 3.0, false),
        (3.0, f64::INFINITY, true),
        (f64::INFINITY, 2.0, false),
        (f64::INFINITY, 3.0, true),
    ] {
        assert_eq!(replayed(own).serves(&rules(own), &rules(other)), serves, "{own} {other}");
    }
}

#[test]
fn a_second_run_finds_little_in_a_client_that_keeps_few_names() {
    let mut many = script(&[]);
    for _ in 0..2000 {
        let name = NameId(many.names.len() as u32);
        many.names.push(many.names[2]);
        let begin = many.walks.len() as u32;
        many.walks.extend([NameId(0), NameId(1), name]);
        let walk = begin..many.walks.len() as u32;
        many.acts.push(Act { think: 0.001, walk, absent: false, bytes: 0.0, deed: Deed::Stat(name) });
    }
    let lookups = |entries, is_warm| {
        let rules = ClientRules { entries, ..KEEPS };
        demand(&many, rules, &machine(1, is_warm)).asks().get(ServerOperation::Lookup)
    };
    assert_eq!(lookups(f64::INFINITY, true), 0.0);
    let cold = lookups(1000.0, false);
    assert!(lookups(1000.0, true) > 0.95 * cold, "{cold}");
}

#[test]
fn an_open_that_rides_with_its_lookup_is_asked_and_not_waited_for_once() {
    let opens = |deeds: &[(&[u32], bool, Deed)], open_rides, positive| {
        let rules = ClientRules { open_rides, positive, ..KEEPS };
        let demand = demand(&script(deeds), rules, &machine(1, false));
        (demand.asks().get(ServerOperation::Open), demand.waits().get(ServerOperation::Open))
    };
    assert_eq!(opens(&[OPEN, OPEN], 0.0, 3600.0), (2.0, 2.0));
    assert_eq!(opens(&[OPEN, OPEN], 1.0, 3600.0), (2.0, 1.0), "the second open has no lookup before it");
    assert_eq!(opens(&[OPEN, OPEN], 1.0, 0.0), (2.0, 0.0), "each open has its own lookup");
    assert_eq!(opens(&[STAT, OPEN], 1.0, 3600.0), (1.0, 0.0), "the lookup of the stat a moment ago");
    assert_eq!(opens(&[STAT, MISS, MISS, MISS, OPEN], 0.002, 3600.0), (1.0, 1.0), "too long ago");
}

#[test]
fn further_processes_ask_what_the_first_left_open() {
    let deeds = &[STAT, OPEN, READ, MISS];
    assert_eq!(asked(deeds, KEEPS, machine(1, true)), "open 1");
    for processes in [2, 8, 64, 1000] {
        let asks = demand(&script(deeds), KEEPS, &machine(processes, false)).asks();
        let number = |operation| asks.get(operation);
        assert_eq!(number(ServerOperation::Open), f64::from(processes));
        assert_eq!(
            [ServerOperation::Lookup, ServerOperation::LookupAbsent, ServerOperation::Read].map(number),
            [2.0, 1.0, 1.0]
        );
    }
}

#[test]
fn what_others_wait_for_is_waited_for_and_not_asked() {
    let demand = demand(&script(&[STAT]), KEEPS, &machine(4, false));
    assert_eq!(demand.asks().get(ServerOperation::Lookup), 2.0);
    assert!(demand.waits().get(ServerOperation::Lookup) >= 2.0 * 0.9, "{:?}", demand.waits());
    assert!((demand.think() - 0.001).abs() < 1e-9);
}

#[test]
fn a_file_that_claims_any_size_is_one_request() {
    let all = (&[][..], false, Deed::Read(NameId(2), 0, u32::MAX));
    assert_eq!(asked(&[READ, all, all], KEEPS, machine(8, false)), "read 2");
}

#[test]
fn an_open_rides_with_a_lookup_even_where_both_can_be_one_request() {
    let waits = |deeds: &[(&[u32], bool, Deed)], atomic_open| {
        let rules = ClientRules { open_rides: 1.0, atomic_open, ..KEEPS };
        demand(&script(deeds), rules, &machine(1, false)).waits().get(ServerOperation::Open)
    };
    assert_eq!((waits(&[STAT, OPEN], false), waits(&[STAT, OPEN], true)), (0.0, 0.0));
    assert_eq!(
        waits(&[OPEN, OPEN], true),
        2.0,
        "the first one's answer holds no lookup that another could ride with"
    );
}

#[test]
fn processes_that_wait_for_each_other_end_however_long_a_request_takes() {
    for latency in [1e5, 1e9, 1e16] {
        let slow = Machine { latency: PerOperation::of(|_| latency), ..machine(8, false) };
        let rules = ClientRules { positive: 30.0, negative: 30.0, attributes: 0.0, ..KEEPS };
        let asks = demand(&script(&[STAT, OPEN, READ, FSTAT, MISS, STAT, READ, MISS]), rules, &slow).asks();
        assert!(
            asks.get(ServerOperation::Lookup) >= 2.0 && asks.get(ServerOperation::Read) == 1.0,
            "{latency}: {asks:?}"
        );
    }
}

fn any_deeds() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0usize..7, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn whatever_is_done_the_replay_ends_and_more_processes_never_ask_less(
        chosen in any_deeds(), switches in any::<[bool; 8]>(), rides in 0.0..0.01_f64, lives in any_lives(),
        cores in proptest::option::of(1u32..4),
    ) {
        let all = [STAT, OPEN, READ, MISS, LIST, OTHER, FSTAT];
        let deeds: Vec<_> = chosen.iter().map(|deed| all[*deed]).collect();
        let rules = rules_of(lives, rides, switches);
        let script = script(&deeds);
        let asks = |processes| demand(&script, rules, &Machine { cores, ..machine(processes, false) });
        let (one, many) = (asks(1), asks(8));
        prop_assert!(many.asks().metadata() >= one.asks().metadata());
        prop_assert!(many.waits().metadata() >= one.waits().metadata() * 0.999);
        prop_assert!(asks(64).asks().metadata() >= many.asks().metadata());
    }
}

fn rules_of(lives: [f64; 4], rides: f64, switches: [bool; 8]) -> ClientRules {
    let [positive, negative, directory, attributes] = lives;
    ClientRules {
        positive,
        negative,
        directory,
        attributes,
        listing: directory,
        entries: f64::INFINITY,
        open_asks: switches[0],
        open_directory_asks: switches[1],
        atomic_open: switches[2],
        open_rides: rides,
        close_asks: switches[3],
        readdir_fills: switches[4],
        layout_asks: switches[5],
        read_spoils_attributes: switches[6],
        absences_ask_daemon: switches[7],
    }
}

fn any_lives() -> [std::ops::Range<f64>; 4] {
    [0.0..0.01, 0.0..0.01, 0.0..0.01, 0.0..0.01]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_replay_serves_another_client_only_where_that_asks_the_same(
        chosen in any_deeds(), switches in any::<[bool; 8]>(), lives in any_lives(),
        other in [0.5..2.0_f64, 0.5..2.0_f64, 0.5..2.0_f64, 0.5..2.0_f64], processes in 1u32..9, is_warm in any::<bool>(),
    ) {
        let all = [STAT, OPEN, READ, MISS, LIST, OTHER, FSTAT];
        let deeds: Vec<_> = chosen.iter().map(|deed| all[*deed]).collect();
        let script = script(&deeds);
        let (own, other) = (rules_of(lives, 0.0, switches), rules_of(std::array::from_fn(|at| lives[at] * other[at]), 0.0, switches));
        let asks = |rules| demand(&script, rules, &machine(processes, is_warm));
        let found = asks(own);
        prop_assert!(found.alike.serves(&own, &own));
        if found.alike.serves(&own, &other) {
            prop_assert_eq!(found.segments, asks(other).segments);
        }
    }

    #[test]
    fn lookup_and_open_in_one_request_never_ask_or_wait_more(
        chosen in any_deeds(), switches in any::<[bool; 8]>(), keeps in any::<[bool; 4]>(), rides in any::<bool>(),
    ) {
        let all = [STAT, OPEN, READ, MISS, LIST, OTHER, FSTAT];
        let deeds: Vec<_> = chosen.iter().map(|deed| all[*deed]).collect();
        let [.., close, fills, layout, spoils, absences] = switches;
        let demand = |atomic| {
            let switches = [true, switches[1], atomic, close, fills, layout, spoils, absences];
            let rules = rules_of(keeps.map(|keeps| if keeps { 3600.0 } else { 0.0 }), if rides { 3600.0 } else { 0.0 }, switches);
            demand(&script(&deeds), rules, &machine(1, false))
        };
        let (plain, atomic) = (demand(false), demand(true));
        prop_assert!(atomic.asks().metadata() <= plain.asks().metadata());
        prop_assert!(atomic.waits().metadata() <= plain.waits().metadata());
    }
}

/// A profile whose client follows some rules; 1 ms from a server that does 5000 requests a second.
fn profile_of(lives: [f64; 4], rides: f64, switches: [bool; 8]) -> Profile {
    let exact = |value| Some(Figure::exact(value));
    let mut profile = Profile::new("any", ProfileKind::Measured);
    profile.network.round_trip_us = exact(1000.0);
    profile.metadata.servers = exact(1.0);
    profile.rates.lookup = exact(5000.0);
    let [positive_seconds, negative_seconds, directory_seconds, attribute_seconds] = lives.map(exact);
    let [
        open_asks,
        open_directory_asks,
        atomic_open,
        close_asks,
        readdir_fills,
        layout_asks,
        spoils,
        absences,
    ] = switches.map(Some);
    profile.client = ClientSection {
        positive_seconds,
        negative_seconds,
        directory_seconds,
        attribute_seconds,
        listing_seconds: exact(lives[2]),
        cached_entries: None,
        time_shared: None,
        open_asks,
        open_directory_asks,
        atomic_open,
        open_rides_seconds: exact(rides),
        close_asks,
        readdir_fills,
        layout_asks,
        read_spoils_attributes: spoils,
        absences_ask_daemon: absences,
        requests_in_flight: exact(8.0),
        cpu_us: exact(100.0),
        cpu_in_a_row_us: None,
        cpu_us_per_mb: exact(2000.0),
        own_answer_us: exact(50.0),
        own_answer_in_a_row_us: None,
        own_answer_shared_us: exact(80.0),
    };
    profile
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn more_processes_on_a_node_never_take_less_time(
        chosen in any_deeds(), switches in any::<[bool; 8]>(), rides in 0.0..0.01_f64,
        lives in any_lives(),
        cores in proptest::option::of(1.0f64..4.0), is_shared_host in any::<bool>(), is_warm in any::<bool>(),
        nodes in 1u64..2000, processes in 1u32..20, more in 1u32..20,
    ) {
        let all = [STAT, OPEN, READ, MISS, LIST, OTHER, FSTAT];
        let deeds: Vec<_> = chosen.iter().map(|deed| all[*deed]).collect();
        let (script, profile) = ([script(&deeds)], profile_of(lives, rides, switches));
        let seconds = |processes| {
            let question = StartQuestion { nodes: vec![nodes], processes, cores, is_shared_host, is_warm, samples: 1, ..StartQuestion::default() };
            forecast(&script, &profile, &question).points[0].seconds.p50
        };
        let (few, many) = (seconds(processes), seconds(processes + more));
        prop_assert!(many >= few * 0.999, "{processes}: {few}, {more} more: {many}");
    }
}
