//! The oracle against closed forms, the fluid against the oracle, and what must always hold.

use super::exact::{JobStep, run};
use super::*;
use crate::chance::Chance;
use proptest::prelude::*;

fn exponential(chance: &mut Chance, mean: f64) -> f64 {
    -mean * (1.0 - chance.uniform()).ln()
}

/// Mean time in a station of `servers` with Poisson arrivals at `load` of its capacity, service of mean 1.
fn mean_response(servers: usize, load: f64, service: impl Fn(&mut Chance) -> f64) -> f64 {
    let mut chance = Chance(7);
    let jobs = 150_000;
    let mut now = 0.0;
    let begins: Vec<f64> = (0..jobs)
        .map(|_| {
            now += exponential(&mut chance, 1.0 / (load * servers as f64));
            now
        })
        .collect();
    let services: Vec<f64> = (0..jobs).map(|_| service(&mut chance)).collect();
    let ends =
        run(&begins, |job| vec![JobStep { delay: 0.0, station: 0, service: services[job] }], &[servers]);
    begins.iter().zip(ends).map(|(begin, end)| end - begin).sum::<f64>() / jobs as f64
}

fn assert_near(found: f64, expected: f64, error: f64, what: &str) {
    let off = found / expected - 1.0;
    assert!(off.abs() <= error, "{what}: {found} is {:+.1} % off {expected}", off * 100.0);
}

#[test]
fn the_oracle_is_m_m_1() {
    for load in [0.3, 0.6, 0.8] {
        let found = mean_response(1, load, |chance| exponential(chance, 1.0));
        assert_near(found, 1.0 / (1.0 - load), 0.03, "M/M/1");
    }
}

/// Erlang's C: the share of arrivals that wait at `servers` with `offered` requests in service on average.
fn erlang_c(servers: usize, offered: f64) -> f64 {
    let mut blocked = 1.0;
    for servers in 1..=servers {
        blocked = offered * blocked / (servers as f64 + offered * blocked);
    }
    blocked / (1.0 - offered / servers as f64 * (1.0 - blocked))
}

/// With one server exact (Pollaczek and Khinchine); with more half the wait of M/M/c, an approximation that is within 5 %
/// of the response at these loads.
#[test]
fn the_oracle_is_m_d_c() {
    for (servers, load, error) in [(1, 0.5, 0.01), (1, 0.8, 0.03), (2, 0.7, 0.05), (8, 0.8, 0.05)] {
        let offered = load * servers as f64;
        let wait = erlang_c(servers, offered) / (servers as f64 - offered) / 2.0;
        let found = mean_response(servers, load, |_| 1.0);
        assert_near(found, 1.0 + wait, error, "M/D/c");
    }
}

/// Throughput of `jobs` that think and visit one server in turn: exact mean value analysis. Source: Reiser and Lavenberg
/// (1980), equations 3.1 to 3.3; for exponential times it is the machine repairman's closed form.
fn mva(jobs: usize, think: f64, service: f64) -> f64 {
    let (mut queue, mut throughput) = (0.0, 0.0);
    for present in 1..=jobs {
        let response = service * (1.0 + queue);
        throughput = present as f64 / (think + response);
        queue = throughput * response;
    }
    throughput
}

/// The machine repairman's throughput: the server is busy unless all machines run. Source: Palm (1943).
fn repairman(jobs: usize, think: f64, service: f64) -> f64 {
    let (mut weight, mut sum) = (1.0, 1.0);
    for down in 0..jobs {
        weight *= (jobs - down) as f64 * service / think;
        sum += weight;
    }
    (1.0 - 1.0 / sum) / service
}

#[test]
fn the_oracle_is_a_machine_repairman_and_so_is_mean_value_analysis() {
    for jobs in [1, 5, 11, 40] {
        let (think, service) = (10.0, 1.0);
        let expected = repairman(jobs, think, service);
        assert_near(mva(jobs, think, service), expected, 1e-9, "MVA");
        let steps = 20_000 / jobs;
        let job = |job: usize| {
            let mut chance = Chance(job as u64);
            let step = |_| JobStep {
                delay: exponential(&mut chance, think),
                station: 0,
                service: exponential(&mut chance, service),
            };
            (0..steps).map(step).collect()
        };
        let ends = run(&vec![0.0; jobs], job, &[1]);
        // Jobs that end early leave the others alone: the mean end stands for the steady state.
        let mean = ends.iter().sum::<f64>() / jobs as f64;
        assert_near((steps * jobs) as f64 / mean, expected, 0.04, "repairman");
    }
}

/// The fluid has no chance in it: against exponential times it is as fast as it says, and slow nowhere.
#[test]
fn the_fluid_is_a_machine_repairman_within_its_error() {
    let mut worst: f64 = 0.0;
    for jobs in 1..=200 {
        let (think, service) = (10.0, 1.0);
        let exact = jobs as f64 / mva(jobs, think, service);
        let found =
            solve(&network(&[(think, [service, 0.0, 0.0], 1.0)], jobs as f64, 0.0), Cohorts::FINE).slowest;
        let off = found / exact - 1.0;
        assert!((-0.17..=1e-6).contains(&off), "{jobs}: {:+.1} %", off * 100.0);
        worst = worst.min(off);
    }
    assert!(worst < -0.15, "what is said of it is the truth: {worst}");
}

/// Computing, demand on metadata, data and cores, visits.
type TestPart = (f64, [f64; 3], f64);

/// Parts in which a node thinks and visits stations: each part is `visits` equal rounds.
fn network(parts: &[TestPart], nodes: f64, skew: f64) -> Network {
    let part = |(think, demand, visits): &TestPart| {
        let [metadata, data, cores] = *demand;
        let demand = [metadata, data, cores, 0.0];
        RunPart {
            alone: think + demand.iter().sum::<f64>(),
            own: [*think, demand.iter().sum(), 0.0, 0.0, 0.0],
            demand,
            weight: demand.map(|demand| if demand > 0.0 { *visits } else { 0.0 }),
            served: demand,
        }
    };
    Network { parts: parts.iter().map(part).collect(), nodes, skew }
}

/// The same as single requests: time of the slowest, and the mean.
fn exactly(parts: &[TestPart], nodes: usize, skew: f64) -> EndTimes {
    let rounds = |(think, demand, visits): &TestPart| {
        let stations: Vec<usize> = (0..3).filter(|station| demand[*station] > 0.0).collect();
        let think = think / visits / stations.len() as f64;
        let step = move |station: &usize| JobStep {
            delay: think,
            station: *station,
            service: demand[*station] / visits,
        };
        let round: Vec<JobStep> = stations.iter().map(step).collect();
        std::iter::repeat_n(round, *visits as usize).flatten()
    };
    let steps: Vec<JobStep> = parts.iter().flat_map(rounds).collect();
    let last = (nodes.max(2) - 1) as f64;
    let begins: Vec<f64> = (0..nodes).map(|node| skew * node as f64 / last).collect();
    let ends = run(&begins, |_| steps.clone(), &[1; 3]);
    let mean = begins.iter().zip(&ends).map(|(begin, end)| end - begin).sum::<f64>() / nodes as f64;
    EndTimes { slowest: ends.into_iter().fold(0.0, f64::max), mean, causes: Causes::default() }
}

const ONE_SERVER: &[TestPart] = &[(4.0, [0.02, 0.0, 0.0], 100.0), (1.0, [0.08, 0.0, 0.0], 400.0)];
const TWO_SERVERS: &[TestPart] =
    &[(3.0, [0.06, 0.0, 0.0], 300.0), (0.5, [0.01, 0.05, 0.0], 50.0), (1.5, [0.03, 0.0, 0.0], 150.0)];

/// The error of the fluid. Below the knee requests that meet by chance wait, and the fluid's do not;
/// around the knee that is the most. On two nearly full servers the fluid is slow: ranks of the exact model spread over both.
#[test]
fn the_fluid_is_as_near_to_single_events_as_it_says() {
    let mut worst: (f64, f64) = (0.0, 0.0);
    for (parts, skew, low, high) in [
        (ONE_SERVER, 0.0, -0.05, 0.02),
        (ONE_SERVER, 3.0, -0.05, 0.03),
        (ONE_SERVER, 30.0, -0.03, 0.03),
        (TWO_SERVERS, 0.0, -0.06, 0.11),
        (TWO_SERVERS, 3.0, -0.06, 0.06),
    ] {
        for nodes in [1, 4, 16, 32, 48, 64, 128, 512] {
            let exact = exactly(parts, nodes, skew);
            let fluid = solve(&network(parts, nodes as f64, skew), Cohorts::FINE);
            let off = fluid.slowest / exact.slowest - 1.0;
            worst = (worst.0.min(off), worst.1.max(off));
            assert!(
                (low..=high).contains(&off),
                "{nodes} nodes, skew {skew}: {:+.1} %: {fluid:?} {exact:?}",
                off * 100.0
            );
            assert_near(fluid.mean, exact.mean, 0.15, "mean");
        }
    }
    assert!(worst.1 > 0.0 && worst.0 < 0.0, "the fluid is an approximation: {worst:?}");
}

/// Single requests are the oracle of the mean too: where starts are spread over a time in which a node is long done, nodes of a cohort
/// that the fluid starts together do not meet.
#[test]
fn nodes_that_start_far_apart_do_not_wait_for_each_other() {
    let spread: &[TestPart] = &[(4.0, [0.02, 0.0, 0.0], 50.0), (1.0, [0.08, 0.0, 0.0], 200.0)];
    let burst =
        [(0.5, [0.0, 0.02, 0.0], 20.0), (0.02, [0.08, 0.0, 0.0], 200.0), (0.5, [0.0, 0.02, 0.0], 20.0)];
    let starts = [(spread, 300.0), (&burst, 100.0)];
    for ((parts, skew), load) in
        starts.into_iter().flat_map(|start| [0.5, 0.9, 1.1, 1.5].map(|load| (start, load)))
    {
        let demand: f64 = parts.iter().map(|(_, demand, _)| demand[0]).sum();
        let nodes = (load * skew / demand) as usize;
        let exact = exactly(parts, nodes, skew);
        for cohorts in [Cohorts::COARSE, Cohorts::FINE] {
            let fluid = solve(&network(parts, nodes as f64, skew), cohorts);
            let what = format!("{cohorts:?}, load {load}: {fluid:?} {exact:?}");
            assert_near(fluid.slowest, exact.slowest, 0.03, &what);
            assert_near(fluid.mean, exact.mean, 0.15, &what);
        }
    }
}

#[test]
fn the_fluid_lies_within_the_bounds_and_meets_them_far_from_the_knee() {
    for parts in [ONE_SERVER, TWO_SERVERS] {
        for nodes in [1.0, 1e3, 1e6, 1e9] {
            let network = network(parts, nodes, 0.0);
            let bounds = Bounds::of(&network);
            let time = solve(&network, Cohorts::FINE).slowest;
            assert!(
                bounds.lower <= time * (1.0 + 1e-6) && time <= bounds.upper * (1.0 + 1e-6),
                "{time} {bounds:?}"
            );
        }
        let alone = network(parts, 1.0, 0.0);
        assert_near(solve(&alone, Cohorts::FINE).slowest, alone.alone(), 1e-6, "one node");
    }
    let full = network(ONE_SERVER, 1e6, 0.0);
    assert_near(solve(&full, Cohorts::FINE).slowest, 1e5, 1e-3, "a million nodes at 0.1 s each");
}

#[test]
fn nothing_to_do_takes_no_time() {
    let times = solve(&Network { parts: Vec::new(), nodes: 9.0, skew: 2.0 }, Cohorts::FINE);
    assert_eq!((times.slowest, times.mean), (2.0, 0.0));
}

fn any_parts() -> impl Strategy<Value = Vec<TestPart>> {
    let part = (0.0..5.0, [0.0..0.2, 0.0..0.1, 0.0..0.1], 1.0..500.0);
    proptest::collection::vec(part, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn more_load_never_lowers_the_time(
        parts in any_parts(), nodes in 1.0..3000.0_f64, skew in 0.0..20.0_f64, more in 1.01..4.0_f64,
        which in 0usize..6, station in 0usize..3,
    ) {
        let cohorts = Cohorts(32);
        let time = |parts: &[TestPart], nodes: f64| solve(&network(parts, nodes, skew), cohorts).slowest;
        let before = time(&parts, nodes);
        prop_assert!(before.is_finite());
        let slack = 1.0 - 1e-3;
        prop_assert!(time(&parts, nodes * more) >= before * slack, "nodes");
        let mut changed = parts.clone();
        let at = which % changed.len();
        changed[at].1[station] *= more;
        prop_assert!(time(&changed, nodes) >= before * slack, "a slower server");
        let mut changed = parts.clone();
        changed[at].0 *= more;
        // Computing is no load: it spreads requests over time, and so may spare others a little waiting.
        prop_assert!(time(&changed, nodes) >= before * 0.95, "more computing");
        let mut changed = parts.clone();
        changed.push(parts[at]);
        prop_assert!(time(&changed, nodes) >= before * slack, "more operations");
    }
}
